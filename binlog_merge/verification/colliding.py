"""Notices inserts of keys that stand, in a log that is looked through: a server that applies it stops at them.

The keys are those of the schema history. A statement may remove rows, so that nothing stands after one, and so may a
parent's DELETE: a table with a foreign key that cascades is not looked at, and is named.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Literal

from binlog_merge.binlog.columnar import ColumnFacts, column_facts
from binlog_merge.binlog.rows import ABSENT, Mark, PartialJson, Row, RowImage
from binlog_merge.binlog.table_map import TableMap
from binlog_merge.values.key_values import KeyPart, StandingKeys, Taken, as_compared, fit, key_text
from snapshot_store.model import Table

_MOST_KEYS: Final = 1 << 17
_MOST_EXAMPLES: Final = 100


@dataclass
class KeyFault:
    """Rows of a table that got a key of rows that stood: the first example, by GTID, and how many there were."""

    table: str
    index: str
    key: str
    first: str
    second: str
    number: int = 1

    def text(self) -> str:
        """Return what is wrong in words."""
        more = "" if self.number == 1 else f"; {self.number:,} rows are so"
        return (
            f"{self.table}: {self.second} inserts a row with the {self.index} key {self.key}, which the row has that "
            f"{self.first} inserted{more}"
        )


@dataclass(frozen=True, slots=True)
class _Key:
    index: str
    parts: tuple[KeyPart, ...]
    facts: tuple[ColumnFacts, ...]


@dataclass
class LogKeys:
    """The keys that stand at a place of a log. Tables that are `cascading` are not looked at."""

    faults: dict[tuple[str, str], KeyFault] = field(default_factory=dict)
    cascading: set[str] = field(default_factory=set)
    _standing: dict[tuple[str, str], StandingKeys] = field(default_factory=dict)
    _rows: int = 0

    def statement(self) -> None:
        """Take note of a statement."""
        self._standing.clear()

    def row(self, table: TableMap, keys: tuple[_Key, ...], row: Row, gtid: str) -> None:
        """Take note of a row's change."""
        before, after = row
        if before is not None and after is not None:
            # MINIMAL: what is not in the image after an update is as it was before.
            after = tuple(old if new is ABSENT else new for old, new in zip(before, after, strict=True))
        for key in keys:
            old, written = _value(before, key.parts), _value(after, key.parts)
            old, new = _as_compared(table, key, old), _as_compared(table, key, written)
            if old == new:
                continue
            name = f"{table.schema}.{table.table}", key.index
            standing = self._standing.setdefault(name, StandingKeys(interrupted=True))
            if old is ABSENT:
                standing.interrupt()  # which one it was is not known
            elif old is not None:
                standing.free(_hash(old))
            if not isinstance(new, tuple) or not isinstance(written, tuple):
                continue
            if hit := standing.take(_hash(new), Taken(gtid, gtid, new, written)):
                self._note(name, key_text(key.facts, written), hit.first.origin, gtid)
        self._rows += 1
        if self._rows % 4096 == 0:
            fit(self._standing.values(), _MOST_KEYS)

    def _note(self, name: tuple[str, str], key: str, first: str, second: str) -> None:
        if name in self.faults:
            self.faults[name].number += 1
        elif len(self.faults) < _MOST_EXAMPLES:
            self.faults[name] = KeyFault(*name, key, first, second)


def keys_of(table: Table, table_map: TableMap) -> tuple[_Key, ...]:
    """Return the unique keys of a table whose values are in its rows as they are."""
    if table.cascades or len(table.columns) != table_map.column_count:
        return ()
    return tuple(_keys_of(table, column_facts(table_map, names=[c.name for c in table.columns])))


def _keys_of(table: Table, facts: tuple[ColumnFacts, ...]) -> Iterator[_Key]:
    for index, columns in table.whole_keys:
        parts = tuple(KeyPart(column, table.columns[column].type.collation) for column in columns)
        yield _Key(index.name, parts, tuple(facts[column] for column in columns))


_Cells = tuple[bytes, ...] | Literal[Mark.ABSENT] | None


def _as_compared(table: TableMap, key: _Key, cells: _Cells) -> _Cells:
    if not isinstance(cells, tuple):
        return cells
    return tuple(as_compared(table, part, cell) for part, cell in zip(key.parts, cells, strict=True))


def _value(image: RowImage | None, parts: tuple[KeyPart, ...]) -> _Cells:
    """Return the cells of a key; None if one is NULL, or there is no image; ABSENT if the image does not hold them."""
    if image is None:
        return None
    cells: list[bytes] = []
    for cell in (image[part.column] for part in parts):
        if cell is None:
            return None
        if cell is ABSENT or isinstance(cell, PartialJson):
            return ABSENT
        cells.append(bytes(cell))
    return tuple(cells)


def _hash(cells: tuple[bytes, ...]) -> int:
    data = b"".join(len(cell).to_bytes(4, "little") + cell for cell in cells)
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")
