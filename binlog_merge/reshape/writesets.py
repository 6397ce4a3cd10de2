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
from binlog_merge.reshape.target_keys import TargetKeys, table_of
from binlog_merge.reshape.witness import table_difference
from binlog_merge.values.key_values import KeyPart, compared, length_bytes, pad
from snapshot_store.history import TableVersion
from snapshot_store.model import Column, Index, Table
from snapshot_store.mysql.text.weights import CHARACTERS, is_utf8, weights, weights_name
from snapshot_store.tso import OrderKey

References = Mapping[tuple[str, str], frozenset[tuple[str, ...]]]
"""The columns that foreign keys refer to, in the order of their names, by table; all in lower case."""
_HOW: Final = {
    "bytes": w.BYTES,
    "float": w.NUMBER_OF_SIGN,
    "decimal": w.DECIMAL,
    "text": w.TEXT,
    "binary text": w.BINARY_TEXT,
    "old timestamp": w.OLD_TIMESTAMP,
    "old datetime": w.OLD_DATETIME,
    "old time": w.OLD_TIME,
}
_AS_THE_HISTORY: Final = TargetKeys()
_LISTED_BY_OLDER: Final = 1 << 22  # as many as a transaction below LARGE has: memory that is not used is not there
RULES: Final = 2
"""The rules by which files are written; a file's state in the manifest has the number as `writesets`."""
_NOT_KNOWN: Final = "its definition is not known, or does not fit its rows"
_NO_KEY: Final = "it has no primary key, and no unique one without NULL, whose values are in its rows"
_EXPRESSION: Final = "a unique key has an expression, or values that are compared in a way not known here"


@dataclass(frozen=True, slots=True)
class History:
    """What the transactions written so far touched: what those behind them may depend on.

    `entries` are pairs of a hash and the number of the last transaction that had it, as bytes; all transactions depend
    on `start` at least. `unknown` counts those of keys whose value is not known.
    """

    start: int = 0
    unknown: int = 0
    entries: bytes = b""


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


def _sets(history: int, listed: int) -> w.Sets:
    reg = np.zeros(w.REGISTERS, np.int64)
    reg[w.GROUP] = -1
    return w.Sets(
        reg=reg,
        tables=np.zeros((16, w.T_FIELDS), np.int64),
        steps=np.zeros(256, np.int64),
        slots=np.zeros((32, w.S_FIELDS), np.int64),
        keys=np.zeros((32, w.K_FIELDS), np.int64),
        parts=np.zeros((64, w.P_FIELDS), np.int64),
        weights=np.zeros((0, CHARACTERS), np.int64),
        history=np.zeros((history, 2), np.int64),
        spare=np.zeros((w.MOST + 8 if history > 1 else 1, 2), np.int64),
        listed=np.zeros((listed, w.L_FIELDS), np.int64),
        starts=np.zeros((2, 16), np.int64),
        sizes=np.zeros((2, 16), np.int64),
        given=np.zeros(16, np.bool_),
    )


OFF: Final = _sets(1, 1)
"""What the kernels get where no dependencies are asked for."""


class Writesets:
    """Finds what each transaction of a file depends on.

    `sets` is what the render kernel takes rows by; `take` finds it for transactions as they stand in the file.
    `version_at` returns a table's version for the transaction with a key; `references_at` what foreign keys refer to at
    that key, `target` of which tables a target of the file may hold other keys. `older`: the file is one of an older
    build, in which rows of tables that are not known, and many keys, were no barriers.
    """

    def __init__(
        self,
        version_at: Callable[[str, str, OrderKey], TableVersion | None],
        references_at: Callable[[OrderKey], References],
        history: History | None = None,
        target: TargetKeys = _AS_THE_HISTORY,
        older: bool = False,
    ) -> None:
        self._version_at, self._references_at, self._target = version_at, references_at, target
        self._older = older
        self.sets = _sets(w.SLOTS, _LISTED_BY_OLDER if older else w.LISTED)
        self._reg = self.sets.reg
        self._reg[w.ON] = 1
        self._maps = np.full((64, 3), -1, np.int64)
        self._used = dict.fromkeys(("tables", "steps", "slots", "keys", "parts"), 0)
        self._weights: dict[str, int] = {}
        self._learnt: dict[tuple[str, bytes], list[tuple[Table | None, References, str, int]]] = {}
        self._no_parents = np.zeros((0, 2), np.int64)
        self._statements = 0
        self._in_order: dict[str, str] = {}
        self._references: References | None = None
        if history is not None:
            entries = np.frombuffer(bytearray(history.entries), np.int64).reshape(-1, 2)
            w.restore(self.sets.history, entries)
            self._reg[w.START], self._reg[w.UNKNOWN] = history.start, history.unknown
            self._reg[w.LIVE] = self._reg[w.USED] = len(entries)

    def history(self) -> History:
        """Return what the transactions taken so far touched."""
        entries = self.sets.history
        entries = entries[(entries[:, 0] != 0) & (entries[:, 1] > self._reg[w.START])]
        entries = entries[np.lexsort(entries.T[::-1])]
        return History(int(self._reg[w.START]), int(self._reg[w.UNKNOWN]), entries.tobytes())

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

        With `patch`, what each depends on is written into its GTID event. `parents` gets the number of each, and what
        it depends on. Raises BinlogFormatError.
        """
        reg = self._reg
        reg[w.AT] = 0
        room = self._no_parents if parents is None else parents
        while True:
            reason = int(w.depend(self.sets, buffer, end, self._maps, room, patch))
            if reason == w.FINISHED:
                return
            if reason != w.NEW_TABLE:
                raise BinlogFormatError("rows do not fit their table map, or an event is not whole")
            self._learn_next(buffer, end)

    def pass_over(self, sequence: int, length: int) -> None:
        """Take a transaction that is too large to be looked at: a barrier."""
        self._reg[w.FLAGS] = self._reg[w.LIST_END] = 0
        w.ended(self.sets, sequence, length)

    def begin_epoch(self) -> None:
        """Ask anew what foreign keys refer to, when a schema may have changed."""
        self._references = None

    def forget_maps(self) -> None:
        """Ask anew what stands under each table id, too, where no statement in the file says that a schema changes."""
        self._maps[:, 0] = -1
        self.begin_epoch()

    def learn(self, table_map: TableMap, key: OrderKey | None) -> int:
        """Return the number of a table, as it is for the transaction with a key."""
        table = None if key is None else table_of(self._version_at(table_map.schema, table_map.table, key))
        if table is not None and table_difference(table, table_map) is not None:
            table = None
        if self._references is None:
            self._references = {} if key is None else self._references_at(key)
        learnt = self._learnt.setdefault((table_map.table, table_map.pack()[8:]), [])
        apart = "" if key is None else self._target.why(table_map.schema, table_map.table, key)
        for known, references, why, number in learnt:
            if known == table and references == self._references and why == apart:
                return number
        number = self._add(table_map, table, self._references, apart)
        learnt.append((table, self._references, apart, number))
        return number

    def _learn_next(self, buffer: Any, end: int) -> None:
        """Add the table map at which the kernel has stopped."""
        at = int(self._reg[w.AT])
        size = int.from_bytes(buffer[at + 9 : at + 13].tobytes(), "little")
        table_map = TableMap.parse(buffer[at + 19 : at + size - 4].tobytes())
        if self._statements != self._reg[w.BARRIERS_OF_STATEMENTS]:
            self._statements = int(self._reg[w.BARRIERS_OF_STATEMENTS])
            self.begin_epoch()
        number = self.learn(table_map, order_key_of(buffer, int(self._reg[w.GROUP]), end))
        known = self._maps[self._maps[:, 0] >= 0]
        if 2 * (len(known) + 2) > len(self._maps):
            self._maps = np.full((2 * len(self._maps), 3), -1, np.int64)
            for table_id, of, hashed in known:
                self._maps[w.map_slot(self._maps, table_id, hashed)] = table_id, of, hashed
        for hashed in (0, w.map_hash(buffer, at + 19, at + size - 4)):
            self._maps[w.map_slot(self._maps, table_map.table_id, hashed)] = table_map.table_id, number, hashed

    def _add(self, table_map: TableMap, table: Table | None, references: References, apart: str) -> int:
        """Add a table, and return its number. `apart`: why a target may hold other keys of it, "" if it does not."""
        keys, waits, why = _keys_of(table_map, None if apart else table, references)
        why = f"a target may hold other keys of it: {apart}" if apart else why
        waits = w.ORDERED_ROWS if self._older and waits == w.BARRIER_ROWS else waits
        if why is not None:
            self._in_order[f"{table_map.schema}.{table_map.table}"] = why
        parts: list[tuple[int, ...]] = []
        rows: list[tuple[int, int, int, int]] = []
        for seed, role, key_parts in keys:
            rows.append((seed, role, self._used["parts"] + len(parts), len(key_parts)))
            for part in key_parts:
                how = compared(table_map, part)
                assert how is not None
                parts.append((part.column, _HOW[how], *self._text(table_map, part, how, role)))
        places = sorted({column for column, *_ in parts})
        used, number = self._used, self._used["tables"]
        slots = _slots(table_map, places)
        plain = [row[1] for row in rows] == [w.IDENTITY] and [part[1] for part in parts] == [w.BYTES]
        plain = (
            plain and slots[0][1] == 0 and slots[0][3] > 0 and not any(map(table_map.nullable, range(places[0] + 1)))
        )
        row = (used["steps"], used["slots"], len(places), used["keys"], len(rows), waits, int(plain))
        self._put("tables", [row])
        self._put("steps", row_steps(table_map))
        self._put("slots", slots)
        self._put("keys", rows)
        self._put("parts", [(places.index(column), *rest) for column, *rest in parts])
        if len(places) > len(self.sets.given):
            room = 2 * len(places)
            cells = np.zeros((2, room), np.int64), np.zeros((2, room), np.int64)
            self.sets = self.sets._replace(starts=cells[0], sizes=cells[1], given=np.zeros(room, np.bool_))
        return number

    def _text(self, table_map: TableMap, part: KeyPart, how: str, role: int) -> tuple[int, ...]:
        """Return the fields of a part that say how texts are compared, from P_LENGTH_BYTES on."""
        if how not in ("text", "binary text"):
            return 0, 0, -1, 0, 0
        ends_with = pad(table_map, part)
        if role in (w.REFERENCED, w.FOREIGN):
            # A CHAR may refer to a VARCHAR, and a VARBINARY to a BINARY, whose cells in a log lack what fills them up.
            ends_with = 0 if part.collation in (None, "binary") else 0x20
        common = length_bytes(table_map, part.column), part.prefix or 0, -1 if ends_with is None else ends_with
        if how == "binary text":
            return *common, 0, 0
        assert part.collation is not None
        name = weights_name(part.collation)
        assert name is not None
        if name not in self._weights:
            self._weights[name] = len(self._weights)
            added = np.frombuffer(weights(name), np.int64)
            self.sets = self.sets._replace(weights=np.vstack([self.sets.weights, added]))
        return *common, self._weights[name], is_utf8(part.collation)

    def _put(self, name: str, rows: Sequence[Any]) -> None:
        """Put rows behind those in use of an array, which grows where it must."""
        array, used = getattr(self.sets, name), self._used[name]
        while used + len(rows) > len(array):
            array = np.concatenate([array, np.zeros_like(array)])
        if rows:
            array[used : used + len(rows)] = rows
        self.sets = self.sets._replace(**{name: array})
        self._used[name] = used + len(rows)


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


def _keys_of(table_map: TableMap, table: Table | None, references: References) -> tuple[list[_Key], int, str | None]:
    """Return a table's keys, the one that identifies its rows first; whether its transactions wait (T_WAITS), and why.

    Barriers are those whose rows others may refer to, or that are looked for by keys once the table is known.
    """
    if table is None:
        return [], w.BARRIER_ROWS, _NOT_KNOWN
    keys: list[_Key] = []
    why, is_barrier = None, False
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
            why, is_barrier = _NOT_KNOWN, True
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
    return keys, w.BARRIER_ROWS if is_barrier else w.ORDERED_ROWS if why is not None else w.FREE_ROWS, why


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


def order_key_of(buffer: Any, group: int, end: int) -> OrderKey | None:
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
