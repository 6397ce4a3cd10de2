"""A tiny DDL reader: dumps and the statements the fixtures use -> tables as plain values. Unique keys are read where a
table is created, other indexes are ignored.

Anything on a table that is not understood raises; statements that concern no table's columns do nothing.
"""

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from tests.oracle.binlog import OracleError

Name = tuple[str, str]
Token = tuple[str, str]  # kind (word, name, text, number, bits, hex, op) and value

DEFAULT_COLLATION = "utf8mb4_0900_ai_ci"
COLLATION_IDS = {
    "big5_chinese_ci": 1, "dec8_swedish_ci": 3, "cp850_general_ci": 4, "latin1_german1_ci": 5, "hp8_english_ci": 6,
    "koi8r_general_ci": 7, "latin1_swedish_ci": 8, "latin2_general_ci": 9, "swe7_swedish_ci": 10,
    "ascii_general_ci": 11, "hebrew_general_ci": 16, "tis620_thai_ci": 18, "koi8u_general_ci": 22,
    "cp1250_general_ci": 26, "latin5_turkish_ci": 30, "armscii8_general_ci": 32, "cp866_general_ci": 36,
    "keybcs2_general_ci": 37, "macce_general_ci": 38, "macroman_general_ci": 39, "cp852_general_ci": 40,
    "latin7_general_ci": 41, "utf16le_general_ci": 56, "cp1256_general_ci": 57, "cp1257_general_ci": 59,
    "geostd8_general_ci": 92, "eucjpms_japanese_ci": 97,
    "ujis_japanese_ci": 12, "sjis_japanese_ci": 13, "latin1_danish_ci": 15, "euckr_korean_ci": 19,
    "gb2312_chinese_ci": 24, "greek_general_ci": 25, "gbk_chinese_ci": 28, "latin1_german2_ci": 31,
    "utf8mb3_general_ci": 33, "ucs2_general_ci": 35, "utf8mb4_general_ci": 45, "utf8mb4_bin": 46, "latin1_bin": 47,
    "latin1_general_ci": 48, "latin1_general_cs": 49, "cp1251_general_ci": 51, "utf16_general_ci": 54, "utf16_bin": 55,
    "utf32_general_ci": 60, "utf32_bin": 61, "binary": 63, "ascii_bin": 65, "utf8mb3_bin": 83, "big5_bin": 84,
    "gbk_bin": 87, "ucs2_bin": 90, "latin1_spanish_ci": 94, "cp932_japanese_ci": 95, "utf8mb3_unicode_ci": 192,
    "utf8mb4_unicode_ci": 224, "utf8mb4_unicode_520_ci": 246, "gb18030_chinese_ci": 248, "gb18030_bin": 249,
    "utf8mb4_0900_ai_ci": 255, "utf8mb4_0900_as_cs": 278, "utf8mb4_0900_as_ci": 305, "utf8mb4_zh_0900_as_cs": 308,
    "utf8mb4_0900_bin": 309,
}  # fmt: skip
COLLATION_NAMES = {number: name for name, number in COLLATION_IDS.items()}
_CHARSET_DEFAULTS = {"utf8mb4": DEFAULT_COLLATION, "binary": "binary"} | {
    name.split("_")[0]: name
    for name in COLLATION_IDS
    if name.endswith(
        (
            "_general_ci",
            "_chinese_ci",
            "_swedish_ci",
            "_japanese_ci",
            "_korean_ci",
            "_english_ci",
            "_thai_ci",
            "_turkish_ci",
        )
    )
    and name not in ("utf8mb4_general_ci", "latin1_general_ci")
}
_STRINGS = {"char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set"}
_TYPES = {
    "integer": "int", "int1": "tinyint", "int2": "smallint", "int3": "mediumint", "int4": "int", "int8": "bigint",
    "middleint": "mediumint", "bool": "tinyint", "boolean": "tinyint", "dec": "decimal", "numeric": "decimal",
    "fixed": "decimal", "real": "double", "character": "char", "geomcollection": "geometrycollection",
}  # fmt: skip
_KNOWN = {
    "tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "float", "double", "bit", "year", "date", "time",
    "datetime", "timestamp", "binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "json", "vector",
    "geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon", "geometrycollection",
} | _STRINGS  # fmt: skip
_BINARY = {"char": "binary", "varchar": "varbinary", "tinytext": "tinyblob", "text": "blob", "mediumtext": "mediumblob",
           "longtext": "longblob"}  # fmt: skip


@dataclass(frozen=True)
class Column:
    """`length` is characters, bytes, bits or entries; `decimals` is the scale or the fractional second digits."""

    name: str
    type: str
    length: int = 0
    decimals: int = 0
    unsigned: bool = False
    collation: str = ""
    members: tuple[str, ...] = ()
    srid: int | None = None
    nullable: bool = True
    visible: bool = True
    default: Token | None = None  # kind "null", "now", "expression", or a literal's token
    expression: tuple[Token, ...] = ()  # of a generated column, or of the default
    keys: tuple[str, ...] = field(default=(), compare=False)  # names of the unique keys that it is in

    @property
    def charset(self) -> str:
        return self.collation.split("_")[0]

    def shape(self) -> tuple[object, ...]:
        """Return what decides the bytes of a cell."""
        return (self.type, self.length, self.decimals, self.unsigned, self.charset, self.members, self.srid)


@dataclass(frozen=True)
class Table:
    columns: tuple[Column, ...]
    collation: str = DEFAULT_COLLATION

    def index(self, name: str) -> int | None:
        return next((i for i, c in enumerate(self.columns) if c.name.lower() == name.lower()), None)


class UnknownTableError(OracleError):
    """A statement names a table that was never seen."""


@dataclass
class Catalog:
    """`fallback` gives the shape of a table that no statement has touched yet."""

    tables: dict[Name, Table] = field(default_factory=dict)
    schemas: dict[str, str] = field(default_factory=dict)  # name -> default collation
    fallback: Callable[[Name], Table | None] = lambda _name: None
    gone: set[Name] = field(default_factory=set)
    server_collation: str = DEFAULT_COLLATION  # of the session that runs the next statement

    def pop(self, name: Name) -> Table:
        """Remove a table and return it; raises UnknownTableError."""
        table = self.get(name)
        self.tables.pop(name, None)
        self.gone.add(name)
        return table

    def get(self, name: Name) -> Table:
        """Return a table; raises UnknownTableError."""
        table = self.tables.get(name)
        if table is None and name not in self.gone:
            table = self.fallback(name)
        if table is None:
            raise UnknownTableError(f"table {name} is not known")
        return table


_TOKEN = re.compile(
    r"""(?P<skip>\s+|--(?=[\s]|$)[^\n]*|\#[^\n]*|/\*!\d*|\*/|/\*(?!!).*?\*/)
    |(?P<bits>[bB]'[01]*'|0b[01]+)|(?P<hex>[xX]'[0-9a-fA-F]*'|0x[0-9a-fA-F]+)
    |(?P<text>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")|`(?P<name>(?:[^`]|``)*)`
    |(?P<number>\d+\.?\d*(?:[eE][-+]?\d+)?(?![\w$])|\.\d+)|(?P<word>[\w$@\u0080-\uffff]+)|(?P<op>:=|.)""",
    re.X | re.S,
)
_ESCAPES = {"0": "\0", "n": "\n", "r": "\r", "t": "\t", "b": "\b", "Z": "\x1a", "%": "\\%", "_": "\\_"}


def _unquote(text: str) -> str:
    quote, inner = text[0], text[1:-1].replace(text[0] * 2, text[0])
    del quote
    return re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[1]), inner, flags=re.S)


def tokenize(sql: str) -> list[list[Token]]:
    """Return the statements of a text as token lists; executable comments count as text."""
    statements: list[list[Token]] = [[]]
    for match in _TOKEN.finditer(sql):
        kind, value = str(match.lastgroup), match[0]
        if kind == "skip":
            continue
        if kind == "text":
            value = _unquote(value)
        elif kind == "name":
            value = match["name"].replace("``", "`")
        if (kind, value) == ("op", ";"):
            statements.append([])
        else:
            statements[-1].append((kind, value))
    return [s for s in statements if s]


class Reader:
    """Tokens of one statement and a place in them."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.tokens, self.at = list(tokens), 0

    def peek(self, ahead: int = 0) -> str:
        """Return the next token, upper-cased if it is a bare word or operator, else an empty string."""
        at = self.at + ahead
        if at >= len(self.tokens) or self.tokens[at][0] not in ("word", "op"):
            return ""
        return self.tokens[at][1].upper()

    def done(self) -> bool:
        return self.at >= len(self.tokens)

    def take(self) -> Token:
        if self.done():
            raise OracleError(f"DDL ends too early: {self.text()}")
        self.at += 1
        return self.tokens[self.at - 1]

    def accept(self, words: str) -> bool:
        """Step over these words if they come next."""
        wanted = words.split()
        if all(self.peek(i) == w for i, w in enumerate(wanted)):
            self.at += len(wanted)
            return True
        return False

    def expect(self, words: str) -> None:
        if not self.accept(words):
            raise OracleError(f"DDL not understood at token {self.at} (wanted {words}): {self.text()}")

    def identifier(self) -> str:
        kind, value = self.take()
        if kind not in ("name", "word"):
            raise OracleError(f"DDL: {value!r} is not a name: {self.text()}")
        return value

    def table_name(self, schema: str) -> Name:
        first = self.identifier()
        return (first, self.identifier()) if self.accept(".") else (schema, first)

    def number(self) -> int:
        return int(self.take()[1])

    def skip_item(self) -> None:
        """Step over tokens up to a comma or a closing bracket outside brackets."""
        while not self.done() and self.peek() not in (",", ")"):
            if self.peek() == "(":
                self.skip_brackets()
            else:
                self.at += 1

    def skip_brackets(self) -> None:
        """Step over a bracketed group."""
        self.expect("(")
        while not self.accept(")"):
            if self.peek() == "(":
                self.skip_brackets()
            else:
                self.take()

    def text(self) -> str:
        return " ".join(value for _, value in self.tokens)[:200]


def collation_of_charset(charset: str) -> str:
    """Return a character set's default collation."""
    name = "utf8mb3" if charset.lower() == "utf8" else charset.lower()
    if name not in _CHARSET_DEFAULTS:
        raise OracleError(f"character set {charset} is not known")
    return _CHARSET_DEFAULTS[name]


def _charset_clause(r: Reader) -> str | None:
    """Read CHARACTER SET x / CHARSET [=] x / COLLATE [=] y if one comes next; return the collation."""
    if r.accept("CHARACTER SET") or r.accept("CHARSET"):
        r.accept("=")
        return collation_of_charset(r.take()[1])
    if r.accept("COLLATE"):
        r.accept("=")
        name = r.take()[1].lower()
        return name if not name.startswith("utf8_") else "utf8mb3_" + name[5:]
    return None


def _default(r: Reader) -> Token:
    if r.accept("NULL"):
        return ("null", "")
    if r.accept("TRUE") or r.accept("FALSE"):
        return ("number", str(int(r.tokens[r.at - 1][1].upper() == "TRUE")))
    if r.peek() in ("CURRENT_TIMESTAMP", "NOW", "LOCALTIME", "LOCALTIMESTAMP"):
        r.take()
        if r.peek() == "(":
            r.skip_brackets()
        return ("now", "")
    if r.peek() == "(":
        r.skip_brackets()
        return ("expression", "")
    sign = "-" if r.accept("-") else ""
    r.accept("+")
    if r.peek().startswith("_"):
        r.take()
    kind, value = r.take()
    if kind not in ("text", "number", "bits", "hex"):
        raise OracleError(f"DEFAULT {value} is not understood: {r.text()}")
    return (kind, sign + value)


def _type(r: Reader, name: str) -> Column:
    word = r.take()[1].lower()
    kind = _TYPES.get(word, word)
    if kind not in _KNOWN:
        raise OracleError(f"type {word} is not understood: {r.text()}")
    if word == "double":
        r.accept("PRECISION")
    if kind == "char" and r.accept("VARYING"):
        kind = "varchar"
    numbers: list[int] = []
    members: list[str] = []
    if r.accept("("):
        while not r.accept(")"):
            token = r.take()
            if token[0] == "number":
                numbers.append(int(token[1]))
            elif token[0] == "text":
                members.append(token[1].rstrip(" "))
    length, decimals = 0, 0
    if kind == "decimal":
        length, decimals = (*numbers, *([10, 0][len(numbers) :]))
    elif kind in ("char", "binary", "bit"):
        length = numbers[0] if numbers else 1
    elif kind in ("varchar", "varbinary"):
        length = numbers[0]
    elif kind == "vector":
        length = numbers[0] if numbers else 2048
    elif kind in ("time", "datetime", "timestamp"):
        decimals = numbers[0] if numbers else 0
    elif kind == "float" and len(numbers) == 1 and numbers[0] > 24:
        kind = "double"
    elif kind in ("text", "blob") and numbers:
        length = numbers[0]  # until the character set is known
    return Column(name, kind, length, decimals, members=tuple(members))


def _column(r: Reader, name: str, table_collation: str) -> Column:
    column, collation, binary = _type(r, name), "", False
    while not r.done() and r.peek() not in (",", ")", "FIRST", "AFTER"):
        found = _charset_clause(r)
        if found is not None:
            collation = found
        elif r.accept("NOT NULL"):
            column = replace(column, nullable=False)
        elif r.accept("NULL") or r.accept("SIGNED") or r.accept("AUTO_INCREMENT") or r.accept("VISIBLE"):
            pass
        elif r.accept("UNSIGNED") or r.accept("ZEROFILL"):
            column = replace(column, unsigned=True)
        elif r.accept("DEFAULT"):
            start = r.at
            column = replace(column, default=_default(r))
            if column.default is not None and column.default[0] == "expression":
                column = replace(column, expression=tuple(r.tokens[start : r.at]))
        elif r.accept("ON UPDATE"):
            _default(r)
        elif r.accept("INVISIBLE"):
            column = replace(column, visible=False)
        elif r.accept("PRIMARY KEY"):
            column = replace(column, nullable=False, keys=(*column.keys, "PRIMARY"))
        elif r.accept("UNIQUE"):
            column = replace(column, keys=(*column.keys, name))
        elif r.accept("KEY") or r.accept("STORED") or r.accept("VIRTUAL"):
            pass
        elif r.accept("COMMENT") or r.accept("COLUMN_FORMAT") or r.accept("STORAGE"):
            r.take()
        elif r.accept("SRID"):
            column = replace(column, srid=r.number())
        elif r.accept("GENERATED ALWAYS AS") or r.accept("AS"):
            start = r.at
            r.skip_brackets()
            column = replace(column, expression=tuple(r.tokens[start : r.at]))
        elif r.accept("BINARY"):
            binary = True
        elif r.accept("CHECK"):
            r.skip_brackets()
        else:
            raise OracleError(f"column attribute {r.take()[1]!r} is not understood: {r.text()}")
    if column.type in _STRINGS:
        collation = collation or table_collation
        if binary:
            collation = collation.split("_")[0] + "_bin"
        if collation == "binary" and column.type in _BINARY:
            return replace(column, type=_BINARY[column.type])
        column = replace(column, collation=collation)
    if column.type in ("text", "blob") and column.length:
        # TEXT(n) is the smallest type that holds n characters, each as long as can be.
        wide = {"utf8mb4": 4, "gb18030": 4, "utf8mb3": 3, "gbk": 2}.get(column.charset, 1) * column.length
        size = next(name for bits, name in ((8, "tiny"), (16, ""), (24, "medium"), (32, "long")) if wide < 1 << bits)
        column = replace(column, type=size + column.type, length=0)
    return column


_NO_COLUMN = ("PRIMARY", "UNIQUE", "KEY", "INDEX", "FULLTEXT", "SPATIAL", "CONSTRAINT", "FOREIGN", "CHECK")


def _key_columns(r: Reader) -> list[str]:
    """Step over an index or constraint; return the columns of a PRIMARY KEY, which become NOT NULL."""
    start = r.at
    r.skip_item()
    item = Reader(r.tokens[start : r.at])
    if item.accept("CONSTRAINT") and item.peek() != "PRIMARY":
        item.take()
    if not item.accept("PRIMARY KEY"):
        return []
    while not item.accept("("):
        item.take()
    names = [item.identifier()]
    while not item.done():
        item.skip_item()
        if not item.accept(","):
            break
        names.append(item.identifier())
    return names


def _unique_columns(item: Reader) -> list[str]:
    """Return the columns of a UNIQUE key, none of anything else. Prefixes of columns are taken for whole ones."""
    if item.accept("CONSTRAINT") and item.peek() != "UNIQUE":
        item.take()
    if not item.accept("UNIQUE"):
        return []
    while not item.accept("("):
        item.take()
    names = [item.identifier()]
    while not item.done():
        item.skip_item()
        if not item.accept(","):
            break
        names.append(item.identifier())
    return names


def _not_null(columns: list[Column], names: list[str]) -> list[Column]:
    lower = [n.lower() for n in names]
    return [replace(c, nullable=False) if c.name.lower() in lower else c for c in columns]


def _table_options(r: Reader, collation: str) -> str:
    while not r.done():
        r.accept("DEFAULT")
        found = _charset_clause(r)
        if found is not None:
            collation = found
        else:
            r.take()
    return collation


def _create_table(r: Reader, catalog: Catalog, schema: str) -> list[Name]:
    unless = r.accept("IF NOT EXISTS")
    name = r.table_name(schema)
    if name in catalog.tables:
        if unless or name[0] == "__cdc__":  # tables of the machinery never come out, whatever is said of them
            return []
        raise OracleError(f"table {name} exists already: {r.text()}")
    like = r.accept("LIKE") or r.accept("( LIKE")
    if like:
        catalog.tables[name] = catalog.get(r.table_name(schema))
        return [name]
    start = r.at
    r.skip_brackets()  # the table's collation stands after its columns
    collation = _table_options(r, catalog.schemas.get(name[0], catalog.server_collation))
    r.at = start
    r.expect("(")
    columns: list[Column] = []
    keys: list[str] = []
    unique: list[list[str]] = []
    while True:
        if r.peek() in _NO_COLUMN:
            start = r.at
            own = _key_columns(r)
            keys += own
            unique.append(own or _unique_columns(Reader(r.tokens[start : r.at])))
        else:
            columns.append(_column(r, r.identifier(), collation))
        if not r.accept(","):
            break
    r.expect(")")
    for number, names in enumerate(unique):
        columns = [replace(c, keys=(*c.keys, f"{number} {names}")) if c.name in names else c for c in columns]
    catalog.tables[name] = Table(tuple(_not_null(columns, keys)), collation)
    return [name]


def _place(r: Reader, columns: list[Column], column: Column, at: int) -> None:
    if r.accept("FIRST"):
        at = 0
    elif r.accept("AFTER"):
        at = _find(columns, r.identifier()) + 1
    columns.insert(at, column)


def _find(columns: list[Column], name: str) -> int:
    for i, column in enumerate(columns):
        if column.name.lower() == name.lower():
            return i
    raise OracleError(f"column {name} is not known")


def _alter_action(r: Reader, columns: list[Column], collation: str) -> str:
    """Apply one action; return the table's default collation after it."""
    if r.accept("ADD"):
        if r.peek() in _NO_COLUMN:
            columns[:] = _not_null(columns, _key_columns(r))
            return collation
        r.accept("COLUMN")
        if r.accept("("):
            while True:
                columns.append(_column(r, r.identifier(), collation))
                if not r.accept(","):
                    break
            r.expect(")")
        else:
            column = _column(r, r.identifier(), collation)
            _place(r, columns, column, len(columns))
    elif r.accept("DROP"):
        if r.peek() in _NO_COLUMN:
            r.skip_item()
            return collation
        r.accept("COLUMN")
        del columns[_find(columns, r.identifier())]
    elif r.peek() in ("MODIFY", "CHANGE"):
        change = r.take()[1].upper() == "CHANGE"
        r.accept("COLUMN")
        old = r.identifier()
        at = _find(columns, old)
        column = _column(r, r.identifier() if change else columns[at].name, collation)
        del columns[at]
        _place(r, columns, column, at)
    elif r.accept("RENAME COLUMN"):
        at = _find(columns, r.identifier())
        r.expect("TO")
        columns[at] = replace(columns[at], name=r.identifier())
    elif r.accept("RENAME INDEX") or r.accept("RENAME KEY") or r.accept("ALTER INDEX"):
        r.skip_item()
    elif r.accept("ALTER"):
        r.accept("COLUMN")
        at = _find(columns, r.identifier())
        if r.accept("SET DEFAULT"):
            columns[at] = replace(columns[at], default=_default(r))
        elif r.accept("DROP DEFAULT"):
            columns[at] = replace(columns[at], default=None)
        else:
            r.expect("SET")
            columns[at] = replace(columns[at], visible=r.take()[1].upper() == "VISIBLE")
    elif r.accept("CONVERT TO"):
        found = _charset_clause(r)
        collation = _charset_clause(r) or found or collation
        columns[:] = [replace(c, collation=collation) if c.collation else c for c in columns]
    elif r.peek() in ("ENGINE", "COMMENT", "AUTO_INCREMENT", "ALGORITHM", "LOCK", "ROW_FORMAT", "FORCE", "ORDER",
                      "STATS_PERSISTENT", "KEY_BLOCK_SIZE"):  # fmt: skip
        r.skip_item()
    elif r.peek() in ("DEFAULT", "CHARACTER", "CHARSET", "COLLATE"):
        r.accept("DEFAULT")
        while (found := _charset_clause(r)) is not None:
            collation = found
    else:
        raise OracleError(f"ALTER TABLE not understood: {r.text()}")
    return collation


def _alter_table(r: Reader, catalog: Catalog, schema: str) -> list[Name]:
    name = r.table_name(schema)
    table = catalog.get(name)
    columns, collation, target = list(table.columns), table.collation, name
    while not r.done():
        if r.peek() == "RENAME" and r.peek(1) not in ("COLUMN", "INDEX", "KEY"):
            r.take()
            if not r.accept("TO"):
                r.accept("AS")
            target = r.table_name(schema)
        else:
            collation = _alter_action(r, columns, collation)
        if not r.done():
            r.expect(",")
    catalog.pop(name)
    catalog.tables[target] = Table(tuple(columns), collation)
    return [name] if target == name else [name, target]


def _rename(r: Reader, catalog: Catalog, schema: str) -> list[Name]:
    changed: list[Name] = []
    while True:
        old = r.table_name(schema)
        r.expect("TO")
        new = r.table_name(schema)
        catalog.tables[new] = catalog.pop(old)
        changed += [old, new]
        if not r.accept(","):
            return changed


def _drop_table(r: Reader, catalog: Catalog, schema: str) -> list[Name]:
    r.accept("IF EXISTS")
    changed: list[Name] = []
    while True:
        name = r.table_name(schema)
        with suppress(UnknownTableError):
            catalog.pop(name)
            changed.append(name)
        if not r.accept(","):
            return changed


def _schema_collation(r: Reader, before: str) -> str:
    while not r.done():
        found = _charset_clause(r)
        if found is None:
            r.take()
        else:
            before = found
    return before


def _database(r: Reader, catalog: Catalog) -> list[Name]:
    verb = r.take()[1].upper()
    r.take()
    exists = r.accept("IF NOT EXISTS") or r.accept("IF EXISTS")
    name = r.identifier()
    if verb == "DROP":
        gone = [t for t in catalog.tables if t[0] == name]
        for table in gone:
            catalog.pop(table)
        catalog.schemas.pop(name, None)
        return gone
    if not (verb == "CREATE" and exists and name in catalog.schemas):
        catalog.schemas[name] = _schema_collation(r, catalog.schemas.get(name, catalog.server_collation))
    return []


_NO_TABLE = {
    "GRANT", "REVOKE", "SET", "FLUSH", "ANALYZE", "OPTIMIZE", "REPAIR", "CHECK", "UNLOCK", "LOCK", "SAVEPOINT",
    "INSTALL", "UNINSTALL",
}  # fmt: skip
_NO_TABLE_OBJECTS = {
    "USER", "ROLE", "VIEW", "PROCEDURE", "FUNCTION", "TRIGGER", "EVENT", "SERVER", "TABLESPACE", "TEMPORARY", "DEFINER",
    "ALGORITHM", "SQL", "OR", "RESOURCE", "SPATIAL", "AGGREGATE", "UNDO", "INSTANCE", "LOGFILE",
}  # fmt: skip


def changes_no_table(tokens: list[Token]) -> bool:
    """Tell whether a statement is about users, routines, views and the like, whatever its body does."""
    r = Reader(tokens)
    first, second = r.peek(), r.peek(1)
    if first in ("CREATE", "DROP") and "INDEX" in (second, r.peek(2)):
        return False
    return first in _NO_TABLE or (first in ("CREATE", "ALTER", "DROP", "RENAME") and second in _NO_TABLE_OBJECTS)


def apply_text(catalog: Catalog, sql: str, schema: str) -> list[Name]:
    """Apply the text of one QUERY event; semicolons in it are those of a routine's body, which changes no table."""
    statements = tokenize(sql)
    if not statements or changes_no_table(statements[0]):
        return []
    return [name for tokens in statements for name in apply(catalog, tokens, schema)]


def apply(catalog: Catalog, tokens: list[Token], schema: str) -> list[Name]:
    """Apply one statement to the catalog in place; return the tables it concerns."""
    r = Reader(tokens)
    if r.accept("CREATE TABLE"):
        return _create_table(r, catalog, schema)
    if r.accept("ALTER TABLE"):
        return _alter_table(r, catalog, schema)
    if r.accept("RENAME TABLE"):
        return _rename(r, catalog, schema)
    if r.accept("DROP TABLE"):
        return _drop_table(r, catalog, schema)
    if r.accept("TRUNCATE"):
        r.accept("TABLE")
        name = r.table_name(schema)
        catalog.get(name)
        return [name]
    if r.peek(1) in ("DATABASE", "SCHEMA"):
        return _database(r, catalog)
    if r.peek() in ("CREATE", "DROP") and "INDEX" in (r.peek(1), r.peek(2)):
        while not r.accept("ON"):
            r.take()
        name = r.table_name(schema)
        catalog.get(name)
        return [name]
    if changes_no_table(tokens):
        return []
    raise OracleError(f"statement not understood: {r.text()}")


def names_database(sql: str) -> bool:
    """Tell whether a statement is CREATE, ALTER or DROP DATABASE."""
    r = Reader([token for tokens in tokenize(sql) for token in tokens])
    return r.peek() in ("CREATE", "ALTER", "DROP") and r.peek(1) in ("DATABASE", "SCHEMA")


def databases_listed(sql: str, schema: str) -> set[str]:
    """Return the databases that a 9.7 lists in the event of a statement; none where it writes no list."""
    try:
        r = Reader([token for tokens in tokenize(sql) for token in tokens])
        return {database for database, _ in _listed(r, schema)}
    except OracleError:
        return set()


def _listed(r: Reader, schema: str) -> list[Name]:
    if r.peek() in ("CREATE", "ALTER", "DROP") and r.peek(1) in ("DATABASE", "SCHEMA"):
        r.at += 2
        _ = r.accept("IF NOT EXISTS") or r.accept("IF EXISTS")
        return [(r.identifier(), "")]
    if r.accept("RENAME TABLE"):
        names = [r.table_name(schema)]
        while r.accept("TO") or r.accept(","):
            names.append(r.table_name(schema))
        return names
    if r.accept("DROP TABLE") or r.accept("DROP VIEW"):
        r.accept("IF EXISTS")
        names = [r.table_name(schema)]
        while r.accept(","):
            names.append(r.table_name(schema))
        return names
    if r.accept("CREATE TABLE"):
        r.accept("IF NOT EXISTS")
        name = r.table_name(schema)
        return [] if r.peek() in ("LIKE", "SELECT", "AS") or (r.peek(), r.peek(1)) == ("(", "LIKE") else [name]
    if r.accept("ALTER TABLE"):
        names = [r.table_name(schema)]
        if r.peek() in ("TRUNCATE", "EXCHANGE", "ANALYZE", "CHECK", "REPAIR") and r.peek(1) == "PARTITION":
            return []
        while not r.done():
            if r.accept("RENAME") and r.peek() not in ("COLUMN", "INDEX", "KEY"):
                _ = r.accept("TO") or r.accept("AS")
                names.append(r.table_name(schema))
            else:
                r.take()
        return names
    if r.peek() in ("CREATE", "DROP") and "INDEX" in (r.peek(1), r.peek(2)):
        while not r.accept("ON"):
            r.take()
        return [r.table_name(schema)]
    if r.peek() in ("CREATE", "ALTER"):
        while not r.accept("VIEW"):
            r.take()
        return [r.table_name(schema)]
    return []


def parse_dump(sql: str) -> Catalog:
    """Read the output of mysqldump --no-data."""
    catalog, schema = Catalog(), ""
    for tokens in tokenize(sql):
        r = Reader(tokens)
        if r.accept("USE"):
            schema = r.identifier()
        elif not (r.peek() in ("INSERT", "LOCK", "UNLOCK", "DELIMITER") or r.peek() == "SET"):
            apply(catalog, tokens, schema)
    return catalog
