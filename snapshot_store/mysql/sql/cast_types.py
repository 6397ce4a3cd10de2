"""The types of CAST and CONVERT, which have other names than column types and are printed differently."""

from snapshot_store.mysql.column_type import ColumnType
from snapshot_store.mysql.sql.cursor import Cursor
from snapshot_store.mysql.sql.type_spec import TypeSpec
from snapshot_store.mysql.sql.types import SPATIAL, read_length, read_precision, read_string_attributes


def parse_cast_type(cursor: Cursor) -> str:
    """Parse the type that CAST converts to; return it as the server prints it."""
    word = cursor.word()
    cursor.next()
    name = _CASTS.get(word)
    if name is None:
        raise cursor.error("expected a type to cast to")
    if name in ("signed", "unsigned"):
        cursor.accept_one("INT", "INTEGER")
    text = _cast_text(cursor, word, name)
    return f"{text.replace(',', ', ')} array" if cursor.accept("ARRAY") else text


def _cast_text(cursor: Cursor, word: str, name: str) -> str:
    if name == "decimal":
        length, decimals = read_precision(cursor)
        return f"decimal({length or 10},{decimals or 0})"
    if name == "double":
        cursor.accept("PRECISION")
        return name
    if name == "float":
        return "double" if (read_length(cursor) or 0) > 24 else name
    length = read_length(cursor)
    if length == 0 and name in ("time", "datetime"):
        length = None
    text = name if length is None or name == "year" else f"{name}({length})"
    if word in ("BINARY", "NCHAR"):
        return f"{text} charset {'binary' if word == 'BINARY' else 'utf8mb3'}"
    if name == "char":
        charset = read_string_attributes(cursor, TypeSpec(ColumnType("char"))).charset
        text += "" if cursor.at("ARRAY") else f" charset {charset or cursor.session.charset_connection}"
    return text


_CASTS = {
    "BINARY": "char",
    "CHAR": "char",
    "CHARACTER": "char",
    "NCHAR": "char",
    "SIGNED": "signed",
    "UNSIGNED": "unsigned",
    "DATE": "date",
    "TIME": "time",
    "DATETIME": "datetime",
    "DECIMAL": "decimal",
    "DEC": "decimal",
    "FLOAT": "float",
    "DOUBLE": "double",
    "REAL": "double",
    "YEAR": "year",
    "JSON": "json",
    **{word: name for word, name in SPATIAL.items() if word not in ("GEOMETRY", "GEOMCOLLECTION")},
}
