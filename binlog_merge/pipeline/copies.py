"""Copies: tables that every node has in full. Those of one node come out; the changes of the others are compared.

The changes of a copy are known by digests of rows that do not depend on the node. Values are compared by column names.
What a node's own clock gives is left out (DEFAULT or ON UPDATE CURRENT_TIMESTAMP), as is a value that is its column's
default: a row is the same before and after the node gets a new column.

The `Ledger` keeps for the next run what they have not yet done alike: changes that one node has made and another not.

    shard-1 (comes out)   +a  +b      +c
    shard-2                   -a  -b           c is open: shard-2 lags, or never makes it

Changes that both have made cancel out, in whichever order they come, so what is kept grows with what differs, and only
up to a bound.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, NamedTuple

import numpy as np

from binlog_merge.binlog.constants import ROWS_TYPES, WRITE_TYPES, EventType
from binlog_merge.binlog.rows import ABSENT, Cell, PartialJson, RowImage, RowsEvent, iter_rows
from binlog_merge.binlog.table_map import TableMap
from binlog_merge.config.merge_config import topology_of
from binlog_merge.errors import MergeError, ShardsInDoubt, UnsupportedInput
from binlog_merge.pipeline.assemble.nodes import ScannedNode
from binlog_merge.pipeline.base.group_at import transaction_events
from binlog_merge.pipeline.base.node_input import located, read_group
from binlog_merge.pipeline.base.state import GREATEST_KEY, Bound
from binlog_merge.pipeline.coordinate.read_again import keys_of
from binlog_merge.pipeline.coordinate.stores import STORE_NAME, stored_note
from binlog_merge.pipeline.values import Run
from binlog_merge.reshape.pads import constant_pad
from binlog_merge.reshape.witness import check_witness
from binlog_merge.store_errors import as_merge_errors
from binlog_merge.values.from_table_map import table_from_table_map
from binlog_merge.values.value import ConversionError, decode_cell
from snapshot_store.model import Column, Table
from snapshot_store.topology import Topology
from snapshot_store.tso import OrderKey, tso_millis

MOST_OPEN: Final = 5000
"""The open changes kept of one table and node; with more it is known to differ, and no longer compared."""
PATIENCE_MS: Final = 600_000
"""How far behind the merged log a change may be before it is told that another node has not made it."""
_MOST_NAMED: Final = 3


class CopyName(NamedTuple):
    """The logical table of a copy, the node whose copy comes out, and the one that is compared with it."""

    schema: str
    table: str
    source: str
    node: str


@dataclass(frozen=True, slots=True)
class Open:
    """A change that one side has made `count` times more often: the node that comes out if positive, else the other.

    `key` is where it was first, `what` says which it is; `told`: there was a warning of it.
    """

    count: int
    key: OrderKey
    what: str
    told: bool = False


@dataclass
class Ledger:
    """The open changes of each copy, by their digests. `differ` are copies that are known to differ.

    `until` are the keys below which the changes of each node are counted.
    """

    open: dict[CopyName, dict[str, Open]] = field(default_factory=dict)
    differ: set[CopyName] = field(default_factory=set)
    until: dict[str, OrderKey] = field(default_factory=dict)

    def take(self, name: CopyName, digest: str, step: int, key: OrderKey, what: str) -> None:
        """Count a change: `step` is 1 for the node that comes out, -1 for the other."""
        if name in self.differ:
            return
        changes = self.open.setdefault(name, {})
        known = changes.pop(digest, Open(0, key, what))
        if known.count + step:
            changes[digest] = replace(known, count=known.count + step)
        if len(changes) > MOST_OPEN:
            self.differ.add(name)

    def overdue(self, at: OrderKey | None) -> Iterator[tuple[CopyName, list[Open]]]:
        """Yield the copies with changes that are to be told of at a key, and count them as told; None: all."""
        for name, changes in sorted(self.open.items()):
            late = {
                digest: one
                for digest, one in changes.items()
                if not one.told and (at is None or _passed(one.key, at) or name in self.differ)
            }
            if late:
                yield name, sorted(late.values(), key=lambda one: one.key)
                changes.update({digest: replace(one, told=True) for digest, one in late.items()})

    def to_json(self) -> str:
        """Return it as text."""
        changes = [
            [*name, [[digest, one.count, one.key.text(), one.what, one.told] for digest, one in sorted(found.items())]]
            for name, found in sorted(self.open.items())
            if found
        ]
        until = {node: key.text() for node, key in sorted(self.until.items())}
        return json.dumps({"open": changes, "differ": sorted(self.differ), "until": until})

    @classmethod
    def from_json(cls, text: str) -> "Ledger":
        """Return what `to_json` wrote."""
        values = json.loads(text)
        changes = {
            CopyName(*name): {
                digest: Open(count, OrderKey.parse(key), what, told) for digest, count, key, what, told in found
            }
            for *name, found in values["open"]
        }
        until = {node: OrderKey.parse(key) for node, key in values["until"].items()}
        return cls(changes, {CopyName(*name) for name in values["differ"]}, until)


def _passed(key: OrderKey, at: OrderKey) -> bool:
    return tso_millis(at.commit_tso) - tso_millis(key.commit_tso) > PATIENCE_MS


def difference(name: CopyName, changes: list[Open], differ: bool) -> str:
    """Return what two copies have not done alike, as a sentence."""
    sides = []
    for has, lacks, sign in ((name.source, name.node, 1), (name.node, name.source, -1)):
        found = [one for one in changes if one.count * sign > 0]
        if found:
            named = ", ".join(f"{one.what} at {one.key.text()}" for one in found[:_MOST_NAMED])
            more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
            sides.append(f"{lacks} has not made what {has} has: {named}{more}")
    bound = ", and is no longer compared" if differ else ""
    table = f"{name.schema}.{name.table}"
    return (
        f"the copy of {table} on {name.node} is not that of {name.source}, which comes out{bound}: {'; '.join(sides)}"
    )


def texts(ledger: Ledger, at: OrderKey | None) -> list[str]:
    """Return what is to be told of at a key, None: of everything."""
    return [difference(name, changes, name in ledger.differ) for name, changes in ledger.overdue(at)]


COPIES = "copies"

_REMEDY = (
    "make the copies alike; what is published is right for the node that comes out. With `shard-doubts: warn` a merge "
    "says so and goes on"
)


def compare_copies(run: Run, bound: Bound, next_floor: OrderKey) -> MergeError | None:
    """Take the run's changes of copies below a bound; return the error for those that differ when no more input comes.

    While more may come it is a warning, of what others have not done for 10 minutes of the log; with `shard-doubts:
    warn` also then. `next_floor` is where the next run continues.
    """
    config, topology = run.job.config, topology_of(run.job.config)
    if not topology.copies:
        return None
    kept = _kept(run)
    ledger = Ledger.from_json(kept) if kept is not None else Ledger()
    _take(run, topology, ledger, bound.key)
    last = run.job.end_of_input and bound.key == GREATEST_KEY
    strict = last and config.shard_doubts == "error"
    untold = ledger.to_json()
    told = texts(ledger, None if last else bound.key)
    _keep(run, next_floor, untold if strict else ledger.to_json())
    if strict and told:
        return ShardsInDoubt("; ".join(told), remedy=_REMEDY)
    run.job.warnings += told
    return None


def _take(run: Run, topology: Topology, ledger: Ledger, end: OrderKey) -> None:
    """Count the changes of this run that are not counted yet."""
    nodes = [node.source_id for node in run.scanned]
    for node in run.scanned:
        source_id, floor = node.source_id, max(run.floor, ledger.until.get(node.source_id, run.floor))
        definition = partial(_definition, run, source_id)
        for change in changes_in(node, partial(_is_copy, topology), floor, end, definition):
            source = topology.copy_from(*change.table) or source_id
            logical = topology.referenced_name(source_id, *change.table) or change.table
            step, others = (1, nodes) if source_id == source else (-1, [source_id])
            for other in others:
                if other != source:
                    ledger.take(CopyName(*logical, source, other), change.digest, step, change.key, change.what)
            ledger.until[source_id] = change.key._replace(node_seq=change.key.node_seq + 1)


def _is_copy(topology: Topology, table: tuple[str, str]) -> bool:
    return topology.copy_from(*table) is not None


def _definition(run: Run, node: str, name: tuple[str, str], key: OrderKey) -> Table | None:
    version = run.coordination.history.at(*name, key, node)
    return None if version is None else version.table


def _kept(run: Run) -> str | None:
    """Return what the runs before have left: also one that was killed before its end, whose entry is not the last."""
    path = run.job.directory / STORE_NAME
    if run.inputs.manifest.state.last is None or not path.exists():
        return None
    with as_merge_errors(path):
        text = run.store.cache.note(COPIES, lambda: stored_note(path, COPIES)) or "[]"
    return next((entry for since, entry in reversed(json.loads(text)) if since <= run.known.floor.text()), None)


def _keep(run: Run, end: OrderKey, text: str) -> None:
    from snapshot_store.store.db import Store

    path, floor = run.job.directory / STORE_NAME, run.known.floor.text()
    with as_merge_errors(path):
        noted = json.loads(run.store.cache.note(COPIES, lambda: stored_note(path, COPIES)) or "[]")
        if noted and noted[-1][0] <= floor and noted[-1][1] == text:
            return
        with Store.open(path) as store:
            entries = [entry for entry in noted if entry[0] <= floor < end.text()]
            store.set_note(COPIES, json.dumps([*entries[-1:], [end.text(), text]]))


Name = tuple[str, str]
Definition = Callable[[Name, OrderKey], Table | None]


@dataclass(frozen=True, slots=True)
class RowChange:
    """A change of one row of a node's table: its digest, and what it is: "update of code='FR'"."""

    table: Name
    key: OrderKey
    digest: str
    what: str


def changes_in(
    node: ScannedNode, chosen: Callable[[Name], bool], floor: OrderKey, end: OrderKey, definition: Definition
) -> Iterator[RowChange]:
    """Yield the changes of a node's chosen tables with floor <= key < end; `definition` gives their definitions."""
    for key, index, start, stop in sorted(set(_groups(node, chosen))):
        if not floor <= key < end:
            continue
        file = node.input.files[index]
        with located(node.input, index, start, "rows", key):
            group = read_group(node.input, index, start, stop)
            yield from _changes(group, file.checksum_alg == 1, key, chosen, definition)


def _groups(node: ScannedNode, chosen: Callable[[Name], bool]) -> Iterator[tuple[OrderKey, int, int, int]]:
    """Yield (key, file, start, end) of the branches that change one of the chosen tables."""
    for edge in node.edges:
        if any(map(chosen, edge.tables)):
            yield edge.key, edge.file_index, edge.start, edge.end
    for piece, block in zip(node.pieces, node.blocks, strict=True):
        sets = [number for number, tables in enumerate(block.sets) if any(map(chosen, tables))]
        if not sets:
            continue
        columns, _ = block.local()
        touching = np.flatnonzero(np.isin(columns["set"], sets)).tolist()
        yield from ((key, piece.file_index, start, end) for key, start, end, _ in keys_of(block, touching))
        columns = block.timed()
        for i in np.flatnonzero(np.isin(columns["set"], sets)).tolist():
            key = OrderKey(int(columns["tso"][i]), int(columns["transaction"][i]), 0, 0)
            yield key, piece.file_index, int(columns["start"][i]), int(columns["end"][i])


def _changes(
    data: bytes, checksum: bool, key: OrderKey, chosen: Callable[[Name], bool], definition: Definition
) -> Iterator[RowChange]:
    maps: dict[int, tuple[TableMap, Table | None]] = {}
    for event in transaction_events(data, checksum):
        if event.type_code == EventType.TABLE_MAP_EVENT:
            table_map = TableMap.parse(event.body)
            name = (table_map.schema, table_map.table)
            maps.pop(table_map.table_id, None)
            if chosen(name):
                maps[table_map.table_id] = (table_map, _known(definition(name, key), table_map))
        elif event.type_code in ROWS_TYPES:
            rows = RowsEvent.parse(event.type_code, event.body)
            if rows.table_id in maps:
                table_map, table = maps[rows.table_id]
                for before, after in iter_rows(rows, table_map):
                    yield row_change(table_map, table, key, event.type_code in WRITE_TYPES, before, after)


def _known(table: Table | None, table_map: TableMap) -> Table | None:
    if table is not None and check_witness(table, table_map) is None:
        return table
    return table_from_table_map(table_map)


def row_change(
    table_map: TableMap,
    table: Table | None,
    key: OrderKey,
    inserts: bool,
    before: RowImage | None,
    after: RowImage | None,
) -> RowChange:
    """Return a row's change; without a `table`, columns are told by their numbers and values by their bytes."""
    images = [None if image is None else _values(table, image) for image in (before, after)]
    verb = "insert" if inserts else "delete" if after is None else "update"
    digest = hashlib.blake2b(repr((verb, *images)).encode(), digest_size=12).hexdigest()
    found = before if after is None or not inserts else after
    what = f"{verb} of {_told(table, found or ())}"
    return RowChange((table_map.schema, table_map.table), key, digest, what)


def _values(table: Table | None, image: RowImage) -> list[tuple[str, str]]:
    columns: Sequence[Column | None] = [None] * len(image) if table is None else table.columns
    named = enumerate(zip(columns, image, strict=True))
    return sorted(
        (str(i) if column is None else column.name.lower(), _text(column, cell))
        for i, (column, cell) in named
        if cell is not ABSENT and not (column is not None and _left_out(column, cell))
    )


def _left_out(column: Column, cell: Cell) -> bool:
    """Return whether a value says nothing: it is the node's clock's, computed from others, or the default."""
    clock = column.default is not None and column.default.kind == "now"
    if clock or column.on_update_now or column.generated is not None:
        return True
    try:
        pad = constant_pad(column)
    except UnsupportedInput:
        return False
    return (cell is None) if pad is None else isinstance(cell, bytes | memoryview) and bytes(cell) == pad


def _text(column: Column | None, cell: Cell) -> str:
    if isinstance(cell, PartialJson):
        return repr(bytes(cell.cell))
    if not isinstance(cell, bytes | bytearray | memoryview):
        return "NULL"
    try:
        return bytes(cell).hex() if column is None else repr(decode_cell(column.type, bytes(cell)))
    except ConversionError:
        return bytes(cell).hex()


def _told(table: Table | None, image: RowImage) -> str:
    """Return a row as a reader knows it: by its key, or whole if it has none."""
    if table is None:
        return "a row"
    key = table.primary_key
    names = [part.column.lower() for part in key.parts if part.column is not None] if key is not None else []
    cells = [(c, cell) for c, cell in zip(table.columns, image, strict=True) if cell is not ABSENT]
    shown = [(c, cell) for c, cell in cells if c.name.lower() in names] or cells
    return ", ".join(f"{column.name}={_text(column, cell)[:60]}" for column, cell in shown[:8])
