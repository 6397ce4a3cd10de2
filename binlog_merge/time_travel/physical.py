"""The rows to undo as they stand in the nodes' own binlogs: those of the physical tables that make up a logical one.

The merged log says which transactions, the nodes' binlogs have their rows in the shape of each physical table, and the
schema store what those tables were. Each node gets an undo of its own; its transactions stay in the global order.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import PurePath

import numpy as np

from binlog_merge.binlog.constants import BINLOG_MAGIC, ROWS_TYPES, EventType
from binlog_merge.binlog.header import RawEvent, frame
from binlog_merge.binlog.header import walk as events_in
from binlog_merge.binlog.payload import TransactionPayload
from binlog_merge.binlog.table_map import TableMap
from binlog_merge.config.merge_config import MergeConfig, topology_of
from binlog_merge.errors import UndoRefused
from binlog_merge.files.source import open_source
from binlog_merge.log.log import Log
from binlog_merge.log.reader import Begin, OrderedBy, Rows
from binlog_merge.log.segments import Segment
from binlog_merge.log.table_changes import TableChanges
from binlog_merge.log.versions import TableVersions
from binlog_merge.pipeline.base.runner import Files, InDriver
from binlog_merge.pipeline.gather.listing import listed
from binlog_merge.pipeline.transactions import found_transactions
from binlog_merge.polardbx import placements
from binlog_merge.store_errors import as_merge_errors
from binlog_merge.time_travel.selection import Reader, Selected
from snapshot_store.store.db import Store
from snapshot_store.tso import OrderKey

Name = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Branch:
    """A node's part of a transaction: where its events stand."""

    begin: Begin
    key: OrderKey
    path: str
    start: int
    end: int
    checksum: bool


@dataclass
class NodeReader(Reader):
    """Reads the rows of a node's branches; `selected` are its physical tables."""

    branches: list[Branch] = field(default_factory=list)

    def format_description(self) -> RawEvent | None:
        """Return that of the node's first file with such rows."""
        return None if not self.branches else _head(self.branches[0].path)

    def pieces(self) -> Iterator[list[TableChanges]]:
        """Yield the chosen rows of each branch that has some. Raises what reading them does."""
        for branch in self.branches:
            yield from self.chosen_in(_segment(branch))


def _head(path: str) -> RawEvent:
    with open_source(path) as source:
        data = bytearray(min(source.size, 1 << 12))
        source.read_into(memoryview(data), 0)
    return frame(memoryview(data), len(BINLOG_MAGIC), file=path, offset=len(BINLOG_MAGIC))


def node_readers(binlog: Log, selected: Selected, config: MergeConfig) -> dict[str, NodeReader]:
    """Return a reader for each node that has branches of the selected transactions.

    Raises UndoRefused where the physical tables changed places within the range, and what a merge raises for files that
    it cannot read. A DDL in the range has to be looked for in the merged log.
    """
    keys = _keys(binlog, selected)
    if not keys:
        return {}
    readers: dict[str, list[Branch]] = {}
    seen: set[OrderKey] = set()
    with found_transactions(InDriver(Files()), config, end_of_input=True, counts=False) as transactions:
        for task in transactions.tasks:
            paths = {(task.nodes[node], name): task.files[node, i] for (node, i), name in task.names.items()}
            for batch in listed(task):
                for text, branches in zip(batch["order_key"].to_pylist(), batch["branches"].to_pylist(), strict=True):
                    key = OrderKey.parse(text)
                    if (begin := keys.get(key)) is None:
                        continue
                    seen.add(key)
                    for at in branches:
                        file = paths[at["node"], at["file"]]
                        made = Branch(begin, key, file.path, at["start"], at["end"], file.checksum)
                        readers.setdefault(at["node"], []).append(made)
    if missing := sorted(keys.keys() - seen):
        raise UndoRefused(
            f"the nodes' binlogs do not have {keys[missing[0]].gtid} any more, and {len(missing)} transactions in all",
            remedy="put the files back, or undo the logical table, without --physical",
        ).located(order_key=missing[0])
    tables = _tables(binlog, selected, config, min(keys), max(keys))
    return {
        node: NodeReader(binlog, replace(selected, tables=tables[node]), branches=branches)
        for node, branches in sorted(readers.items())
        if node in tables
    }


def _keys(binlog: Log, selected: Selected) -> dict[OrderKey, Begin]:
    """Return the selected transactions with rows, by order key. Raises UndoRefused if the log lacks a key."""
    keys: dict[OrderKey, Begin] = {}
    begin: Begin | None = None
    known: Begin | None = None
    for item in binlog.items(selected.first) if selected.first <= selected.last else ():
        if isinstance(item, Begin):
            if item.rank > selected.last:
                break
            begin = item
        elif isinstance(item, OrderedBy) and begin is not None:
            keys[item.key] = known = begin
        elif isinstance(item, Rows) and begin is not None and begin is not known:
            raise UndoRefused(
                f"{begin.gtid} has no order key after BEGIN, by which to find it in the nodes' binlogs",
                remedy="merge with output.cts: begin, or undo the logical table, without --physical",
            ).located(file=begin.file, position=begin.position)
    return keys


def _tables(
    binlog: Log, selected: Selected, config: MergeConfig, first: OrderKey, last: OrderKey
) -> dict[str, tuple[TableVersions, ...]]:
    """Return the physical tables of each node, with their versions."""
    wanted = {(table.schema, table.name) for table in selected.tables}
    with binlog.folder.schema_store() as (path, shown), as_merge_errors(shown), Store.open(path, True) as store:
        spans = placements.from_json(store.note(placements.NOTE))
        names = {p: s.logical for p, s in placements.placed_at(spans, last) if s.logical in wanted}
        before = {p: s.logical for p, s in placements.placed_at(spans, first) if s.logical in wanted}
        if names != before:
            raise UndoRefused(
                "the physical tables changed places within the range",
                remedy="narrow it: `binlog-merge topology show` says which tables there were at a moment",
            )
        versions = store.history_at(last._replace(node_seq=last.node_seq + 1)).versions
        if not spans:
            topology = topology_of(config)
            for version in versions:
                if version.node is None:
                    continue
                logical = topology.logical_name(version.node, version.schema, version.name)
                if logical in wanted:
                    names[version.node, version.schema, version.name] = logical
        history = store.history_of(list(names)).versions
    made: dict[str, list[TableVersions]] = {}
    for node, schema, table in sorted(names):
        of = tuple(v for v in history if (v.node, v.schema, v.name) == (node, schema, table))
        made.setdefault(node, []).append(TableVersions(schema, table, of))
    return {node: tuple(tables) for node, tables in made.items()}


def _segment(branch: Branch) -> Segment:
    """Return a branch's rows events as a segment of one transaction."""
    with open_source(branch.path) as source:
        data = bytearray(branch.end - branch.start)
        source.read_into(memoryview(data), branch.start)
    parts: list[bytes] = []
    size = 0
    events: list[tuple[int, ...]] = []
    maps: dict[int, int] = {}
    tables: list[TableMap] = []
    for event in _events(bytes(data), branch):
        if event.type_code == EventType.TABLE_MAP_EVENT:
            table = TableMap.parse(event.body)
            maps[table.table_id] = len(tables)
            tables.append(table)
        elif event.type_code in ROWS_TYPES:
            body = bytes(event.body)
            number = maps[int.from_bytes(body[:6], "little")]
            events.append((size, size + len(body), event.type_code, number, 0, event.offset - branch.start))
            parts.append(body)
            size += len(body)
    buffer = np.frombuffer(bytearray(b"".join(parts)) or bytearray(1), np.uint8)
    rows = np.array(events, np.int64).reshape(len(events), 6)
    transaction = np.array([[-1, -1, 0, len(events), 0, branch.begin.rank]], np.int64)
    file = PurePath(branch.path).name
    return Segment(
        buffer, transaction, rows, tuple(tables), file, branch.start, branch.checksum, branch.begin, branch.key, True
    )


def _events(data: bytes, branch: Branch) -> Iterator[RawEvent]:
    for event in events_in(data, branch.path, branch.start, branch.checksum):
        if event.type_code == EventType.TRANSACTION_PAYLOAD_EVENT:
            yield from TransactionPayload.parse(event.body).events(offset=event.offset)
        else:
            yield event
