"""The table that a table map with FULL metadata describes (`binlog_row_metadata=FULL`).

VIRTUAL generated columns, INVISIBLE columns and a generated primary key (`my_row_id`) are in table maps and row images;
the hidden columns of functional indexes are not.
"""

from typing import Final

from binlog_merge.binlog.cell_length import string_max_length
from binlog_merge.binlog.constants import ColumnType as T
from binlog_merge.binlog.table_map import TableMap
from binlog_merge.values.types import FORMS
from snapshot_store.model import Column, Index, IndexPart, Table
from snapshot_store.mysql.column_type import (
    AS_BYTES,
    CHARACTERS,
    MEMBERS,
    NUMERIC,
    ColumnType,
    Family,
    facts_of,
    lobs_of,
    names_of,
)
from snapshot_store.mysql.text.charsets import charset_of, collation_name, max_bytes
from snapshot_store.mysql.text.codecs import decode_text


def decode_members(charset: str, members: tuple[bytes, ...]) -> tuple[str, ...] | None:
    """Return the member texts of an ENUM or SET column, or None if they are invalid in that character set."""
    try:
        # Members of a binary column are bytes; the schema history reads them as latin1, one character each.
        return tuple(decode_text("latin1" if charset == "binary" else charset, member) for member in members)
    except (UnicodeError, LookupError):
        return None


def table_from_table_map(table_map: TableMap) -> Table | None:
    """Return the table that FULL metadata describes, or None if the metadata is not FULL.

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
    **{forms.stored: name for name, forms in reversed(FORMS.items())},  # of several, the first of them
    T.ENUM: "enum",
    T.SET: "set",
    T.NEWDATE: "date",
    T.TIME: "time",  # before 5.6
    T.DATETIME: "datetime",
    T.TIMESTAMP: "timestamp",
}


def column_type(table_map: TableMap, i: int) -> ColumnType | None:
    """Return the type of a column as far as the table map has it, or None."""
    code, meta = table_map.real_types()[i], table_map.metas[i]
    name = _FROM_BINLOG.get(code)
    if name is None:
        return None
    family = facts_of(name).family
    collation = table_map.collations()[i]
    charset = charset_of(collation) if collation is not None else None
    if family in CHARACTERS:
        rules = collation_name(collation or 0)
        return None if charset is None or rules is None else _text_from(table_map, i, name, charset, rules)
    optional = table_map.optional
    if family is Family.GEOMETRY and optional and optional.geometry_types is not None:
        kinds = [j for j, kind in enumerate(table_map.types) if kind == T.GEOMETRY]
        number = optional.geometry_types[kinds.index(i)]
        return next((ColumnType(shape) for shape in names_of(family) if FORMS[shape].shape == number), None)
    if family is Family.VECTOR and optional and optional.vector_dimensions is not None:
        kinds = [j for j, kind in enumerate(table_map.types) if kind == T.VECTOR]
        return ColumnType(name, length=optional.vector_dimensions[kinds.index(i)])
    if family is Family.DECIMAL:
        return ColumnType(name, meta & 0xFF, meta >> 8, unsigned=table_map.unsigned()[i])
    if family is Family.BIT:
        return ColumnType(name, length=(meta & 0xFF) + (meta >> 8) * 8)
    if family in (Family.TIME, Family.MOMENT):
        return ColumnType(name, fsp=meta)
    if family in (Family.GEOMETRY, Family.VECTOR):
        return None
    return ColumnType(name, unsigned=family in NUMERIC - {Family.YEAR} and table_map.unsigned()[i])


def _text_from(table_map: TableMap, i: int, name: str, charset: str, collation: str | None) -> ColumnType | None:
    meta, text = table_map.metas[i], charset != "binary"
    if facts_of(name).family in MEMBERS:
        found = table_map.members()[i]
        members = None if found is None else decode_members(charset, found)
        return None if members is None else ColumnType(name, members=members, charset=charset, collation=collation)
    length = None
    if facts_of(name).counter:
        lobs = lobs_of(Family.TEXT if text else Family.BYTES)
        name = next((facts.name for facts in lobs if facts.counter == meta), name)
    else:
        length = (string_max_length(meta) if name == "char" else meta) // (max_bytes(charset) or 1)
        name = name if text else AS_BYTES[name]
    return ColumnType(name, length, charset=charset if text else None, collation=collation if text else None)
