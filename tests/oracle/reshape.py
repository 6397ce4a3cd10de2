"""Table maps and rows events in the logical table's shape, cell by cell.

A column map is worked out by name for every table map; where it is the identity the bytes pass, else everything is
taken apart and packed anew. Also decodes every change, for comparisons that do not look at bytes.
"""

from dataclasses import dataclass, replace
from functools import lru_cache

from tests.oracle.binlog import DELETE, PARTIAL_UPDATE, UPDATE, WRITE, Event, OracleError, pack, packed
from tests.oracle.cells import (
    GEOMETRY,
    META_LENGTH,
    cell_length,
    collation_id,
    map_type,
    max_bytes,
    pad,
    string_meta,
    to_bytes,
    to_text,
)
from tests.oracle.convert import convert, passes
from tests.oracle.ddl import COLLATION_NAMES, Column, Table
from tests.oracle.expression import value as evaluate

ABSENT = "absent"  # a cell that a partial row image does not carry
Cell = bytes | str | None
Image = tuple[Cell, ...]

SIGNEDNESS, DEFAULT_CHARSET, COLUMN_CHARSET, COLUMN_NAME, SET_STRINGS, ENUM_STRINGS, GEOMETRY_TYPE = range(1, 8)
SIMPLE_KEY, PREFIX_KEY, MEMBER_DEFAULT_CHARSET, MEMBER_CHARSET, VISIBILITY, DIMENSIONS = range(8, 14)
_NUMERIC = (1, 2, 3, 4, 5, 8, 9, 13, 246)  # YEAR counts, and is unsigned
_CHARACTER = (15, 242, 252, 253)  # and STRING that is neither ENUM nor SET; VECTOR counts, with collation 63


@dataclass(frozen=True)
class MapColumn:
    """One column of a table map, with what its optional metadata says of it."""

    type: int
    meta: bytes
    nullable: bool
    unsigned: bool = False
    collation: int = 63
    name: str = ""
    members: tuple[bytes, ...] = ()
    geometry: int = 0
    dimensions: int = 0
    visible: bool = True

    @property
    def real(self) -> int:
        return string_meta(self.meta)[0] if self.type == 254 else self.type

    @property
    def is_character(self) -> bool:
        return self.type in _CHARACTER or self.real == 254


@dataclass(frozen=True)
class TableMap:
    table_id: int
    flags: bytes
    schema: str
    table: str
    columns: tuple[MapColumn, ...]
    fields: tuple[tuple[int, bytes], ...]  # optional metadata as it stands
    tail: bytes  # everything after the names
    fault: str = ""  # what is wrong with the optional metadata, which matters only for tables that come out

    @property
    def named(self) -> bool:
        return any(kind == COLUMN_NAME for kind, _ in self.fields)


def _bits(data: bytes, count: int) -> list[bool]:
    """Read a bitmap, least significant bit first."""
    return [bool(data[i // 8] >> (i % 8) & 1) for i in range(count)]


def _to_bits(bits: list[bool]) -> bytes:
    return sum(1 << i for i, bit in enumerate(bits) if bit).to_bytes((len(bits) + 7) // 8, "little")


def _high_bits(data: bytes, count: int) -> list[bool]:
    """Read a bitmap, most significant bit first."""
    return [bool(data[i // 8] << (i % 8) & 0x80) for i in range(count)]


def _to_high_bits(bits: list[bool]) -> bytes:
    return bytes(sum(0x80 >> i for i, bit in enumerate(bits[at : at + 8]) if bit) for at in range(0, len(bits), 8))


def _integers(data: bytes) -> list[int]:
    found, at = [], 0
    while at < len(data):
        number, at = packed(data, at)
        found.append(number)
    return found


def _string_lists(data: bytes) -> list[tuple[bytes, ...]]:
    lists, at = [], 0
    while at < len(data):
        count, at = packed(data, at)
        members = []
        for _ in range(count):
            length, at = packed(data, at)
            members.append(data[at : at + length])
            at += length
        lists.append(tuple(members))
    return lists


def parse_table_map(event: Event) -> TableMap:
    """Read a TABLE_MAP_EVENT with all its optional metadata."""
    return _table_map(event.body)


@lru_cache(maxsize=4096)  # a server writes one before each change, and all that are alike are the same bytes
def _table_map(body: bytes) -> TableMap:
    at = 9 + body[8]
    schema = body[9:at].decode()
    length = body[at + 1]
    table = body[at + 2 : at + 2 + length].decode()
    at += 3 + length
    tail = body[at:]
    count, at = packed(body, at)
    types = body[at : at + count]
    size, at = packed(body, at + count)
    meta, at = body[at : at + size], at + size
    metas, used = [], 0
    for kind in types:
        width = META_LENGTH.get(kind, 0)
        metas.append(meta[used : used + width])
        used += width
    if used != size:
        raise OracleError(f"table map of {schema}.{table}: {size} bytes of meta, {used} understood")
    nullable = _bits(body[at : at + (count + 7) // 8], count)
    at += (count + 7) // 8
    columns = [MapColumn(*c) for c in zip(types, metas, nullable, strict=True)]
    fields, fault = [], ""
    try:
        while at < len(body):
            kind = body[at]
            length, at = packed(body, at + 1)
            fields.append((kind, body[at : at + length]))
            at += length
        for kind, data in fields:
            _apply_field(columns, kind, data)
    except (OracleError, LookupError, ValueError) as error:
        fault = f"{schema}.{table}: {error}"
    table_id = int.from_bytes(body[:6], "little")
    return TableMap(table_id, body[6:8], schema, table, tuple(columns), tuple(fields), tail, fault)


def _chosen(columns: list[MapColumn], kind: int) -> list[int]:
    """Return the ordinals of the columns that a field of optional metadata speaks of."""
    real = {SIGNEDNESS: _NUMERIC, SET_STRINGS: (248,), ENUM_STRINGS: (247,), GEOMETRY_TYPE: (255,), DIMENSIONS: (242,)}
    if kind in real:
        return [i for i, c in enumerate(columns) if c.real in real[kind]]
    if kind in (DEFAULT_CHARSET, COLUMN_CHARSET):
        return [i for i, c in enumerate(columns) if c.is_character]
    if kind in (MEMBER_DEFAULT_CHARSET, MEMBER_CHARSET):
        return [i for i, c in enumerate(columns) if c.real in (247, 248)]
    return list(range(len(columns)))


def _apply_field(columns: list[MapColumn], kind: int, data: bytes) -> None:
    """Note in the columns what one field says of them."""
    chosen = _chosen(columns, kind)
    values: list[object]
    if kind in (SIGNEDNESS, VISIBILITY):
        values = list(_high_bits(data, len(chosen)))
    elif kind in (DEFAULT_CHARSET, MEMBER_DEFAULT_CHARSET):
        default, *rest = _integers(data)
        exceptions = dict(zip(rest[::2], rest[1::2], strict=True))
        values = [exceptions.get(i, default) for i in range(len(chosen))]
    elif kind in (COLUMN_CHARSET, MEMBER_CHARSET, GEOMETRY_TYPE, DIMENSIONS):
        values = list(_integers(data))
    elif kind in (SET_STRINGS, ENUM_STRINGS):
        values = list(_string_lists(data))
    elif kind == COLUMN_NAME:
        values, at = [], 0
        while at < len(data):
            length, at = packed(data, at)
            values.append(data[at : at + length].decode())
            at += length
    elif kind in (SIMPLE_KEY, PREFIX_KEY):
        return
    else:
        raise OracleError(f"optional table map metadata of type {kind} is not known")
    names = {
        SIGNEDNESS: "unsigned", DEFAULT_CHARSET: "collation", COLUMN_CHARSET: "collation", COLUMN_NAME: "name",
        SET_STRINGS: "members", ENUM_STRINGS: "members", GEOMETRY_TYPE: "geometry", MEMBER_CHARSET: "collation",
        MEMBER_DEFAULT_CHARSET: "collation", VISIBILITY: "visible", DIMENSIONS: "dimensions",
    }  # fmt: skip
    for i, value in zip(chosen, values, strict=True):
        columns[i] = replace(columns[i], **{names[kind]: value})  # type: ignore[arg-type]


def map_column(c: Column) -> MapColumn:
    """Return what MySQL would write into a table map for a logical column."""
    kind, meta = map_type(c)
    members = tuple(to_bytes(m, c.charset) for m in c.members)
    geometry = GEOMETRY.index(c.type) if c.type in GEOMETRY else 0
    dimensions = c.length if c.type == "vector" else 0
    unsigned = c.unsigned or c.type == "year"
    return MapColumn(
        kind, meta, c.nullable, unsigned, collation_id(c), c.name, members, geometry, dimensions, c.visible
    )


_PLAIN_NAMES = {1: "tinyint", 2: "smallint", 3: "int", 4: "float", 5: "double", 8: "bigint", 9: "mediumint", 10: "date",
                13: "year", 17: "timestamp", 18: "datetime", 19: "time", 245: "json", 246: "decimal", 247: "enum",
                248: "set", 16: "bit", 242: "vector"}  # fmt: skip


def table_of_map(tmap: TableMap) -> Table:
    """Return the table a fully described table map speaks of (binlog_row_metadata=FULL); names may be missing."""
    columns = [replace(c, name=c.name or f"column {i}") for i, c in enumerate(tmap.columns)]
    return Table(tuple(_column_of_map(c) for c in columns))


def _column_of_map(c: MapColumn) -> Column:
    collation = "" if c.collation == 63 else COLLATION_NAMES.get(c.collation, f"unknown{c.collation}")
    charset = collation.split("_")[0]
    real, length, decimals, members = c.real, 0, 0, tuple[str, ...]()
    if c.type == 252:
        kind = ("tiny", "", "medium", "long")[c.meta[0] - 1] + ("text" if collation else "blob")
    elif c.type == 15:
        kind = "varchar" if collation else "varbinary"
        length = int.from_bytes(c.meta, "little") // max_bytes(charset)
    elif real == 254:
        kind, length = ("char" if collation else "binary"), string_meta(c.meta)[1] // max_bytes(charset)
    elif c.type == 255:
        kind = GEOMETRY[c.geometry]
    else:
        kind = _PLAIN_NAMES[real]
    if kind == "decimal":
        length, decimals = c.meta
    elif kind == "bit":
        length = c.meta[0] + 8 * c.meta[1]
    elif kind == "vector":
        length = c.dimensions
    elif kind in ("time", "datetime", "timestamp"):
        decimals = c.meta[0]
    elif kind in ("enum", "set"):
        members = tuple(to_text(m, charset or "ascii") for m in c.members)
    unsigned = c.unsigned and kind != "year"
    collation = collation if kind in ("char", "varchar", "enum", "set") or kind.endswith("text") else ""
    return Column(c.name, kind, length, decimals, unsigned, collation, members, None, c.nullable, c.visible)


def check_witness(tmap: TableMap, physical: Table, where: str) -> None:
    """Refuse a table map that contradicts the physical table found for it."""
    seen = [(c.type, c.meta) for c in tmap.columns]
    known = [map_type(c) for c in physical.columns]
    if seen != known:
        raise OracleError(f"{where}: {tmap.schema}.{tmap.table} is {known} by its history, but {seen} by its table map")
    if tmap.named and [c.name.lower() for c in tmap.columns] != [c.name.lower() for c in physical.columns]:
        raise OracleError(f"{where}: {tmap.schema}.{tmap.table}: column names differ from its history")


@dataclass(frozen=True)
class Change:
    """One logical row change; cells as bytes, None for NULL, "absent" where the image does not carry the column."""

    key: str
    table: str
    kind: str
    before: Image
    after: Image


class Reshape:
    """What one table map turns into, and the rows events that follow it."""

    def __init__(self, tmap: TableMap, physical: Table, logical: Table, commit_us: int, clamp: bool = False) -> None:
        self.tmap, self.physical, self.logical, self.commit_us = tmap, physical, logical, commit_us
        self.clamp = clamp
        self.sources = [physical.index(c.name) for c in logical.columns]
        self.same = [
            i is not None and passes(physical.columns[i], c) for i, c in zip(self.sources, logical.columns, strict=True)
        ]
        self.identity = all(self.same) and self.sources == list(range(len(physical.columns)))

    def map_body(self, table_id: int, schema: str, table: str) -> bytes:
        """Return the body of the logical table map."""
        if self.tmap.fault:
            raise OracleError(self.tmap.fault)
        names = b"".join(pack_name(n) for n in (schema, table))
        head = table_id.to_bytes(6, "little") + self.tmap.flags + names
        return head + (self.tmap.tail if self.identity else self._new_tail())

    def _new_tail(self) -> bytes:
        columns = [
            self.tmap.columns[i] if i is not None and same else map_column(c)
            for i, same, c in zip(self.sources, self.same, self.logical.columns, strict=True)
        ]
        columns = [replace(m, name=c.name) for m, c in zip(columns, self.logical.columns, strict=True)]
        meta = b"".join(c.meta for c in columns)
        fixed = pack(len(columns)) + bytes(c.type for c in columns) + pack(len(meta)) + meta
        fixed += _to_bits([c.nullable for c in columns])
        return fixed + b"".join(
            bytes([kind]) + pack(len(data)) + data for kind, data in self._new_fields(columns) if data
        )

    def _new_fields(self, columns: list[MapColumn]) -> list[tuple[int, bytes]]:
        """Encode every field anew: the source's fields in the source's order, then those it had no column for."""
        kinds = [kind for kind, _ in self.tmap.fields]
        if kinds:
            missing = [SIGNEDNESS, DEFAULT_CHARSET, GEOMETRY_TYPE, DIMENSIONS]
            if self.tmap.named:
                missing += [MEMBER_DEFAULT_CHARSET, SET_STRINGS, ENUM_STRINGS]
            pairs = {DEFAULT_CHARSET: COLUMN_CHARSET, MEMBER_DEFAULT_CHARSET: MEMBER_CHARSET}
            for kind in missing:
                if kind in kinds or pairs.get(kind) in kinds or not _chosen(columns, kind):
                    continue
                kinds.append(_smaller_charset_field(columns, kind, pairs[kind]) if kind in pairs else kind)
        source = dict(self.tmap.fields)
        return [(kind, self._field(kind, source.get(kind, b""), columns)) for kind in kinds]

    def _field(self, kind: int, source: bytes, columns: list[MapColumn]) -> bytes:
        chosen = [columns[i] for i in _chosen(columns, kind)]
        if not chosen:
            return b""
        if kind == SIGNEDNESS:
            return _to_high_bits([c.unsigned for c in chosen])
        if kind == VISIBILITY:
            return _to_high_bits([c.visible for c in chosen])
        if kind in (DEFAULT_CHARSET, MEMBER_DEFAULT_CHARSET):
            default = packed(source, 0)[0] if source else _most_used(chosen)
            others = [(i, c.collation) for i, c in enumerate(chosen) if c.collation != default]
            return pack(default) + b"".join(pack(i) + pack(number) for i, number in others)
        if kind in (COLUMN_CHARSET, MEMBER_CHARSET):
            return b"".join(pack(c.collation) for c in chosen)
        if kind == GEOMETRY_TYPE:
            return b"".join(pack(c.geometry) for c in chosen)
        if kind == DIMENSIONS:
            return b"".join(pack(c.dimensions) for c in chosen)
        if kind == COLUMN_NAME:
            return b"".join(pack(len(n)) + n for n in (c.name.encode() for c in chosen))
        if kind in (SET_STRINGS, ENUM_STRINGS):
            return b"".join(pack(len(c.members)) + b"".join(pack(len(m)) + m for m in c.members) for c in chosen)
        return self._key_field(kind, source)

    def _key_field(self, kind: int, source: bytes) -> bytes:
        """Translate the primary key's ordinals; a key whose column was trimmed is left out whole."""
        numbers = _integers(source)
        parts = (
            [(n, None) for n in numbers] if kind == SIMPLE_KEY else list(zip(numbers[::2], numbers[1::2], strict=True))
        )
        data = b""
        for ordinal, length in parts:
            if ordinal not in self.sources:
                return b""
            data += pack(self.sources.index(ordinal)) + (b"" if length is None else pack(length))
        return data

    def rows(self, event: Event, table_id: int, key: str, name: str) -> tuple[bytearray, list[Change]]:
        """Return the body of the logical rows event, and its changes."""
        body, at = event.body, 8
        if event.type >= 30:
            at += int.from_bytes(body[8:10], "little")
        head = table_id.to_bytes(6, "little") + body[6:at]
        count, at = packed(body, at)
        if count != len(self.tmap.columns):
            raise OracleError(f"rows event has {count} columns, its table map {len(self.tmap.columns)}")
        images = ["before", "after"] if event.type in UPDATE else ["after"] if event.type in WRITE else ["before"]
        width = (count + 7) // 8
        present: dict[str, list[bool]] = {}
        for image in images:
            present[image] = _bits(body[at : at + width], count)
            at += width
        bitmaps = {i: self._new_present(event, present[i]) for i in images}
        if any(present[images[0]]) and not any(bitmaps[images[0]]):
            raise OracleError("a row image holds only columns that the logical table lacks")
        new = head + pack(len(self.logical.columns)) + b"".join(_to_bits(bitmaps[i]) for i in images)
        changes = []
        kind = {WRITE: "insert", UPDATE: "update", DELETE: "delete"}
        word = next(text for types, text in kind.items() if event.type in types)
        while at < len(body):
            start = at
            row: dict[str, Image] = {}
            for image in images:
                if event.type == PARTIAL_UPDATE and image == "after":
                    options, at = self._partial_bits(body, at)
                    new += options
                cells, at = self._read_image(body, at, present[image])
                row[image] = self._map_image(cells, bitmaps[image])
                new += _pack_image(row[image])
            if at == start:
                raise OracleError("bytes stand behind rows without columns")
            changes.append(Change(key, name, word, row.get("before", ()), row.get("after", ())))
        # Where nothing changes the bytes pass as they are: servers differ in what they leave in a bitmap's unused bits.
        return bytearray(head + body[len(head) :] if self.identity else new), changes

    def _partial_bits(self, body: bytes, at: int) -> tuple[bytes, int]:
        """Translate the value options before an after image: one bit per JSON column, set where a difference stands."""
        options, end = packed(body, at)
        if not options & 1:
            return body[at:end], end
        json = [i for i, c in enumerate(self.tmap.columns) if c.type == 245]
        bits = dict(zip(json, _bits(body[end : end + (len(json) + 7) // 8], len(json)), strict=True))
        columns = zip(self.logical.columns, self.sources, self.same, strict=True)
        new = [same and source is not None and bits[source] for c, source, same in columns if c.type == "json"]
        if sum(new) < sum(bits[i] for i in json if i in self.sources):
            raise OracleError("a JSON difference cannot be converted")
        return pack(options) + _to_bits(new), end + (len(json) + 7) // 8

    def _new_present(self, event: Event, present: list[bool]) -> list[bool]:
        padded = event.type in WRITE or all(present)
        return [padded if i is None else present[i] for i in self.sources]

    def _read_image(self, body: bytes, at: int, present: list[bool]) -> tuple[list[Cell], int]:
        width = (sum(present) + 7) // 8
        nulls = iter(_bits(body[at : at + width], sum(present)))
        at += width
        cells: list[Cell] = []
        for column, here in zip(self.tmap.columns, present, strict=True):
            if not here:
                cells.append(ABSENT)
            elif next(nulls):
                if not column.nullable:
                    raise OracleError("NULL in a column that is NOT NULL")
                cells.append(None)
            else:
                length = cell_length(column.type, column.meta, body, at)
                if at + length > len(body):
                    raise OracleError("a row image runs over the end of its event")
                cells.append(body[at : at + length])
                at += length
        return cells, at

    def _map_image(self, cells: list[Cell], present: list[bool]) -> Image:
        image: list[Cell] = []
        for column, source, same, here in zip(self.logical.columns, self.sources, self.same, present, strict=True):
            if not here:
                image.append(ABSENT)
            elif source is None:
                image.append(None if column.expression else pad(column, self.commit_us))
            else:
                cell = cells[source]
                image.append(cell if same or cell == ABSENT else self._convert(cell, source, column))
        for i, (column, source, here) in enumerate(zip(self.logical.columns, self.sources, present, strict=True)):
            if here and source is None and column.expression:
                cells = {
                    c.name: (c, cell)
                    for c, cell in zip(self.logical.columns, image, strict=True)
                    if not isinstance(cell, str) and c.type not in ("bit", "json", "enum", "set") and not c.expression
                }
                image[i] = evaluate(column, column.expression, cells, self.commit_us)
        return tuple(image)

    def _convert(self, cell: Cell, source: int, column: Column) -> bytes | None:
        assert not isinstance(cell, str)
        return convert(cell, self.physical.columns[source], column, self.clamp)


def _smaller_charset_field(columns: list[MapColumn], default: int, each: int) -> int:
    """Choose the form as MySQL does: by an estimate that takes every number for one byte."""
    chosen = [columns[i] for i in _chosen(columns, default)]
    most = sum(c.collation == _most_used(chosen) for c in chosen)
    return each if len(chosen) < 1 + 2 * (len(chosen) - most) else default


def _most_used(columns: list[MapColumn]) -> int:
    numbers = [c.collation for c in columns]
    return min(set(numbers), key=lambda n: (-numbers.count(n), n))


def _pack_image(image: Image) -> bytes:
    here = [cell for cell in image if cell != ABSENT]
    return _to_bits([cell is None for cell in here]) + b"".join(cell for cell in here if isinstance(cell, bytes))


def pack_name(name: str) -> bytes:
    """Write a name of a table map: length, bytes, NUL."""
    return bytes([len(name.encode())]) + name.encode() + b"\0"


def same_bytes_modulo_optional_metadata(left: Event, right: Event) -> bool:
    """Compare two table map events without what stands in their optional metadata."""

    def core(event: Event) -> tuple[object, ...]:
        t = parse_table_map(event)
        return (t.table_id, t.flags, t.schema, t.table, [(c.type, c.meta, c.nullable) for c in t.columns])

    return core(left) == core(right)
