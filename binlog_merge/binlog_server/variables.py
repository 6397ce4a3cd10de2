"""The system variables of a server that has nothing but a merged binlog, under MySQL's names."""

from dataclasses import dataclass
from functools import cache
from socket import gethostname
from typing import Final
from uuid import UUID

from binlog_merge.binlog.constants import ROWS_TYPES, ColumnType, EventType, version_number
from binlog_merge.binlog.control import announced_version
from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.events import RowsEvent, TableMap, parse_event
from binlog_merge.binlog_server.log import LogView
from binlog_merge.binlog_server.recorded import Variable, known_variables
from binlog_merge.errors import MergeError
from binlog_merge.files.log_folder import LogFolder
from binlog_merge.files.manifest import OutputFile
from binlog_merge.files.publish import basename_of
from binlog_merge.log.reader import events_of
from binlog_merge.protocol.packets import Value

VERSION_COMMENT: Final = "binlog-merge serve: a merged binlog, nothing else"
_LOOK_AT: Final = 1 << 20
_MOST_ROWS: Final = 100
"""Rows events that are looked at: a client may wait for this, and thousands take half a second."""
_TELLING: Final = ROWS_TYPES | {EventType.TABLE_MAP_EVENT}
_NEVER: Final = 1 << 30


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

    @property
    def number(self) -> int:
        """Return that version as a number: 90704."""
        return version_number(self.version)


def traits_of(view: LogView) -> Traits:
    """Return the traits of the first rows in the newest file that has any; unreadable files are ignored."""
    for file in reversed(view.there):
        try:
            traits = _traits(view.folder, file)
        except (BinlogFormatError, MergeError):
            traits = None
        if traits is not None:
            return traits
    return Traits()


def _traits(folder: LogFolder, file: OutputFile) -> Traits | None:
    image, metadata, options = "FULL", "FULL", ""
    seen = rows = 0
    for event in events_of(folder, file):
        if event.offset > _LOOK_AT or rows == _MOST_ROWS:
            break
        if event.type_code not in _TELLING:
            continue
        value = parse_event(event)
        if isinstance(value, TableMap):
            seen += 1
            if value.optional is None or value.optional.column_names is None:
                metadata = "MINIMAL"
        elif isinstance(value, RowsEvent):
            rows += 1
            if event.type_code == EventType.PARTIAL_UPDATE_ROWS_EVENT:
                options = "PARTIAL_JSON"
            if not all(_whole(present, value.column_count) for present in (value.present_before, value.present_after)):
                image = "MINIMAL"
    return Traits(image, metadata, options) if seen else None


def _whole(present: bytes | None, columns: int) -> bool:
    return present is None or int.from_bytes(present, "little").bit_count() >= columns


def own_values(facts: Facts) -> dict[str, Value]:
    """Return the variables that say something of this server, as SHOW VARIABLES shows them: booleans as ON and OFF."""
    view, traits = facts.view, facts.traits
    gtids = "ON" if view.with_gtids else "OFF"
    basename = view.folder.place(basename_of(view.state))
    return {
        "version": facts.version,
        "version_comment": VERSION_COMMENT,
        "version_with_update": facts.version,
        "innodb_version": facts.version.partition("-")[0],
        "hostname": gethostname(),
        "port": facts.port,
        "report_port": facts.port,
        "server_id": view.server_id,
        "server_uuid": str(UUID(bytes=view.sid)),
        "have_ssl": "YES" if facts.tls else "DISABLED",
        "log_bin_basename": basename,
        "log_bin_index": f"{basename}.index",
        "binlog_row_image": traits.row_image,
        "binlog_row_metadata": traits.row_metadata,
        "binlog_row_value_options": traits.row_value_options,
        "gtid_mode": gtids,
        "enforce_gtid_consistency": gtids,
        "gtid_executed": str(view.executed),
        "gtid_purged": str(view.purged),
        **(_OF_5 if facts.number < _UTF8MB4_SINCE else {}),
        **SETTINGS,
    }


SETTINGS: Final[dict[str, Value]] = {
    "binlog_checksum": "CRC32",
    "binlog_expire_logs_seconds": 0,
    "binlog_format": "ROW",
    "binlog_rows_query_log_events": "ON",
    "binlog_transaction_compression": "OFF",
    "license": "Apache-2.0",
    "log_bin": "ON",
    "log_replica_updates": "ON",
    "log_slave_updates": "ON",
    "lower_case_table_names": 0,
    "max_allowed_packet": 1 << 30,
    "performance_schema": "OFF",
    "protocol_version": 10,
    "read_only": "ON",
    "rpl_semi_sync_master_enabled": "ON",
    "rpl_semi_sync_source_enabled": "ON",
    "socket": "",
    "super_read_only": "ON",
    "system_time_zone": "UTC",
    "time_zone": "+00:00",
    "transaction_read_only": "ON",
    "tx_read_only": "ON",
}
"""What is so on each server of ours, and not, or not always, on a MySQL.

`socket` is empty, as there is none: clients in Rust would go on through a socket of that name, and to whoever has it.
"""
_UTF8MB4_SINCE: Final = 80000
_OF_5: Final[dict[str, Value]] = {
    "character_set_client": "latin1",
    "character_set_connection": "latin1",
    "character_set_database": "latin1",
    "character_set_results": "latin1",
    "character_set_server": "latin1",
    "collation_connection": "latin1_swedish_ci",
    "collation_database": "latin1_swedish_ci",
    "collation_server": "latin1_swedish_ci",
    "default_collation_for_utf8mb4": "utf8mb4_general_ci",
    "sql_mode": "ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO,"
    "NO_AUTO_CREATE_USER,NO_ENGINE_SUBSTITUTION",
}
"""The defaults of MySQL 5.7, for a log that announces it."""


def _older(name: str, value: Value, scope: str = "both") -> Variable:
    kind = ColumnType.LONGLONG if isinstance(value, int) or value in ("ON", "OFF") else ColumnType.VAR_STRING
    select = int(value == "ON") if value in ("ON", "OFF") else value
    return Variable(name, scope, kind, select, str(value), 0 if scope == "both" else 1229)


_OLDER: Final[dict[int, tuple[Variable, ...]]] = {
    80000: (
        _older("query_cache_size", 1048576, "global"),
        _older("query_cache_type", "OFF"),
        _older("tx_isolation", "REPEATABLE-READ"),
        _older("tx_read_only", "OFF"),
    ),
    80400: (
        _older("default_authentication_plugin", "caching_sha2_password", "global"),
        _older("expire_logs_days", 0, "global"),
        _older("have_openssl", "YES", "global"),
        _older("have_ssl", "YES", "global"),
        _older("master_info_repository", "TABLE", "global"),
        _older("relay_log_info_repository", "TABLE", "global"),
        _older("transaction_write_set_extraction", "XXHASH64"),
    ),
    _NEVER: (
        _older("rpl_semi_sync_master_enabled", "ON", "global"),
        _older("rpl_semi_sync_source_enabled", "ON", "global"),
    ),
}
"""What clients ask servers for that are older than a version, by that version; and the semi-synchronous plugins."""


@cache
def variables_at(number: int) -> dict[str, Variable]:
    """Return all variables that a server of a version has, by name: MySQL 9.7's, and a few of older ones."""
    older = [one for before, found in _OLDER.items() if number < before for one in found]
    return dict(sorted({**known_variables(), **{one.name: one for one in older}}.items()))
