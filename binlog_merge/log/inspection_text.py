"""Events as text for `inspect`, in the format of mysqlbinlog.

Every line is a comment, so piping the text into a server by mistake does nothing. Times are UTC. Names and values may
hold any bytes: control characters are shown as \\xNN.
"""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from binlog_merge.binlog import mariadb
from binlog_merge.binlog.cell_length import type_name
from binlog_merge.binlog.constants import DELETE_TYPES, WRITE_TYPES, EventFlag, EventType, RowsFlag
from binlog_merge.binlog.constants import ColumnType as T
from binlog_merge.binlog.decode import decode_cell
from binlog_merge.binlog.events import (
    DeleteFile,
    ExecuteLoadQuery,
    FormatDescription,
    Gcn,
    Gtid,
    GtidList,
    GtidTagged,
    Heartbeat,
    HeartbeatV2,
    Incident,
    Intvar,
    LoadBlock,
    MariadbGtid,
    Opaque,
    PreviousGtids,
    Query,
    Rand,
    RawEvent,
    Rotate,
    RowsEvent,
    RowsQuery,
    Sequence,
    StatusVar,
    Stop,
    TableMap,
    TransactionPayload,
    UserVar,
    XaPrepare,
    Xid,
    event_name,
    is_ignorable,
    is_known,
)
from binlog_merge.binlog.json_binary import decode_json, json_text
from binlog_merge.binlog.json_diff import JsonDiff, JsonOperation, parse_diffs
from binlog_merge.binlog.rows import ABSENT, PartialJson, RowImage, iter_rows
from binlog_merge.binlog.table_map import column_charsets, column_names, temporal_as_text
from binlog_merge.redaction import printable
from snapshot_store.mysql.sql.names import quote_name
from snapshot_store.mysql.text.charsets import charset_of, collation_name

_STATEMENT = {
    **dict.fromkeys(WRITE_TYPES, "INSERT INTO"),
    **dict.fromkeys(DELETE_TYPES, "DELETE FROM"),
}
_ROWS_NAME = {
    EventType.WRITE_ROWS_EVENT_V1: "Write_rows_v1",
    EventType.UPDATE_ROWS_EVENT_V1: "Update_rows_v1",
    EventType.DELETE_ROWS_EVENT_V1: "Delete_rows_v1",
    EventType.WRITE_ROWS_EVENT: "Write_rows",
    EventType.UPDATE_ROWS_EVENT: "Update_rows",
    EventType.DELETE_ROWS_EVENT: "Delete_rows",
    EventType.PARTIAL_UPDATE_ROWS_EVENT: "Update_rows_partial",
    EventType.MARIADB_WRITE_ROWS_COMPRESSED_EVENT_V1: "Write_rows_compressed_v1",
    EventType.MARIADB_UPDATE_ROWS_COMPRESSED_EVENT_V1: "Update_rows_compressed_v1",
    EventType.MARIADB_DELETE_ROWS_COMPRESSED_EVENT_V1: "Delete_rows_compressed_v1",
    EventType.MARIADB_WRITE_ROWS_COMPRESSED_EVENT: "Write_rows_compressed",
    EventType.MARIADB_UPDATE_ROWS_COMPRESSED_EVENT: "Update_rows_compressed",
    EventType.MARIADB_DELETE_ROWS_COMPRESSED_EVENT: "Delete_rows_compressed",
}


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _clock(seconds: int) -> str:
    moment = datetime.fromtimestamp(seconds, UTC)
    return f"{moment:%y%m%d} {moment.hour:2d}:{moment:%M:%S}"


def _quoted_name(name: str) -> str:
    return printable(quote_name(name))


def _table(table_map: TableMap) -> str:
    return ".".join(map(_quoted_name, (table_map.schema, table_map.table)))


# --- text ---------------------------------------------------------------------------------------------------------


def event_lines(event: RawEvent, value: Any) -> Iterator[str]:
    """Yield the lines of an event, without its rows."""
    header = event.header
    crc = "" if event.checksum is None else f" CRC32 0x{event.checksum:08x}"
    title, *rest = _describe(event, value)
    yield f"# at {event.offset}"
    yield f"#{_clock(header.timestamp)} server id {header.server_id}  end_log_pos {header.log_pos}{crc} \t{title}"
    for text in rest:
        yield from (f"# {printable(line, chr(9))}" for line in text.split("\n"))


def _describe(event: RawEvent, value: Any) -> list[str]:
    """Return the event's title and further texts, each of any number of lines."""
    match value:
        case FormatDescription():
            created = f" created {_clock(value.created)} at startup" if value.created else ""
            lines = [f"Start: binlog v {value.binlog_version}, server v {printable(value.server_version)}{created}"]
            if event.header.flags & EventFlag.LOG_EVENT_BINLOG_IN_USE_F:
                lines.append("Warning: this binlog is either in use or was not closed properly.")
            return lines
        case Query():
            xid = value.status_vars.get(StatusVar.Q_DDL_LOGGED_WITH_XID)
            suffix = "" if xid is None else f"\tXid = {xid}"
            title = f"Query\tthread_id={value.thread_id}\texec_time={value.exec_time}\terror_code={value.error_code}"
            use = [f"use {_text(value.schema)}"] if value.schema and value.query not in (b"BEGIN", b"COMMIT") else []
            return [title + suffix, *_carried(value), *use, value.text]
        case Gtid() | GtidTagged():
            return [_gtid_title(event, value), f"SET @@SESSION.GTID_NEXT= '{value.text}'"]
        case PreviousGtids():
            return ["Previous-GTIDs", str(value.gtids).replace(",", ",\n") or "[empty]"]
        case TableMap():
            return [f"Table_map: {_table(value)} mapped to number {value.table_id}"]
        case RowsEvent():
            flags = "".join(f" {flag.name}" for flag in RowsFlag if value.flags & flag)
            suffix = f" flags:{flags}" if flags else ""
            return [f"{_ROWS_NAME[EventType(event.type_code)]}: table id {value.table_id}{suffix}"]
        case Xid():
            return [f"Xid = {value.xid}", "COMMIT"]
        case XaPrepare():
            verb = "COMMIT {} ONE PHASE" if value.one_phase else "PREPARE {}"
            return ["XA " + verb.format(xid_text(value))]
        case RowsQuery():
            return ["Rows_query", value.text]
        case Rotate():
            return [f"Rotate to {printable(_text(value.next_file))}  pos: {value.position}"]
        case TransactionPayload():
            return [_payload_title(value)]
        case _:
            return _describe_rare(event, value)


def _describe_rare(event: RawEvent, value: Any) -> list[str]:
    match value:
        case Stop():
            return ["Stop"]
        case Intvar():
            return ["Intvar", f"SET {'LAST_INSERT_ID' if value.kind == 1 else 'INSERT_ID'}={value.value}"]
        case Rand():
            return ["Rand", f"SET @@RAND_SEED1={value.seed1}, @@RAND_SEED2={value.seed2}"]
        case UserVar():
            return ["User_var", f"SET @{_quoted_name(_text(value.name))}:={_user_value(value)}"]
        case LoadBlock():
            first = event.type_code == EventType.BEGIN_LOAD_QUERY_EVENT
            title = "Begin_load_query" if first else "Append_block"
            return [f"{title}: file_id: {value.file_id}  block_len: {len(value.block)}"]
        case DeleteFile():
            return [f"Delete_file: file_id={value.file_id}"]
        case ExecuteLoadQuery():
            title, *rest = _describe(event, value.query)
            return [f"{title.replace('Query', 'Execute_load_query', 1)}\tfile_id={value.file_id}", *rest]
        case Incident():
            return [f"Incident: {'LOST_EVENTS' if value.number == 1 else value.number}", _text(value.message)]
        case Heartbeat():
            return [f"Heartbeat {printable(_text(value.file))}"]
        case HeartbeatV2():
            return [f"Heartbeat {printable(_text(value.file))} pos: {value.position}"]
        case Sequence():
            kind = {1: "snapshot", 2: "commit", 3: "heartbeat"}.get(value.kind, str(value.kind))
            return [f"Sequence: {kind} TSO {value.tso}"]
        case Gcn():
            return [f"Gcn: {'commit' if value.is_commit else 'snapshot'} TSO {value.tso} flag 0x{value.flag:02x}"]
        case MariadbGtid():
            return [_mariadb_gtid_title(event, value)]
        case GtidList():
            return [f"Gtid list [{', '.join('-'.join(map(str, each)) for each in value.domains)}]"]
        case Opaque() if event.type_code == EventType.MARIADB_ANNOTATE_ROWS_EVENT:
            return ["Annotate_rows", _text(value.body)]
        case Opaque() if event.type_code == EventType.MARIADB_BINLOG_CHECKPOINT_EVENT:
            return [f"Binlog checkpoint {printable(_text(value.body[4:]))}"]
    known = "" if is_known(event.type_code) else " (ignorable)" if is_ignorable(event.header) else " (not ignorable)"
    return [f"{event_name(event.type_code)}{known}: {len(event.body)} bytes"]


def _user_value(variable: UserVar) -> str:
    """Return a user variable's value as mysqlbinlog prints it: text in hex, with character set and collation."""
    value = variable.value()
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        charset, collation = charset_of(variable.collation), collation_name(variable.collation)
        if charset is None or collation is None:
            return f"0x{value.hex().upper()} /* collation {variable.collation} is not known */"
        return f"_{charset} {'0x' + value.hex().upper() if value else chr(34) * 2} COLLATE `{collation}`"
    return (
        f"{value:.14g}"
        if isinstance(value, float)
        else format(value, "f")
        if isinstance(value, Decimal)
        else str(value)
    )


def _carried(query: Query) -> list[str]:
    """Return a line for each TSO that PolarDB-X has written into the status variables."""
    names = {StatusVar.Q_LIZARD_COMMIT_GCN: "commit", StatusVar.Q_LIZARD_PREPARE_GCN: "prepare"}
    return [f"{names[code]} TSO {tso}" for code, tso in query.status_vars.items() if code in names]


def _gtid_title(event: RawEvent, value: Gtid | GtidTagged) -> str:
    name = "Anonymous_GTID" if event.type_code == EventType.ANONYMOUS_GTID_LOG_EVENT else "GTID"
    facts = {
        "last_committed": value.last_committed,
        "sequence_number": value.sequence_number,
        "rbr_only": "no" if value.flags & 1 else "yes",
        "original_committed_timestamp": value.original_commit_timestamp,
        "immediate_commit_timestamp": value.immediate_commit_timestamp,
        "transaction_length": value.transaction_length,
    }
    return name + "".join(f"\t{key}={fact}" for key, fact in facts.items() if fact is not None)


def _mariadb_gtid_title(event: RawEvent, value: MariadbGtid) -> str:
    parts = [f"GTID {value.text(event.header.server_id)}"]
    if value.commit_id is not None:
        parts.append(f"cid={value.commit_id}")
    names = {mariadb.DDL: "ddl", 4: "trans", 16: "waited", mariadb.PREPARED_XA: "XA PREPARE"}
    parts += [name for flag, name in names.items() if value.flags & flag]
    if value.flags & mariadb.COMPLETED_XA:
        parts.append("XA COMMIT or XA ROLLBACK")
    if value.xid is not None:
        parts.append(value.xid.sql)
    alters = {mariadb.START_ALTER: "START ALTER", mariadb.COMMIT_ALTER: "COMMIT ALTER"}
    parts += [name for flag, name in alters.items() if value.more & flag]
    if value.more & mariadb.ROLLBACK_ALTER:
        parts.append("ROLLBACK ALTER")
    return " ".join(parts)


def _payload_title(value: TransactionPayload) -> str:
    kind = {0: "ZSTD", 255: "NONE"}.get(value.compression, str(value.compression))
    size = "" if value.uncompressed_size is None else f"\tuncompressed_size={value.uncompressed_size}"
    return f"Transaction_Payload\t\tpayload_size={len(value.payload)}\tcompression_type={kind}{size}"


def xid_text(value: XaPrepare) -> str:
    """Return an XID in the syntax of XA COMMIT."""
    return f"X'{value.gtrid.hex()}',X'{value.bqual.hex()}',{value.format_id}"


def rows_lines(event: RowsEvent, table_map: TableMap | None, verbose: int) -> Iterator[str]:
    """Yield the rows of an event as `###` lines; with `verbose` 2 each value with its column's name and type."""
    if table_map is None:
        yield f"### the table map of table id {event.table_id} stands before the start position"
        return
    columns = Columns(table_map)
    statement = _STATEMENT.get(EventType(event.type_code), "UPDATE")
    for before, after in iter_rows(event, table_map):
        yield f"### {statement} {_table(table_map)}"
        for image, word in ((before, "WHERE"), (after, "SET")):
            if image is not None:
                yield f"### {word}"
                yield from columns.lines(image, verbose)


class Columns:
    """The columns of a table map, for showing the cells of its rows."""

    def __init__(self, table_map: TableMap) -> None:
        self.table_map = table_map
        self.kinds = table_map.real_types()
        self.names = column_names(table_map)
        self.charsets = column_charsets(table_map)
        self.unsigned = table_map.unsigned()
        self.members = table_map.members()

    def lines(self, image: RowImage, verbose: int) -> Iterator[str]:
        for i, cell in enumerate(image):
            if cell is ABSENT:
                continue
            comment = f" /* {self._comment(i, cell is None)} */" if verbose > 1 else ""
            yield f"###   @{i + 1}={self.literal(i, cell)}{comment}"

    def _comment(self, i: int, null: bool) -> str:
        name = "" if self.names[i].startswith("@") else printable(self.names[i].replace("*/", "*\\/")) + " "
        nullable = int(self.table_map.nullable(i))
        facts = f"meta={self.table_map.metas[i]} nullable={nullable} is_null={int(null)}"
        return f"{name}{type_name(self.kinds[i])} {facts}"

    def value(self, i: int, cell: Any) -> Any:
        """Return the decoded value of column `i`."""
        table_map = self.table_map
        return decode_cell(table_map.types[i], table_map.metas[i], cell, self.unsigned[i], self.charsets[i])

    def literal(self, i: int, cell: Any) -> str:
        """Return a cell as mysqlbinlog -v shows it (a date with dashes, an unsigned number as such)."""
        if cell is None:
            return "NULL"
        if isinstance(cell, PartialJson):
            return _diff_text(i, cell)
        value, kind = self.value(i, cell), self.kinds[i]
        if kind == T.SET:
            return f"b'{value:0{8 * (self.table_map.metas[i] >> 8)}b}'"
        if kind == T.BIT:
            bits = (self.table_map.metas[i] >> 8) * 8 + (self.table_map.metas[i] & 0xFF)
            return f"b'{value:0{bits}b}'"
        if kind == T.JSON:
            return _quoted(json_text(value))
        if kind in (T.TIMESTAMP, T.TIMESTAMP2) and isinstance(value, datetime):
            seconds, micro = divmod((value - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1), 10**6)
            return f"{seconds}" + f".{micro:06d}"[: self.fsp(i) + 1] * bool(self.fsp(i))
        if kind in (T.TIMESTAMP, T.TIMESTAMP2):
            return "0"  # the zero timestamp
        if isinstance(value, date | timedelta):
            return f"'{temporal_as_text(value, self.fsp(i))}'"
        if kind == T.VECTOR:
            return "[" + ",".join(f"{number:.5e}" for number in value) + "]"
        if kind == T.GEOMETRY:
            return "0x" + bytes(cell[self.table_map.metas[i] :]).hex()
        if isinstance(value, str):
            return _quoted(value)
        if isinstance(value, bytes):
            return _quoted(value.decode("ascii", "surrogateescape"))
        return format(value, "f") if isinstance(value, Decimal) else str(value)

    def fsp(self, i: int) -> int:
        """Return the fraction digits of a date or time column."""
        return self.table_map.metas[i] if self.kinds[i] in (T.TIME2, T.DATETIME2, T.TIMESTAMP2) else 0


def _quoted(text: str) -> str:
    return "'" + printable(text.replace("\\", "\\\\").replace("'", "\\'")) + "'"


def diffs_of(cell: PartialJson) -> tuple[JsonDiff, ...]:
    """Return the JSON differences in a partial cell."""
    return parse_diffs(memoryview(cell.cell)[4:])


def _diff_text(i: int, cell: PartialJson) -> str:
    text = f"@{i + 1}"
    for diff in diffs_of(cell):
        value = "" if diff.operation == JsonOperation.REMOVE else f", {_quoted(json_text(decode_json(diff.data)))}"
        text = f"JSON_{diff.operation.name}({text}, {_quoted(diff.path)}{value})"
    return text
