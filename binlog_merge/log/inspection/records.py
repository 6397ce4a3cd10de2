"""Events as plain values for `inspect -o jsonl`: a JSON object for each event."""

import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from binlog_merge.binlog.cell_length import type_name
from binlog_merge.binlog.constants import ColumnType as T
from binlog_merge.binlog.constants import RowsFlag
from binlog_merge.binlog.events import (
    ExecuteLoadQuery,
    FormatDescription,
    Gtid,
    GtidTagged,
    LoadBlock,
    Opaque,
    PreviousGtids,
    Query,
    RawEvent,
    Rotate,
    RowsEvent,
    RowsQuery,
    Stop,
    TableMap,
    TransactionPayload,
    UserVar,
    XaPrepare,
    event_name,
    is_ignorable,
)
from binlog_merge.binlog.json_binary import decode_json, plain_text
from binlog_merge.binlog.json_diff import JsonDiff, JsonOperation
from binlog_merge.binlog.rows import ABSENT, PartialJson, Row, iter_rows
from binlog_merge.binlog.table_map import column_names, member_text, temporal_as_text
from binlog_merge.json_values import utc_text
from binlog_merge.log.inspection.text import Columns, diffs_of, xid_text
from snapshot_store.mysql.text.codecs import text_or_bytes

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DUPLICATES = ("ERROR", "IGNORE", "REPLACE")


def event_record(event: RawEvent, value: Any, file: str, inside: bool) -> dict[str, Any]:
    """Return an event as plain values. `inside`: it is in a transaction payload, whose position it has."""
    header = event.header
    return {
        "file": file,
        "position": event.offset,
        "end_position": None if inside else event.end,
        "in_payload": inside,
        "type": event_name(event.type_code),
        "type_code": event.type_code,
        "time": _moment(header.timestamp * 1_000_000),
        "server_id": header.server_id,
        "event_size": header.event_size,
        "log_pos": header.log_pos,
        "flags": header.flags,
        "crc32": None if event.checksum is None else f"{event.checksum:08x}",
        "event": _facts(event, value),
    }


def _moment(micros: int | None) -> str | None:
    """Return microseconds since 1970 as RFC 3339; None for 0, which stands for no time."""
    return utc_text(_EPOCH + timedelta(microseconds=micros)) if micros else None


def _bytes_text(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return "0x" + raw.hex()


def _facts(event: RawEvent, value: Any) -> dict[str, Any]:
    match value:
        case FormatDescription():
            checksum = None if value.checksum_alg is None else ("CRC32" if value.checksum else "NONE")
            return {
                "server_version": value.server_version,
                "created": _moment(value.created * 1_000_000),
                "checksum": checksum,
            }
        case Query():
            status = {code.name: _status_value(item) for code, item in value.status_vars.items()}
            schema, query = _bytes_text(value.schema), _bytes_text(value.query)
            return {"thread_id": value.thread_id, "schema": schema, "query": query, "status_vars": status}
        case Gtid() | GtidTagged():
            keys: tuple[str, ...] = ("last_committed", "sequence_number", "transaction_length")
            keys += ("original_server_version", "immediate_server_version")
            times = ("original_commit_timestamp", "immediate_commit_timestamp")
            return {
                "gtid": value.text,
                "gtid_flags": value.flags,
                **{key: getattr(value, key) for key in keys},
                **{key: _moment(getattr(value, key)) for key in times},
            }
        case PreviousGtids():
            return {"gtid_set": str(value.gtids)}
        case TableMap():
            columns = [
                {"name": name, "type": type_name(kind), "meta": meta, "nullable": value.nullable(i)}
                for i, (name, kind, meta) in enumerate(
                    zip(column_names(value), value.real_types(), value.metas, strict=True)
                )
            ]
            return {"table_id": value.table_id, "schema": value.schema, "table": value.table, "columns": columns}
        case RowsEvent():
            return {"table_id": value.table_id, "flags": [flag.name for flag in RowsFlag if value.flags & flag]}
        case XaPrepare():
            return {"xid": xid_text(value), "one_phase": value.one_phase}
        case RowsQuery():
            return {"query": _bytes_text(value.query)}
        case Rotate():
            return {"next_file": _bytes_text(value.next_file), "position": value.position}
        case TransactionPayload():
            sizes = {"payload_size": len(value.payload), "uncompressed_size": value.uncompressed_size}
            return {"compression": value.compression, **sizes}
        case UserVar():
            user = value.value()
            plain = None if user is None else _bytes_text(user) if isinstance(user, bytes) else str(user)
            return {
                "name": _bytes_text(value.name),
                "type": value.kind.name,
                "collation": value.collation,
                "value": plain,
            }
        case LoadBlock():
            return {"file_id": value.file_id, "block": _bytes_text(value.block)}
        case ExecuteLoadQuery():
            return {**_facts(event, value.query), "file_id": value.file_id, "duplicates": _DUPLICATES[value.duplicates]}
        case Opaque():
            return {"bytes": len(value.body), "ignorable": is_ignorable(event.header)}
        case Stop():
            return {}
    fields = {name: getattr(value, name) for name in value.__dataclass_fields__}
    return {name: _bytes_text(item) if isinstance(item, bytes) else item for name, item in fields.items()}


def _status_value(value: Any) -> Any:
    if isinstance(value, bytes):
        return _bytes_text(value)
    return [_status_value(item) for item in value] if isinstance(value, tuple) else value


def rows_record(event: RowsEvent, table_map: TableMap | None) -> list[dict[str, Any]] | None:
    """Return the rows of an event by column name; None if its table map is before the start position."""
    if table_map is None:
        return None
    columns = Columns(table_map)
    return [_row_record(columns, row) for row in iter_rows(event, table_map)]


def _row_record(columns: Columns, row: Row) -> dict[str, Any]:
    record: dict[str, Any] = {}
    for word, image in zip(("before", "after"), row, strict=True):
        if image is not None:
            cells = ((i, cell) for i, cell in enumerate(image) if cell is not ABSENT)
            record[word] = {columns.names[i]: _plain(columns, i, cell) for i, cell in cells}
    return record


def _plain(columns: Columns, i: int, cell: Any) -> Any:
    """Return a cell as a JSON value: ENUM and SET by their text if known, JSON as a document."""
    if cell is None:
        return None
    if isinstance(cell, PartialJson):
        return {"json_diff": [_diff_record(diff) for diff in diffs_of(cell)]}
    value, kind = columns.value(i, cell), columns.kinds[i]
    members = columns.members[i]
    if kind in (T.ENUM, T.SET) and members is not None:
        texts = [text_or_bytes(columns.charsets[i], member) for member in members]
        return member_text(kind, value, [t if isinstance(t, str) else t.decode("latin-1") for t in texts])
    if kind == T.JSON:
        return _json_value(value)
    if isinstance(value, date | timedelta):
        return temporal_as_text(value, columns.fsp(i))
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return "0x" + value.hex() if isinstance(value, bytes) else value


def _diff_record(diff: JsonDiff) -> dict[str, Any]:
    record: dict[str, Any] = {"operation": diff.operation.name, "path": diff.path}
    return (
        record if diff.operation == JsonOperation.REMOVE else {**record, "value": _json_value(decode_json(diff.data))}
    )


def _json_value(value: Any) -> Any:
    """Return a document as plain JSON values: values without a JSON type become text."""
    if isinstance(value, dict):
        return {key: _json_value(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_json_value(item) for item in value]
    if value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return (
        format(value, "f")
        if isinstance(value, Decimal)
        else str(value)
        if isinstance(value, float)
        else plain_text(value)
    )
