"""Counts the rows that a node's log changes in some tables, by reading it again.

Counts how many rows a node's tables have before a statement, such as that by which a copy takes its table's place.

The node's binlog is read again from its first file on, as no one has counted the rows of all tables. Known is the
number of rows of a table whose CREATE TABLE is in the files.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from binlog_merge.binlog.columnar import rows_of_events
from binlog_merge.binlog.constants import DELETE_TYPES, ROWS_TYPES, WRITE_TYPES, EventType, version_number
from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.header import RawEvent, walk
from binlog_merge.binlog.payload import TransactionPayload
from binlog_merge.binlog.query import Query
from binlog_merge.binlog.query_session import session_of
from binlog_merge.binlog.table_map import TableMap
from binlog_merge.errors import MergeError
from binlog_merge.files.node_file import NodeFile, open_known
from binlog_merge.pipeline.assemble.nodes import ScannedNode
from binlog_merge.pipeline.base.group_at import transaction_events
from binlog_merge.pipeline.base.node_input import NodeInput, read_group
from binlog_merge.pipeline.base.runner import Runner
from binlog_merge.pipeline.coordinate.read_again import groups_touching, tables_of
from snapshot_store.ddl import ParsedDdl
from snapshot_store.ddl.effects import Verb, effects_of
from snapshot_store.ddl.statements import TruncateTable
from snapshot_store.errors import SnapshotStoreError
from snapshot_store.topology import Hidden, Topology
from snapshot_store.tso import OrderKey

Name = tuple[str, str]

_TASK_BYTES = 64 << 20


def changed_rows(events: Iterable[RawEvent], tables: Collection[Name] | None = None) -> Iterator[tuple[Name, int, int]]:
    """Yield (table, event type, number of rows) for the rows events of a transaction; `tables` None: of all tables."""
    maps: dict[int, TableMap] = {}
    for event in events:
        if event.type_code == EventType.TABLE_MAP_EVENT:
            table = TableMap.parse(event.body)
            maps[table.table_id] = table
        elif event.type_code in ROWS_TYPES:
            body = np.frombuffer(event.body, np.uint8)
            found = maps.get(int.from_bytes(event.body[:6], "little"))
            if found is None or (tables is not None and (found.schema, found.table) not in tables):
                continue
            at = np.array([[0, len(body), event.type_code]], np.int64)
            yield (found.schema, found.table), event.type_code, int(rows_of_events(body, at, found)[0])


@dataclass(frozen=True, slots=True)
class CountTask:
    """Groups of a node's files, as (file index, start, end), and the tables whose rows are counted."""

    node: NodeInput
    groups: tuple[tuple[int, int, int], ...]
    tables: frozenset[Name]


def count_rows(task: CountTask) -> Counter[Name]:
    """Return how many rows of each table the groups of a task change."""
    counts: Counter[Name] = Counter()
    for file_index, start, end in task.groups:
        checksum = task.node.files[file_index].checksum_alg == 1
        events = transaction_events(read_group(task.node, file_index, start, end), checksum)
        for name, _, rows in changed_rows(events, task.tables):
            counts[name] += rows
    return counts


def rows_hidden(
    runner: Runner,
    scanned: Sequence[ScannedNode],
    hidden: Collection[Hidden],
    floor: OrderKey,
    limit: OrderKey,
    topology: Topology,
) -> Counter[Hidden]:
    """Return how many rows with floor <= key < limit are left out because their table is hidden."""
    tasks: list[CountTask] = []
    owners: list[dict[Name, Hidden]] = []
    for node in scanned:
        for one in (one for one in hidden if one.node == node.source_id):
            called = partial(topology.named, node.source_id)
            names = {raw for raw in _tables_of(node) if called(*raw) == (one.schema, one.table)}
            found = [
                (file_index, start, end)
                for key, file_index, start, end, *_ in groups_touching(node, names)
                if floor <= key < limit and one.holds(key)
            ]
            for groups in _shared(found):
                tasks.append(CountTask(node.input, groups, frozenset(names)))
                owners.append(dict.fromkeys(names, one))
    counts: Counter[Hidden] = Counter()
    if tasks:
        for found_rows, owner in zip(runner.run("count rows left out", count_rows, tasks), owners, strict=True):
            for name, rows in found_rows.items():
                counts[owner[name]] += rows
    return counts


def _tables_of(node: ScannedNode) -> set[Name]:
    """Return the tables that a node's row events name."""
    return {name for tables in tables_of(node) for name in tables}


def _shared(groups: Sequence[tuple[int, int, int]]) -> Iterator[tuple[tuple[int, int, int], ...]]:
    """Yield groups in portions for one task each."""
    portion: list[tuple[int, int, int]] = []
    size = 0
    for group in sorted(groups):
        portion.append(group)
        size += group[2] - group[1]
        if size >= _TASK_BYTES:
            yield tuple(portion)
            portion, size = [], 0
    if portion:
        yield tuple(portion)


Called = Callable[[str, str], Name]

MOST_BYTES = 256 << 20
"""Of a longer log, the numbers count as unknown: reading it again would take longer than what follows is worth."""


def copied_rows(
    node: NodeInput, path: str, position: int, table: Name, copy: Name, called: Called
) -> tuple[int, int] | None:
    """Return how many rows a table and its copy have before the statement at a position; None if that is unknown.

    `called` returns the name by which the node knows a table, of one as it is written.
    """
    tables = _tables_at(node, path, position, called)
    if tables is None:
        return None
    found = tables.left.get(table) if tables.rows.get(table) is None else tables.rows[table]
    copied = tables.rows.get(copy)
    return None if found is None or copied is None else (found, copied)


def rows_at(node: NodeInput, path: str, position: int, table: Name, called: Called) -> int | None:
    """Return how many rows a table has before the statement at a position, of which row events tell.

    None if that is unknown, as of rows that a TRUNCATE has removed: the output may still have them.
    """
    tables = _tables_at(node, path, position, called)
    return None if tables is None or table in tables.emptied else tables.rows.get(table)


def _tables_at(node: NodeInput, path: str, position: int, called: Called) -> "_Tables | None":
    files = _files_to(node, path)
    if not files or sum(file.size for file in files[:-1]) + position > MOST_BYTES:
        return None
    tables = _Tables(called)
    try:
        for number, file in enumerate(files):
            for event in _events(file, position if number == len(files) - 1 else file.size):
                tables.take(event, file)
    except (BinlogFormatError, MergeError, _Unknown):
        return None
    return tables


def _files_to(node: NodeInput, path: str) -> list[NodeFile]:
    """Return the node's files up to one of them."""
    found = next((i for i, file in enumerate(node.files) if file.path == path), None)
    return [] if found is None else list(node.files[: found + 1])


def _events(file: NodeFile, end: int) -> Iterator[RawEvent]:
    data = bytearray(end)
    with open_known(file.known) as source:
        source.read_into(memoryview(data), 0)
    for event in walk(bytes(data), file.path):
        instead = next((each for each in file.instead if each.start <= event.offset < each.end), None)
        if instead is not None:
            if event.offset == instead.start:
                yield from transaction_events(instead.group, file.checksum_alg == 1)
        elif event.type_code == EventType.TRANSACTION_PAYLOAD_EVENT:
            yield from TransactionPayload.parse(event.body).events()
        else:
            yield event


class _Unknown(Exception):  # noqa: N818 (it is no error)
    """The log has something of which the number of rows does not follow."""


@dataclass
class _Tables:
    """The number of rows of each table whose creation was seen, None if it is unknown; and of tables that are gone.

    `emptied` are names of tables that had rows when they were truncated.
    """

    called: Called
    rows: dict[Name, int | None] = field(default_factory=dict)
    left: dict[Name, int | None] = field(default_factory=dict)
    emptied: set[Name] = field(default_factory=set)
    _group: list[RawEvent] = field(default_factory=list)

    def take(self, event: RawEvent, file: NodeFile) -> None:
        code = event.type_code
        if code == EventType.QUERY_EVENT:
            self._query(Query.parse(event.body), file)
        elif code == EventType.XID_EVENT:
            self._commit()
        elif code == EventType.XA_PREPARE_LOG_EVENT:
            if any(changed_rows(self._group)):
                raise _Unknown
            self._group.clear()
        else:
            self._group.append(event)

    def _commit(self) -> None:
        changes: Counter[Name] = Counter()
        for name, code, rows in changed_rows(self._group):
            changes[self.called(*name)] += rows if code in WRITE_TYPES else -rows if code in DELETE_TYPES else 0
        for name, change in changes.items():
            known = self.rows.get(name)
            if known is not None:
                self.rows[name] = known + change
        self._group.clear()

    def _query(self, query: Query, file: NodeFile) -> None:
        text = query.text
        if text == "COMMIT":
            self._commit()
        elif text == "ROLLBACK":
            self._group.clear()
        elif text != "BEGIN":
            parsed = ParsedDdl.of(text, session_of(query, version_number(file.server_version)))
            if not isinstance(parsed.result, SnapshotStoreError):
                self._ddl(parsed, query.schema_text)

    def _ddl(self, parsed: ParsedDdl, database: str) -> None:
        effects, called = effects_of(parsed.statement, database), self.called
        paths = [(called(*old), called(*new)) for old, new in effects.paths]
        moved = {old: self.rows.get(old) for old, _ in paths}
        for name in moved:
            self.left[name] = self.rows.pop(name, None)
        self.rows |= {new: moved[old] for old, new in paths}
        self.emptied |= {new for old, new in paths if old in self.emptied}
        for effect in effects.all:
            name, other = called(*effect.table), None if effect.other is None else called(*effect.other)
            match effect.verb:
                case Verb.MAKE:
                    self.rows.setdefault(name, 0)
                case Verb.DROP:
                    for gone in [known for known in self.rows if name in (known, (known[0], ""))]:
                        self.left[gone] = self.rows.pop(gone)
                case Verb.EMPTY if name in self.rows:
                    self.emptied |= {name} if self.rows[name] else set()
                    self.rows[name] = 0 if isinstance(parsed.statement, TruncateTable) else None
                case Verb.EXCHANGE | Verb.FILE:
                    self.rows |= dict.fromkeys(filter(None, (name, other)))
