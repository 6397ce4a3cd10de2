"""What a PolarDB-X cluster tells the readers of its binlogs: rows of its own tables, the same on every node."""

import json
from dataclasses import dataclass, field
from typing import Any

from tests.oracle.binlog import QUERY, OracleError, Query, parse_query
from tests.oracle.order import Branch, Key, table_maps, written_rows
from tests.oracle.polardbx.groups import SYNC_POINT
from tests.oracle.reshape import Image, TableMap

_DDL_RECORD = (
    "ID", "JOB_ID", "SQL_KIND", "SCHEMA_NAME", "TABLE_NAME", "GMT_CREATED", "DDL_SQL", "META_INFO", "VISIBILITY", "EXT",
)  # fmt: skip
_INSTRUCTION = ("ID", "INSTRUCTION_TYPE", "INSTRUCTION_CONTENT", "GMT_CREATED", "INSTRUCTION_ID")


@dataclass(frozen=True)
class Message:
    """One message, by `kind`; its row by upper-case names."""

    kind: str  # ddl, instruction, sync-point, heartbeat
    key: Key
    values: dict[str, Any]
    session: Query
    size: int
    commit_us: int
    ext: dict[str, Any] = field(default_factory=dict)

    def text(self, name: str) -> str:
        return str(self.values.get(name) or "")


def read_message(key: Key, branches: list[Branch]) -> Message | None:
    """Return what a transaction tells; raises where its copies differ."""
    for kind, schema, table, names in (
        ("ddl", "__cdc__", "__cdc_ddl_record__", _DDL_RECORD),
        ("instruction", "__cdc__", "__cdc_instruction__", _INSTRUCTION),
        ("sync-point", "", SYNC_POINT, ("ID", "GMT_CREATED")),
    ):
        copies = [(b, rows) for b in branches if (rows := written_rows(b.rows, schema, table, exact=False))]
        if not copies:
            continue
        values = [_row(tmap, image, names) for _, rows in copies for tmap, image in rows]
        if kind == "instruction":  # its ID is that of the row in each copy, and means nothing
            values = [v | {"ID": None} for v in values]
        if any(v != values[0] for v in values):
            raise OracleError(f"the copies of a message at {key} differ: {values}")
        session = next(parse_query(e) for e in copies[0][0].rows.events if e.type == QUERY)
        ext = json.loads(values[0]["EXT"]) if values[0].get("EXT") else {}
        size, us = sum(b.rows.size for b, _ in copies), max(b.commit_us for b, _ in copies)
        return Message(kind, key, values[0], session, size, us, ext)
    if any(table.startswith("__cdc_heartbeat__") for b in branches for (_, table), _ in table_maps(b.rows)):
        size, us = sum(b.rows.size for b in branches), max(b.commit_us for b in branches)
        return Message("heartbeat", key, {}, Query("", "", None, None, None, None), size, us)
    return None


def is_message(schema: str, table: str) -> bool:
    """Tell whether a physical table is the cluster's own, whose rows never come out."""
    return schema.startswith("__cdc__") or table.startswith(SYNC_POINT)


def _row(tmap: TableMap, image: Image, names: tuple[str, ...]) -> dict[str, Any]:
    own = [c.name.upper() for c in tmap.columns] if tmap.named else list(names)
    values: dict[str, Any] = {}
    for name, column, cell in zip(own, tmap.columns, image, strict=True):
        if not isinstance(cell, bytes):
            values[name] = None
        elif column.type == 8:
            values[name] = int.from_bytes(cell, "little", signed=True)
        elif column.type in (15, 252):
            width = column.meta[0] if column.type == 252 else 2 if int.from_bytes(column.meta, "little") > 255 else 1
            values[name] = cell[width:].decode()
    return values
