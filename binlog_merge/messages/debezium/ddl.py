"""A statement as Debezium's schema change event, with the tables as they are after it."""

from typing import Any, Final

from binlog_merge.messages import json_text as j
from binlog_merge.messages.debezium.options import VERSION, DebeziumOptions
from binlog_merge.messages.debezium.schema import SOURCE
from binlog_merge.messages.message import CREATES, RENAMES, Message, Schemas, action_of
from binlog_merge.messages.read import Ddl
from binlog_merge.values.types import forms_of
from snapshot_store.history import TableVersion
from snapshot_store.model import Column, Table
from snapshot_store.mysql.column_type import MEMBERS, Family


def schema_change(ddl: Ddl, now_ns: int, options: DebeziumOptions) -> list[Message]:
    """Return the message; its table changes are empty where the log's schema store does not have the statement."""
    micros, gtid = ddl.begin.commit_us, ddl.begin.gtid
    versions = _versions(ddl)
    table = ddl.names[0] if ddl.names else (ddl.schema, None)
    if len(versions) < len(ddl.versions):
        table = (versions[0].schema, versions[0].name)
    source = {
        "version": VERSION, "connector": "mysql", "name": options.topic_prefix, "ts_ms": micros // 1000,
        "snapshot": "false", "db": table[0], "sequence": None, "ts_us": micros, "ts_ns": micros * 1000,
        "table": table[1], "server_id": ddl.statement.server_id, "gtid": gtid if ":" in gtid else None,
        "file": ddl.file, "pos": ddl.statement.position, "row": 0, "thread": None, "query": None,
    }  # fmt: skip
    value: Any = {
        "source": source,
        "ts_ms": now_ns // 1_000_000,
        "databaseName": table[0],
        "schemaName": None,
        "ddl": ddl.text,
        "tableChanges": _changes(ddl, versions),
    }
    key: Any = {"databaseName": table[0]}
    if options.schemas:
        key, value = {"schema": _KEY, "payload": key}, {"schema": _VALUE, "payload": value}
    return [Message("ddl", "", "", j.literal(key).encode(), j.literal(value).encode(), _SCHEMAS)]


def _versions(ddl: Ddl) -> tuple[TableVersion, ...]:
    """Return the versions that Debezium tells: of a table that is renamed that under its new name alone."""
    if action_of(ddl.statement.ddl) not in RENAMES:
        return ddl.versions
    return tuple(version for version in ddl.versions if version.table is not None)


def _changes(ddl: Ddl, versions: tuple[TableVersion, ...]) -> list[dict[str, Any]]:
    created = action_of(ddl.statement.ddl) in CREATES
    changes = []
    for version in versions:
        name = f'"{version.schema}"."{version.name}"'
        kind = "DROP" if version.table is None else "CREATE" if created else "ALTER"
        changes.append({"type": kind, "id": name, "table": None if version.table is None else _table(version.table)})
    return changes


def _table(table: Table) -> dict[str, Any]:
    index = table.primary_key
    return {
        "defaultCharsetName": table.charset,
        "primaryKeyColumnNames": [] if index is None else [part.column for part in index.parts],
        "columns": [_column(number, column) for number, column in enumerate(table.columns, 1)],
        "comment": table.comment or None,
    }


def _column(position: int, column: Column) -> dict[str, Any]:
    type_ = column.type
    name = type_.name.upper() + (" UNSIGNED" if type_.unsigned else "") + (" ZEROFILL" if type_.zerofill else "")
    members = [f"'{member}'" for member in type_.members] if type_.members else None
    default = column.default.text if column.default is not None and column.default.kind == "literal" else None
    if column.default is not None and column.default.kind == "now":
        default = "CURRENT_TIMESTAMP"
    return {
        "name": column.name,
        "jdbcType": forms_of(type_, "of Debezium").jdbc,
        "nativeType": None,
        "typeName": name,
        "typeExpression": name,
        "charsetName": type_.charset if type_.charset != "binary" else None,
        "length": _length(column),
        "scale": type_.decimals if type_.family in (Family.DECIMAL, Family.FLOAT) else None,
        "position": position,
        "optional": column.nullable,
        "autoIncremented": column.auto_increment,
        "generated": column.generated is not None,
        "comment": column.comment or None,
        "defaultValueExpression": default,
        "enumValues": members,
    }


def _length(column: Column) -> int | None:
    if column.type.family in (Family.TIME, Family.MOMENT):
        return column.type.fsp or None
    if column.type.family in MEMBERS:
        return 1 if column.type.family is Family.ENUM else max(0, 2 * len(column.type.members) - 1)
    return column.type.length


def _field(name: str, kind: str, optional: bool = True) -> dict[str, Any]:
    return {"type": kind, "optional": optional, "field": name}


def _struct(name: str, fields: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    return {"type": "struct", "fields": fields, "optional": False, "name": name, "version": 1, **more}


def _array(items: dict[str, Any], name: str, optional: bool = True) -> dict[str, Any]:
    return {"type": "array", "items": items, "optional": optional, "field": name}


_STRING: Final = {"type": "string", "optional": False}
_COLUMN: Final = _struct(
    "io.debezium.connector.schema.Column",
    [
        _field("name", "string", False), _field("jdbcType", "int32", False), _field("nativeType", "int32"),
        _field("typeName", "string", False), _field("typeExpression", "string"), _field("charsetName", "string"),
        _field("length", "int32"), _field("scale", "int32"), _field("position", "int32", False),
        _field("optional", "boolean"), _field("autoIncremented", "boolean"), _field("generated", "boolean"),
        _field("comment", "string"), _field("defaultValueExpression", "string"), _array(_STRING, "enumValues"),
    ],
)  # fmt: skip
_TABLE: Final = {
    **_struct(
        "io.debezium.connector.schema.Table",
        [
            _field("defaultCharsetName", "string"), _array(_STRING, "primaryKeyColumnNames"),
            _array(_COLUMN, "columns", False), _field("comment", "string"),
        ],
    ),
    "optional": True,
    "field": "table",
}  # fmt: skip
_CHANGE: Final = _struct(
    "io.debezium.connector.schema.Change", [_field("type", "string", False), _field("id", "string", False), _TABLE]
)
_VALUE: Final = _struct(
    "io.debezium.connector.mysql.SchemaChangeValue",
    [
        SOURCE, _field("ts_ms", "int64", False), _field("databaseName", "string"), _field("schemaName", "string"),
        _field("ddl", "string"), _array(_CHANGE, "tableChanges", False),
    ],
)  # fmt: skip
_KEY: Final = _struct("io.debezium.connector.mysql.SchemaChangeKey", [_field("databaseName", "string", False)])
_SCHEMAS: Final = Schemas(_KEY, _VALUE)
