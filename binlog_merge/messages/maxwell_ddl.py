"""A statement as Maxwell's messages, one for each table that it changes.

    {"type":"table-alter","database":"shop","table":"orders","old":{…},"def":{…},"ts":…,"sql":"ALTER TABLE …"}

Source: zendesk/maxwell, schema/ddl (ResolvedTableAlter and its kin) and schema/columndef/ColumnDefSerializer.
"""

from typing import Any, Final

from binlog_merge.messages import json_text as j
from binlog_merge.messages.ddl_kinds import RENAMES, action_of
from binlog_merge.messages.message import Message
from binlog_merge.messages.read import Ddl
from snapshot_store.model import Column, Table
from snapshot_store.mysql.column_type import MEMBERS, Family

_DATABASES: Final = {"ActionCreateSchema": "database-create", "ActionDropSchema": "database-drop"}


def schema_change(ddl: Ddl) -> list[Message]:
    """Return the messages; a statement that the schema store does not have is one message without definitions."""
    action, head = action_of(ddl.statement.ddl), dict[str, Any]()
    if not ddl.versions:
        schema, table = ddl.names[0] if ddl.names else (ddl.schema, "")
        word = _DATABASES.get(action, "table-alter")
        found = {"type": word, "database": schema}
        return [_message(ddl, schema, table, found | ({"table": table} if table else {}))]
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
    found: dict[str, Any] = {"type": type_.name, "name": column.name}
    if type_.family is Family.INTEGER:
        found["signed"] = not type_.unsigned
    if type_.family is Family.TEXT:
        found["charset"] = type_.charset
    if type_.family in MEMBERS:
        found["enum-values"] = list(type_.members)
    if type_.family in (Family.TIME, Family.MOMENT):
        found["column-length"] = type_.fsp
    return found
