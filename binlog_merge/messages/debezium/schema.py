"""Schemas of Kafka Connect for a table's messages, in JsonConverter's form."""

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from binlog_merge.messages.debezium.options import DebeziumOptions, field_names, schema_name, topic_of
from binlog_merge.messages.debezium.types import kind_of
from binlog_merge.values.convert.clock import read_time
from binlog_merge.values.types import column_facts_of
from snapshot_store.model import Column, Table
from snapshot_store.mysql.column_type import TEMPORAL, Family

_SNAPSHOT: Final = "true,first,first_in_data_collection,last_in_data_collection,last,false,incremental"


def _field(field: str, kind: str, optional: bool = False, **more: Any) -> dict[str, Any]:
    return {"type": kind, "optional": optional, **more, "field": field}


SOURCE: Final = {
    "type": "struct",
    "fields": [
        _field("version", "string"),
        _field("connector", "string"),
        _field("name", "string"),
        _field("ts_ms", "int64"),
        _field(
            "snapshot", "string", True, name="io.debezium.data.Enum", version=1,
            parameters={"allowed": _SNAPSHOT}, default="false",
        ),
        _field("db", "string"),
        _field("sequence", "string", True),
        _field("ts_us", "int64", True),
        _field("ts_ns", "int64", True),
        _field("table", "string", True),
        _field("server_id", "int64"),
        _field("gtid", "string", True),
        _field("file", "string"),
        _field("pos", "int64"),
        _field("row", "int32"),
        _field("thread", "int64", True),
        _field("query", "string", True),
    ],
    "optional": False,
    "name": "io.debezium.connector.mysql.Source",
    "version": 1,
    "field": "source",
}  # fmt: skip
_TRANSACTION: Final = {
    "type": "struct",
    "fields": [_field("id", "string"), _field("total_order", "int64"), _field("data_collection_order", "int64")],
    "optional": True,
    "name": "event.block",
    "version": 1,
    "field": "transaction",
}


def column_schema(column: Column, field: str, options: DebeziumOptions) -> dict[str, Any]:
    """Return the schema of a column, with its default."""
    kind = kind_of(column, options)
    schema = {**kind.schema, "optional": column.nullable}
    default = default_of(column, options)
    if default is not None:
        schema["default"] = default
    return {**schema, "field": field}


def default_of(column: Column, options: DebeziumOptions) -> Any:
    """Return the default in a column's schema; None without one, and for one that the server computes.

    Source: BinlogDefaultValueConverter: CURRENT_TIMESTAMP becomes the epoch, if the column is NOT NULL.
    """
    import json

    default, kind = column.default, kind_of(column, options)
    if default is None or default.kind in ("null", "expression"):
        return None
    if default.kind == "now":
        return None if column.nullable or kind.epoch is None else json.loads(kind.epoch)
    try:
        array = _literal(column, default.text, options)
    except (pa.ArrowInvalid, ValueError):  # 0000-00-00
        return None if column.nullable or kind.epoch is None else json.loads(kind.epoch)
    return None if array is None else json.loads(kind.values(array)[0].as_py())


def _literal(column: Column, text: str, options: DebeziumOptions) -> Any:
    """Return a default as an array of the column's type; None for one that Debezium's schemas do not show."""
    type_ = column_facts_of(column).type
    if column.type.family is Family.BIT:
        return pa.array([int(text[2:-1], 2) if text.startswith("b'") else int(text)], type_)
    if column.type.family is Family.TIME:
        return pa.array([read_time(text, [])], type_)
    if column.type.family in (Family.JSON, Family.VECTOR):
        return None
    if pa.types.is_binary(type_):
        # Which bytes other characters stood for depends on the session that the statement ran in.
        return pa.array([text.encode("ascii")], type_) if text.isascii() else None
    if column.type.name == "bigint" and column.type.unsigned and options.bigint_unsigned == "long":
        return pa.array([min(int(text), (1 << 63) - 1)], type_)
    if column.type.family in TEMPORAL:
        return pa.array([text]).cast(pa.timestamp("us")).cast(type_ if pa.types.is_date(type_) else pa.timestamp("us"))
    if pa.types.is_integer(type_):
        return pa.array([round(float(text)) if "." in text else int(text)], type_)
    return pa.array([text]).cast(type_)


def row_schema(table: Table, columns: Sequence[Column], options: DebeziumOptions, side: str) -> dict[str, Any]:
    """Return the schema of `before` or `after`."""
    return {
        "type": "struct",
        "fields": _fields(table, columns, options),
        "optional": True,
        "name": _name(table, "Value", options),
        "field": side,
    }


def envelope_schema(table: Table, columns: Sequence[Column], options: DebeziumOptions) -> dict[str, Any]:
    """Return the schema of a change's value."""
    return {
        "type": "struct",
        "fields": [
            row_schema(table, columns, options, "before"),
            row_schema(table, columns, options, "after"),
            SOURCE,
            _TRANSACTION,
            _field("op", "string"),
            _field("ts_ms", "int64", True),
            _field("ts_us", "int64", True),
            _field("ts_ns", "int64", True),
        ],
        "optional": False,
        "name": _name(table, "Envelope", options),
        "version": 2,
    }


def key_schema(table: Table, columns: Sequence[Column], options: DebeziumOptions) -> dict[str, Any]:
    """Return the schema of a change's key."""
    fields = _fields(table, columns, options)
    return {"type": "struct", "fields": fields, "optional": False, "name": _name(table, "Key", options)}


def _fields(table: Table, columns: Sequence[Column], options: DebeziumOptions) -> list[dict[str, Any]]:
    names = field_names(table, columns, options)
    return [column_schema(column, name, options) for column, name in zip(columns, names, strict=True)]


def _name(table: Table, part: str, options: DebeziumOptions) -> str:
    return schema_name(f"{topic_of(table, options)}.{part}", options)
