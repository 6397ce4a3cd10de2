"""How MySQL describes the columns of a SELECT from a table: types, lengths, flags.

Source: `Field` and its subclasses in mysql-server `sql/field.h`, the flags of keys in `sql/table.cc`; each is compared
with a real server's packets in tests.
"""

from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Final

from binlog_merge.binlog.constants import ColumnType as T
from binlog_merge.binlog_server.refused import Refused
from binlog_merge.protocol.fields import Field, FieldFlag
from binlog_merge.protocol.packets import ErrorCode
from binlog_merge.tables.types import moment_text, number_text, time_text
from binlog_merge.values.duckdb.collations import UnknownCollation, sort_key
from binlog_merge.values.duckdb.columns import column_sql
from binlog_merge.values.duckdb.piece import Sql
from binlog_merge.values.types import DEFAULT_VECTOR_LENGTH, forms_of, unsupported
from snapshot_store.model import Column, Index, Table
from snapshot_store.mysql.column_type import CHARACTERS, MEMBERS, NUMERIC, TEMPORAL, ColumnType, Family
from snapshot_store.mysql.text.charsets import collation_id, max_bytes

BINARY: Final = 63
_GREATEST: Final = 0xFFFFFFFF
_NOT_FIXED: Final = 31
_FORM: Final = "in a result set"


_ALWAYS_UNSIGNED: Final = frozenset({Family.YEAR, Family.BIT})


@dataclass(frozen=True, slots=True)
class Results:
    """The character set in which a session wants texts: its name, and the collation's number. None: as they are."""

    charset: str | None
    collation: int = BINARY

    @property
    def as_stored(self) -> bool:
        """Return whether texts are sent in the bytes of their own character set."""
        return self.charset in (None, "binary")


def field_of(table: Table, column: Column, label: str, alias: str, results: Results) -> Field:
    """Return the description of a table's column under a name."""
    charset, length, decimals = _shape(column, results)
    flags = _flags(column) | _key_flags(table, column)
    return Field(
        label,
        forms_of(column.type, _FORM).result,
        charset,
        length,
        flags,
        decimals,
        table.schema,
        alias,
        table.name,
        column.name,
    )


def extreme_of(column: Column, label: str, results: Results) -> Field:
    """Return the description of MIN or MAX of a column: an integer's has the length of its type, whatever was given."""
    kind = column.type
    bare = replace(column, type=replace(kind, length=None)) if kind.family is Family.INTEGER else column
    charset, length, decimals = _shape(bare, results)
    flags = FieldFlag.UNSIGNED if kind.unsigned or kind.family in _ALWAYS_UNSIGNED else FieldFlag(0)
    if kind.family is not Family.BIT and (kind.family is not Family.TEXT or (kind.collation or "").endswith("_bin")):
        flags |= FieldFlag.BINARY
    return Field(label, forms_of(kind, _FORM).result, charset, length, flags, _NOT_FIXED if kind.is_sized else decimals)


def count_of(label: str) -> Field:
    """Return the description of COUNT."""
    return Field(label, T.LONGLONG, BINARY, 21, FieldFlag.NOT_NULL | FieldFlag.BINARY)


def number_of(label: str, text: str) -> Field:
    """Return the description of a whole number that is written out."""
    return Field(label, T.LONGLONG, BINARY, len(text) + 1, FieldFlag.NOT_NULL | FieldFlag.BINARY)


def truth_of(label: str) -> Field:
    """Return the description of what a condition gives."""
    return Field(label, T.LONGLONG, BINARY, 1, FieldFlag.NOT_NULL | FieldFlag.BINARY)


def _shape(column: Column, results: Results) -> tuple[int, int, int]:
    """Return the number of the character set, the length and the decimals."""
    kind = column.type
    if kind.family in CHARACTERS:
        charset, width = results.collation, 1 if results.charset == "binary" else max_bytes(results.charset)
        if results.charset is None:
            charset = collation_id(kind.charset, kind.collation) or BINARY
            width = 1 if kind.is_lob else max_bytes(kind.charset)
        return charset, min(_characters(column) * width, _GREATEST), 0
    if kind.family in TEMPORAL:
        return BINARY, kind.facts.width + (kind.fsp + 1 if kind.fsp else 0), kind.fsp
    if kind.family is Family.FLOAT:
        return BINARY, display_width(kind), _NOT_FIXED if kind.decimals is None else kind.decimals
    if kind.family is Family.VECTOR:
        return BINARY, 4 * (kind.length or DEFAULT_VECTOR_LENGTH), _NOT_FIXED
    if kind.is_lob:
        return BINARY, kind.facts.most_bytes, 0
    if kind.family in (Family.JSON, Family.GEOMETRY):
        return BINARY, _GREATEST, 0
    if kind.family in (Family.BYTES, Family.BIT):
        return BINARY, kind.length or 1, 0
    if kind.family is Family.YEAR:
        return BINARY, kind.facts.width, 0
    return BINARY, display_width(kind), kind.decimals or 0


def _characters(column: Column) -> int:
    kind = column.type
    if kind.family is Family.ENUM:
        return max(map(len, kind.members))
    if kind.family is Family.SET:
        return sum(map(len, kind.members)) + len(kind.members) - 1
    if kind.is_lob:
        return kind.facts.most_bytes
    return 1 if kind.length is None else kind.length


def _flags(column: Column) -> FieldFlag:
    kind, found = column.type, FieldFlag(0)
    if not column.nullable:
        found |= FieldFlag.NOT_NULL
        if column.default is None and not column.auto_increment:
            found |= FieldFlag.NO_DEFAULT_VALUE
    if column.auto_increment:
        found |= FieldFlag.AUTO_INCREMENT
    if kind.unsigned or kind.family in _ALWAYS_UNSIGNED:
        found |= FieldFlag.UNSIGNED
    if kind.zerofill or kind.family is Family.YEAR:
        found |= FieldFlag.ZEROFILL
    if not kind.defaults_to_literal:
        found |= FieldFlag.BLOB
    texts = kind.family in CHARACTERS
    if kind.family in TEMPORAL | {Family.BYTES} or (found & FieldFlag.BLOB and not texts):
        found |= FieldFlag.BINARY
    if texts and (kind.collation or "").endswith("_bin"):
        found |= FieldFlag.BINARY
    found |= {Family.ENUM: FieldFlag.ENUM, Family.SET: FieldFlag.SET}.get(kind.family, FieldFlag(0))
    if kind.name == "timestamp" and (column.on_update_now or (column.default and column.default.kind == "now")):
        found |= FieldFlag.TIMESTAMP
        if column.on_update_now:
            found |= FieldFlag.ON_UPDATE_NOW
    return found


def _key_flags(table: Table, column: Column) -> FieldFlag:
    flags = FieldFlag(0)
    primary = primary_of(table)
    for index in table.indexes:
        for place, part in enumerate(index.parts):
            if part.column is None or not column.same_name(part.column):
                continue
            flags |= FieldFlag.PART_KEY
            if index is primary:
                flags |= FieldFlag.PRI_KEY
            elif place == 0:
                single = index.unique and len(index.parts) == 1
                flags |= FieldFlag.UNIQUE_KEY if single else FieldFlag.MULTIPLE_KEY
    return flags


def primary_of(table: Table) -> Index | None:
    """Return the primary key, else the first unique key whose columns cannot be NULL, which stands for it."""
    if table.primary_key is not None:
        return table.primary_key
    required = {column.name.lower() for column in table.columns if not column.nullable}
    for index in table.indexes:
        if index.unique and all(p.column and p.column.lower() in required and not p.length for p in index.parts):
            return index
    return None


_SORTED_AS_KEPT: Final = NUMERIC | TEMPORAL | {Family.BIT, Family.BYTES}
_ZERO: Final = "0000-%"


class Form(Enum):
    """How DuckDB gives the values of a column, from which the bytes for a client are made."""

    ASCII = auto()
    TEXT = auto()
    BYTES = auto()
    FLOAT = auto()
    DOUBLE = auto()
    BIT = auto()
    VECTOR = auto()


@dataclass(frozen=True, slots=True)
class Reading:
    """How a file is read: whether dates and times are text in it, and the offset of the session's time zone.

    `client` is the character set of the statement.
    """

    temporal_text: bool
    minutes: int = 0
    client: str = "utf8mb4"


def display_width(kind: ColumnType) -> int:
    """Return the greatest number of characters of a number's text, as MySQL states it."""
    if kind.family is Family.INTEGER:
        return kind.length or kind.facts.shown_width(kind.unsigned)
    if kind.family is Family.DECIMAL:
        scale = kind.decimals or 0
        return (kind.length or 10) + (scale > 0) + (not kind.unsigned)
    if kind.family is not Family.FLOAT:
        raise unsupported(kind, "as a number")
    return kind.length or kind.facts.width


def compared(column: Column, name: str, reading: Reading) -> Sql:
    """Return the piece that stands for a column in an expression; `name` is its SQL in the file."""
    if column.type.family in TEMPORAL:
        return column_sql(column, printed(column, name, reading)[0])
    return column_sql(column, name)


def sorted_by(column: Column, name: str, reading: Reading) -> str:
    """Return SQL of a value that sorts as MySQL sorts the column. Raises Refused where that is not known."""
    kind = column.type
    if kind.family is Family.TEXT:
        try:
            return sort_key(name, kind.collation or "", True)
        except UnknownCollation as error:
            raise Refused(ErrorCode.ER_NOT_SUPPORTED_YET, f"column {column.name}: {error}") from None
    if kind.family in MEMBERS:
        return column_sql(column, name).numbers or name
    if kind.family is Family.TIME and reading.temporal_text:
        return column_sql(column, name).text
    long = kind.family is Family.DECIMAL and (kind.length or 10) > 38
    if long or kind.family not in _SORTED_AS_KEPT:
        raise Refused(
            ErrorCode.ER_NOT_SUPPORTED_YET,
            f"binlog-merge serve does not sort by column {column.name}, a {kind.name.upper()}: sort by the key",
        )
    return name


def printed(column: Column, name: str, reading: Reading) -> tuple[str, Form]:
    """Return SQL of what MySQL prints for a column, and the form of it; `name` is the column's SQL in the file."""
    kind = column.type
    match kind.family:
        case Family.INTEGER | Family.DECIMAL:
            return _number(kind, name), Form.ASCII
        case Family.FLOAT:
            return name, Form.FLOAT if kind.name == "float" else Form.DOUBLE
        case Family.BIT:
            return name, Form.BIT
        case Family.YEAR:
            return f"lpad(CAST({name} AS VARCHAR), 4, '0')", Form.ASCII
        case Family.DATE:
            return (name if reading.temporal_text else f"CAST({name} AS VARCHAR)"), Form.ASCII
        case Family.MOMENT:
            return _moment(kind, name, reading), Form.ASCII
        case Family.TIME:
            return (name if reading.temporal_text else time_text(name, kind.fsp)), Form.ASCII
        case Family.VECTOR:
            return name, Form.VECTOR
        case Family.BYTES | Family.GEOMETRY:
            return name, Form.BYTES
        case Family.TEXT | Family.ENUM | Family.SET | Family.JSON:
            return f"CAST({name} AS VARCHAR)", Form.TEXT
    raise unsupported(kind, "for a client")


def _number(kind: ColumnType, name: str) -> str:
    text = number_text(kind, name)
    if kind.zerofill:
        scale = kind.decimals or 0
        width = (kind.length or 10) + (scale > 0) if kind.family is Family.DECIMAL else display_width(kind)
        text = f"CASE WHEN length({text}) >= {width} THEN {text} ELSE lpad({text}, {width}, '0') END"
    return text


def _moment(kind: ColumnType, name: str, reading: Reading) -> str:
    moved = kind.name == "timestamp" and reading.minutes
    if reading.temporal_text and not moved:
        return name
    value = f"CAST({name} AS TIMESTAMP)" if reading.temporal_text else name
    if kind.name == "timestamp" and not reading.temporal_text:
        value = f"({name} AT TIME ZONE 'UTC')"
    if moved:
        value = f"({value} + INTERVAL ({reading.minutes}) MINUTE)"
    shown = moment_text(value, kind.fsp)
    return f"CASE WHEN {name} LIKE '{_ZERO}' THEN {name} ELSE {shown} END" if reading.temporal_text else shown
