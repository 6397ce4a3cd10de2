"""How each MySQL type is written elsewhere: one table, a row for each type of `snapshot_store.mysql.column_type`.

A type without a row is refused wherever its form is asked for. The type and metadata that MySQL writes into a table map
are those of MySQL 9.7 (`Field::save_field_metadata`), checked against a real server with every type.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from binlog_merge.binlog.arrow import DATES, arrow_type
from binlog_merge.binlog.cell_length import real_type
from binlog_merge.binlog.columnar import ColumnFacts
from binlog_merge.binlog.constants import ColumnType as T
from binlog_merge.binlog.table_map import TableMap
from binlog_merge.binlog.temporal import STOP, ZeroDates
from binlog_merge.errors import UnsupportedInput
from snapshot_store.model import Column, Table
from snapshot_store.mysql.column_type import MEMBERS, NUMERIC, ColumnType, Family
from snapshot_store.mysql.text.charsets import max_bytes


@dataclass(frozen=True, slots=True)
class Forms:
    """A type's numbers and names.

    `stored`: in a table map. `result`: of a column in a result set. `tidb`: in TiCDC's open protocol, MySQL's
    enum_field_types but for VECTOR. `canal`, `jdbc`: java.sql.Types, as alibaba/canal and as Debezium's schema changes
    have them. `duckdb`: of a signed column; "" where it depends on the digits. `connect`: Kafka Connect's types of a
    signed and an unsigned integer. `shape`: of a geometry, in a table map's metadata.
    """

    stored: T
    result: T
    tidb: int
    canal: int
    jdbc: int
    duckdb: str
    connect: tuple[str, str] = ("", "")
    shape: int = 0


def _shape(number: int) -> Forms:
    return Forms(T.GEOMETRY, T.GEOMETRY, 255, -2, 1111, "BLOB", shape=number)


FORMS: Final = {
    "tinyint": Forms(T.TINY, T.TINY, 1, -6, 5, "TINYINT", ("int16", "int16")),
    "smallint": Forms(T.SHORT, T.SHORT, 2, 5, 5, "SMALLINT", ("int16", "int32")),
    "mediumint": Forms(T.INT24, T.INT24, 9, 4, 4, "INTEGER", ("int32", "int32")),
    "int": Forms(T.LONG, T.LONG, 3, 4, 4, "INTEGER", ("int32", "int64")),
    "bigint": Forms(T.LONGLONG, T.LONGLONG, 8, -5, -5, "BIGINT", ("int64", "int64")),
    "decimal": Forms(T.NEWDECIMAL, T.NEWDECIMAL, 246, 3, 3, ""),
    "float": Forms(T.FLOAT, T.FLOAT, 4, 7, 6, "FLOAT"),
    "double": Forms(T.DOUBLE, T.DOUBLE, 5, 8, 8, "DOUBLE"),
    "bit": Forms(T.BIT, T.BIT, 16, -7, -7, "UBIGINT"),
    "year": Forms(T.YEAR, T.YEAR, 13, 12, 4, "SMALLINT"),
    "date": Forms(T.DATE, T.DATE, 10, 91, 91, "DATE"),
    "time": Forms(T.TIME2, T.TIME, 11, 92, 92, "INTERVAL"),
    "datetime": Forms(T.DATETIME2, T.DATETIME, 12, 93, 93, "TIMESTAMP"),
    "timestamp": Forms(T.TIMESTAMP2, T.TIMESTAMP, 7, 93, 2014, "TIMESTAMPTZ"),
    "char": Forms(T.STRING, T.STRING, 254, 1, 1, "VARCHAR"),
    "varchar": Forms(T.VARCHAR, T.VAR_STRING, 15, 12, 12, "VARCHAR"),
    "tinytext": Forms(T.BLOB, T.BLOB, 249, 2005, 12, "VARCHAR"),
    "text": Forms(T.BLOB, T.BLOB, 252, 2005, 12, "VARCHAR"),
    "mediumtext": Forms(T.BLOB, T.BLOB, 250, 2005, 12, "VARCHAR"),
    "longtext": Forms(T.BLOB, T.BLOB, 251, 2005, 12, "VARCHAR"),
    "binary": Forms(T.STRING, T.STRING, 254, 2004, -2, "BLOB"),
    "varbinary": Forms(T.VARCHAR, T.VAR_STRING, 15, 2004, -3, "BLOB"),
    "tinyblob": Forms(T.BLOB, T.BLOB, 249, 2004, 2004, "BLOB"),
    "blob": Forms(T.BLOB, T.BLOB, 252, 2004, 2004, "BLOB"),
    "mediumblob": Forms(T.BLOB, T.BLOB, 250, 2004, 2004, "BLOB"),
    "longblob": Forms(T.BLOB, T.BLOB, 251, 2004, 2004, "BLOB"),
    "enum": Forms(T.STRING, T.STRING, 247, 4, 1, "VARCHAR"),
    "set": Forms(T.STRING, T.STRING, 248, -7, 1, "VARCHAR"),
    "json": Forms(T.JSON, T.JSON, 245, 12, 1111, "JSON"),
    "vector": Forms(T.VECTOR, T.VECTOR, 225, 12, 1111, "FLOAT[]"),
    "geometry": _shape(0),
    "point": _shape(1),
    "linestring": _shape(2),
    "polygon": _shape(3),
    "multipoint": _shape(4),
    "multilinestring": _shape(5),
    "multipolygon": _shape(6),
    "geomcollection": _shape(7),
}
DEFAULT_VECTOR_LENGTH: Final = 2048


def unsupported(kind: ColumnType, form: str) -> UnsupportedInput:
    """Return the error for a type that has no form of that kind."""
    return UnsupportedInput(
        f"type {kind.name} has no form {form} that is known here", remedy="report the type and the server version"
    )


def forms_of(kind: ColumnType, form: str) -> Forms:
    """Return how a type is written elsewhere; `form` says where, for the error. Raises UnsupportedInput."""
    forms = FORMS.get(kind.name)
    if forms is None:
        raise unsupported(kind, form)
    return forms


def binlog_column(column: Column) -> tuple[int, int]:
    """Return (type, metadata) as in a table map; metadata as a little-endian integer, 0 if there is none.

    Raises UnsupportedInput.
    """
    if column.type.name not in FORMS:
        raise UnsupportedInput(
            f"column {column.name}: type {column.type.name} has no form in a binlog that is known here",
            remedy="report the type and the server version",
        )
    return stored_type(column.type)


@lru_cache(4096)
def stored_type(kind: ColumnType) -> tuple[int, int]:
    """Return what `binlog_column` does for a column of the type, once for all cells. Raises UnsupportedInput."""
    forms = forms_of(kind, "in a binlog")
    match forms.stored:
        case T.FLOAT | T.DOUBLE:
            meta = kind.facts.size
        case T.NEWDECIMAL:
            meta = (10 if kind.length is None else kind.length) | (kind.decimals or 0) << 8
        case T.BIT:
            whole, left = divmod(kind.length or 1, 8)
            meta = left | whole << 8
        case T.TIME2 | T.DATETIME2 | T.TIMESTAMP2:
            meta = kind.fsp
        case T.VARCHAR:
            meta = byte_length(kind)
        case T.BLOB:
            meta = kind.facts.counter
        case T.JSON | T.GEOMETRY | T.VECTOR:
            meta = 4
        case T.STRING:
            meta = _string_meta(kind)
        case _:
            meta = 0
    return forms.stored, meta


def _string_meta(kind: ColumnType) -> int:
    if kind.family in MEMBERS:
        return (T.ENUM if kind.family is Family.ENUM else T.SET) | kind.member_bytes << 8
    # Field_string::do_save_field_metadata: the length has 10 bits, its high two go inverted into bits 4 and 5 of the
    # type byte: 1020 = 0x3FC -> CE FC.
    length = byte_length(kind)
    return (T.STRING ^ ((length & 0x300) >> 4)) | (length & 0xFF) << 8


def byte_length(kind: ColumnType) -> int:
    """Return the greatest length in bytes of a CHAR, VARCHAR, BINARY or VARBINARY column."""
    try:
        width = max_bytes(kind.charset)
    except LookupError as error:
        raise UnsupportedInput(f"character set {error}", remedy="report the character set's name") from None
    return (1 if kind.length is None else kind.length) * width


def facts_of(
    table: Table, temporal_text: bool = False, witness: TableMap | None = None, zero_dates: ZeroDates = STOP
) -> tuple[ColumnFacts, ...]:
    """Return the facts that determine the values of a table's columns, from the schema.

    `zero_dates` are the rules for dates that no calendar has, which have no typed value. With `witness` the
    binlog types are those of the table map, which may have older ones for the same column.
    """
    if witness is None:
        return tuple(column_facts_of(column, temporal_text, None, zero_dates) for column in table.columns)
    stored = zip(table.columns, witness.types, witness.metas, strict=True)
    return tuple(column_facts_of(column, temporal_text, (code, meta), zero_dates) for column, code, meta in stored)


def column_facts_of(
    column: Column,
    temporal_text: bool = False,
    stored: tuple[int, int] | None = None,
    zero_dates: ZeroDates = STOP,
) -> ColumnFacts:
    """Return the facts that determine the values of a column; `stored` is its type and metadata in a table map."""
    code, meta = binlog_column(column) if stored is None else stored
    kind, type_ = real_type(code, meta), column.type
    rule = zero_dates.of(column.name) if kind in DATES else "stop"
    as_text = temporal_text or rule == "text"
    unsigned = type_.unsigned and type_.family in NUMERIC
    members = type_.members if type_.family in MEMBERS else None
    # MariaDB's JSON is a LONGTEXT.
    charset = type_.charset or ("utf8mb4" if type_.family is Family.JSON else "binary")
    arrow = arrow_type(kind, meta, unsigned, charset, members is not None, as_text)
    return ColumnFacts(column.name, code, meta, kind, unsigned, charset, members, as_text, arrow, rule == "null")
