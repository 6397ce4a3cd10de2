"""Rows as TiCDC's simple protocol, in JSON: values as texts, and a table's definition once for each of its versions.

    {"version":1,"type":"BOOTSTRAP","commitTs":0,"buildTs":…,"tableSchema":{…}}
    {"version":1,"database":"shop","table":"orders","tableID":…,"type":"UPDATE","commitTs":…,"buildTs":…,
     "schemaVersion":7,"data":{"id":"1",…},"old":{…}}

`schemaVersion` is the number of the definition in the log's schema history, which is also the table id in its table
maps. Definitions come before the first row that has them, and with statements. Source: pkg/sink/codec/simple of
pingcap/tiflow.
"""

import zlib
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlog_merge.binlog.columnar import AFTER, BEFORE
from binlog_merge.messages import json_text as j
from binlog_merge.messages.message import Encoded, Message, canal_kind
from binlog_merge.messages.plain import value_texts
from binlog_merge.messages.read import Ddl
from binlog_merge.messages.rows import DELETE, INSERT, TableRows, guarded, row_keys
from binlog_merge.values.types import forms_of
from snapshot_store.model import Column, Index, Table
from snapshot_store.mysql.column_type import Family

_TYPES: Final = ("INSERT", "UPDATE", "DELETE")
_WITH_WIDTH: Final = frozenset({Family.INTEGER, Family.FLOAT, Family.YEAR, Family.DATE})


@dataclass(frozen=True, slots=True)
class SimpleOptions:
    """It has none: values are JSON."""


class Simple:
    """Makes messages of the simple protocol; it remembers which definitions it has told."""

    name: ClassVar[str] = "simple"
    keyed: ClassVar[bool] = False

    def __init__(self, options: SimpleOptions) -> None:
        self._told: set[tuple[str, str, int]] = set()

    def before(self, rows: TableRows) -> list[Message]:
        """Return the bootstrap message of a definition that was not told before."""
        table, version = rows.table, rows.changes.table.table_id
        if (table.schema, table.name, version) in self._told:
            return []
        self._told.add((table.schema, table.name, version))
        value = {"version": 1, "type": "BOOTSTRAP", "commitTs": 0, "buildTs": int(rows.commit_us[0]) // 1000}
        value["tableSchema"] = _schema(table, version)
        return [Message("schema", table.schema, table.name, None, j.literal(value).encode())]

    def ddl(self, ddl: Ddl, now_ns: int) -> list[Message]:
        """Return the messages of a statement, one for each table that it changes."""
        kind = canal_kind(ddl.statement.ddl)
        head: dict[str, Any] = {
            "version": 1, "type": kind, "sql": ddl.text, "commitTs": ddl.key.commit_tso, "buildTs": now_ns // 1_000_000
        }  # fmt: skip
        if not ddl.versions:
            schema, table = ddl.names[0] if ddl.names else (ddl.schema, "")
            return [Message("ddl", schema, table, None, j.literal(head).encode())]
        found = []
        for version, before in zip(ddl.versions, ddl.before, strict=True):
            value = dict(head)
            if version.table is not None:
                self._told.add((version.schema, version.name, version.version_id))
                value["tableSchema"] = _schema(version.table, version.version_id)
            if before is not None:
                value["preTableSchema"] = _schema(before, 0)
            found.append(Message("ddl", version.schema, version.name, None, j.literal(value).encode()))
        return found

    def rows(self, rows: TableRows, now_ns: int) -> Encoded:
        """Return a message for each row. Raises UnsupportedInput and ConversionFailed."""
        rows.check_whole(self.name)
        found: Encoded = guarded(rows, lambda: self._rows(rows, now_ns))
        return found

    def _rows(self, rows: TableRows, now_ns: int) -> Encoded:
        table, names, ops = rows.table, rows.names, rows.ops
        before, after = ([_values(rows, side, place) for place in rows.places] for side in (BEFORE, AFTER))
        head = {"version": 1, "database": table.schema, "table": table.name, "tableID": _table_id(table)}
        kinds = pa.array(_TYPES).take(pa.array(ops.astype(np.int64)))
        data = j.joined([',"data":', j.objects(names, after)])
        old = j.joined([',"old":', j.objects(names, before)])
        values = j.joined(
            [
                j.literal(head)[:-1], ',"type":"', kinds, '","commitTs":',
                j.numbers(pa.array(np.maximum(rows.commit_tsos, 0))),
                f',"buildTs":{now_ns // 1_000_000},"schemaVersion":{rows.changes.table.table_id}',
                pc.if_else(pa.array(ops != DELETE), data, ""), pc.if_else(pa.array(ops != INSERT), old, ""), "}",
            ]
        )  # fmt: skip
        there = pa.array(rows.there(AFTER))
        now = [pc.if_else(there, new, was) for new, was in zip(after, before, strict=True)]
        return Encoded(row_keys(rows, now), values, np.arange(len(rows)))


def _values(rows: TableRows, side: int, place: int) -> Any:
    """Return a column's values as JSON."""
    if rows.table.columns[place].type.name != "timestamp":
        return value_texts(rows, side, place, j.base64)
    array = rows.column(side, place, temporal_text=True)
    shown = j.joined(['{"location":"UTC","value":', j.quoted(array), "}"])
    return pc.if_else(array.is_valid(), shown, pa.scalar(None, shown.type))


def _table_id(table: Table) -> int:
    """Return a number that a table keeps through its versions."""
    return zlib.crc32(f"{table.schema}.{table.name}".encode())


def _schema(table: Table, version: int) -> dict[str, Any]:
    return {
        "schema": table.schema,
        "table": table.name,
        "tableID": _table_id(table),
        "version": version,
        "columns": [_column(column) for column in table.columns],
        "indexes": [_index(table, index) for index in table.indexes],
    }


def _column(column: Column) -> dict[str, Any]:
    type_ = column.type
    forms_of(type_, "in the simple protocol")
    binary = type_.family is Family.BYTES or type_.charset is None
    data: dict[str, Any] = {
        "mysqlType": type_.name,
        "charset": "binary" if binary else type_.charset,
        "collate": "binary" if binary else type_.collation,
    }
    length = type_.length or (type_.facts.width if type_.family in _WITH_WIDTH else type_.facts.most_bytes) or None
    more: dict[str, Any] = {
        "length": length,
        "decimal": type_.decimals if type_.family is Family.DECIMAL else type_.fsp or None,
    }
    more |= {"elements": list(type_.members) or None, "unsigned": type_.unsigned or None}
    more |= {"zerofill": type_.zerofill or None}
    data |= {name: value for name, value in more.items() if value is not None}
    default = column.default
    shown = None if default is None or default.kind == "null" else default.text or "CURRENT_TIMESTAMP"
    return {"name": column.name, "dataType": data, "nullable": column.nullable, "default": shown}


def _index(table: Table, index: Index) -> dict[str, Any]:
    columns = [part.column for part in index.parts if part.column is not None]
    places = [table.index_of(column) for column in columns]
    return {
        "name": "primary" if index.name == "PRIMARY" else index.name,
        "unique": index.unique or index.name == "PRIMARY",
        "primary": index.name == "PRIMARY",
        "nullable": any(place is not None and table.columns[place].nullable for place in places),
        "columns": columns,
    }
