"""Verifies a merged binlog from end to end: complete, in order, and as its manifest and its schema history have it.

| checked | must be |
|---|---|
| manifest | a chain of hashes; every file has its size there, and begins and ends with its keys and ranks |
| `binlog.index` | the manifest's files, in order |
| events | checksums, positions, transaction lengths, a ROTATE to the next file at the end of a closed one |
| GTIDs | without gaps from 1 on, or behind what was removed; PREVIOUS_GTIDS those before the file; sequence numbers
  1, 2, 3 … in each file |
| order keys | ascending; equal only for transactions that were moved to the same position |
| rows | cut into cells to the last byte, cells valid for their types; no NULL in a NOT NULL column |
| dependencies | with `output.dependencies: writeset`: no transaction may be applied before one whose rows it touches |
| keys | an insert of one that stands is named, see `verification.colliding` |
| table maps | as the schema history has the table at that key; without unknown fields |
"""

import logging
import math
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

import numpy as np

from binlog_merge.binlog.cell_length import real_type, type_name
from binlog_merge.binlog.constants import ColumnType as T
from binlog_merge.binlog.decode import decode_cell
from binlog_merge.binlog.errors import BinlogFormatError, CellValueError
from binlog_merge.binlog.events import Gtid, PreviousGtids, Query, Rotate, RowsEvent, RowsQuery, TableMap, parse_event
from binlog_merge.binlog.header import RawEvent
from binlog_merge.binlog.json_diff import parse_diffs
from binlog_merge.binlog.kernels.writesets import LARGE
from binlog_merge.binlog.rows import ABSENT, PartialJson, Row, RowImage, iter_rows
from binlog_merge.errors import ChecksumMismatch, ManifestError, SchemaMismatch, UnknownTableSchema
from binlog_merge.files.manifest import OutputFile
from binlog_merge.log.log import Log
from binlog_merge.log.reader import DAMAGED, events_of, order_key
from binlog_merge.log.rows import TableShapes, op_of
from binlog_merge.moved_keys import is_moved, place_of
from binlog_merge.reshape.target_keys import TargetKeys
from binlog_merge.reshape.witness import check_witness
from binlog_merge.reshape.writesets import RULES, References, Writesets, references_of
from binlog_merge.store_errors import as_merge_errors
from binlog_merge.verification.colliding import LogKeys, keys_of
from snapshot_store.store.db import Store
from snapshot_store.tso import OrderKey

_LOG = logging.getLogger(__name__)


@dataclass
class Verified:
    """Counts of what was verified: `rows` by table and operation. `keys` has the inserts of keys that stand.

    `shapes`: table maps were compared with a schema history; `some`: only some files were verified.
    """

    files: int = 0
    transactions: int = 0
    statements: int = 0
    events: int = 0
    size: int = 0
    shapes: bool = False
    some: bool = False
    rows: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    keys: LogKeys = field(default_factory=LogKeys)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        rows: dict[str, dict[str, int]] = {}
        for (schema, table, op), number in sorted(self.rows.items()):
            rows.setdefault(f"{schema}.{table}", {})[op] = number
        names = ("files", "transactions", "statements", "events", "size", "shapes")
        collisions = [fault.text() for fault in self.keys.faults.values()]
        keys = {"collisions": collisions, "cascading": sorted(self.keys.cascading)}
        return {**{name: getattr(self, name) for name in names}, "rows": rows, **keys}


def verify(
    binlog: Log,
    history: TableShapes | None,
    progress: Callable[[str], None] = lambda name: None,
    only: Collection[str] | None = None,
) -> Verified:
    """Verify everything. Raises at the first fault, with its location.

    `history` is None if the output has none: then table maps are only parsed, not compared. With `only`, just these
    files are read; for the others the manifest is believed.
    """
    found = Verified(shapes=history is not None, some=only is not None)
    _check_index(binlog)
    files = binlog.state.files
    gone = binlog.state.gone
    key = None if gone is None or gone.last_key is None else OrderKey.parse(gone.last_key)
    for i, file in enumerate(files):
        progress(file.name)
        before = files[i - 1].last_rank if i else binlog.state.first_rank - 1
        if file.first_rank != before + 1 or (not file.closed and i + 1 < len(files)):
            raise ManifestError(f"{file.name} does not follow the file before it", file=file.name, remedy=DAMAGED)
        if only is not None and file.name not in only:
            key = None if file.last_key is None else OrderKey.parse(file.last_key)
            found.keys.statement()  # it may have removed rows
            continue
        following = files[i + 1].name if i + 1 < len(files) else None
        _LOG.info("file is looked through", extra={"file": file.name, "size": file.size})
        checker = _FileChecker(binlog, file, following, history, found, key)
        key = checker.check()
        found.files, found.size = found.files + 1, found.size + file.size
    return found


def _check_index(binlog: Log) -> None:
    wanted = [file.name for file in binlog.state.files]
    listed = binlog.folder.index()
    if listed is not None and listed != wanted and wanted:
        raise ManifestError(
            f"the index lists {', '.join(listed) or 'nothing'}; published are {', '.join(wanted)}",
            file=binlog.folder.place("binlog.index"),
            remedy="run the merge again: it writes the index anew",
        )


def _by_writesets(binlog: Log) -> bool:
    header = binlog.state.header
    return header is not None and header.settings.get("output.dependencies") == "writeset"


class _Depends:
    """What the transactions of a file depend on, by their rows."""

    def __init__(self, binlog: Log, file: OutputFile, history: TableShapes) -> None:
        def references_at(key: OrderKey) -> References:
            return references_of(history.catalog(key).tables.values())

        last = binlog.state.last
        target = TargetKeys.of_state({} if last is None else last.state)
        older = file.state.get("writesets", 0) < RULES
        self._writesets = Writesets(history.at, references_at, target=target, older=older)
        self._changes = deque(_changes_in(binlog, file))
        self._events: bytearray | None = None
        self._parents = np.zeros((1, 2), np.int64)

    def begin(self) -> None:
        """Begin a transaction, whose GTID event is taken next; what was before the first one is of no interest."""
        self._events = bytearray()

    def take(self, event: RawEvent) -> None:
        """Take an event."""
        if self._events is not None and len(self._events) <= LARGE:
            self._events += event.pack()

    def end(self, sequence: int, key: OrderKey | None) -> int:
        """Return the number of the transaction that the one whose events were taken depends on; `key` is its own."""
        assert self._events is not None
        while key is not None and self._changes and key > self._changes[0]:
            self._changes.popleft()
            self._writesets.forget_maps()
        if len(self._events) > LARGE:
            self._writesets.pass_over(sequence, len(self._events))
            return sequence - 1
        data = np.frombuffer(self._events, np.uint8)
        self._writesets.take(data, len(data), False, self._parents)
        return int(self._parents[0, 1])


def _changes_in(binlog: Log, file: OutputFile) -> list[OrderKey]:
    """Return the keys in a file at which logical tables change."""
    path = binlog.directory / "schema.duckdb"
    if not path.exists():
        return []
    with as_merge_errors(path), Store.open(path, read_only=True) as store:
        first, last = OrderKey.parse(file.first_key), OrderKey.parse(file.last_key)
        return store.merging().changed_between(first, last, all_of_them=True)


class _FileChecker:
    """Checks one file, event by event."""

    def __init__(
        self,
        binlog: Log,
        file: OutputFile,
        following: str | None,
        history: TableShapes | None,
        found: Verified,
        key: OrderKey | None,
    ) -> None:
        self.folder, self.path = binlog.folder, binlog.folder.place(file.name)
        self.file = file
        self.following = following
        self.history = history
        self.found = found
        self.cluster = binlog.cluster_uuid
        self.rank = file.first_rank - 1
        self.key = key
        self.first_key: OrderKey | None = None
        self.sequence = 0
        self.gtid: Gtid | None = None
        self.begins = 0
        self.ordered = self.keyed = self.rotated = False
        self.tables: dict[int, TableMap] = {}
        self.cells: dict[tuple[Any, ...], CellChecks] = {}
        self.keys: dict[int, Any] = {}
        self.depends = _Depends(binlog, file, history) if history is not None and _by_writesets(binlog) else None
        self.known_keys: dict[tuple[int, bytes], Any] = {}  # the tables are kept, so that no other one has their id

    def check(self) -> OrderKey | None:
        """Verify the file and return its last order key."""
        last: RawEvent | None = None
        try:
            for event in events_of(self.folder, self.file):
                self._event(event)
                last = event
        except BinlogFormatError as error:
            position = error.offset if error.offset >= 0 else None
            raise ChecksumMismatch(error.reason, file=self.path, position=position, remedy=DAMAGED) from None
        self._close(last)
        return self.key

    def _event(self, event: RawEvent) -> None:
        self.found.events += 1
        if event.header.log_pos != event.end & 0xFFFFFFFF:
            self._wrong(f"the event says it ends at {event.header.log_pos}, it ends at {event.end}", event)
        if self.rotated:
            self._wrong("something follows the ROTATE event", event)
        value = parse_event(event)
        if isinstance(value, Gtid):
            self._gtid(event, value)
        elif isinstance(value, RowsQuery):
            self._comment(event, value)
        elif isinstance(value, TableMap):
            self.tables[value.table_id] = value
            self._shape(event, value)
        elif isinstance(value, RowsEvent):
            self._rows(event, value)
        elif isinstance(value, Query):
            if value.query not in (b"BEGIN", b"COMMIT"):
                self.found.statements += 1
                self.found.keys.statement()
        elif isinstance(value, PreviousGtids):
            self._previous(event, value)
        elif isinstance(value, Rotate):
            self._transaction_ends(event.offset)
            self.rotated = True
            if self.following is not None and value.next_file.decode() != self.following:
                self._wrong(f"the file goes on in {value.next_file.decode()}, published is {self.following}", event)
        if self.depends is not None and not self.rotated:
            self.depends.take(event)

    def _previous(self, event: RawEvent, value: PreviousGtids) -> None:
        wanted = f"{self.cluster}:1-{self.rank}" if self.rank > 1 else f"{self.cluster}:1" if self.rank else ""
        text = str(value.gtids)
        if text not in (wanted, ""):
            self._wrong(f"PREVIOUS_GTIDS are {text or 'none'}, before the file stand {wanted or 'none'}", event)

    def _gtid(self, event: RawEvent, value: Gtid) -> None:
        self._transaction_ends(event.offset)
        self.rank, self.sequence = self.rank + 1, self.sequence + 1
        self.found.transactions += 1
        self.gtid, self.begins, self.ordered, self.keyed = value, event.offset, False, False
        self.tables.clear()
        if value.gno and (value.gno != self.rank or value.text.rpartition(":")[0] != self.cluster):
            self._wrong(f"{value.text} stands where {self.cluster}:{self.rank} must", event)
        if value.sequence_number != self.sequence or (value.last_committed or 0) >= self.sequence:
            self._wrong(
                f"sequence number {value.sequence_number} behind {value.last_committed}, "
                f"where transaction {self.sequence} of the file stands",
                event,
            )
        if self.depends is not None:
            self.depends.begin()

    def _transaction_ends(self, end: int) -> None:
        """Compare the length of the transaction with that in its GTID event, and what it depends on with its rows."""
        if self.depends is not None and self.gtid is not None:
            least, last = (
                self.depends.end(self.sequence, self.key if self.keyed else None),
                self.gtid.last_committed or 0,
            )
            if last < least:
                raise ChecksumMismatch(
                    f"transaction {self.rank} may be applied before transaction {self.rank - self.sequence + least}, "
                    f"which it depends on: its last_committed is {last}",
                    file=self.path,
                    position=self.begins,
                    remedy=DAMAGED,
                )
        length = None if self.gtid is None else self.gtid.transaction_length
        if length is not None and length != end - self.begins:
            raise ChecksumMismatch(
                f"transaction {self.rank} is {end - self.begins} bytes long, its GTID event says {length}",
                file=self.path,
                position=self.begins,
                remedy=DAMAGED,
            )

    def _comment(self, event: RawEvent, value: RowsQuery) -> None:
        key = None if self.ordered else order_key(value)
        self.ordered = True
        if key is None:
            return
        if self.key is not None and not _follows(key, self.key):
            self._wrong(f"order key {key.text()} follows {self.key.text()}", event)
        self.key, self.keyed = key, True
        if self.first_key is None and self.rank == self.file.first_rank:
            self.first_key = key

    def _shape(self, event: RawEvent, value: TableMap) -> None:
        if value.optional is not None and value.optional.unknown:
            numbers = ", ".join(str(kind) for kind, _ in value.optional.unknown)
            self._wrong(f"the table map has optional metadata of type {numbers}, which is not known", event)
        if self.history is None or not self.keyed or self.key is None:
            return
        version = self.history.at(value.schema, value.table, self.key)
        self.keys[value.table_id] = ()
        if version is not None and version.opaque:
            return
        place: dict[str, Any] = {"file": self.path, "position": event.offset, "order_key": self.key}
        if version is None or version.table is None:
            raise UnknownTableSchema(f"{value.schema}.{value.table} is not in the schema history", **place)
        if difference := check_witness(version.table, value):
            raise SchemaMismatch(f"{value.schema}.{value.table}: {difference}", **place, remedy=DAMAGED)
        known = id(version.table), value.pack()[6:]
        if known not in self.known_keys:
            self.known_keys[known] = keys_of(version.table, value), version.table
            if version.table.cascades:
                self.found.keys.cascading.add(f"{value.schema}.{value.table}")
        self.keys[value.table_id] = self.known_keys[known][0]

    def _rows(self, event: RawEvent, value: RowsEvent) -> None:
        table = self.tables.get(value.table_id)
        if table is None:
            self._wrong(f"rows of table id {value.table_id} without a table map", event)
        identity = (table.table_id, table.types, table.metas, table.null_bitmap, table.optional_raw)
        cells = self.cells.get(identity) or self.cells.setdefault(identity, CellChecks(table))
        number = 0
        keys, transaction = self.keys.get(value.table_id, ()), f"{self.cluster}:{self.rank}"
        try:
            for row in iter_rows(value, table):
                cells.check(row)
                if keys:
                    self.found.keys.row(table, keys, row, transaction)
                number += 1
        except BinlogFormatError as error:
            self._wrong(error.reason, event)
        self.found.rows[table.schema, table.table, op_of(value.type_code)] += number

    def _close(self, last: RawEvent | None) -> None:
        if last is not None and not self.rotated:
            self._transaction_ends(last.end)
        if self.rank != self.file.last_rank or self.sequence != self.file.transactions:
            raise ManifestError(
                f"the file ends with transaction {self.rank} of {self.sequence}, the manifest says "
                f"{self.file.last_rank} of {self.file.transactions}",
                file=self.path,
                remedy=DAMAGED,
            )
        if self.file.closed is not self.rotated:
            raise ManifestError(
                "a closed file must end with ROTATE, an open one must not", file=self.path, remedy=DAMAGED
            )
        self._compare("first", self.first_key, self.file.first_key)
        self._compare("last", self.key if self.keyed else None, self.file.last_key)

    def _compare(self, which: str, key: OrderKey | None, recorded: str) -> None:
        """Compare a key with the manifest's; None if the transaction has no key (a DDL)."""
        if key is not None and key.text() != recorded:
            raise ManifestError(f"the {which} order key is {key.text()}, the manifest says {recorded}", file=self.path)

    def _wrong(self, message: str, event: RawEvent) -> NoReturn:
        raise ChecksumMismatch(message, file=self.path, position=event.offset, order_key=self.key, remedy=DAMAGED)


def _follows(key: OrderKey, before: OrderKey) -> bool:
    """Return whether a transaction's key may follow another's.

    Transactions moved to the same position have the same key; after them, keys that differ only in the node may follow.
    """
    if key > before:
        return True
    return is_moved(before) and (key == before or key > place_of(before).key)


_DECODED: Final = frozenset(
    {T.NEWDECIMAL, T.DATE, T.NEWDATE, T.TIME, T.TIME2, T.DATETIME, T.DATETIME2, T.TIMESTAMP, T.TIMESTAMP2, T.JSON}
    | {T.VECTOR, T.ENUM, T.SET, T.BIT, T.FLOAT, T.DOUBLE}
)
"""Types for which some bytes of the right length are invalid."""
_Check = Callable[[memoryview | bytes], None]


class CellChecks:
    """Checks the rows of a table map. Raises BinlogFormatError with the column."""

    def __init__(self, table: TableMap) -> None:
        self._name = f"{table.schema}.{table.table}"
        self._required = [i for i in range(table.column_count) if not table.nullable(i)]
        members = table.members()
        self._checks = [
            (i, _check(kind, meta, None if members[i] is None else len(members[i] or ())))
            for i, (kind, meta) in enumerate(zip(table.types, table.metas, strict=True))
            if real_type(kind, meta) in _DECODED
        ]

    def check(self, row: Row) -> None:
        """Check a row's images."""
        for image in row:
            if image is not None:
                for column, wrong in self._wrong(image):
                    raise BinlogFormatError(f"rows event of {self._name}, column {column + 1}: {wrong}")

    def _wrong(self, image: RowImage) -> Iterator[tuple[int, str]]:
        for i in self._required:
            if image[i] is None:
                yield i, "NULL, where the table map has NOT NULL"
        for i, check in self._checks:
            cell = image[i]
            try:
                if isinstance(cell, PartialJson):
                    parse_diffs(bytes(cell.cell)[4:])
                elif cell is not None and cell is not ABSENT:
                    check(cell)
            except (BinlogFormatError, CellValueError) as error:
                yield i, getattr(error, "reason", None) or str(error)


def _check(code: int, meta: int, members: int | None) -> _Check:
    kind = real_type(code, meta)

    def check(cell: memoryview | bytes) -> None:
        if kind == T.JSON and len(cell) == meta:
            return  # of no bytes: the NULL of a JSON column that is NOT NULL
        value = decode_cell(code, meta, cell)
        beyond = members is not None and (
            (kind == T.ENUM and value > members) or (kind == T.SET and value >> members != 0)
        )
        if beyond:
            raise BinlogFormatError(f"{type_name(kind)} value {value} of {members} members")
        if isinstance(value, float) and not math.isfinite(value):
            raise BinlogFormatError(f"{type_name(kind)} value {value}")
        if kind == T.BIT and value >> _bits(meta):
            raise BinlogFormatError(f"BIT({_bits(meta)}) value {value}")

    return check


def _bits(meta: int) -> int:
    return (meta & 0xFF) + (meta >> 8) * 8
