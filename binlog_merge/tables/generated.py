"""Computes generated columns and defaults that `values.evaluate.row` cannot, in DuckDB with MySQL's semantics.

These are the expressions of filters: comparison of texts by collation, change of case, and so on. Not supported are
those for which DuckDB's digits or layout differ from a server's: divisions, and JSON.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any, Final

import duckdb
import pyarrow as pa

from binlog_merge.binlog.temporal import Civil
from binlog_merge.values.convert.cells import coerce
from binlog_merge.values.duckdb.collations import UnknownCollation
from binlog_merge.values.duckdb.columns import column_sql, engine_array, values_of
from binlog_merge.values.duckdb.compile import compile_value, parse
from binlog_merge.values.duckdb.functions import OTHER_DIGITS
from binlog_merge.values.duckdb.piece import ExpressionError, Sql
from binlog_merge.values.evaluate.kinds import TYPES
from binlog_merge.values.value import ConversionError, Lost, Value, encode_cell
from snapshot_store.errors import DdlNotUnderstood
from snapshot_store.model import Column
from snapshot_store.mysql.column_type import ColumnType, Family
from snapshot_store.mysql.expr.nodes import Node
from snapshot_store.mysql.expr.read import read_expression
from snapshot_store.mysql.sql.functions import function
from snapshot_store.mysql.sql.session import STORED

_TYPES: Final = {**TYPES, "string": TYPES["text"], "int": ColumnType("bigint"), "bool": ColumnType("bigint")}
_OTHER_DIGITS: Final = frozenset({"/", *(name for called in OTHER_DIGITS for name in function(called).names)})


def source_of(column: Column) -> str:
    """Return the expression of a generated column, or of a default; "" if there is no expression."""
    if column.generated is not None:
        return column.generated.expression
    default = column.default
    return default.text if default is not None and default.kind == "expression" else ""


def columns_of(column: Column) -> frozenset[str]:
    """Return the columns in a column's expression, in lower case; none if it cannot be parsed."""
    try:
        return read_expression(source_of(column), STORED).columns
    except DdlNotUnderstood:
        return frozenset()


def cells_by_engine(column: Column, columns: Sequence[Column], rows: Any, zone: str) -> list[bytes | None]:
    """Return the computed cells of a column for `rows`, which have the columns it needs; TIMESTAMP is in `zone`.

    Raises ConversionError.
    """
    places = {c.name.lower(): (c, f"c{i}") for i, c in enumerate(columns) if c.name.lower() in columns_of(column)}
    try:
        found = _compiled(source_of(column), places)
        arrays = {place: engine_array(c, _plain(c, rows[c.name]), zone) for c, place in places.values()}
        values = values_of(found.text, pa.table(arrays))
    except (ExpressionError, UnknownCollation, duckdb.Error) as error:
        raise ConversionError(str(error).splitlines()[0]) from None
    return [_cell(column, found.kind, value) for value in values.to_pylist()]


def _compiled(source: str, places: Mapping[str, tuple[Column, str]]) -> Sql:
    node = parse(source)
    for part in _parts(node):
        if part.text in _OTHER_DIGITS or part.text.startswith("json_"):
            raise ExpressionError(f"{part.text} has other digits or another layout here than on a server")
    found = compile_value(node, {name: column_sql(column, place) for name, (column, place) in places.items()})
    if not places or found.kind not in _TYPES:
        raise ExpressionError(f"a {found.kind or 'value'} that is not known here")
    return found


def _parts(node: Node) -> Iterator[Node]:
    yield node
    for arg in node.args:
        yield from _parts(arg)


def _plain(column: Column, values: Any) -> Any:
    """Return a column's values in the types of rows of a log."""
    if column.type.family is Family.TIME and not pa.types.is_string(values.type):
        raise ExpressionError("a TIME that is typed")
    return values


def _cell(column: Column, kind: str, value: Any) -> bytes | None:
    if value is None:
        return None
    lost: Lost = []
    cell = encode_cell(column.type, coerce(_TYPES[kind], column.type, _value(kind, value), lost))
    if lost:
        raise ConversionError(lost[0])
    return cell


def _value(kind: str, value: Any) -> Value:
    """Convert a value of DuckDB's to one of `values`; dates and times are digits in DuckDB here."""
    if kind in ("int", "bool"):
        return int(value)
    if kind in ("date", "datetime"):
        digits, micro = divmod(int(Decimal(value) * 1_000_000), 1_000_000)
        day, clock = divmod(digits, 1_000_000)
        return Civil(day // 10000, day // 100 % 100, day % 100, clock // 10000, clock // 100 % 100, clock % 100, micro)
    if kind == "time":
        micros = int(abs(Decimal(value)) * 1_000_000)
        whole, micro = divmod(micros, 1_000_000)
        found = timedelta(0, whole // 10000 * 3600 + whole // 100 % 100 * 60 + whole % 100, micro)
        return -found if value < 0 else found
    result: Value = value
    return result
