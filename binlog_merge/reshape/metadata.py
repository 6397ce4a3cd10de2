"""The optional metadata of a logical table map: the source's fields in the source's order, for the logical columns.

A column whose cells pass unchanged keeps the source's metadata. A column that is padded or converted gets what MySQL
would write for its logical definition. Names are always the logical ones. A field that is left without any column is
dropped, as MySQL never writes an empty field. A field that the source did not need but a padded column does is added
after the others. A primary key that lost a column is dropped, and one that a padded column joined has it.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from binlog_merge.binlog.cell_length import real_type
from binlog_merge.binlog.constants import ColumnType as T
from binlog_merge.binlog.constants import MetadataType as M
from binlog_merge.binlog.optional_metadata import CHARACTER_TYPES, NUMERIC_TYPES, DefaultCharset, OptionalMetadata
from binlog_merge.binlog.table_map import TableMap
from binlog_merge.errors import UnsupportedInput
from binlog_merge.values.types import DEFAULT_VECTOR_LENGTH, FORMS, binlog_column
from snapshot_store.model import Column
from snapshot_store.mysql.column_type import Family
from snapshot_store.mysql.text.charsets import BINARY_COLLATION, collation_id
from snapshot_store.mysql.text.codecs import encode_text


@dataclass(frozen=True, slots=True)
class MapColumn:
    """One column of a table map, with everything the fixed part and the metadata record about it."""

    name: str
    type: int
    meta: int
    nullable: bool
    unsigned: bool
    collation: int
    members: tuple[bytes, ...]
    geometry: int
    dimensions: int
    visible: bool

    @property
    def real(self) -> int:
        return real_type(self.type, self.meta)

    @property
    def numeric(self) -> bool:
        return self.type in NUMERIC_TYPES

    @property
    def character(self) -> bool:
        return self.real in CHARACTER_TYPES


def from_source(table_map: TableMap) -> tuple[MapColumn, ...]:
    """Return the columns of a table map. Attributes that its metadata does not hold get their zero value."""
    optional = table_map.optional or OptionalMetadata()
    count = len(table_map.types)
    geometry, dimensions = iter(optional.geometry_types or ()), iter(optional.vector_dimensions or ())
    return tuple(
        MapColumn(
            name=optional.column_names[i] if optional.column_names else "",
            type=table_map.types[i],
            meta=table_map.metas[i],
            nullable=table_map.nullable(i),
            unsigned=unsigned,
            collation=BINARY_COLLATION if collation is None else collation,
            members=members or (),
            geometry=next(geometry, 0) if table_map.types[i] == T.GEOMETRY else 0,
            dimensions=next(dimensions, 0) if table_map.types[i] == T.VECTOR else 0,
            visible=optional.visibility[i] if optional.visibility else True,
        )
        for i, unsigned, collation, members in zip(
            range(count), table_map.unsigned(), table_map.collations(), table_map.members(), strict=True
        )
    )


def from_definition(column: Column) -> MapColumn:
    """Return what MySQL would write into a table map for a column of the schema."""
    kind = column.type
    code, meta = binlog_column(column)
    collation = collation_id(kind.charset, kind.collation)
    if collation is None:
        raise UnsupportedInput(
            f"column {column.name}: collation {kind.collation or kind.charset} is not one of MySQL 9.7's",
            remedy="report the collation's name; its number is needed for the table map",
        )
    return MapColumn(
        name=column.name,
        type=code,
        meta=meta,
        nullable=column.nullable,
        unsigned=kind.unsigned or kind.family is Family.YEAR,
        collation=collation,
        members=tuple(_member(column, member) for member in kind.members),
        geometry=FORMS[kind.name].shape,
        dimensions=(kind.length or DEFAULT_VECTOR_LENGTH) if kind.family is Family.VECTOR else 0,
        visible=not column.invisible,
    )


def _member(column: Column, member: str) -> bytes:
    charset = column.type.charset or "binary"
    try:
        return encode_text("latin1" if charset == "binary" else charset, member)
    except (UnicodeError, LookupError) as error:
        raise UnsupportedInput(
            f"column {column.name}: member {member!r} has no form in {charset}: {error}",
            remedy="report the column's definition",
        ) from None


def logical_metadata(
    source: OptionalMetadata, columns: Sequence[MapColumn], sources: Sequence[int], key: Sequence[int] = ()
) -> OptionalMetadata | None:
    """Return the metadata of the logical table map, None if it has no fields.

    `sources` gives the physical column index of each logical column, -1 for a padded one. `key` are the columns of the
    logical primary key. Raises UnsupportedInput for metadata fields of an unknown type.
    """
    if source.unknown:
        kinds = ", ".join(str(kind) for kind, _ in source.unknown)
        raise UnsupportedInput(
            f"table map metadata of type {kinds} is not known, so it cannot be mapped to other columns",
            remedy="report the server version; with binlog_row_metadata=MINIMAL the nodes may write less of it",
        )
    source = _with_keys(source, sources, key)
    fields: dict[str, Any] = {}
    order: list[int] = []
    for kind in (*source.order, *_added(source.order, columns)):
        name, make = _MAKE[kind]
        value = make(source, columns, sources)
        if value:
            fields[name] = value
            order.append(kind)
    return replace(OptionalMetadata(), order=tuple(order), **fields) if order else None


def _added(order: Sequence[int], columns: Sequence[MapColumn]) -> list[int]:
    """Return the field types to add: those MySQL would write at this metadata level for kinds of columns the source
    lacks.
    """
    if not order:
        return []
    characters, members = _characters(columns), _of_type(columns, T.ENUM, T.SET)
    candidates: list[tuple[set[int], Sequence[MapColumn], int]] = [
        ({M.SIGNEDNESS}, _numbers(columns), M.SIGNEDNESS),
        (
            {M.DEFAULT_CHARSET, M.COLUMN_CHARSET},
            characters,
            M.COLUMN_CHARSET if _each_is_smaller(characters) else M.DEFAULT_CHARSET,
        ),
        ({M.GEOMETRY_TYPE}, _of_type(columns, T.GEOMETRY), M.GEOMETRY_TYPE),
        ({M.VECTOR_DIMENSIONALITY}, _of_type(columns, T.VECTOR), M.VECTOR_DIMENSIONALITY),
    ]
    if M.COLUMN_NAME in order:
        candidates += [
            (
                {M.ENUM_AND_SET_DEFAULT_CHARSET, M.ENUM_AND_SET_COLUMN_CHARSET},
                members,
                M.ENUM_AND_SET_COLUMN_CHARSET if _each_is_smaller(members) else M.ENUM_AND_SET_DEFAULT_CHARSET,
            ),
            ({M.SET_STR_VALUE}, _of_type(columns, T.SET), M.SET_STR_VALUE),
            ({M.ENUM_STR_VALUE}, _of_type(columns, T.ENUM), M.ENUM_STR_VALUE),
        ]
    return [kind for forms, chosen, kind in candidates if chosen and not forms & set(order)]


def _each_is_smaller(columns: Sequence[MapColumn]) -> bool:
    """Return whether MySQL would write the charset of each column, not a default with exceptions.

    Like MySQL, estimates the size of both forms at one byte per number.
    """
    if not columns:
        return False
    most = Counter(column.collation for column in columns).most_common(1)[0][1]
    return len(columns) < 1 + 2 * (len(columns) - most)


def _numbers(columns: Sequence[MapColumn]) -> list[MapColumn]:
    return [column for column in columns if column.numeric]


def _characters(columns: Sequence[MapColumn]) -> list[MapColumn]:
    return [column for column in columns if column.character]


def _of_type(columns: Sequence[MapColumn], *types: int) -> list[MapColumn]:
    return [column for column in columns if column.real in types]


def _default_charset(source: DefaultCharset | None, columns: Sequence[MapColumn]) -> DefaultCharset | None:
    if not columns:
        return None
    if source is None:
        counts = Counter(column.collation for column in columns)
        default = min(counts, key=lambda collation: (-counts[collation], collation))
    else:
        default = source.collation
    exceptions = ((i, column.collation) for i, column in enumerate(columns) if column.collation != default)
    return DefaultCharset(default, tuple(exceptions))


def _with_keys(source: OptionalMetadata, sources: Sequence[int], key: Sequence[int]) -> OptionalMetadata:
    """Return the source's metadata with the primary key's columns as numbers of logical ones; () if it lost one."""
    simple = _logical_key([(column, 0) for column in source.simple_primary_key or ()], sources, key)
    prefixed = _logical_key(source.primary_key_with_prefix or (), sources, key)
    return replace(source, simple_primary_key=tuple(c for c, _ in simple), primary_key_with_prefix=prefixed)


def _logical_key(
    source: Sequence[tuple[int, int]], sources: Sequence[int], key: Sequence[int]
) -> tuple[tuple[int, int], ...]:
    if any(column not in sources for column, _ in source):
        return ()
    lengths = {sources.index(column): length for column, length in source}
    if source and set(lengths) < set(key) and all(sources[i] < 0 for i in key if i not in lengths):
        return tuple((i, lengths.get(i, 0)) for i in key)
    return tuple(lengths.items())


_Make = Callable[[OptionalMetadata, Sequence[MapColumn], Sequence[int]], Any]

_MAKE: Final[dict[int, tuple[str, _Make]]] = {
    M.SIGNEDNESS: ("signedness", lambda s, c, _: tuple(x.unsigned for x in _numbers(c))),
    M.DEFAULT_CHARSET: ("default_charset", lambda s, c, _: _default_charset(s.default_charset, _characters(c))),
    M.COLUMN_CHARSET: ("column_charset", lambda s, c, _: tuple(x.collation for x in _characters(c))),
    M.COLUMN_NAME: ("column_names", lambda s, c, _: tuple(x.name for x in c)),
    M.SET_STR_VALUE: ("set_values", lambda s, c, _: tuple(x.members for x in _of_type(c, T.SET))),
    M.ENUM_STR_VALUE: ("enum_values", lambda s, c, _: tuple(x.members for x in _of_type(c, T.ENUM))),
    M.GEOMETRY_TYPE: ("geometry_types", lambda s, c, _: tuple(x.geometry for x in _of_type(c, T.GEOMETRY))),
    M.SIMPLE_PRIMARY_KEY: ("simple_primary_key", lambda s, _, __: s.simple_primary_key),
    M.PRIMARY_KEY_WITH_PREFIX: ("primary_key_with_prefix", lambda s, _, __: s.primary_key_with_prefix),
    M.ENUM_AND_SET_DEFAULT_CHARSET: (
        "enum_and_set_default_charset",
        lambda s, c, _: _default_charset(s.enum_and_set_default_charset, _of_type(c, T.ENUM, T.SET)),
    ),
    M.ENUM_AND_SET_COLUMN_CHARSET: (
        "enum_and_set_column_charset",
        lambda s, c, _: tuple(x.collation for x in _of_type(c, T.ENUM, T.SET)),
    ),
    M.COLUMN_VISIBILITY: ("visibility", lambda s, c, _: tuple(x.visible for x in c)),
    M.VECTOR_DIMENSIONALITY: ("vector_dimensions", lambda s, c, _: tuple(x.dimensions for x in _of_type(c, T.VECTOR))),
}


def metadata_of(columns: Sequence[MapColumn], key: Sequence[tuple[int, int]], full: bool) -> OptionalMetadata | None:
    """Return the metadata that a server writes for a table, in its order.

    `key` are (column, length of its prefix or 0) of the primary key. `full` is binlog_row_metadata=FULL.
    """
    characters, members = _characters(columns), _of_type(columns, T.ENUM, T.SET)
    prefixed = any(length for _, length in key)
    order = [
        M.SIGNEDNESS,
        M.COLUMN_CHARSET if _each_is_smaller(characters) else M.DEFAULT_CHARSET,
        M.GEOMETRY_TYPE,
        M.VECTOR_DIMENSIONALITY,
    ]
    if full:
        order += [
            M.COLUMN_NAME,
            M.ENUM_AND_SET_COLUMN_CHARSET if _each_is_smaller(members) else M.ENUM_AND_SET_DEFAULT_CHARSET,
            M.SET_STR_VALUE,
            M.ENUM_STR_VALUE,
            M.PRIMARY_KEY_WITH_PREFIX if prefixed else M.SIMPLE_PRIMARY_KEY,
            M.COLUMN_VISIBILITY,
        ]
    source = OptionalMetadata(
        simple_primary_key=tuple(column for column, _ in key),
        primary_key_with_prefix=tuple(key),
        order=tuple(order),
    )
    return logical_metadata(source, columns, range(len(columns)))
