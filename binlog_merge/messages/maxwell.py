"""Rows as Maxwell's daemon writes them, with its own names of options.

    {"database":"shop","table":"orders","type":"update","ts":1790000000,"xid":12,"commit":true,
     "data":{"id":1,"price":2.50},"old":{"price":2.00}}

`xid` is the rank of the transaction in the log, `xoffset` the number of the row in it, and its last row has `commit`
instead. Times are MySQL's text, TIMESTAMP in UTC; decimals are numbers, bytes base64, a SET a list, a shape
Well-Known Text. Source: zendesk/maxwell, row/RowMap.java and schema/columndef.
"""

import struct
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlog_merge.binlog.columnar import AFTER, BEFORE
from binlog_merge.binlog.errors import CellValueError
from binlog_merge.errors import UnsupportedInput
from binlog_merge.messages import json_text as j
from binlog_merge.messages.message import RENAMES, Encoded, Message, action_of
from binlog_merge.messages.plain import member_lists
from binlog_merge.messages.read import Ddl
from binlog_merge.messages.rows import UPDATE, TableRows, guarded, sparse
from snapshot_store.model import Column, Table
from snapshot_store.mysql.column_type import MEMBERS, Family

_TYPES: Final = ("insert", "update", "delete")


def _flag(default: bool) -> Any:
    return field(default=default)


@dataclass(frozen=True, slots=True)
class MaxwellOptions:
    """Maxwell's options; the defaults are its own, but for `output_ddl`, which is on: nothing is left out unasked."""

    output_commit_info: bool = _flag(True)
    output_xoffset: bool = _flag(False)
    output_binlog_position: bool = _flag(False)
    output_gtid_position: bool = _flag(False)
    output_server_id: bool = _flag(False)
    output_thread_id: bool = _flag(False)
    output_primary_keys: bool = _flag(False)
    output_primary_key_columns: bool = _flag(False)
    output_nulls: bool = _flag(True)
    output_ddl: bool = _flag(True)


class Maxwell:
    """Makes Maxwell's messages. It counts the rows of a transaction, and so must get all of them, in order."""

    name: ClassVar[str] = "maxwell"
    keyed: ClassVar[bool] = False

    def __init__(self, options: MaxwellOptions) -> None:
        self.options = options

    def before(self, rows: TableRows) -> list[Message]:
        """Return nothing: each message says what it needs."""
        return []

    def ddl(self, ddl: Ddl, now_ns: int) -> list[Message]:
        """Return the messages of a statement, one for each table that it changes."""
        return schema_change(ddl) if self.options.output_ddl else []

    def rows(self, rows: TableRows, now_ns: int) -> Encoded:
        """Return a message for each row. Raises UnsupportedInput and ConversionFailed."""
        rows.check_whole(self.name)
        found: Encoded = guarded(rows, lambda: self._rows(rows))
        return found

    def _rows(self, rows: TableRows) -> Encoded:
        table, names = rows.table, rows.names
        before, after = ([_values(rows, side, place) for place in rows.places] for side in (BEFORE, AFTER))
        there = pa.array(rows.there(AFTER))
        now = [pc.if_else(there, new, old) for new, old in zip(after, before, strict=True)]
        kinds = pa.array(_TYPES).take(pa.array(rows.ops.astype(np.int64)))
        parts = [
            f'{{"database":{j.literal(table.schema)},"table":{j.literal(table.name)},"type":"', kinds, '","ts":',
            j.numbers(pa.array(rows.commit_us // 1_000_000)), *self._facts(rows), *self._keys(rows, now),
            ',"data":', self._data(names, now),
        ]  # fmt: skip
        old = j.joined([',"old":', sparse(rows, before)])
        parts += [pc.if_else(pa.array(rows.ops == UPDATE), old, ""), "}"]
        return Encoded(self._message_keys(rows, now), j.joined(parts), np.arange(len(rows)))

    def _data(self, names: list[str], now: list[Any]) -> Any:
        if self.options.output_nulls:
            return j.objects(names, now)
        parts = [
            pc.fill_null(j.joined([f",{j.literal(n)}:", pc.fill_null(a, "")]), "")
            for n, a in zip(names, now, strict=True)
        ]
        kept = [pc.if_else(a.is_valid(), part, "") for a, part in zip(now, parts, strict=True)]
        return j.joined(["{", pc.utf8_slice_codeunits(j.joined(kept), 1), "}"])

    def _facts(self, rows: TableRows) -> list[Any]:
        """Return what the options ask of transactions and events."""
        parts: list[Any] = []
        if self.options.output_commit_info:
            parts += [',"xid":', j.numbers(pa.array(rows.ranks)), self._ends(rows)]
        if self.options.output_binlog_position:
            parts += [f',"position":"{rows.file}:', j.numbers(pa.array(rows.ends)), '"']
        if self.options.output_gtid_position:
            parts += [',"gtid":', j.quoted(rows.gtids)]
        if self.options.output_server_id:
            parts += [',"server_id":', j.numbers(pa.array(rows.server_ids))]
        if self.options.output_thread_id:
            parts += [',"thread_id":', j.numbers(rows.thread_ids)]
        return parts

    def _ends(self, rows: TableRows) -> Any:
        """Return `commit` for the last row of a transaction, and with output_xoffset the number of each other row."""
        last = rows.last_of_transaction
        offsets = [',"xoffset":', j.numbers(pa.array(rows.offsets))] if self.options.output_xoffset else [""]
        return pc.if_else(pa.array(last), ',"commit":true', j.joined(offsets) if len(offsets) > 1 else "")

    def _keys(self, rows: TableRows, now: list[Any]) -> list[Any]:
        places = [rows.places.index(place) for place in rows.key_places if place in rows.places]
        parts: list[Any] = []
        if self.options.output_primary_keys and places:
            values: list[Any] = []
            for place in places:
                values += [",", now[place]]
            parts += [',"primary_key":[', *values[1:], "]"]
        if self.options.output_primary_key_columns:
            parts.append(f',"primary_key_columns":{j.literal([rows.names[place] for place in places])}')
        return parts

    def _message_keys(self, rows: TableRows, now: list[Any]) -> Any:
        places = [rows.places.index(place) for place in rows.key_places if place in rows.places]
        if not places:
            return pa.nulls(len(rows), pa.large_string())
        head = f'{{"database":{j.literal(rows.table.schema)},"table":{j.literal(rows.table.name)}'
        parts: list[Any] = [head]
        for place in places:
            parts += [f",{j.literal('pk.' + rows.names[place].lower())}:", now[place]]
        return j.joined([*parts, "}"])


def _values(rows: TableRows, side: int, place: int) -> Any:
    """Return a column's values as JSON."""
    column = rows.table.columns[place]
    family = column.type.family
    if family is Family.VECTOR:
        raise UnsupportedInput(
            f"{rows.table.schema}.{rows.table.name}.{column.name} is a VECTOR: Maxwell has no such type",
            remedy="leave it out with --columns, or take another format",
        )
    array = rows.column(side, place, temporal_text=True)
    if family is Family.BYTES:
        return j.base64(array)
    if family is Family.JSON:
        return array
    if family is Family.SET:
        return member_lists(array)
    if pa.types.is_binary(array.type):
        return _shapes(array)
    if pa.types.is_decimal(array.type):
        return j.plain_decimals(array)
    if pa.types.is_string(array.type):
        return j.quoted(array)
    return j.numbers(array)


def _shapes(array: Any) -> Any:
    try:
        return j.quoted(pa.array([None if v is None else wkt_of(v) for v in array.to_pylist()], pa.string()))
    except ValueError as error:
        raise CellValueError(str(error)) from None


_DATABASES: Final = {"ActionCreateSchema": "database-create", "ActionDropSchema": "database-drop"}


def schema_change(ddl: Ddl) -> list[Message]:
    """Return the messages; a statement that the schema store does not have is one message without definitions."""
    action, head = action_of(ddl.statement.ddl), dict[str, Any]()
    if not ddl.versions:
        schema, table = ddl.names[0] if ddl.names else (ddl.schema, "")
        word = _DATABASES.get(action, "table-alter")
        values = {"type": word, "database": schema}
        return [_message(ddl, schema, table, values | ({"table": table} if table else {}))]
    if action in RENAMES and len(ddl.versions) == 2:
        gone, come = sorted(zip(ddl.versions, ddl.before, strict=True), key=lambda each: each[0].table is not None)
        if gone[0].table is None and gone[1] is not None and come[0].table is not None and come[1] is None:
            head = {"type": "table-alter", "database": gone[0].schema, "table": gone[0].name}
            head |= {"old": _definition(gone[1]), "def": _definition(come[0].table)}
            return [_message(ddl, gone[0].schema, gone[0].name, head)]
    messages = []
    for version, before in zip(ddl.versions, ddl.before, strict=True):
        head = {"type": "table-alter", "database": version.schema, "table": version.name}
        if version.table is None:
            head["type"] = "table-drop"
        elif before is None:
            head |= {"type": "table-create", "def": _definition(version.table)}
        else:
            head |= {"old": _definition(before), "def": _definition(version.table)}
        messages.append(_message(ddl, version.schema, version.name, head))
    return messages


def _message(ddl: Ddl, schema: str, table: str, head: dict[str, Any]) -> Message:
    value = head | {"ts": ddl.begin.commit_us // 1000, "sql": ddl.text}
    return Message("ddl", schema, table, None, j.literal(value).encode())


def _definition(table: Table) -> dict[str, Any]:
    index = table.primary_key
    return {
        "database": table.schema,
        "charset": table.charset,
        "table": table.name,
        "primary-key": [] if index is None else [part.column for part in index.parts],
        "columns": [_column(column) for column in table.columns],
    }


def _column(column: Column) -> dict[str, Any]:
    type_ = column.type
    values: dict[str, Any] = {"type": type_.name, "name": column.name}
    if type_.family is Family.INTEGER:
        values["signed"] = not type_.unsigned
    if type_.family is Family.TEXT:
        values["charset"] = type_.charset
    if type_.family in MEMBERS:
        values["enum-values"] = list(type_.members)
    if type_.family in (Family.TIME, Family.MOMENT):
        values["column-length"] = type_.fsp
    return values


_NAMES: Final = (
    "",
    "POINT",
    "LINESTRING",
    "POLYGON",
    "MULTIPOINT",
    "MULTILINESTRING",
    "MULTIPOLYGON",
    "GEOMETRYCOLLECTION",
)
_MOST_DEPTH: Final = 64


def wkt_of(cell: bytes) -> str:
    """Return the text of a shape: four bytes of its SRID, which the text does not have, and Well-Known Binary.

    Raises ValueError for bytes that are no shape.
    """
    try:
        text, at = _shape(cell, 4, 0)
    except (struct.error, IndexError, RecursionError):
        raise ValueError("the bytes of a shape end too early") from None
    if at != len(cell):
        raise ValueError("a shape has more bytes than it needs")
    return text


def _shape(cell: bytes, at: int, depth: int) -> tuple[str, int]:
    order = "<" if cell[at] == 1 else ">"
    (kind,) = struct.unpack_from(f"{order}I", cell, at + 1)
    if not 1 <= kind <= 7 or depth > _MOST_DEPTH:
        raise ValueError(f"a shape of kind {kind}")
    body, at = _body(cell, at + 5, order, kind, depth)
    return f"{_NAMES[kind]} {body}", at


def _body(cell: bytes, at: int, order: str, kind: int, depth: int) -> tuple[str, int]:
    if kind == 1:
        text, at = _point(cell, at, order)
        return f"({text})", at
    (count,) = struct.unpack_from(f"{order}I", cell, at)
    at += 4
    parts = []
    for _ in range(count):
        if kind == 2:
            text, at = _point(cell, at, order)
        elif kind == 3:
            text, at = _body(cell, at, order, 2, depth)
        else:
            text, at = _shape(cell, at, depth + 1)
            text = text if kind == 7 else text.partition(" ")[2]
        parts.append(text)
    return (f"({', '.join(parts)})" if parts else "EMPTY"), at


def _point(cell: bytes, at: int, order: str) -> tuple[str, int]:
    x, y = struct.unpack_from(f"{order}2d", cell, at)
    return f"{_number(x)} {_number(y)}", at + 16


def _number(value: float) -> str:
    return str(np.format_float_positional(value, unique=True, trim="-"))
