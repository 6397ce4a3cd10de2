"""The dependencies of a merged file's transactions, by the keys of their rows: what a replica may apply side by side.

The rules are MySQL's (`binlog.kernels.writesets`), and finer in two things. A transaction that inserts into a table
that foreign keys refer to, or changes its other columns, is no barrier: only a delete, or another value of the columns
referred to, may change rows that no event shows. And rows that refer to one row do not wait for each other.

The history begins with each file. So it depends on the order of the transactions alone, and a file that is continued
goes on with a `History`, or with the one that its own bytes give (`History` of the same file read again).
"""

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.kernels import types as t
from binlog_merge.binlog.kernels import writesets as w
from binlog_merge.binlog.table_map import TableMap, cell_size, row_steps
from binlog_merge.reshape.witness import table_difference
from binlog_merge.values.key_values import KeyPart, compared, length_bytes, pad
from snapshot_store.model import Column, Index, Table
from snapshot_store.tso import OrderKey

References = Mapping[tuple[str, str], frozenset[tuple[str, ...]]]
"""The columns that foreign keys refer to, in the order of their names, by table; all in lower case."""
_HOW: Final = {
    "bytes": w.BYTES,
    "float": w.NUMBER_OF_SIGN,
    "decimal": w.DECIMAL,
    "text": w.TEXT,
    "binary text": w.BINARY_TEXT,
}
_NOT_KNOWN: Final = "its definition is not known, or does not fit its rows"
_NO_KEY: Final = "it has no primary key, and no unique one without NULL, whose values are in its rows"
_EXPRESSION: Final = "a unique key has an expression, or values that are compared in a way not known here"


@dataclass(frozen=True, slots=True)
class History:
    """What the transactions written so far touched: what those behind them may depend on.

    `entries` are pairs of a hash and the number of the last transaction that had it, as bytes; all transactions depend
    on `start` at least. `unknown` counts those of keys whose value is not known. `since` is the key of the first
    transaction with rows behind the last statement: what foreign keys refer to is that of then.
    """

    start: int = 0
    unknown: int = 0
    entries: bytes = b""
    since: OrderKey | None = None


@dataclass(frozen=True, slots=True)
class Dependencies:
    """What was found: of `transactions`, `free` need not wait for the one before them.

    Those that are barriers (statements, changes of rows that foreign keys refer to, large ones), and those in order, do
    wait; `tables` are those in order, with the reason.
    """

    transactions: int = 0
    free: int = 0
    statements: int = 0
    parents: int = 0
    large: int = 0
    in_order: int = 0
    tables: tuple[tuple[str, str], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers, by name, as in a merge's result."""
        return {
            "transactions": self.transactions,
            "wait_for_the_one_before": self.transactions - self.free,
            "barriers": {"statements": self.statements, "referenced_rows": self.parents, "large": self.large},
            "in_order": self.in_order,
            "tables_in_order": dict(self.tables),
        }


def added(found: Sequence[Dependencies]) -> Dependencies:
    """Return the sum of what was found in several files."""
    tables = {pair for one in found for pair in one.tables}
    return Dependencies(
        sum(one.transactions for one in found),
        sum(one.free for one in found),
        sum(one.statements for one in found),
        sum(one.parents for one in found),
        sum(one.large for one in found),
        sum(one.in_order for one in found),
        tuple(sorted(tables)),
    )


def references_of(tables: Iterable[Table]) -> References:
    """Return the columns that the foreign keys of tables refer to."""
    found: dict[tuple[str, str], set[tuple[str, ...]]] = {}
    for table in tables:
        for key in table.foreign_keys:
            schema, name = key.target(table.schema)
            found.setdefault((schema.lower(), name.lower()), set()).add(
                tuple(sorted(column.lower() for column in key.referenced))
            )
    return {name: frozenset(columns) for name, columns in found.items()}


class Writesets:
    """Finds what each transaction of a file depends on, and writes it into the GTID events.

    `table_at` returns a table's definition for the transaction with a key, None if it is not known; `references_at`
    what foreign keys refer to at that key.
    """

    def __init__(
        self,
        table_at: Callable[[str, str, OrderKey], Table | None],
        references_at: Callable[[OrderKey], References],
        history: History | None = None,
    ) -> None:
        self._table_at, self._references_at = table_at, references_at
        self._reg = np.zeros(w.REGISTERS, np.int64)
        self._reg[w.GROUP] = -1
        self._history = np.zeros((w.SLOTS, 2), np.int64)
        self._spare = np.zeros((w.MOST + 8, 2), np.int64)
        self._maps = np.full((64, 2), -1, np.int64)
        self._tables = np.zeros((16, w.T_FIELDS), np.int64)
        self._steps = np.zeros(256, np.int64)
        self._slots = np.zeros((32, w.S_FIELDS), np.int64)
        self._keys = np.zeros((32, w.K_FIELDS), np.int64)
        self._parts = np.zeros((64, w.P_FIELDS), np.int64)
        self._used = [0, 0, 0, 0, 0]
        self._cells = np.zeros((2, 16), np.int64), np.zeros((2, 16), np.int64), np.zeros(16, np.bool_)
        self._no_room = np.zeros((1, 2), np.int64)
        self._statements = 0
        self._in_order: dict[str, str] = {}
        self._since: OrderKey | None = None
        self._references: References | None = None
        if history is not None:
            self._begin_with(history)

    def _begin_with(self, history: History) -> None:
        entries = np.frombuffer(bytearray(history.entries), np.int64).reshape(-1, 2)
        self._since = history.since
        w.restore(self._history, entries)
        self._reg[w.START], self._reg[w.UNKNOWN] = history.start, history.unknown
        self._reg[w.LIVE] = self._reg[w.USED] = len(entries)

    def history(self) -> History:
        """Return what the transactions taken so far touched."""
        entries = self._history[(self._history[:, 0] != 0) & (self._history[:, 1] > self._reg[w.START])]
        entries = entries[np.lexsort(entries.T[::-1])]
        since = self._since if self._statements == self._reg[w.BARRIERS_OF_STATEMENTS] else None
        return History(int(self._reg[w.START]), int(self._reg[w.UNKNOWN]), entries.tobytes(), since)

    def found(self) -> Dependencies:
        """Return what was found so far."""
        transactions, free, statements, parents, large, in_order = (
            int(self._reg[place])
            for place in (
                *(w.TRANSACTIONS, w.FREE, w.BARRIERS_OF_STATEMENTS, w.BARRIERS_OF_PARENTS, w.BARRIERS_OF_SIZE),
                w.IN_ORDER,
            )
        )
        tables = tuple(sorted(self._in_order.items()))
        return Dependencies(transactions, free, statements, parents, large, in_order, tables)

    def take(self, buffer: Any, end: int, patch: bool = True, parents: Any = None) -> None:
        """Take whole transactions, buffer[:end], as they stand in the file.

        `parents` gets the number of each, and what it depends on; it has a row more than there are transactions.
        Raises BinlogFormatError.
        """
        reg = self._reg
        reg[w.AT] = 0
        while True:
            arrays = (self._maps, self._tables, self._steps, self._slots, self._keys, self._parts)
            history = (self._history, self._spare)
            room = self._no_room if parents is None else parents
            reason = int(w.depend(reg, buffer, end, *arrays, *history, *self._cells, room, patch))
            if reason == w.FINISHED:
                return
            if reason != w.NEW_TABLE:
                raise BinlogFormatError("rows do not fit their table map, or an event is not whole")
            self._learn(buffer, end)

    def pass_over(self, sequence: int) -> None:
        """Take a transaction that is too large to be looked at: a barrier."""
        reg = self._reg
        reg[w.START], reg[w.LIVE], reg[w.UNKNOWN] = sequence, 0, 0
        reg[w.TRANSACTIONS] += 1
        reg[w.BARRIERS_OF_SIZE] += 1

    def _learn(self, buffer: Any, end: int) -> None:
        """Add the table map at which the kernel has stopped."""
        at = int(self._reg[w.AT])
        size = int.from_bytes(buffer[at + 9 : at + 13].tobytes(), "little")
        table_map = TableMap.parse(buffer[at + 19 : at + size - 4].tobytes())
        key = _order_key(buffer, int(self._reg[w.GROUP]), end)
        if self._statements != self._reg[w.BARRIERS_OF_STATEMENTS]:  # the kernel has forgotten all tables
            self._statements = int(self._reg[w.BARRIERS_OF_STATEMENTS])
            self._since = self._references = None
            self._used = [0, 0, 0, 0, 0]
        if self._since is None:
            self._since = key
        table = None if key is None else self._table_at(table_map.schema, table_map.table, key)
        if table is not None and table_difference(table, table_map) is not None:
            table = None
        if self._references is None:
            self._references = {} if self._since is None else self._references_at(self._since)
        self._map(table_map.table_id, self._add(table_map, table, self._references))

    def _map(self, table_id: int, number: int) -> None:
        known = self._maps[self._maps[:, 0] >= 0]
        if 2 * (len(known) + 1) > len(self._maps):
            self._maps = np.full((2 * len(self._maps), 2), -1, np.int64)
            for entry in known:
                self._place(entry)
        self._place(np.array([table_id, number], np.int64))

    def _place(self, entry: Any) -> None:
        slot = int(entry[0]) & (len(self._maps) - 1)
        while self._maps[slot, 0] >= 0:
            slot = (slot + 1) & (len(self._maps) - 1)
        self._maps[slot] = entry

    def _add(self, table_map: TableMap, table: Table | None, references: References) -> int:
        """Add a table, and return its number."""
        keys, why = _keys_of(table_map, table, references)
        if why is not None:
            self._in_order[f"{table_map.schema}.{table_map.table}"] = why
        parts: list[tuple[int, int, int, int, int]] = []
        rows: list[tuple[int, int, int, int]] = []
        for seed, role, key_parts in keys:
            rows.append((seed, role, self._used[3] + len(parts), len(key_parts)))
            for part in key_parts:
                how = compared(table_map, part)
                assert how is not None
                is_text = how in ("text", "binary text")
                before = length_bytes(table_map, part.column) if is_text else 0
                ends_with = pad(table_map, part) if is_text else None
                parts.append((part.column, _HOW[how], before, part.prefix or 0, -1 if ends_with is None else ends_with))
        places = sorted({column for column, *_ in parts})
        number, steps, slot = self._used[0], self._used[1], self._used[4]
        row = (steps, slot, len(places), self._used[2], len(rows), why is not None)
        self._tables = self._with(self._tables, 0, [row])
        self._steps = self._with(self._steps, 1, row_steps(table_map))
        self._slots = self._with(self._slots, 4, _slots(table_map, places))
        self._keys = self._with(self._keys, 2, rows)
        self._parts = self._with(self._parts, 3, [(places.index(column), *rest) for column, *rest in parts])
        if len(places) > self._cells[0].shape[1]:
            room = 2 * len(places)
            self._cells = np.zeros((2, room), np.int64), np.zeros((2, room), np.int64), np.zeros(room, np.bool_)
        return number

    def _with(self, array: Any, which: int, rows: list[Any]) -> Any:
        """Return an array with more rows behind those in use; it grows where it must."""
        used = self._used[which]
        while used + len(rows) > len(array):
            array = np.concatenate([array, np.zeros_like(array)])
        if rows:
            array[used : used + len(rows)] = rows
        self._used[which] = used + len(rows)
        return array


def _slots(table_map: TableMap, columns: Iterable[int]) -> list[tuple[int, int, int, int]]:
    """Return for each column where its cells are in rows without NULLs: the step, the place in it, and the size."""
    sizes = [cell_size(kind, meta) for kind, meta in zip(table_map.types, table_map.metas, strict=True)]
    found = []
    for column in columns:
        before = [place for place, size in enumerate(sizes[:column]) if size.prefix]
        begins = before[-1] + 1 if before else 0
        found.append((column, len(before), sum(size.width for size in sizes[begins:column]), sizes[column].width))
    return found


_Key = tuple[int, int, tuple[KeyPart, ...]]
"""A seed, a role, parts."""


def _keys_of(table_map: TableMap, table: Table | None, references: References) -> tuple[list[_Key], str | None]:
    """Return a table's keys, the one that identifies its rows first; and why its transactions stay in order, if so."""
    if table is None:
        return [], _NOT_KNOWN
    keys: list[_Key] = []
    why = None
    for index in table.indexes:
        if not index.unique and index.name != "PRIMARY":
            continue
        parts = _parts(table, table_map, index)
        if parts is None:
            why = _EXPRESSION
            continue
        identifies = index.name == "PRIMARY" or not any(table.columns[part.column].nullable for part in parts)
        role = w.IDENTITY if identifies and not any(key[1] == w.IDENTITY for key in keys) else w.UNIQUE
        keys.append((_seed("key", table.schema, table.name, index.name), role, parts))
    keys.sort(key=lambda key: key[1])
    if not any(key[1] == w.IDENTITY for key in keys):
        why = why or _NO_KEY
    for columns in sorted(references.get((table.schema.lower(), table.name.lower()), ())):
        parts = _columns(table, table_map, columns)
        if parts is None:
            why = _NOT_KNOWN
        else:
            keys.append((_seed("referenced", table.schema, table.name, *columns), w.REFERENCED, parts))
    for foreign in table.foreign_keys:
        pairs = sorted(zip(foreign.referenced, foreign.columns, strict=True), key=lambda pair: pair[0].lower())
        parts = _columns(table, table_map, [own for _, own in pairs])
        if parts is None:
            why = _NOT_KNOWN
        else:
            keys.append(
                (_seed("referenced", *foreign.target(table.schema), *(name for name, _ in pairs)), w.FOREIGN, parts)
            )
    return keys, why


def _parts(table: Table, table_map: TableMap, index: Index) -> tuple[KeyPart, ...] | None:
    parts = []
    for part in index.parts:
        place = None if part.column is None else table.index_of(part.column)
        if place is None:
            return None
        parts.append(KeyPart(place, _collation(table.columns[place]), part.length))
    return tuple(parts) if all(compared(table_map, part) is not None for part in parts) else None


def _columns(table: Table, table_map: TableMap, names: Iterable[str]) -> tuple[KeyPart, ...] | None:
    places = [table.index_of(name) for name in names]
    parts = tuple(KeyPart(at, _collation(table.columns[at])) for at in places if at is not None)
    whole = len(parts) == len(places) and all(compared(table_map, part) is not None for part in parts)
    return parts if whole else None


def _collation(column: Column) -> str | None:
    return None if column.type.charset in (None, "binary") else column.type.collation or "unknown"


def _seed(*words: str) -> int:
    data = "\0".join(word.lower() for word in words).encode("utf-8", "surrogateescape")
    return zlib.crc32(data) << 31 | zlib.crc32(data[::-1]) >> 1


def _order_key(buffer: Any, group: int, end: int) -> OrderKey | None:
    """Return the order key of the transaction whose GTID event begins at `group`, None if none is written in it."""
    at = group
    while at >= 0 and at + 23 <= end:
        size = int.from_bytes(buffer[at + 9 : at + 13].tobytes(), "little")
        kind = int(buffer[at + 4])
        if size < 23 or (at > group and kind in (t.GTID_LOG_EVENT, t.ANONYMOUS_GTID_LOG_EVENT)):
            return None
        if kind == t.ROWS_QUERY_LOG_EVENT:
            text = buffer[at + 20 : at + min(size - 4, 128)].tobytes()
            begin = text.find(b"CTS::")
            if 0 <= begin <= 2 and len(text) >= begin + 5 + 54:
                return OrderKey.parse(text[begin + 5 : begin + 59].decode("ascii", "replace"))
        at += size
    return None
