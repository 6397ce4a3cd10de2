"""Markers: the transactions by which a cluster tells its binlog readers about DDL.

After all nodes have changed their physical tables, the cluster inserts one row into `__cdc__.__cdc_ddl_record__` on
every node, by one distributed transaction. That transaction's place in the global order is the place of the logical DDL
(PolarDB-X: 打标取标). Columns by position where the table map carries no names (PolarDB-X `CdcTableUtil`):
ID, JOB_ID, SQL_KIND, SCHEMA_NAME, TABLE_NAME, GMT_CREATED, DDL_SQL, META_INFO, VISIBILITY, EXT.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from binlog_merge.binlog.constants import EventType
from binlog_merge.binlog.header import RawEvent, walk
from binlog_merge.binlog.payload import TransactionPayload
from binlog_merge.binlog.query import Query, StatusVar
from binlog_merge.binlog.rows import RowsEvent, split_rows
from binlog_merge.binlog.table_map import TableMap
from binlog_merge.binlog.values import charset_of, decode_cell
from binlog_merge.errors import MarkerDisagreement

COLUMNS = (
    "ID", "JOB_ID", "SQL_KIND", "SCHEMA_NAME", "TABLE_NAME", "GMT_CREATED", "DDL_SQL", "META_INFO", "VISIBILITY", "EXT",
)  # fmt: skip

PRIVATE, PUBLIC, PROTECTED = 0, 1, 2


@dataclass(frozen=True, slots=True)
class SessionVariables:
    """What a QUERY event says of its session, as far as DDL text depends on it; None where it says nothing."""

    flags2: int = 0
    sql_mode: int = 0
    server_collation: int = 255
    utf8mb4_collation: int | None = None

    @classmethod
    def of(cls, query: Query) -> "SessionVariables":
        """Take them from a query event."""
        found = query.status_vars
        charset = found.get(StatusVar.Q_CHARSET_CODE)
        return cls(
            int(found.get(StatusVar.Q_FLAGS2_CODE, 0)),
            int(found.get(StatusVar.Q_SQL_MODE_CODE, 0)),
            int(charset[2]) if charset else 255,
            found.get(StatusVar.Q_DEFAULT_COLLATION_FOR_UTF8MB4),
        )


@dataclass(frozen=True, slots=True)
class Marker:
    """One node's copy of a marker. `session` is not part of what the copies must agree on."""

    job_id: int | None
    kind: str
    schema: str
    table: str | None
    sql: str
    visibility: int
    ext: str

    @property
    def extension(self) -> dict[str, Any]:
        """Return EXT as a dict; what is no JSON object counts as empty."""
        try:
            value = json.loads(self.ext) if self.ext else {}
        except ValueError:
            return {}
        return value if isinstance(value, dict) else {}


@dataclass(frozen=True, slots=True)
class MarkerCopy:
    """What one node's marker branch holds."""

    marker: Marker
    session: SessionVariables


def transaction_events(data: bytes, checksum: bool) -> Iterator[RawEvent]:
    """Yield the events of one group, those inside payloads as if they stood in the log."""
    for event in walk(data, checksum=checksum, offset=4):
        if event.type_code == EventType.TRANSACTION_PAYLOAD_EVENT:
            yield from TransactionPayload.parse(event.body).events()
        else:
            yield event


def read_marker(events: Iterable[RawEvent], schema: str, table: str) -> MarkerCopy | None:
    """Return the marker that a branch inserts, or None if it inserts none.

    Several physical copies of the marker table on one node repeat one row; rows that differ are an error.
    """
    session, maps, found = SessionVariables(), dict[int, TableMap](), list[Marker]()
    for event in events:
        if event.type_code == EventType.QUERY_EVENT:
            query = Query.parse(event.body)
            if query.text.startswith(("XA START", "BEGIN")):
                session = SessionVariables.of(query)
        elif event.type_code == EventType.TABLE_MAP_EVENT:
            table_map = TableMap.parse(event.body)
            maps[table_map.table_id] = table_map
        elif event.type_code in (EventType.WRITE_ROWS_EVENT, EventType.WRITE_ROWS_EVENT_V1):
            rows = RowsEvent.parse(event.type_code, event.body)
            target = maps.get(rows.table_id)
            if target is not None and (target.schema, target.table) == (schema, table):
                found += [_marker(target, after) for _, after in split_rows(rows, target) if after is not None]
    if not found:
        return None
    if any(marker != found[0] for marker in found[1:]):
        raise MarkerDisagreement("one transaction inserts several markers that differ")
    return MarkerCopy(found[0], session)


def _marker(table_map: TableMap, row: tuple[Any, ...]) -> Marker:
    names = table_map.optional.column_names if table_map.optional else None
    columns = [str(n).upper() for n in names] if names else list(COLUMNS)
    values = {name: _value(table_map, i, row[i]) for i, name in enumerate(columns) if i < len(row)}
    job = values.get("JOB_ID")
    return Marker(
        int(job) if job is not None else None,
        str(values.get("SQL_KIND") or ""),
        str(values.get("SCHEMA_NAME") or ""),
        None if values.get("TABLE_NAME") is None else str(values["TABLE_NAME"]),
        str(values.get("DDL_SQL") or ""),
        PUBLIC if values.get("VISIBILITY") is None else int(values["VISIBILITY"]),
        str(values.get("EXT") or ""),
    )


def _value(table_map: TableMap, column: int, cell: Any) -> Any:
    if not isinstance(cell, bytes | memoryview):
        return None  # NULL, or absent from a MINIMAL image
    collation = table_map.collations()[column]
    charset = (charset_of(collation) if collation is not None else None) or "utf8mb4"
    if charset == "binary":
        charset = "utf8mb4"
    value = decode_cell(table_map.types[column], table_map.metas[column], bytes(cell), False, charset)
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value
