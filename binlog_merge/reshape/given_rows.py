"""Rows that somebody gives as JSON, as the events with which a server logs them.

    {"table": "shop.orders", "op": "update", "before": {"id": 7, "state": "new"}, "after": {"id": 7, "state": "paid"}}

That is what `changes -o jsonl` prints, and what it prints beside it is allowed: one object a line, or an array of them.
An image has every column. NULL is null; bytes are texts 0x…; a TIMESTAMP is in UTC; a JSON document is its text, in
which what was a DECIMAL cannot be told from a DOUBLE.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import groupby
from typing import Any, Final

from binlog_merge.binlog.constants import EventType, MetadataType, RowsFlag
from binlog_merge.binlog.header import server_version_split
from binlog_merge.binlog.optional_metadata import OptionalMetadata
from binlog_merge.binlog.rows import RowImage, RowsEvent, join_rows
from binlog_merge.binlog.table_map import TableMap
from binlog_merge.errors import ConfigError, UnsupportedInput
from binlog_merge.reshape.metadata import from_definition, metadata_of
from binlog_merge.values.convert.cells import coerce
from binlog_merge.values.value import ConversionError, Lost, encode_cell, read_json
from snapshot_store.model import Column, Table
from snapshot_store.mysql.column_type import NUMERIC, ColumnType, Family
from snapshot_store.mysql.sql.session import ALLOW_INVALID_DATES

_KINDS: Final[dict[str, int]] = {
    "insert": EventType.WRITE_ROWS_EVENT,
    "update": EventType.UPDATE_ROWS_EVENT,
    "delete": EventType.DELETE_ROWS_EVENT,
}
_SIDES: Final = {"insert": (False, True), "update": (True, True), "delete": (True, False)}
_OWN: Final = frozenset({"table", "schema", "op", "before", "after"})
_BESIDE: Final = frozenset(
    {"schema_version", "commit_tso", "commit_time", "gtid", "order_key", "file", "position", "row"}
)
_ABSENT: Final = ("before_absent", "after_absent")
_MOST_BYTES: Final = 8192
"""Of the rows in an event, as with binlog_row_event_max_size by default."""
_TEXT: Final = ColumnType("varchar", length=1 << 30, charset="utf8mb4")
_BYTES: Final = ColumnType("varbinary", length=1 << 30)
_SIGNED, _UNSIGNED = ColumnType("bigint"), ColumnType("bigint", unsigned=True)
_CORRECT: Final = (
    'correct the row: {"table": "app.t", "op": "update", "before": {"id": 7, "v": 1}, "after": {"id": 7, "v": 2}}; an '
    "insert has no before, a delete no after; `changes -o jsonl` prints rows so"
)
_HEX: Final = re.compile(r"0x((?:[0-9a-fA-F]{2})*)")

Name = tuple[str, str]


@dataclass(frozen=True, slots=True)
class GivenRow:
    """A change of a row. `number` counts from 1; an image is None if the change has none."""

    number: int
    table: Name
    op: str
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None

    def wrong(self, what: str) -> ConfigError:
        """Return the error for what is wrong with it."""
        return ConfigError(f"row {self.number}, {self.op} of {'.'.join(self.table)}: {what}", remedy=_CORRECT)


def read_rows(text: str) -> list[GivenRow]:
    """Return the changes of a JSON text. Raises ConfigError."""
    try:
        found = _documents(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"the rows are no JSON: {error}", remedy="give an array of objects, or one a line") from None
    return [_row(number, each) for number, each in enumerate(found, 1)]


def _documents(text: str) -> list[Any]:
    read = json.JSONDecoder(parse_float=Decimal, parse_constant=_no_constant, object_pairs_hook=_object).raw_decode
    if text.lstrip().startswith("["):
        found, end = read(text.lstrip())
        if text.lstrip()[end:].strip():
            raise ValueError("something stands behind the array")
        return list(found)
    return [read(line.strip())[0] for line in text.splitlines() if line.strip() and _whole(line.strip(), read)]


def _whole(line: str, read: Callable[[str], tuple[Any, int]]) -> bool:
    if read(line)[1] != len(line):
        raise ValueError(f"a line is not one object: {line[:60]!r}")
    return True


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError(f"a name stands twice in one object: {', '.join(name for name, _ in pairs)}")
    return found


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


def _row(number: int, given: Any) -> GivenRow:
    if not isinstance(given, dict):
        raise ConfigError(f"row {number} is no object: {str(given)[:60]!r}", remedy=_CORRECT)
    if unknown := given.keys() - _OWN - _BESIDE - {*_ABSENT}:
        raise ConfigError(f"row {number} has {', '.join(sorted(unknown))}, which means nothing here", remedy=_CORRECT)
    op, table, schema = given.get("op"), given.get("table"), given.get("schema")
    if op not in _KINDS:
        raise ConfigError(f"row {number}: `op` is insert, update or delete, not {op!r}", remedy=_CORRECT)
    if schema is None and isinstance(table, str) and table.count(".") == 1:
        schema, _, table = table.partition(".")
    if not (isinstance(schema, str) and isinstance(table, str) and schema and table):
        raise ConfigError(f"row {number}: `table` is SCHEMA.TABLE, or give `schema` beside it", remedy=_CORRECT)
    row = GivenRow(number, (schema, table), op, given.get("before"), given.get("after"))
    for name, wanted, image in zip(("before", "after"), _SIDES[op], (row.before, row.after), strict=True):
        if wanted and not isinstance(image, dict):
            raise row.wrong(f"`{name}` is an object with a value for every column")
        if not wanted and image is not None:
            raise row.wrong(f"it has no `{name}`")
    if any(given.get(name) for name in _ABSENT):
        raise row.wrong("an image has every column, and here some are absent")
    return row


@dataclass(frozen=True, slots=True)
class Logging:
    """How a node logs rows: `full` is binlog_row_metadata=FULL; without `metadata` it has none (before MySQL 8.0).

    `cascades`: rows that foreign keys change by CASCADE are logged like others (MySQL 9.6 on).
    """

    metadata: bool = True
    full: bool = False
    cascades: bool = False

    @classmethod
    def like(cls, table_map: TableMap | None, rows_flags: int | None, server_version: str) -> "Logging":
        """Return how a table map and a rows event were logged; without them, how this server does by default."""
        version = (0, 0, 0) if "mariadb" in server_version.lower() else server_version_split(server_version)
        cascades = version >= (9, 6, 0) if rows_flags is None else bool(rows_flags & RowsFlag.USE_SQL_FOREIGN_KEY_F)
        if table_map is None:
            return cls(version >= (8, 0, 0), False, cascades)
        optional = table_map.optional or OptionalMetadata()
        return cls(bool(optional.order), MetadataType.COLUMN_NAME in optional.order, cascades)


def events_of(
    rows: Iterable[GivenRow], definition: Callable[[Name], Table | None], logging: Logging
) -> Iterator[tuple[int, bytes]]:
    """Yield (type, body) of the events with which a server logs the changes, by the tables' definitions there.

    Changes of one kind of one table that follow each other are those of a statement. Raises ConfigError.
    """
    numbers = dict[Name, int]()
    for (name, op), group in groupby(rows, key=lambda row: (row.table, row.op)):
        changes = list(group)
        table = definition(name)
        if table is None:
            raise (
                changes[0]
                .wrong("the node has no such table there, or it is not known")
                .with_remedy(
                    "correct its name, as it is on the node; or say what it is with `binlog-merge schema set "
                    f"{'.'.join(name)} --sql FILE --node NODE --merged DIR`"
                )
            )
        made = _table_map(table, numbers.setdefault(name, len(numbers) + 1), logging, changes[0])
        yield EventType.TABLE_MAP_EVENT, made.pack()
        yield from _rows_events(changes, table, made, _KINDS[op], logging)


def _table_map(table: Table, number: int, logging: Logging, row: GivenRow) -> TableMap:
    try:
        columns = [from_definition(column) for column in table.columns]
        optional = metadata_of(columns, _key_of(table), logging.full) if logging.metadata else None
    except UnsupportedInput as error:
        raise row.wrong(error.message) from None
    nulls = bytearray((len(columns) + 7) // 8)
    for i, column in enumerate(columns):
        nulls[i >> 3] |= column.nullable << (i & 7)
    types, metas = bytes(c.type for c in columns), tuple(c.meta for c in columns)
    return TableMap(number, 1, table.schema, table.name, types, metas, bytes(nulls)).with_optional(optional)


def _key_of(table: Table) -> list[tuple[int, int]]:
    """Return (column, length of its prefix or 0) of the primary key's parts."""
    key = table.primary_key
    parts = [(table.index_of(part.column or ""), part.length or 0) for part in key.parts] if key is not None else []
    return [(column, length) for column, length in parts if column is not None]


def _rows_events(
    changes: Sequence[GivenRow], table: Table, table_map: TableMap, kind: int, logging: Logging
) -> Iterator[tuple[int, bytes]]:
    count = len(table.columns)
    present = bytes(min(0xFF, (1 << min(8, count - at)) - 1) for at in range(0, count, 8))
    before, after = (
        (None if kind == EventType.WRITE_ROWS_EVENT else present),
        (None if kind == EventType.DELETE_ROWS_EVENT else present),
    )
    empty = RowsEvent(kind, table_map.table_id, 0, b"", count, before, after, b"")
    parts: list[bytes] = [b""]
    for change in changes:
        images = (_image(change, table, change.before), _image(change, table, change.after))
        data = bytes(join_rows(empty, [images], table_map).rows)
        if parts[-1] and len(parts[-1]) + len(data) > _MOST_BYTES:
            parts.append(b"")
        parts[-1] += data
    for number, part in enumerate(parts, 1):
        flags = RowsFlag.USE_SQL_FOREIGN_KEY_F if logging.cascades else 0
        flags |= RowsFlag.STMT_END_F if number == len(parts) else 0
        yield kind, RowsEvent(kind, table_map.table_id, flags, b"", count, before, after, part).pack()


def _image(change: GivenRow, table: Table, image: Mapping[str, Any] | None) -> RowImage | None:
    if image is None:
        return None
    given = {name.lower(): value for name, value in image.items()}
    if len(given) != len(image):
        raise change.wrong(f"a column stands twice: {', '.join(image)}")
    known = {column.name.lower(): column for column in table.columns}
    if strange := [name for name in image if name.lower() not in known]:
        raise change.wrong(f"the table has no column {', '.join(strange)} there; it has {_names(table.columns)}")
    if missing := [column for name, column in known.items() if name not in given]:
        key = table.primary_key
        parts = {part.column.lower() for part in key.parts if part.column} if key is not None else set()
        lacks = [column for column in missing if column.name.lower() in parts] or missing
        what = "of the primary key " if lacks is not missing else ""
        raise change.wrong(f"no value of the column {what}{_names(lacks)}: an image has every column")
    return tuple(_cell(change, column, given[column.name.lower()]) for column in table.columns)


def _names(columns: Iterable[Column]) -> str:
    return ", ".join(column.name for column in columns)


def _cell(change: GivenRow, column: Column, given: Any) -> bytes | None:
    if given is None:
        if not column.nullable:
            raise change.wrong(f"column {column.name} is NOT NULL")
        return None
    try:
        return _encoded(column.type, given)
    except (ConversionError, UnsupportedInput, ValueError) as error:
        reason = error.message if isinstance(error, UnsupportedInput) else str(error)
        raise change.wrong(f"column {column.name}, {column.type.name}: {reason}") from None


def _encoded(kind: ColumnType, given: Any) -> bytes:
    if kind.family is Family.JSON:
        text = given if isinstance(given, str) else json.dumps(given, default=float)
        return encode_cell(kind, read_json(text))
    if kind.family is Family.VECTOR:
        return encode_cell(kind, _bytes_of(kind, given) if isinstance(given, str) else _floats(given))
    if kind.family is Family.GEOMETRY:
        data = _bytes_of(kind, given)
        return len(data).to_bytes(4, "little") + data
    lost: Lost = []
    value = _bytes_of(kind, given) if kind.family is Family.BYTES else _plain(kind, given)
    old = (
        _BYTES
        if isinstance(value, bytes)
        else _TEXT
        if isinstance(value, str)
        else _UNSIGNED
        if value >= 0
        else _SIGNED
    )
    # Any date that a column holds: 2024-02-30 too, which sessions may have allowed that wrote the row before.
    cell = encode_cell(kind, coerce(old, kind, value, lost, sql_mode=ALLOW_INVALID_DATES))
    if lost:
        raise ConversionError(lost[0])
    return cell


def _plain(kind: ColumnType, given: Any) -> str | int:
    """Return a value as a number, or else as a text, of which a server makes that of a column: 0 is another YEAR than
    '0'.
    """
    if isinstance(given, list | dict):
        raise ConversionError(f"{str(given)[:40]!r} is no value of such a column")
    if isinstance(given, bool):
        given = int(given)
    if kind.family is Family.BIT:
        if isinstance(given, str) and (digits := _HEX.fullmatch(given)) is not None:
            return int(digits[1] or "0", 16)
        if isinstance(given, str) and given.isascii() and given.isdigit():
            given = int(given)  # as numbers beyond 2**53 are printed
        if not isinstance(given, int) or given < 0:
            raise ConversionError(f"{given!r} is no number of bits: write 5, or 0x05")
        return given
    if isinstance(given, int) and kind.family in NUMERIC:
        return given
    return format(given, "f") if isinstance(given, Decimal) else str(given)


def _bytes_of(kind: ColumnType, given: Any) -> bytes:
    digits = _HEX.fullmatch(given) if isinstance(given, str) else None
    if digits is None:
        raise ConversionError(f"{str(given)[:40]!r} are no bytes: write 0x and two digits for each")
    return bytes.fromhex(digits[1])


def _floats(given: Any) -> Any:
    if not isinstance(given, list) or not given:
        raise ConversionError(f"{str(given)[:40]!r} is no list of numbers")
    return [float(number) for number in given]


def counted(rows: Sequence[GivenRow]) -> tuple[str, ...]:
    """Return what the rows are, in words: a text for each table."""
    tables = dict[Name, dict[str, int]]()
    for row in rows:
        own = tables.setdefault(row.table, {})
        own[row.op] = own.get(row.op, 0) + 1
    return tuple(
        f"{'.'.join(name)}: {', '.join(_number(*each) for each in own.items())}" for name, own in tables.items()
    )


def _number(op: str, count: int) -> str:
    return f"{count} {op}{'s' if count > 1 else ''}"
