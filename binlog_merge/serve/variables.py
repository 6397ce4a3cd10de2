"""The system variables of a server that has nothing but a merged binlog, under MySQL's names."""

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from binlog_merge.binlog.constants import EventType
from binlog_merge.binlog.control import announced_version
from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.events import RowsEvent, TableMap, parse_event
from binlog_merge.errors import MergeError
from binlog_merge.files.log_folder import LogFolder
from binlog_merge.files.manifest import OutputFile
from binlog_merge.files.publish import basename_of
from binlog_merge.log.file_events import events_of
from binlog_merge.protocol.packets import Value
from binlog_merge.serve.log import LogView

VERSION_COMMENT: Final = "binlog-merge serve: a merged binlog, nothing else"
_LOOK_AT: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Traits:
    """The format of a log's rows events, as seen at the beginning of its newest file."""

    row_image: str = "FULL"
    row_metadata: str = "MINIMAL"
    row_value_options: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts about a server at one moment, from which its variables follow."""

    view: LogView
    traits: Traits
    port: int
    tls: bool

    @property
    def version(self) -> str:
        """Return the version that the log announces."""
        return announced_version(self.view.header.server_version)


def traits_of(view: LogView) -> Traits:
    """Return the traits of the first rows in the newest file that has any; unreadable files are ignored."""
    for file in reversed(view.there):
        try:
            found = _traits(view.folder, file)
        except (BinlogFormatError, MergeError):
            found = None
        if found is not None:
            return found
    return Traits()


def _traits(folder: LogFolder, file: OutputFile) -> Traits | None:
    image, metadata, options = "FULL", "FULL", ""
    seen = False
    for event in events_of(folder, file):
        if event.offset > _LOOK_AT:
            break
        value = parse_event(event)
        if isinstance(value, TableMap):
            seen = True
            if value.optional is None or value.optional.column_names is None:
                metadata = "MINIMAL"
        elif isinstance(value, RowsEvent):
            if event.type_code == EventType.PARTIAL_UPDATE_ROWS_EVENT:
                options = "PARTIAL_JSON"
            if not all(_whole(present, value.column_count) for present in (value.present_before, value.present_after)):
                image = "MINIMAL"
    return Traits(image, metadata, options) if seen else None


def _whole(present: bytes | None, columns: int) -> bool:
    return present is None or int.from_bytes(present, "little").bit_count() >= columns


def variables(facts: Facts) -> dict[str, Value]:
    """Return the variables by name, as SHOW VARIABLES shows them: booleans as ON and OFF."""
    view, traits = facts.view, facts.traits
    gtids = "ON" if view.with_gtids else "OFF"
    return {
        "version": facts.version,
        "version_comment": VERSION_COMMENT,
        "version_compile_os": "Linux",
        "license": "Apache-2.0",
        "port": facts.port,
        "server_id": view.server_id,
        "server_uuid": str(UUID(bytes=view.sid)),
        "have_ssl": "YES" if facts.tls else "DISABLED",
        "read_only": "ON",
        "super_read_only": "ON",
        "log_bin": "ON",
        "log_bin_basename": view.folder.place(basename_of(view.state)),
        "binlog_checksum": "CRC32",
        "binlog_format": "ROW",
        "binlog_row_image": traits.row_image,
        "binlog_row_metadata": traits.row_metadata,
        "binlog_row_value_options": traits.row_value_options,
        "binlog_rows_query_log_events": "ON",
        "binlog_transaction_compression": "OFF",
        "binlog_expire_logs_seconds": 0,
        "log_replica_updates": "ON",
        "log_slave_updates": "ON",
        "gtid_mode": gtids,
        "enforce_gtid_consistency": gtids,
        "gtid_executed": str(view.executed),
        "gtid_purged": str(view.purged),
        **_SETTINGS,
    }


_SETTINGS: Final[dict[str, Value]] = {
    "auto_increment_increment": 1,
    "autocommit": "ON",
    "character_set_client": "utf8mb4",
    "character_set_connection": "utf8mb4",
    "character_set_database": "utf8mb4",
    "character_set_results": "utf8mb4",
    "character_set_server": "utf8mb4",
    "character_set_system": "utf8mb3",
    "collation_connection": "utf8mb4_general_ci",
    "collation_database": "utf8mb4_general_ci",
    "collation_server": "utf8mb4_general_ci",
    "init_connect": "",
    "interactive_timeout": 28800,
    "lower_case_table_names": 0,
    "max_allowed_packet": 1 << 30,
    "net_buffer_length": 16384,
    "net_read_timeout": 30,
    "net_write_timeout": 60,
    "performance_schema": "OFF",
    "protocol_version": 10,
    "rpl_semi_sync_master_enabled": "ON",
    "rpl_semi_sync_source_enabled": "ON",
    "sql_mode": "",
    "system_time_zone": "UTC",
    "time_zone": "+00:00",
    "transaction_isolation": "REPEATABLE-READ",
    "transaction_read_only": "ON",
    "tx_isolation": "REPEATABLE-READ",
    "tx_read_only": "ON",
    "wait_timeout": 28800,
}
