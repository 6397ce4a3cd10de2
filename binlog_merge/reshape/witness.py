"""The table map as witness: checks that a table map agrees with the schema history of its table.

A table map records the actual shape of the rows that follow it; the schema history records what the shape should be. If
they differ, one of them is wrong, and the merge must not guess.
"""

from typing import Final

from binlog_merge.binlog.cells import real_type, string_max_length, type_name
from binlog_merge.binlog.constants import ColumnType as T
from binlog_merge.binlog.table_map import TableMap
from binlog_merge.values.from_table_map import decode_members
from binlog_merge.values.types import binlog_column
from snapshot_store.model import Table
from snapshot_store.mysql.column_type import NUMERIC, ColumnType, Family
from snapshot_store.mysql.text.charsets import canonical_charset, charset_of

# What a table map may hold instead: temporal columns in the format before 5.6 (kept by upgrades in place), NEWDATE as
# PolarDB-X writes it, JSON of MariaDB, which is LONGTEXT.
_ALSO: Final[dict[tuple[int, int], tuple[tuple[int, int], ...]]] = {
    (T.TIMESTAMP2, 0): ((T.TIMESTAMP, 0),),
    (T.DATETIME2, 0): ((T.DATETIME, 0),),
    (T.TIME2, 0): ((T.TIME, 0),),
    (T.DATE, 0): ((T.NEWDATE, 0),),
    (T.JSON, 4): ((T.BLOB, 4),),
}


def check_witness(table: Table, table_map: TableMap) -> str | None:
    """Return None if the table map agrees with the table, else text that names the difference and both shapes.

    Compares column count, types with their metadata, and, if the table map has them, names, signedness, character sets,
    and ENUM and SET members. Does not compare nullability, collations, keys or visibility.
    """
    found = table_difference(table, table_map)
    if found is None:
        return None
    return (
        f"{found}; the table map of {table_map.schema}.{table_map.table} has {describe_table_map(table_map)}; "
        f"the schema history of {table.schema}.{table.name} has {describe_table(table)}"
    )


def table_difference(table: Table, table_map: TableMap, types: bool = True) -> str | None:
    """Return text for the first difference, None if there is none. `types`: also compare types and their metadata."""
    if len(table.columns) != len(table_map.types):
        return f"{len(table_map.types)} columns against {len(table.columns)}"
    names = table_map.optional.column_names if table_map.optional else None
    signed = table_map.optional is not None and table_map.optional.signedness is not None
    unsigned, collations, members = table_map.unsigned(), table_map.collations(), table_map.members()
    for i, column in enumerate(table.columns):
        what = f"column {i + 1}, {column.name}:"
        expected = binlog_column(column)
        actual = (table_map.types[i], table_map.metas[i])
        if types and actual != expected and actual not in _ALSO.get(expected, ()):
            return f"{what} {_type_words(*actual)} against {_type_words(*expected)}"
        if names is not None and not column.same_name(names[i]):
            return f"{what} is named {names[i]}"
        if signed and column.type.family in NUMERIC - {Family.YEAR} and unsigned[i] != column.type.unsigned:
            return f"{what} {'UNSIGNED' if unsigned[i] else 'signed'} against {column.type.name}"
        reason = _text_difference(column.type, collations[i], members[i])
        if reason is not None:
            return f"{what} {reason}"
    return None


def _text_difference(kind: ColumnType, collation: int | None, members: tuple[bytes, ...] | None) -> str | None:
    charset = charset_of(collation) if collation is not None else None
    if charset is None or kind.family in (Family.JSON, Family.VECTOR):
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
    """Return text that lists the columns of a table map, with names if it has them."""
    names = (table_map.optional.column_names if table_map.optional else None) or ("",) * len(table_map.types)
    columns = zip(names, table_map.types, table_map.metas, table_map.unsigned(), strict=True)
    return _listed([f"{n} {_type_words(t, m)}{' UNSIGNED' if u else ''}".strip() for n, t, m, u in columns])


def describe_table(table: Table) -> str:
    """Return text that lists the columns of a table, in the form of `describe_table_map`."""
    return _listed(
        [f"{c.name} {_type_words(*binlog_column(c))}{' UNSIGNED' if c.type.unsigned else ''}" for c in table.columns]
    )


def _listed(columns: list[str]) -> str:
    return f"{len(columns)} column{'' if len(columns) == 1 else 's'} ({', '.join(columns)})"
