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

from binlog_merge.errors import MergeError
from binlog_merge.log.log import Log
from binlog_merge.log.place import parse_place
from binlog_merge.log.question import AnySelection, ManySelection, Selection
from binlog_merge.log.where import Where
from snapshot_store.model import Table
from snapshot_store.mysql.column_type import CHARACTERS, Family
from snapshot_store.mysql.sql.names import quote_name, quote_string


def pushed(log: Log, filters: Sequence[Any], selection: AnySelection) -> AnySelection:
    """Return what is selected, with what the filters say."""
    for one in filters:
        name, value = one.attribute[0] if hasattr(one, "attribute") else None, getattr(one, "value", None)
        if name == "op":
            selection = _ops(selection, one, value)
        elif name in ("commit_tso", "order_key") and len(one.attribute) == 1:
            low, high = _range(log, one, name, value)
            selection = replace(selection, first=max(selection.first, low), last=min(selection.last, high))
        elif isinstance(selection, ManySelection) and name in ("schema", "table"):
            selection = _named(selection, one, name)
    return selection if isinstance(selection, ManySelection) else _condition(selection, filters)


def _named(selection: ManySelection, one: Any, name: str) -> ManySelection:
    """Return what is selected of the schemas or tables that a filter leaves."""
    if isinstance(one, ds.EqualTo | ds.EqualNullSafe):
        wanted = frozenset([one.value])
    elif isinstance(one, ds.In):
        wanted = frozenset(one.value)
    else:
        return selection
    known = selection.schemas if name == "schema" else selection.tables
    left = wanted if known is None else known & wanted
    return replace(selection, schemas=left) if name == "schema" else replace(selection, tables=left)


_COMPARED: dict[Any, str] = {
    ds.EqualTo: "=", ds.GreaterThan: ">", ds.GreaterThanOrEqual: ">=", ds.LessThan: "<", ds.LessThanOrEqual: "<=",
}  # fmt: skip


def _condition(selection: Selection, filters: Sequence[Any]) -> Selection:
    """Return what is selected with a condition on the values of one side of the rows.

    Integers and decimals are compared by MySQL as by Spark, and texts that are equal in Spark are so in every
    collation. Nothing else is: a YEAR column takes 5 for 2005, a JSON document differs from its own text.
    """
    if selection.where is not None:
        return selection
    tables = selection.versions.tables()
    kinds = {
        name: kind
        for name, kind in zip(selection.shape.names, selection.shape.types, strict=True)
        if all(_alike(table, name, kind) for table in tables)
    }
    sides: dict[str, list[str]] = {"before": [], "after": []}
    for one in filters:
        path: tuple[str, ...] = getattr(one, "attribute", ())
        if len(path) == 2 and path[0] in sides and path[1] in kinds:
            sides[path[0]] += _terms(one, path[1], kinds[path[1]])
    terms = max(sides.values(), key=len)
    if not terms:
        return selection
    names = frozenset(name.lower() for name in selection.shape.names)
    try:
        where = Where(" AND ".join(terms), elsewhere=names, option="filter", lenient=True)
        for table in tables:
            where.check(table)
    except MergeError:
        return selection
    return replace(selection, where=where)


_TEXTS: Final = CHARACTERS | {Family.INTEGER}
_NUMBERS: Final = frozenset({Family.INTEGER, Family.DECIMAL})


def _alike(table: Table, name: str, kind: Any) -> bool:
    """Return whether MySQL compares a column's values with others of Spark's type as Spark does.

    A DECIMAL and a text are compared as DOUBLE.
    """
    place = table.index_of(name)
    return place is None or table.columns[place].type.family in (_TEXTS if pa.types.is_string(kind) else _NUMBERS)


def _terms(one: Any, column: str, kind: Any) -> list[str]:
    exact = pa.types.is_integer(kind) or pa.types.is_decimal(kind)
    values = list(one.value) if isinstance(one, ds.In) else [getattr(one, "value", None)]
    right = (int, Decimal) if exact else (str,) if pa.types.is_string(kind) else ()
    if not values or any(not isinstance(value, right) or isinstance(value, bool) for value in values):
        return []
    name = quote_name(column)
    # With an exponent a number would be a DOUBLE.
    literals = [
        f"{value:f}" if isinstance(value, Decimal) else quote_string(str(value)) if not exact else str(value)
        for value in values
    ]
    if isinstance(one, ds.In):
        return [f"{name} IN ({', '.join(literals)})"]
    word = _COMPARED.get(type(one))
    return [f"{name} {word} {literals[0]}"] if word is not None and (exact or word == "=") else []


def _ops(selection: AnySelection, one: Any, value: Any) -> AnySelection:
    if isinstance(one, ds.EqualTo | ds.EqualNullSafe):
        return replace(selection, ops=tuple(op for op in selection.ops if op == value))
    if isinstance(one, ds.In):
        return replace(selection, ops=tuple(op for op in selection.ops if op in value))
    return selection


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
