"""Rows for MariaDB: JSON documents as text, VECTOR as bytes, gb18030 as utf8mb4, whole updates instead of partial ones.

JSON      245, length of 4 bytes and MySQL's binary form     BLOB 252, length of 4 bytes and text
VECTOR    242, length of 4 bytes and the floats              BLOB 252, the same bytes
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from binlog_merge.binlog.cell_length import real_type
from binlog_merge.binlog.constants import ColumnType as T
from binlog_merge.binlog.constants import EventType, MetadataType
from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.json_binary import decode_json, json_text
from binlog_merge.binlog.json_diff import whole_row
from binlog_merge.binlog.optional_metadata import CHARACTER_TYPES, DefaultCharset, OptionalMetadata
from binlog_merge.binlog.rows import ABSENT, Cell, PartialJson, RowImage, RowsEvent, iter_rows, join_rows, row_padding
from binlog_merge.binlog.table_map import TableMap
from binlog_merge.errors import ConversionFailed
from snapshot_store.mysql.text.charsets import BINARY_COLLATION, all_collations, canonical_collation, charset_of
from snapshot_store.mysql.text.codecs import decode_text

LANGUAGES: Final = (
    "", "icelandic", "latvian", "romanian", "slovenian", "polish", "estonian", "spanish", "swedish", "turkish", "czech",
    "danish", "lithuanian", "slovak", "spanish2", "roman", "persian", "esperanto", "hungarian", "sinhala", "german2",
    "", "", "vietnamese", "croatian",
)  # fmt: skip
"""MariaDB's languages in the order of their ids."""
MYSQL_LANGUAGES: Final = {
    "de_pb": "german2", "is": "icelandic", "lv": "latvian", "ro": "romanian", "sl": "slovenian", "pl": "polish",
    "et": "estonian", "es": "spanish", "sv": "swedish", "tr": "turkish", "cs": "czech", "da": "danish",
    "lt": "lithuanian", "sk": "slovak", "es_trad": "spanish2", "la": "roman", "eo": "esperanto", "hu": "hungarian",
    "hr": "croatian", "vi": "vietnamese", "nb": "danish", "nn": "danish", "gl": "spanish", "bs": "croatian",
    "sr_latn": "croatian",
}  # fmt: skip
"""MySQL's languages; those that are missing have no rules of their own in MariaDB."""
_FIRST_UCA1400: Final = 2304
_NOPAD: Final = 4
_STRENGTHS: Final = ("ai_ci", "ai_cs", "as_ci", "as_cs")
_0900: Final = re.compile(r"utf8mb4_(?:(?P<language>\w+?)_)?0900_(?P<strength>ai_ci|as_ci|as_cs)(?:_ks)?")
_BIN: Final = ("utf8mb4_nopad_bin", 1070)
_GB18030: Final = ("utf8mb4_general_ci", 45)
_GB18030_BIN: Final = ("utf8mb4_bin", 46)


def _map(name: str) -> tuple[str, int] | None:
    if name == "utf8mb4_0900_bin":
        return _BIN
    if name.startswith("gb18030"):
        return _GB18030_BIN if name.endswith("_bin") else _GB18030
    match = _0900.fullmatch(name)
    if match is None:
        return None
    language = MYSQL_LANGUAGES.get(match["language"] or "", "")
    strength = match["strength"]
    number = _FIRST_UCA1400 + 8 * LANGUAGES.index(language) + _NOPAD + _STRENGTHS.index(strength)
    return f"utf8mb4_uca1400_{language + '_' if language else ''}nopad_{strength}", number


_NAMES: Final = {name: mapped for name, _ in all_collations().values() if (mapped := _map(name)) is not None}
_IDS: Final = {number: _NAMES[name][1] for number, (name, _) in all_collations().items() if name in _NAMES}


def mariadb_name(collation: str) -> str | None:
    """Return MariaDB's name for a collation that it does not have; None for one that it has under the same name."""
    found = _NAMES.get(canonical_collation(collation) or "")
    return None if found is None else found[0]


def mariadb_id(number: int) -> int:
    """Return MariaDB's id for a collation's id."""
    return _IDS.get(number, number)


_UTF8MB4_BIN: Final = 46
_BLOBS: Final = (T.TINY_BLOB, T.BLOB, T.MEDIUM_BLOB, T.LONG_BLOB)
_LENGTH: Final = 4


@dataclass(frozen=True, slots=True)
class Translation:
    """A table map for MariaDB, and by column what makes a cell of the new type of one of the old."""

    source: TableMap
    target: TableMap
    cells: dict[int, Callable[[bytes], bytes]]


@lru_cache(maxsize=1000)
def translation(table: TableMap) -> Translation:
    """Return the table map that MariaDB takes for one of MySQL."""
    cells: dict[int, Callable[[bytes], bytes]] = {}
    types, metas = bytearray(table.types), list(table.metas)
    collations = table.collations()
    for i, kind in enumerate(table.types):
        if kind in (T.JSON, T.VECTOR):
            types[i], metas[i] = T.BLOB, _LENGTH
        if kind == T.JSON:
            cells[i] = _json_as_text
        elif charset_of(collations[i] or 0) == "gb18030" and real_type(kind, table.metas[i]) not in (T.ENUM, T.SET):
            cells[i] = _transcoder(kind, table.metas[i])
    made = replace(table, types=bytes(types), metas=tuple(metas))
    return Translation(table, made.with_optional(_metadata(table)), cells)


def translated_rows(event: RowsEvent, table: Translation) -> RowsEvent:
    """Return a rows event as MariaDB takes it. Raises ConversionFailed, BinlogFormatError."""
    partial = event.type_code == EventType.PARTIAL_UPDATE_ROWS_EVENT
    if not table.cells and not partial:
        return event
    whole = [whole_row(row, table.source) for row in iter_rows(event, table.source)]
    rows = [(_image(before, table), _image(after, table)) for before, after in whole]
    padding = row_padding(event)
    if partial:
        event = replace(event, type_code=int(EventType.UPDATE_ROWS_EVENT))
    return join_rows(event, rows, table.target, padding)


def _image(image: RowImage | None, table: Translation) -> RowImage | None:
    if image is None:
        return None
    cells = list(image)
    for i, changed in table.cells.items():
        cell: Cell = cells[i]
        if cell is None or cell is ABSENT or isinstance(cell, PartialJson):
            continue
        try:
            cells[i] = changed(bytes(cell))
        except (BinlogFormatError, UnicodeError, LookupError) as error:
            name = f"{table.source.schema}.{table.source.table}"
            raise ConversionFailed(f"{name}, column {i + 1}: not to be written for MariaDB: {error}") from None
    return tuple(cells)


def _json_as_text(cell: bytes) -> bytes:
    document = cell[_LENGTH:]
    # No bytes are what MySQL stores in a NOT NULL column that was never given a document; SELECT shows null.
    text = (json_text(decode_json(document)) if document else "null").encode("utf-8", "surrogatepass")
    return len(text).to_bytes(_LENGTH, "little") + text


def _transcoder(kind: int, meta: int) -> Callable[[bytes], bytes]:
    """Return what makes a cell of utf8mb4 of one of gb18030; both take at most four bytes a character."""
    if kind in _BLOBS:
        size = meta
    elif kind == T.VARCHAR:
        size = 2 if meta > 255 else 1
    else:
        size = 2 if ((((meta & 0xFF) & 0x30) ^ 0x30) << 4 | meta >> 8) > 255 else 1

    def transcode(cell: bytes) -> bytes:
        text = decode_text("gb18030", cell[size:]).encode()
        if len(text) >> (8 * size):
            raise UnicodeError(f"{len(text)} bytes of utf8mb4 do not fit")
        return len(text).to_bytes(size, "little") + text

    return transcode


def _metadata(table: TableMap) -> OptionalMetadata | None:
    """Return the optional metadata for the changed types: JSON is a text column now, VECTOR a plain one of bytes."""
    known = table.optional
    if known is None:
        return None
    kinds = tuple(map(real_type, table.types, table.metas))
    characters = [
        _UTF8MB4_BIN if kind == T.JSON else BINARY_COLLATION if kind == T.VECTOR else mariadb_id(collation or 0)
        for kind, collation in zip(kinds, table.collations(), strict=True)
        if kind in CHARACTER_TYPES or kind == T.JSON
    ]
    has_charsets = known.default_charset is not None or known.column_charset is not None
    if T.JSON in kinds and not has_charsets and len(characters) == kinds.count(T.JSON):
        has_charsets = True  # a table whose only text is JSON has no field of character sets
    plain = T.JSON not in kinds and T.VECTOR not in kinds
    charsets: dict[str, DefaultCharset | tuple[int, ...] | None] = {}
    if has_charsets:
        charsets = {"default_charset": None, "column_charset": tuple(characters)}
        if plain and known.default_charset is not None:
            charsets = {"default_charset": _mapped(known.default_charset), "column_charset": None}
    return replace(
        known,
        **charsets,  # type: ignore[arg-type]
        enum_and_set_default_charset=_mapped(known.enum_and_set_default_charset),
        enum_and_set_column_charset=(
            None
            if known.enum_and_set_column_charset is None
            else tuple(map(mariadb_id, known.enum_and_set_column_charset))
        ),
        vector_dimensions=None,
        order=tuple(kind for kind in known.order if kind not in _MYSQLS_OWN),
        unknown=(),
        visibility=None,
    )


_MYSQLS_OWN: Final = (MetadataType.COLUMN_VISIBILITY, MetadataType.VECTOR_DIMENSIONALITY)


def _mapped(value: DefaultCharset | None) -> DefaultCharset | None:
    if value is None:
        return None
    return DefaultCharset(mariadb_id(value.collation), tuple((i, mariadb_id(c)) for i, c in value.exceptions))
