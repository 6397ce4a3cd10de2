"""The table map as witness: what MySQL would write for a table, and whether a table map agrees with it.

A table map tells the shape of the rows behind it for certain; the schema history tells what the shape should be. Where
the two differ, one of them is wrong, and nothing may be guessed. Column types and metadata are as MySQL 9.7 writes
them (`Field::save_field_metadata`), checked against a real server with every type. What it shows about columns nobody
sees: VIRTUAL generated, INVISIBLE and generated primary key (`my_row_id`) columns are in table maps and row images; the
hidden columns of functional indexes are not.
"""

from collections.abc import Callable
from typing import Final

from binlog_merge.binlog.cells import real_type, string_max_length, type_name
from binlog_merge.binlog.constants import ColumnType as T
from binlog_merge.binlog.table_map import TableMap
from binlog_merge.binlog.text_codecs import decode_text
from binlog_merge.errors import UnsupportedInput
from binlog_merge.merge.charsets import bytes_per_character, canonical_charset, charset_of, collation_name
from snapshot_store.model import Column, ColumnType, Index, IndexPart, Table

INTEGERS: Final[dict[str, T]] = {
    "tinyint": T.TINY,
    "smallint": T.SHORT,
    "mediumint": T.INT24,
    "int": T.LONG,
    "bigint": T.LONGLONG,
}
NUMERIC: Final = frozenset({*INTEGERS, "decimal", "float", "double", "year"})
"""Types with a signedness bit; YEAR has one, always set."""

LENGTH_BYTES: Final[dict[str, int]] = {
    "tinytext": 1,
    "text": 2,
    "mediumtext": 3,
    "longtext": 4,
    "tinyblob": 1,
    "blob": 2,
    "mediumblob": 3,
    "longblob": 4,
}
GEOMETRY_TYPES: Final[dict[str, int]] = {
    "geometry": 0,
    "point": 1,
    "linestring": 2,
    "polygon": 3,
    "multipoint": 4,
    "multilinestring": 5,
    "multipolygon": 6,
    "geomcollection": 7,
    "geometrycollection": 7,
}
DEFAULT_VECTOR_LENGTH: Final = 2048


def binlog_column(column: Column) -> tuple[int, int]:
    """Return (type, metadata) as a table map has them; metadata as one little-endian integer, 0 where there is none."""
    kind = column.type
    if kind.name in INTEGERS:
        return INTEGERS[kind.name], 0
    if kind.name in LENGTH_BYTES:
        return T.BLOB, LENGTH_BYTES[kind.name]
    if kind.name in GEOMETRY_TYPES:
        return T.GEOMETRY, 4
    describe = _BINLOG_COLUMN.get(kind.name)
    if describe is None:
        raise UnsupportedInput(
            f"column {column.name}: type {kind.name} has no form in a binlog that is known here",
            remedy="report the type and the server version",
        )
    return describe(kind)


def byte_length(kind: ColumnType) -> int:
    """Return the greatest length in bytes of a CHAR, VARCHAR, BINARY or VARBINARY column."""
    width = bytes_per_character(kind.charset)
    if width is None:
        raise UnsupportedInput(
            f"character set {kind.charset} is not one of MySQL 9.7's", remedy="report the character set's name"
        )
    return (1 if kind.length is None else kind.length) * width


def member_bytes(kind: ColumnType) -> int:
    """Return how many bytes an ENUM or SET value takes."""
    count = len(kind.members)
    if kind.name == "enum":
        return 1 if count < 256 else 2
    size = max(1, (count + 7) // 8)
    return size if size <= 4 else 8


def _string(kind: ColumnType) -> tuple[int, int]:
    # Field_string::do_save_field_metadata: the length has 10 bits, its high two go inverted into bits 4 and 5 of the
    # type byte: 1020 = 0x3FC -> CE FC.
    length = byte_length(kind)
    return T.STRING, (T.STRING ^ ((length & 0x300) >> 4)) | (length & 0xFF) << 8


def _member(kind: ColumnType) -> tuple[int, int]:
    return T.STRING, (T.ENUM if kind.name == "enum" else T.SET) | member_bytes(kind) << 8


def _bit(kind: ColumnType) -> tuple[int, int]:
    whole, left = divmod(kind.length or 1, 8)
    return T.BIT, left | whole << 8


def _decimal(kind: ColumnType) -> tuple[int, int]:
    precision = 10 if kind.length is None else kind.length
    return T.NEWDECIMAL, precision | (kind.decimals or 0) << 8


_BINLOG_COLUMN: Final[dict[str, Callable[[ColumnType], tuple[int, int]]]] = {
    "float": lambda kind: (T.FLOAT, 4),
    "double": lambda kind: (T.DOUBLE, 8),
    "decimal": _decimal,
    "bit": _bit,
    "year": lambda kind: (T.YEAR, 0),
    "date": lambda kind: (T.DATE, 0),
    "time": lambda kind: (T.TIME2, kind.fsp),
    "datetime": lambda kind: (T.DATETIME2, kind.fsp),
    "timestamp": lambda kind: (T.TIMESTAMP2, kind.fsp),
    "char": _string,
    "binary": _string,
    "varchar": lambda kind: (T.VARCHAR, byte_length(kind)),
    "varbinary": lambda kind: (T.VARCHAR, byte_length(kind)),
    "enum": _member,
    "set": _member,
    "json": lambda kind: (T.JSON, 4),
    "vector": lambda kind: (T.VECTOR, 4),
}

# What a table map may say instead: temporal columns in the format before 5.6 (kept by upgrades in place), NEWDATE as
# PolarDB-X writes it, JSON of MariaDB, which is LONGTEXT.
_ALSO: Final[dict[tuple[int, int], tuple[tuple[int, int], ...]]] = {
    (T.TIMESTAMP2, 0): ((T.TIMESTAMP, 0),),
    (T.DATETIME2, 0): ((T.DATETIME, 0),),
    (T.TIME2, 0): ((T.TIME, 0),),
    (T.DATE, 0): ((T.NEWDATE, 0),),
    (T.JSON, 4): ((T.BLOB, 4),),
}


def check_witness(table: Table, table_map: TableMap) -> str | None:
    """Return None if the table map agrees with the table, else what differs and both shapes, in words.

    Compared are column count, types with their metadata, and, where the table map has them, names, signedness,
    character sets and ENUM and SET members. Not compared: nullability, collations, keys, visibility.
    """
    found = _difference(table, table_map)
    if found is None:
        return None
    return (
        f"{found}; the table map of {table_map.schema}.{table_map.table} has {describe_table_map(table_map)}; "
        f"the schema history of {table.schema}.{table.name} has {describe_table(table)}"
    )


def _difference(table: Table, table_map: TableMap) -> str | None:
    if len(table.columns) != len(table_map.types):
        return f"{len(table_map.types)} columns against {len(table.columns)}"
    names = table_map.optional.column_names if table_map.optional else None
    signed = table_map.optional is not None and table_map.optional.signedness is not None
    unsigned, collations, members = table_map.unsigned(), table_map.collations(), table_map.members()
    for i, column in enumerate(table.columns):
        what = f"column {i + 1}, {column.name}:"
        expected = binlog_column(column)
        actual = (table_map.types[i], table_map.metas[i])
        if actual != expected and actual not in _ALSO.get(expected, ()):
            return f"{what} {_type_words(*actual)} against {_type_words(*expected)}"
        if names is not None and not column.same_name(names[i]):
            return f"{what} is named {names[i]}"
        if signed and column.type.name in NUMERIC - {"year"} and unsigned[i] != column.type.unsigned:
            return f"{what} {'UNSIGNED' if unsigned[i] else 'signed'} against {column.type.name}"
        reason = _text_difference(column.type, collations[i], members[i])
        if reason is not None:
            return f"{what} {reason}"
    return None


def _text_difference(kind: ColumnType, collation: int | None, members: tuple[bytes, ...] | None) -> str | None:
    charset = charset_of(collation) if collation is not None else None
    if charset is None or kind.name in ("json", "vector"):
        return None
    expected = canonical_charset(kind.charset or "binary")
    if charset != expected:
        return f"character set {charset} against {expected}"
    if members is not None:
        found = decode_members(charset, members)
        # MySQL strips trailing spaces of members.
        if found is not None and found != tuple(member.rstrip(" ") for member in kind.members):
            return f"members {found} against {kind.members}"
    return None


def decode_members(charset: str, members: tuple[bytes, ...]) -> tuple[str, ...] | None:
    """Return the member texts of an ENUM or SET column, or None where they are no text in that character set."""
    try:
        # Members of a binary column are bytes; the schema history reads them as latin1, one character each.
        return tuple(decode_text("latin1" if charset == "binary" else charset, member) for member in members)
    except (UnicodeError, LookupError):
        return None


_SQL_NAMES: Final[dict[int, str]] = {
    T.TINY: "TINYINT",
    T.SHORT: "SMALLINT",
    T.INT24: "MEDIUMINT",
    T.LONG: "INT",
    T.LONGLONG: "BIGINT",
    T.TIMESTAMP: "TIMESTAMP (format before 5.6)",
    T.DATETIME: "DATETIME (format before 5.6)",
    T.TIME: "TIME (format before 5.6)",
}


def _type_words(code: int, meta: int) -> str:
    kind = real_type(code, meta)
    if kind in (T.ENUM, T.SET):
        return f"{T(kind).name} of {meta >> 8} bytes"
    if kind == T.STRING:
        return f"CHAR of {string_max_length(meta)} bytes"
    if kind in (T.VARCHAR, T.VAR_STRING):
        return f"VARCHAR of {meta} bytes"
    if kind == T.NEWDECIMAL:
        return f"DECIMAL({meta & 0xFF},{meta >> 8})"
    if kind == T.BIT:
        return f"BIT({(meta & 0xFF) + (meta >> 8) * 8})"
    if kind in (T.TIMESTAMP2, T.DATETIME2, T.TIME2):
        return f"{T(kind).name[:-1]}({meta})"
    if kind == T.BLOB:
        return {1: "TINYBLOB", 2: "BLOB", 3: "MEDIUMBLOB", 4: "LONGBLOB"}.get(meta, "BLOB") + " or TEXT"
    return _SQL_NAMES.get(kind) or type_name(kind)


def describe_table_map(table_map: TableMap) -> str:
    """Return the columns of a table map in words, with names where it has them."""
    names = (table_map.optional.column_names if table_map.optional else None) or ("",) * len(table_map.types)
    columns = zip(names, table_map.types, table_map.metas, table_map.unsigned(), strict=True)
    return _listed([f"{n} {_type_words(t, m)}{' UNSIGNED' if u else ''}".strip() for n, t, m, u in columns])


def describe_table(table: Table) -> str:
    """Return the columns of a table in the same words as `describe_table_map`."""
    return _listed(
        [f"{c.name} {_type_words(*binlog_column(c))}{' UNSIGNED' if c.type.unsigned else ''}" for c in table.columns]
    )


def _listed(columns: list[str]) -> str:
    return f"{len(columns)} column{'' if len(columns) == 1 else 's'} ({', '.join(columns)})"


def table_from_table_map(table_map: TableMap) -> Table | None:
    """Return the table that FULL metadata describes, or None where it says less.

    Defaults, generated columns, AUTO_INCREMENT and indexes other than the primary key are not in a table map.
    """
    optional = table_map.optional
    if optional is None or optional.column_names is None:
        return None
    types = [column_type(table_map, i) for i in range(len(table_map.types))]
    if None in types:
        return None
    visible = optional.visibility or (True,) * len(types)
    columns = tuple(
        Column(name, kind, nullable=table_map.nullable(i), invisible=not visible[i])
        for i, (name, kind) in enumerate(zip(optional.column_names, types, strict=True))
        if kind is not None
    )
    key = optional.primary_key_with_prefix or tuple((i, 0) for i in optional.simple_primary_key or ())
    parts = tuple(IndexPart(columns[i].name, length or None) for i, length in key)
    primary = (Index("PRIMARY", parts, unique=True),) if parts else ()
    return Table(table_map.schema, table_map.table, columns, primary)


_FROM_BINLOG: Final[dict[int, str]] = {
    **{code: name for name, code in INTEGERS.items()},
    T.FLOAT: "float",
    T.DOUBLE: "double",
    T.NEWDECIMAL: "decimal",
    T.BIT: "bit",
    T.YEAR: "year",
    T.DATE: "date",
    T.NEWDATE: "date",
    T.TIME: "time",
    T.TIME2: "time",
    T.DATETIME: "datetime",
    T.DATETIME2: "datetime",
    T.TIMESTAMP: "timestamp",
    T.TIMESTAMP2: "timestamp",
    T.VARCHAR: "varchar",
    T.STRING: "char",
    T.BLOB: "text",
    T.ENUM: "enum",
    T.SET: "set",
    T.JSON: "json",
    T.GEOMETRY: "geometry",
    T.VECTOR: "vector",
}
_BINARY_NAMES: Final = {"varchar": "varbinary", "char": "binary"}


def column_type(table_map: TableMap, i: int) -> ColumnType | None:
    """Return the type of a column as far as the table map alone tells it, or None."""
    code, meta = table_map.real_types()[i], table_map.metas[i]
    name = _FROM_BINLOG.get(code)
    collation = table_map.collations()[i]
    charset = charset_of(collation) if collation is not None else None
    if name in ("varchar", "char", "text", "enum", "set"):
        return None if charset is None else _text_from(table_map, i, name, charset, collation_name(collation or 0))
    optional = table_map.optional
    if name == "geometry" and optional and optional.geometry_types is not None:
        kinds = [j for j, kind in enumerate(table_map.types) if kind == T.GEOMETRY]
        number = optional.geometry_types[kinds.index(i)]
        return next((ColumnType(kind) for kind, known in GEOMETRY_TYPES.items() if known == number), None)
    if name == "vector" and optional and optional.vector_dimensions is not None:
        kinds = [j for j, kind in enumerate(table_map.types) if kind == T.VECTOR]
        return ColumnType("vector", length=optional.vector_dimensions[kinds.index(i)])
    if name == "decimal":
        return ColumnType("decimal", meta & 0xFF, meta >> 8, unsigned=table_map.unsigned()[i])
    if name == "bit":
        return ColumnType("bit", length=(meta & 0xFF) + (meta >> 8) * 8)
    if name in ("time", "datetime", "timestamp"):
        return ColumnType(name, fsp=meta)
    if name is None or name in ("geometry", "vector"):
        return None
    return ColumnType(name, unsigned=name in NUMERIC - {"year"} and table_map.unsigned()[i])


def _text_from(table_map: TableMap, i: int, name: str, charset: str, collation: str | None) -> ColumnType | None:
    meta, text = table_map.metas[i], charset != "binary"
    if name in ("enum", "set"):
        found = table_map.members()[i]
        members = None if found is None else decode_members(charset, found)
        return None if members is None else ColumnType(name, members=members, charset=charset, collation=collation)
    length = None
    if name == "text":
        name = next((n for n, size in LENGTH_BYTES.items() if size == meta and n.endswith("text") == text), name)
    else:
        length = (string_max_length(meta) if name == "char" else meta) // (bytes_per_character(charset) or 1)
        name = name if text else _BINARY_NAMES[name]
    return ColumnType(name, length, charset=charset if text else None, collation=collation if text else None)
