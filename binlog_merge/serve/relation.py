"""Tables of information_schema as values: their columns, and what gives their rows."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from binlog_merge.binlog.constants import ColumnType
from binlog_merge.protocol.packets import Column, Value
from binlog_merge.serve.definitions import Definitions

_KINDS: Final = {
    "int": (True, ColumnType.LONG),
    "big": (True, None),
    "null": (True, ColumnType.NULL),
    "time": (True, ColumnType.DATETIME),
    "stamp": (True, ColumnType.TIMESTAMP),
    "text": (False, ColumnType.BLOB),
    "long": (False, ColumnType.LONG_BLOB),
    "char": (False, ColumnType.STRING),
    "": (False, None),
}
Row = tuple[Value, ...]


def columns(text: str) -> tuple[Column, ...]:
    """Return columns of a result, written as `name name:kind`; kinds are those of _KINDS, `~` is a space in a name."""
    found = (part.partition(":") for part in text.split())
    return tuple(Column(name.replace("~", " "), *_KINDS[kind]) for name, _, kind in found)


@dataclass(frozen=True, slots=True)
class Relation:
    """A table of information_schema."""

    columns: tuple[Column, ...]
    rows: Callable[[Definitions], Iterator[Row]]
