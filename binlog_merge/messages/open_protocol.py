"""Rows as TiCDC's open protocol: a key that says whose row it is, and a value with types and flags.

    key    {"ts":461373440000000000,"scm":"shop","tbl":"orders","t":1}
    value  {"u":{"id":{"t":8,"h":true,"f":11,"v":1},…},"p":{…}}      d instead of u for a delete

`t` of a key: 1 a row, 2 a statement; watermarks (3) are not sent. A message of Kafka has a version (8 bytes), and each
key and value behind its length (8 bytes). Sources: pkg/sink/codec/open and codec/internal of pingcap/tiflow.
"""

import struct
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlog_merge.binlog.columnar import AFTER, BEFORE
from binlog_merge.messages import json_text as j
from binlog_merge.messages.message import Encoded, Message, tidb_number
from binlog_merge.messages.plain import go_quoted, member_numbers, vector_texts
from binlog_merge.messages.read import Ddl
from binlog_merge.messages.rows import DELETE, UPDATE, TableRows, guarded, sparse
from binlog_merge.values.types import forms_of
from snapshot_store.model import Column, Table
from snapshot_store.mysql.column_type import MEMBERS, Family

_VERSION: Final = struct.pack(">Q", 1)
_BINARY, _HANDLE, _GENERATED, _PRIMARY, _UNIQUE, _MULTIPLE, _NULLABLE, _UNSIGNED = (1 << i for i in range(8))


@dataclass(frozen=True, slots=True)
class OpenProtocolOptions:
    """TiCDC's names and defaults."""

    old_value: bool = field(default=True, metadata={"name": "output-old-value"})
    only_updated: bool = field(default=False, metadata={"name": "only-output-updated-columns"})


class OpenProtocol:
    """Makes messages of the open protocol."""

    name: ClassVar[str] = "open-protocol"
    keyed: ClassVar[bool] = True

    def __init__(self, options: OpenProtocolOptions) -> None:
        self.options = options

    def before(self, rows: TableRows) -> list[Message]:
        """Return nothing: each message says what it needs."""
        return []

    def ddl(self, ddl: Ddl, now_ns: int) -> list[Message]:
        """Return the message of a statement."""
        schema, table = ddl.names[0] if ddl.names else (ddl.schema, "")
        key = {"ts": ddl.key.commit_tso, "scm": schema, **({"tbl": table} if table else {}), "t": 2}
        value = {"q": ddl.text, "t": tidb_number(ddl.statement.ddl)}
        return [Message("ddl", schema, table, j.literal(key).encode(), j.literal(value).encode())]

    def rows(self, rows: TableRows, now_ns: int) -> Encoded:
        """Return a message for each row. Raises UnsupportedInput and ConversionFailed."""
        rows.check_whole(self.name)
        found: Encoded = guarded(rows, lambda: self._rows(rows))
        return found

    def wire(self, key: bytes | None, value: bytes | None) -> tuple[bytes | None, bytes | None]:
        """Return a message's key and value as Kafka carries them."""
        key, value = key or b"", value or b""
        return _VERSION + struct.pack(">Q", len(key)) + key, struct.pack(">Q", len(value)) + value

    def _rows(self, rows: TableRows) -> Encoded:
        table, ops = rows.table, rows.ops
        before, after = ([self._column(rows, side, place) for place in rows.places] for side in (BEFORE, AFTER))
        names = rows.names
        old = sparse(rows, before) if self.options.only_updated else j.objects(names, before)
        updated = j.joined(['{"u":', j.objects(names, after), *((',"p":', old) if self.options.old_value else ()), "}"])
        values = pc.if_else(pa.array(ops == UPDATE), updated, j.joined(['{"u":', j.objects(names, after), "}"]))
        values = pc.if_else(pa.array(ops == DELETE), j.joined(['{"d":', j.objects(names, before), "}"]), values)
        keys = j.joined(
            ['{"ts":', j.numbers(pa.array(np.maximum(rows.commit_tsos, 0))),
             f',"scm":{j.literal(table.schema)},"tbl":{j.literal(table.name)},"t":1}}']
        )  # fmt: skip
        return Encoded(keys, values, np.arange(len(rows)))

    def _column(self, rows: TableRows, side: int, place: int) -> Any:
        column = rows.table.columns[place]
        handle = ',"h":true' if column.name.lower() in handle_columns(rows.table) else ""
        code, flag = forms_of(column.type, "in the open protocol").tidb, flag_of(rows.table, column)
        return j.joined([f'{{"t":{code}{handle},"f":{flag},"v":', _values(rows, side, place), "}"])


def _values(rows: TableRows, side: int, place: int) -> Any:
    """Return a column's values as JSON."""
    kind = rows.table.columns[place].type
    if kind.family in MEMBERS:
        return j.numbers(member_numbers(rows, side, place))
    array = rows.column(side, place, temporal_text=True)
    if kind.is_lob:
        return j.base64(array)
    if kind.family is Family.BYTES:
        return j.quoted(go_quoted(array))
    if kind.family is Family.VECTOR:
        return j.quoted(vector_texts(array))
    if pa.types.is_binary(array.type):
        return j.base64(array)
    if pa.types.is_decimal(array.type):
        return j.quoted(j.plain_decimals(array))
    return j.quoted(array) if pa.types.is_string(array.type) else j.numbers(array)


def handle_columns(table: Table) -> frozenset[str]:
    """Return the columns by which a row is found, in lower case: of the primary key, or a unique one without NULLs."""
    index = next(iter(table.row_keys), None)
    return frozenset() if index is None else frozenset((part.column or "").lower() for part in index.parts)


def flag_of(table: Table, column: Column) -> int:
    """Return TiCDC's flag of a column. Source: cdc/model of pingcap/tiflow."""
    name, flag = column.name.lower(), 0
    flag |= _BINARY if column.type.family is Family.BYTES else 0
    flag |= _HANDLE if name in handle_columns(table) else 0
    flag |= _GENERATED if column.generated is not None else 0
    for index in table.indexes:
        if any((part.column or "").lower() == name for part in index.parts):
            if index.name == "PRIMARY":
                flag |= _PRIMARY
            elif index.unique:
                flag |= _UNIQUE
            else:
                flag |= _MULTIPLE
            flag |= _MULTIPLE if len(index.parts) > 1 and index.unique and index.name != "PRIMARY" else 0
    flag |= _NULLABLE if column.nullable else 0
    return flag | (_UNSIGNED if column.type.unsigned else 0)
