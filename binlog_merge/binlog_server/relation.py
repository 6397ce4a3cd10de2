"""Tables of information_schema and performance_schema as values: their columns, and what gives their rows."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from binlog_merge.binlog.constants import ColumnType
from binlog_merge.binlog_server.definitions import Definitions
from binlog_merge.protocol.packets import Column, Value

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


Rows = Callable[[Definitions], Iterable[Row]]
Moment = Mapping[str, Callable[[], Iterable[Sequence[Value]]]]
"""The rows of tables that are a session's own, or of the moment, by the tables' names as in `RELATIONS`."""


@dataclass(frozen=True, slots=True)
class Relation:
    """A system table; texts of its columns `cased` compare with regard to case.

    `kept` are the types of the columns that have another in a result that is sorted or grouped.
    """

    columns: tuple[Column, ...]
    rows: Rows
    cased: frozenset[str] = frozenset()
    kept: Mapping[str, ColumnType] = field(default_factory=dict)
