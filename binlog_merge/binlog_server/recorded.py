"""What every MySQL 9.7 has, as `tools/server_facts.py` has recorded it from a server, into `mysql_9_7/`.

Read when the first client asks: each file is a few milliseconds of work, kept for the life of the process.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final

from binlog_merge.binlog.constants import ColumnType
from binlog_merge.protocol.packets import Column, Value

Row = tuple[Value, ...]
_INTEGERS: Final = (ColumnType.TINY, ColumnType.SHORT, ColumnType.INT24, ColumnType.LONG, ColumnType.LONGLONG)
_NUMBERS: Final = (*_INTEGERS, ColumnType.FLOAT, ColumnType.DOUBLE, ColumnType.NEWDECIMAL)
_MOMENTS: Final = (ColumnType.TIMESTAMP, ColumnType.DATETIME, ColumnType.DATE, ColumnType.TIME, ColumnType.NULL)


@dataclass(frozen=True, slots=True)
class Variable:
    """A system variable: `scope` is "global", "session" or "both"; `kind` its type in a result.

    `value` is what SELECT shows, `shown` what SHOW VARIABLES shows; `refused` is the number of the error with which SET
    SESSION is refused, 0 if it is not.
    """

    name: str
    scope: str
    kind: ColumnType
    value: Value
    shown: str
    refused: int = 0

    @property
    def switch(self) -> bool:
        """Return whether it is ON or OFF in SHOW VARIABLES, 1 or 0 in SELECT."""
        return self.kind == ColumnType.LONGLONG and self.shown in ("ON", "OFF")

    @property
    def number(self) -> bool:
        return self.kind in _NUMBERS


@dataclass(frozen=True, slots=True)
class SystemTable:
    """A table of information_schema, performance_schema or mysql.

    `head` is its row of information_schema.TABLES: type, engine, version, row format, collation, options, comment.
    `described` are its columns' rows of information_schema.COLUMNS from the name on; `cased` are the columns whose
    texts compare with regard to case. `kept` are the types of those that have another in a result that is sorted or
    grouped.
    """

    schema: str
    name: str
    head: Row
    columns: tuple[Column, ...]
    described: tuple[Row, ...]
    cased: frozenset[str]
    kept: Mapping[str, ColumnType]


@dataclass(frozen=True, slots=True)
class Shown:
    """What a SHOW answers: columns, and rows that are the same on each server."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]


@cache
def known_variables() -> dict[str, Variable]:
    """Return all variables by name, in the order of their names."""
    return {name: Variable(name, scope, ColumnType(kind), *rest) for name, scope, kind, *rest in _rows("variables")}


@cache
def known_status() -> dict[str, tuple[bool, str]]:
    """Return whether a status variable is a server's too, not only a session's, and its value; in SHOW's order."""
    return {name: (everywhere, value) for name, everywhere, value in _rows("status")}


@cache
def system_tables() -> dict[tuple[str, str], SystemTable]:
    """Return the tables of the three schemas by (schema, name)."""
    tables: dict[tuple[str, str], tuple[Row, list[Row]]] = {}
    columns: list[Row] = []
    for row in _rows("relations"):
        if isinstance(row[0], str):
            columns = []
            tables[row[0], row[1]] = tuple(row[2:]), columns
        else:
            columns.append(tuple(row))
    return {name: _table(*name, *parts) for name, parts in tables.items()}


@cache
def listed_tables() -> dict[tuple[str, str], SystemTable]:
    """Return the system tables that are listed; those of mysql can be asked, but a dump would take them."""
    return {names: table for names, table in system_tables().items() if names[0] != "mysql"}


def system_table(schema: str, name: str) -> SystemTable | None:
    """Return a system table by its names, in upper or lower case."""
    of = schema.lower()
    return system_tables().get((of, name.upper() if of == "information_schema" else name.lower()))


@cache
def constant_rows(table: str) -> tuple[Row, ...]:
    """Return the rows of a table of information_schema that are the same on each server; none for others."""
    return tuple(tuple(row) for name, row in _rows("rows") if name == table)


@cache
def known_shows() -> dict[str, Shown]:
    """Return what SHOW answers, by what is behind that word, in lower case."""
    return {
        what.lower(): Shown(tuple(column_of(*head) for head in heads), tuple(map(tuple, rows)))
        for what, heads, rows in _rows("shows")
    }


def escaped(expression: str) -> str:
    """Return an expression as the dictionary of a server shows it."""
    return expression.replace("\\", "\\\\").replace("'", "\\'")


def column_of(name: str, kind: int) -> Column:
    """Return a column of a result with a type of the wire."""
    found = ColumnType(kind)
    return Column(name, found in _NUMBERS or found in _MOMENTS, found)


def _table(schema: str, name: str, head: Row, columns: Sequence[Sequence[Any]]) -> SystemTable:
    cased = frozenset(str(c[1]) for c in columns if str(c[12] or "").endswith("_bin"))
    heads = tuple(column_of(c[1], c[0][0] if isinstance(c[0], list) else c[0]) for c in columns)
    kept = {c[1]: ColumnType(c[0][1]) for c in columns if isinstance(c[0], list)}
    return SystemTable(schema, name, head, heads, tuple(tuple(c[1:]) for c in columns), cased, kept)


def _rows(name: str) -> Iterator[Any]:
    with files("binlog_merge.binlog_server").joinpath("mysql_9_7", f"{name}.jsonl").open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)
