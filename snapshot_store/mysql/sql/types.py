"""Parsing types: of columns, in every spelling that MySQL 9.7 accepts, under the name that information_schema shows;
and of CAST and CONVERT, which have other names and are printed differently.

The rows of `_TYPES` follow the rule `type` of mysql-server `sql/sql_yacc.yy`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from snapshot_store.mysql.column_type import ColumnType, Family, facts_of, lobs_of, names_of
from snapshot_store.mysql.sql.cursor import Cursor
from snapshot_store.mysql.values.literals import literal_bytes


@dataclass(frozen=True, slots=True)
class TypeSpec:
    """A column's type as written: `type` has no character set; the requested one is resolved with the table's."""

    type: ColumnType
    charset: str | None = None
    collation: str | None = None
    binary: bool = False
    characters: int | None = None  # of TEXT(n) and BLOB(n)


_INTEGERS = {
    **{name.upper(): name for name in names_of(Family.INTEGER)},
    **{f"INT{facts_of(name).size}": name for name in names_of(Family.INTEGER)},
    "MIDDLEINT": "mediumint",
    "INTEGER": "int",
}
SPATIAL = {**{name.upper(): name for name in names_of(Family.GEOMETRY)}, "GEOMETRYCOLLECTION": "geomcollection"}


def parse_type(cursor: Cursor) -> TypeSpec:
    """Parse a column type with its character set attributes."""
    word = cursor.word()
    reader = _TYPES.get(word)
    if reader is None:
        raise cursor.error("expected a column type")
    cursor.next()
    return reader(cursor, word)


def _integer(cursor: Cursor, word: str) -> TypeSpec:
    name = _INTEGERS[word]
    width = read_length(cursor)
    cursor.limit((width or 0) <= 255, f"a display width of {width}")
    unsigned, zerofill = _number_attributes(cursor)
    if zerofill:
        # Without a width it has the digits of the greatest unsigned value.
        width = width or facts_of(name).shown_width(unsigned=True)
        return TypeSpec(ColumnType(name, width, unsigned=True, zerofill=True))
    # Servers since 8.0.19 drop display widths, except for tinyint(1), which clients take as a boolean.
    kept = 1 if name == "tinyint" and width == 1 and not unsigned else None
    return TypeSpec(ColumnType(name, kept, unsigned=unsigned, display_width=width))


def _boolean(cursor: Cursor, word: str) -> TypeSpec:
    return TypeSpec(ColumnType("tinyint", 1))


def _serial(cursor: Cursor, word: str) -> TypeSpec:
    return TypeSpec(ColumnType("bigint", unsigned=True))


def _floating(cursor: Cursor, word: str) -> TypeSpec:
    name = "float" if word in ("FLOAT", "FLOAT4") or (word == "REAL" and cursor.session.real_as_float) else "double"
    if word == "DOUBLE":
        cursor.accept("PRECISION")
    length, decimals = read_precision(cursor)
    if length is not None and decimals is None:
        if word in ("DOUBLE", "REAL", "FLOAT8"):
            raise cursor.error(f"{word} takes two numbers or none")
        cursor.limit(length <= 53, f"FLOAT({length})")
        # FLOAT(p) only chooses between FLOAT and DOUBLE.
        name = "float" if name == "float" and length <= 24 else "double"
        length = None
    _limit_decimals(cursor, length, decimals, 255)
    unsigned, zerofill = _number_attributes(cursor)
    return TypeSpec(ColumnType(name, length, decimals, unsigned=unsigned, zerofill=zerofill))


def _limit_decimals(cursor: Cursor, length: int | None, decimals: int | None, most: int) -> None:
    if length is not None:
        cursor.limit(length <= most, f"a precision of {length}, at most {most}")
        cursor.limit((decimals or 0) <= 30, f"a scale of {decimals}, at most 30")
        cursor.limit((decimals or 0) <= length, f"a precision of {length} less than the scale of {decimals}")


def _decimal(cursor: Cursor, word: str) -> TypeSpec:
    length, decimals = read_precision(cursor)
    _limit_decimals(cursor, length or 10, decimals, 65)
    unsigned, zerofill = _number_attributes(cursor)
    return TypeSpec(ColumnType("decimal", length or 10, decimals or 0, unsigned=unsigned, zerofill=zerofill))


def _bit(cursor: Cursor, word: str) -> TypeSpec:
    length = read_length(cursor)
    cursor.limit(length is None or 1 <= length <= 64, f"BIT({length})")
    return TypeSpec(ColumnType("bit", length or 1))


def _plain(cursor: Cursor, word: str) -> TypeSpec:
    return TypeSpec(ColumnType(word.lower()))


def _year(cursor: Cursor, word: str) -> TypeSpec:
    length = read_length(cursor)
    cursor.limit(length in (None, 4), f"YEAR({length})")
    _number_attributes(cursor)
    return TypeSpec(ColumnType("year"))


def _temporal(cursor: Cursor, word: str) -> TypeSpec:
    fsp = read_length(cursor) or 0
    cursor.limit(fsp <= 6, f"a fraction of {fsp} digits")
    return TypeSpec(ColumnType(word.lower(), fsp=fsp))


def _char(cursor: Cursor, word: str) -> TypeSpec:
    if word != "NCHAR" and cursor.accept("BYTE"):
        return TypeSpec(ColumnType("binary", 1))
    varying = cursor.accept("VARYING") or (word == "NCHAR" and cursor.accept("VARCHAR"))
    return _character(cursor, "varchar" if varying else "char", national=word == "NCHAR")


def _varchar(cursor: Cursor, word: str) -> TypeSpec:
    return _character(cursor, "varchar", national=word == "NVARCHAR")


def _national(cursor: Cursor, word: str) -> TypeSpec:
    if cursor.accept_one("VARCHAR", "VARCHARACTER"):
        return _character(cursor, "varchar", national=True)
    if not cursor.accept_one("CHAR", "CHARACTER"):
        raise cursor.error("expected CHAR or VARCHAR after NATIONAL")
    return _character(cursor, "varchar" if cursor.accept("VARYING") else "char", national=True)


def _character(cursor: Cursor, name: str, national: bool = False) -> TypeSpec:
    length = read_length(cursor)
    if name == "varchar" and length is None:
        raise cursor.error("expected a length")
    spec = TypeSpec(ColumnType(name, 1 if length is None else length))
    if national:
        return replace(spec, charset="utf8mb3", binary=cursor.accept("BINARY"))
    if cursor.accept("BYTE"):
        return replace(spec, type=ColumnType("binary" if name == "char" else "varbinary", spec.type.length))
    return read_string_attributes(cursor, spec)


def _binary(cursor: Cursor, word: str) -> TypeSpec:
    length = read_length(cursor)
    if word == "VARBINARY" and length is None:
        raise cursor.error("expected a length")
    return TypeSpec(ColumnType(word.lower(), 1 if length is None else length))


def _text(cursor: Cursor, word: str) -> TypeSpec:
    length = read_length(cursor) if word == "TEXT" else None
    return read_string_attributes(cursor, TypeSpec(ColumnType(word.lower()), characters=length))


def _blob(cursor: Cursor, word: str) -> TypeSpec:
    length = read_length(cursor) if word == "BLOB" else None
    return TypeSpec(ColumnType(word.lower()), characters=length)


def _long(cursor: Cursor, word: str) -> TypeSpec:
    if cursor.accept("VARBINARY"):
        return TypeSpec(ColumnType("mediumblob"))
    if cursor.accept_one("CHAR", "CHARACTER"):
        cursor.expect("VARYING")
    else:
        cursor.accept_one("VARCHAR", "VARCHARACTER")
    return read_string_attributes(cursor, TypeSpec(ColumnType("mediumtext")))


def _members(cursor: Cursor, word: str) -> TypeSpec:
    cursor.expect_symbol("(")
    members = [_member(cursor)]
    while cursor.accept_symbol(","):
        members.append(_member(cursor))
    cursor.expect_symbol(")")
    return read_string_attributes(cursor, TypeSpec(ColumnType(word.lower(), members=tuple(members))))


def _member(cursor: Cursor) -> str:
    if cursor.peek().kind == "bits":
        return literal_bytes(cursor.next().text).decode(errors="replace")
    return cursor.string()


def _vector(cursor: Cursor, word: str) -> TypeSpec:
    length = read_length(cursor)
    cursor.limit(length is None or 1 <= length <= 16383, f"VECTOR({length})")
    return TypeSpec(ColumnType("vector", length or 2048))


def _spatial(cursor: Cursor, word: str) -> TypeSpec:
    return TypeSpec(ColumnType(SPATIAL[word]))


def read_length(cursor: Cursor) -> int | None:
    """Parse a length in parentheses, if one comes next."""
    if not cursor.accept_symbol("("):
        return None
    if cursor.accept_symbol(")"):
        return None
    length = cursor.integer()
    cursor.limit(length <= lobs_of(Family.BYTES)[-1].most_bytes, f"a length of {length}")
    cursor.expect_symbol(")")
    return length


def read_precision(cursor: Cursor) -> tuple[int | None, int | None]:
    """Parse a precision and a scale in parentheses, if they come next."""
    if not cursor.accept_symbol("("):
        return None, None
    length, decimals = cursor.integer(), None
    if cursor.accept_symbol(","):
        decimals = cursor.integer()
    cursor.expect_symbol(")")
    return length, decimals


def _number_attributes(cursor: Cursor) -> tuple[bool, bool]:
    seen = set()
    while word := cursor.accept_one("SIGNED", "UNSIGNED", "ZEROFILL"):
        seen.add(word)
    return bool(seen & {"UNSIGNED", "ZEROFILL"}), "ZEROFILL" in seen


def read_string_attributes(cursor: Cursor, spec: TypeSpec) -> TypeSpec:
    """Parse a character set, BINARY, or both in either order; COLLATE is an attribute of the column."""
    binary = cursor.accept("BINARY")
    charset = accept_charset(cursor)
    if charset is None and (word := cursor.accept_one("ASCII", "UNICODE")):
        charset = {"ASCII": "latin1", "UNICODE": "ucs2"}[word]
    return replace(spec, charset=charset, binary=binary or cursor.accept("BINARY"))


def accept_charset(cursor: Cursor) -> str | None:
    """Skip CHARACTER SET, CHARSET or CHAR SET and a name, and return the name; None if they do not come next."""
    if not (cursor.accept("CHARSET") or cursor.accept("CHARACTER", "SET") or cursor.accept("CHAR", "SET")):
        return None
    cursor.accept_symbol("=")
    return charset_name(cursor)


def charset_name(cursor: Cursor) -> str:
    """Parse the name of a character set or collation, which may be written as a string."""
    return cursor.string() if cursor.peek().kind == "string" else cursor.word_or_name()


_Reader = Callable[[Cursor, str], TypeSpec]
_TYPES: dict[str, _Reader] = {
    **dict.fromkeys(_INTEGERS, _integer),
    **dict.fromkeys(("BOOL", "BOOLEAN"), _boolean),
    **dict.fromkeys(("FLOAT", "FLOAT4", "FLOAT8", "DOUBLE", "REAL"), _floating),
    **dict.fromkeys(("DECIMAL", "DEC", "NUMERIC", "FIXED"), _decimal),
    **dict.fromkeys(("DATE", "JSON"), _plain),
    **dict.fromkeys(("TIME", "DATETIME", "TIMESTAMP"), _temporal),
    **dict.fromkeys(("CHAR", "CHARACTER", "NCHAR"), _char),
    **dict.fromkeys(("VARCHAR", "VARCHARACTER", "NVARCHAR"), _varchar),
    **dict.fromkeys(("BINARY", "VARBINARY"), _binary),
    **dict.fromkeys((facts.name.upper() for facts in lobs_of(Family.TEXT)), _text),
    **dict.fromkeys((facts.name.upper() for facts in lobs_of(Family.BYTES)), _blob),
    **dict.fromkeys(("ENUM", "SET"), _members),
    **dict.fromkeys(SPATIAL, _spatial),
    "SERIAL": _serial,
    "BIT": _bit,
    "YEAR": _year,
    "NATIONAL": _national,
    "LONG": _long,
    "VECTOR": _vector,
}


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
