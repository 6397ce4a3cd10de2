"""The table map as witness: checks that a table map agrees with the schema history of its table.

A table map records the actual shape of the rows that follow it; the schema history records what the shape should be. If
they differ, one of them is wrong, and the merge must not guess.

A table may be described by its table maps alone. With `binlog_row_metadata=FULL` a table map has the names and types of
its columns. With MINIMAL it has types only. Names are then taken from candidate tables that agree with it column by
column, if those all have the same names.
"""

from collections.abc import Sequence
from typing import Final

from binlog_merge.binlog.cell_length import real_type, string_max_length, type_name
from binlog_merge.binlog.constants import ColumnType as T
from binlog_merge.binlog.table_map import TableMap
from binlog_merge.values.from_table_map import column_type, decode_members, table_from_table_map
from binlog_merge.values.types import binlog_column
from snapshot_store.model import Column, Table
from snapshot_store.mysql.column_type import NUMERIC, ColumnType, Family
from snapshot_store.mysql.text.charsets import canonical_charset, charset_of
from snapshot_store.tso import OrderKey

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


def shape_from_table_map(table_map: TableMap, likely: Sequence[Table], names_matter_not: bool) -> Table | str:
    """Return the table that a table map describes, or the reason why its shape cannot be determined.

    `likely` are the candidate tables. `names_matter_not`: rows pass unchanged, so columns without a name are named @1,
    @2 ...
    """
    named = table_from_table_map(table_map)
    if named is not None:
        return named
    wanted = table_map.optional.column_names if table_map.optional is not None else None
    fitting = [table for table in likely if check_witness(table, table_map) is None]
    names = {tuple(column.name.lower() for column in table.columns) for table in fitting}
    if len(names) == 1:
        return fitting[0].renamed(table_map.schema, table_map.table)
    if names_matter_not:
        return _numbered(table_map, wanted)
    problem = f"table maps alone say what it is here, and this one has {describe_table_map(table_map)}"
    if not names:
        return f"{problem}: it carries no column names, and no known shape of the table agrees with it"
    return f"{problem}: it carries no column names, and shapes with different names agree with it"


def _numbered(table_map: TableMap, names: Sequence[str] | None) -> Table:
    columns = tuple(
        Column(
            names[i] if names else f"@{i + 1}",
            column_type(table_map, i) or ColumnType(type_name(code).lower()),
            nullable=table_map.nullable(i),
        )
        for i, code in enumerate(table_map.types)
    )
    return Table(table_map.schema, table_map.table, columns)


def remedy_of(key: OrderKey, node: str | None, table: tuple[str, str], believed: bool = False) -> str:
    """Return the remedy for rows that fit no known shape of their table.

    `believed`: the run already trusts table maps, so that setting is not suggested again.
    """
    options = f"--merged DIR{f' --node {node}' if node else ''} --at-tso {key.previous().text()}"
    base = f"`base.physical` of node {node}" if node else "`base.logical`"
    return (
        f"if it was so before the first file already, put it into {base} and merge into an empty directory; else say "
        f"what it is, `binlog-merge schema set {'.'.join(table)} --sql FILE {options}`, or take it from the server, "
        f"`binlog-merge schema import --server URL {options}`; "
        + ("" if believed else "or set `schemas.not-understood: opaque` to believe table maps; ")
        + "then merge again"
    )
