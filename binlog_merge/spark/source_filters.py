"""Filters of a Spark query on a log's columns, as a smaller range, fewer operations, and a condition on rows.

Spark applies every filter again, so only what is certain is taken; nothing that is left out here is wrong.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import datasource as ds

from binlog_merge.ask.all_tables import AskedAll, Question
from binlog_merge.ask.read import Asked
from binlog_merge.ask.values import quoted
from binlog_merge.errors import MergeError
from binlog_merge.log.log import Log
from binlog_merge.log.place import parse_place
from binlog_merge.log.where import Where
from binlog_merge.values.value import INTEGER_BYTES, TEXT_TYPES
from snapshot_store.model import Table
from snapshot_store.mysql.sql.names import quote_name


def pushed(log: Log, filters: Sequence[Any], asked: Question, first: int, last: int) -> tuple[Question, int, int]:
    """Return what is asked, and the ranks of the range, with what the filters say."""
    for one in filters:
        name, value = one.attribute[0] if hasattr(one, "attribute") else None, getattr(one, "value", None)
        if name == "op":
            asked = _ops(asked, one, value)
        elif name in ("commit_tso", "order_key") and len(one.attribute) == 1:
            low, high = _range(log, one, name, value)
            first, last = max(first, low), min(last, high)
        elif isinstance(asked, AskedAll) and name in ("schema", "table"):
            asked = _named(asked, one, name)
    return asked if isinstance(asked, AskedAll) else _condition(asked, filters), first, last


def _named(asked: AskedAll, one: Any, name: str) -> AskedAll:
    """Return what is asked of the schemas or tables that a filter leaves."""
    if isinstance(one, ds.EqualTo | ds.EqualNullSafe):
        wanted = frozenset([one.value])
    elif isinstance(one, ds.In):
        wanted = frozenset(one.value)
    else:
        return asked
    known = asked.schemas if name == "schema" else asked.tables
    left = wanted if known is None else known & wanted
    return replace(asked, schemas=left) if name == "schema" else replace(asked, tables=left)


_COMPARED: dict[Any, str] = {
    ds.EqualTo: "=", ds.GreaterThan: ">", ds.GreaterThanOrEqual: ">=", ds.LessThan: "<", ds.LessThanOrEqual: "<=",
}  # fmt: skip


def _condition(asked: Asked, filters: Sequence[Any]) -> Asked:
    """Return what is asked with a condition on the values of one side of the rows.

    Integers and decimals are compared by MySQL as by Spark, and texts that are equal in Spark are so in every
    collation. Nothing else is: a YEAR column takes 5 for 2005, a JSON document differs from its own text.
    """
    if asked.where is not None:
        return asked
    tables = asked.versions.tables()
    kinds = {
        name: kind
        for name, kind in zip(asked.shape.names, asked.shape.types, strict=True)
        if all(_alike(table, name, kind) for table in tables)
    }
    sides: dict[str, list[str]] = {"before": [], "after": []}
    for one in filters:
        path: tuple[str, ...] = getattr(one, "attribute", ())
        if len(path) == 2 and path[0] in sides and path[1] in kinds:
            sides[path[0]] += _terms(one, path[1], kinds[path[1]])
    terms = max(sides.values(), key=len)
    if not terms:
        return asked
    names = frozenset(name.lower() for name in asked.shape.names)
    try:
        where = Where(" AND ".join(terms), elsewhere=names, option="filter", lenient=True)
        for table in tables:
            where.check(table)
    except MergeError:
        return asked
    return replace(asked, where=where)


_TEXTS: Final = TEXT_TYPES | INTEGER_BYTES.keys() | {"enum", "set"}
_NUMBERS: Final = INTEGER_BYTES.keys() | {"decimal"}


def _alike(table: Table, name: str, kind: Any) -> bool:
    """Return whether MySQL compares a column's values with others of Spark's type as Spark does.

    A DECIMAL and a text are compared as DOUBLE.
    """
    place = table.index_of(name)
    return place is None or table.columns[place].type.name in (_TEXTS if pa.types.is_string(kind) else _NUMBERS)


def _terms(one: Any, column: str, kind: Any) -> list[str]:
    exact = pa.types.is_integer(kind) or pa.types.is_decimal(kind)
    values = list(one.value) if isinstance(one, ds.In) else [getattr(one, "value", None)]
    right = (int, Decimal) if exact else (str,) if pa.types.is_string(kind) else ()
    if not values or any(not isinstance(value, right) or isinstance(value, bool) for value in values):
        return []
    name = quote_name(column)
    # With an exponent a number would be a DOUBLE.
    literals = [
        f"{value:f}" if isinstance(value, Decimal) else quoted(value) if not exact else str(value) for value in values
    ]
    if isinstance(one, ds.In):
        return [f"{name} IN ({', '.join(literals)})"]
    word = _COMPARED.get(type(one))
    return [f"{name} {word} {literals[0]}"] if word is not None and (exact or word == "=") else []


def _ops(asked: Question, one: Any, value: Any) -> Question:
    if isinstance(one, ds.EqualTo | ds.EqualNullSafe):
        return replace(asked, ops=tuple(op for op in asked.ops if op == value))
    if isinstance(one, ds.In):
        return replace(asked, ops=tuple(op for op in asked.ops if op in value))
    return asked


def _range(log: Log, one: Any, name: str, value: Any) -> tuple[int, int]:
    """Return the ranks that a filter on a transaction's place leaves; all of the log's if that is not certain."""
    every = log.state.first_rank, log.last_rank
    if value is None or (name == "order_key" and not re.fullmatch("[0-9]{54}", value)):
        return every
    try:
        low, high = _bounds(one, name, value)
        start = None if low is None else parse_place("filter", low)
        stop = None if high is None else parse_place("filter", high)
        found = log.between(start, None).first, log.between(None, stop).last
    except MergeError:
        return every
    return found


def _bounds(one: Any, name: str, value: Any) -> tuple[Any, Any]:
    """Return where the range may begin, and before what it ends."""
    text = str(value)
    after = str(int(text) + 1) if name == "commit_tso" else f"{int(text) + 1:054d}"
    if isinstance(one, ds.EqualTo | ds.EqualNullSafe):
        return text, after
    if isinstance(one, ds.GreaterThanOrEqual):
        return text, None
    if isinstance(one, ds.GreaterThan):
        return after, None
    if isinstance(one, ds.LessThan):
        return None, text
    if isinstance(one, ds.LessThanOrEqual):
        return None, after
    return None, None
