"""Markers: the transactions in which a cluster informs its binlog readers about DDL and about itself.

After all nodes have changed their physical tables, the cluster inserts one row into `__cdc__.__cdc_ddl_record__` on
every node, in one distributed transaction. The position of that transaction in the global order is that of the logical
DDL (PolarDB-X: 打标取标). PolarDB-X has more such tables: instructions, heartbeats, sync points. There each node has
copies under physical names (`__cdc___000000.__cdc_ddl_record___89vr`), of which the first counts. Columns are found
by position if the table map has no names (PolarDB-X `CdcTableUtil`).
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from binlog_merge.binlog.constants import ROWS_TYPES, WRITE_TYPES, EventType
from binlog_merge.binlog.decode import decode_cell
from binlog_merge.binlog.header import RawEvent
from binlog_merge.binlog.query import Query
from binlog_merge.binlog.query_session import SessionVariables
from binlog_merge.binlog.rows import RowsEvent, split_rows
from binlog_merge.binlog.table_map import TableMap
from binlog_merge.errors import MarkerDisagreement, UnsupportedInput
from binlog_merge.polardbx.names import MarkerTable, MarkerTables
from snapshot_store.mysql.text.charsets import charset_of

COLUMNS = (
    "ID", "JOB_ID", "SQL_KIND", "SCHEMA_NAME", "TABLE_NAME", "GMT_CREATED", "DDL_SQL", "META_INFO", "VISIBILITY", "EXT",
)  # fmt: skip

PRIVATE, PUBLIC, PROTECTED = 0, 1, 2

INSTRUCTION_TYPES = frozenset({"CdcStart", "StorageInstChange", "MetaSnapshot", "CdcEnvConfigChange", "FlushLogs"})


@dataclass(frozen=True, slots=True)
class Marker:
    """One node's copy of a marker. The session that wrote it is not included, as the copies need not agree on it."""

    job_id: int | None
    kind: str
    schema: str
    table: str | None
    sql: str
    visibility: int
    ext: str
    meta_info: str = ""

    @property
    def extension(self) -> dict[str, Any]:
        """Return EXT as a dict, empty if it is not a JSON object."""
        try:
            value = json.loads(self.ext) if self.ext else {}
        except ValueError:
            return {}
        return value if isinstance(value, dict) else {}


@dataclass(frozen=True, slots=True)
class Instruction:
    """One node's copy of an instruction: a message of the cluster about itself."""

    type: str
    content: str

    @property
    def sql(self) -> str:
        """Return the text that names the instruction in error messages."""
        return f"instruction {self.type}"


@dataclass(frozen=True, slots=True)
class SyncPoint:
    """One node's copy of a sync point: a moment at which the whole cluster can be compared with its copy."""

    id: str

    @property
    def sql(self) -> str:
        """Return the statement that made it."""
        return "CALL trigger_sync_point_trx()"


Message = Marker | Instruction | SyncPoint


@dataclass(frozen=True, slots=True)
class MarkerCopy:
    """The content of one node's marker branch, and the session that wrote it."""

    marker: Message
    session: SessionVariables


def read_marker(
    events: Iterable[RawEvent], tables: MarkerTables, is_user_table: Callable[[str, str], bool]
) -> MarkerCopy | None:
    """Return the message that a branch inserts, None if it inserts none.

    Several physical copies of a marker table on one node hold the same row; rows that differ raise MarkerDisagreement.
    Rows of a user's table beside the marker raise UnsupportedInput: the output has the marker's DDL in place of the
    whole transaction.
    """
    session, maps, found = SessionVariables(), dict[int, TableMap](), list[Message]()
    for event in events:
        if event.type_code == EventType.QUERY_EVENT:
            query = Query.parse(event.body)
            if query.text.startswith(("XA START", "BEGIN")):
                session = _writer(query)
        elif event.type_code == EventType.TABLE_MAP_EVENT:
            table_map = TableMap.parse(event.body)
            maps[table_map.table_id] = table_map
        elif event.type_code in ROWS_TYPES:
            target = maps.get(int.from_bytes(event.body[:6], "little"))
            if target is None:
                continue
            kind = tables.kind(target.schema, target.table)
            if kind is None and is_user_table(target.schema, target.table):
                raise UnsupportedInput(
                    f"one transaction changes rows of {target.schema}.{target.table} and of a marker table",
                    remedy="write markers in transactions of their own; these rows can only be brought over by hand",
                )
            read = _READERS.get(kind)
            if read is not None and event.type_code in WRITE_TYPES:
                rows = RowsEvent.parse(event.type_code, event.body)
                found += [read(target, after) for _, after in split_rows(rows, target) if after is not None]
    if not found:
        return None
    if any(marker != found[0] for marker in found[1:]):
        raise MarkerDisagreement("one transaction inserts several markers that differ")
    return MarkerCopy(found[0], session)


def _writer(query: Query) -> SessionVariables:
    """Return the session that wrote a marker, without what differs from the DDL's session: time, thread and invoker."""
    return replace(SessionVariables.of(query), microseconds=None, thread_id=0, exec_time=0, invoker_user=None)


def _marker(table_map: TableMap, row: tuple[Any, ...]) -> Marker:
    names = _names(table_map) or list(COLUMNS)
    values = {name: _value(table_map, i, row[i]) for i, name in enumerate(names) if i < len(row)}
    job = values.get("JOB_ID")
    return Marker(
        int(job) if job is not None else None,
        str(values.get("SQL_KIND") or ""),
        str(values.get("SCHEMA_NAME") or ""),
        None if values.get("TABLE_NAME") is None else str(values["TABLE_NAME"]),
        str(values.get("DDL_SQL") or ""),
        PUBLIC if values.get("VISIBILITY") is None else int(values["VISIBILITY"]),
        str(values.get("EXT") or ""),
        str(values.get("META_INFO") or ""),
    )


def _instruction(table_map: TableMap, row: tuple[Any, ...]) -> Instruction:
    values = [_value(table_map, i, cell) for i, cell in enumerate(row)]
    names = _names(table_map)
    if names is not None and {"INSTRUCTION_TYPE", "INSTRUCTION_CONTENT"} <= set(names):
        found = dict(zip(names, values, strict=False))
        return Instruction(str(found["INSTRUCTION_TYPE"] or ""), str(found["INSTRUCTION_CONTENT"] or ""))
    # Older clusters also have a CLUSTER_ID: the type is recognized by its value, and the content follows it.
    at = next((i for i, value in enumerate(values) if value in INSTRUCTION_TYPES), 1)
    kind, content = (*values, None, None)[at : at + 2] if at < len(values) else (None, None)
    return Instruction(str(kind or ""), str(content or ""))


def _sync_point(table_map: TableMap, row: tuple[Any, ...]) -> SyncPoint:
    value = _value(table_map, 0, row[0]) if row else None
    return SyncPoint("" if value is None else str(value))


_READERS: Mapping[MarkerTable | None, Callable[[TableMap, tuple[Any, ...]], Message]] = {
    MarkerTable.DDL_RECORD: _marker,
    MarkerTable.INSTRUCTION: _instruction,
    MarkerTable.SYNC_POINT: _sync_point,
}


def _names(table_map: TableMap) -> list[str] | None:
    names = table_map.optional.column_names if table_map.optional else None
    return [str(name).upper() for name in names] if names else None


def _value(table_map: TableMap, column: int, cell: Any) -> Any:
    if not isinstance(cell, bytes | memoryview):
        return None  # NULL, or absent from a MINIMAL image
    collation = table_map.collations()[column]
    charset = (charset_of(collation) if collation is not None else None) or "utf8mb4"
    if charset == "binary":
        charset = "utf8mb4"
    value = decode_cell(table_map.types[column], table_map.metas[column], bytes(cell), False, charset)
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value
