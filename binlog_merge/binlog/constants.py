"""Numbers of the binlog format, in MySQL's spelling.

Sources: mysql-server `libs/mysql/binlog/event/binlog_event.h` (event types, flags), `rows_event.h` (rows flags,
optional metadata), `include/field_types.h` (column types); MariaDB `sql/log_event.h` (160-171); PolarDB-X events 80
and 105.
"""

from enum import IntEnum, IntFlag
from typing import Final

BINLOG_MAGIC: Final = b"\xfebin"
ENCRYPTED_MAGIC: Final = b"\xfdbin"

EVENT_HEADER_LEN: Final = 19
CHECKSUM_LEN: Final = 4
BINLOG_VERSION: Final = 4
SERVER_VERSION_LEN: Final = 50
FROM_MARIADB: Final = "-from-maria-"
"""In the server version of a file that was translated (`mariadb_nodes`); that of the MariaDB follows."""

MAX_EVENT_SIZE: Final = 1 << 30
"""`max_log_event_size`: no server writes or accepts a larger event."""

DUMMY_TABLE_ID: Final = 0x00FFFFFF
"""Table id of an empty rows event that only ends a statement."""


class EventType(IntEnum):
    """`Log_event_type`. Numbers that are not here are unknown: see `events.is_ignorable`."""

    UNKNOWN_EVENT = 0
    START_EVENT_V3 = 1
    QUERY_EVENT = 2
    STOP_EVENT = 3
    ROTATE_EVENT = 4
    INTVAR_EVENT = 5
    LOAD_EVENT = 6
    SLAVE_EVENT = 7
    CREATE_FILE_EVENT = 8
    APPEND_BLOCK_EVENT = 9
    EXEC_LOAD_EVENT = 10
    DELETE_FILE_EVENT = 11
    NEW_LOAD_EVENT = 12
    RAND_EVENT = 13
    USER_VAR_EVENT = 14
    FORMAT_DESCRIPTION_EVENT = 15
    XID_EVENT = 16
    BEGIN_LOAD_QUERY_EVENT = 17
    EXECUTE_LOAD_QUERY_EVENT = 18
    TABLE_MAP_EVENT = 19
    PRE_GA_WRITE_ROWS_EVENT = 20
    PRE_GA_UPDATE_ROWS_EVENT = 21
    PRE_GA_DELETE_ROWS_EVENT = 22
    WRITE_ROWS_EVENT_V1 = 23
    UPDATE_ROWS_EVENT_V1 = 24
    DELETE_ROWS_EVENT_V1 = 25
    INCIDENT_EVENT = 26
    HEARTBEAT_LOG_EVENT = 27
    IGNORABLE_LOG_EVENT = 28
    ROWS_QUERY_LOG_EVENT = 29
    WRITE_ROWS_EVENT = 30
    UPDATE_ROWS_EVENT = 31
    DELETE_ROWS_EVENT = 32
    GTID_LOG_EVENT = 33
    ANONYMOUS_GTID_LOG_EVENT = 34
    PREVIOUS_GTIDS_LOG_EVENT = 35
    TRANSACTION_CONTEXT_EVENT = 36
    VIEW_CHANGE_EVENT = 37
    XA_PREPARE_LOG_EVENT = 38
    PARTIAL_UPDATE_ROWS_EVENT = 39
    TRANSACTION_PAYLOAD_EVENT = 40
    HEARTBEAT_LOG_EVENT_V2 = 41
    GTID_TAGGED_LOG_EVENT = 42
    # PolarDB-X storage nodes
    SEQUENCE_EVENT = 80
    CONSENSUS_LOG_EVENT = 101
    PREVIOUS_CONSENSUS_INDEX_LOG_EVENT = 102
    CONSENSUS_CLUSTER_INFO_EVENT = 103
    CONSENSUS_EMPTY_EVENT = 104
    GCN_EVENT = 105
    # MariaDB
    MARIADB_ANNOTATE_ROWS_EVENT = 160
    MARIADB_BINLOG_CHECKPOINT_EVENT = 161
    MARIADB_GTID_EVENT = 162
    MARIADB_GTID_LIST_EVENT = 163
    MARIADB_START_ENCRYPTION_EVENT = 164
    MARIADB_QUERY_COMPRESSED_EVENT = 165
    MARIADB_WRITE_ROWS_COMPRESSED_EVENT_V1 = 166
    MARIADB_UPDATE_ROWS_COMPRESSED_EVENT_V1 = 167
    MARIADB_DELETE_ROWS_COMPRESSED_EVENT_V1 = 168
    MARIADB_WRITE_ROWS_COMPRESSED_EVENT = 169
    MARIADB_UPDATE_ROWS_COMPRESSED_EVENT = 170
    MARIADB_DELETE_ROWS_COMPRESSED_EVENT = 171


WRITE_TYPES: Final = frozenset({EventType.WRITE_ROWS_EVENT_V1, EventType.WRITE_ROWS_EVENT})
UPDATE_TYPES: Final = frozenset(
    {EventType.UPDATE_ROWS_EVENT_V1, EventType.UPDATE_ROWS_EVENT, EventType.PARTIAL_UPDATE_ROWS_EVENT}
)
DELETE_TYPES: Final = frozenset({EventType.DELETE_ROWS_EVENT_V1, EventType.DELETE_ROWS_EVENT})
ROWS_TYPES: Final = WRITE_TYPES | UPDATE_TYPES | DELETE_TYPES
ROWS_V1_TYPES: Final = frozenset(
    {EventType.WRITE_ROWS_EVENT_V1, EventType.UPDATE_ROWS_EVENT_V1, EventType.DELETE_ROWS_EVENT_V1}
)
GTID_TYPES: Final = frozenset(
    {EventType.GTID_LOG_EVENT, EventType.ANONYMOUS_GTID_LOG_EVENT, EventType.GTID_TAGGED_LOG_EVENT}
)


class ColumnType(IntEnum):
    """`enum_field_types`, as written in a table map."""

    DECIMAL = 0
    TINY = 1
    SHORT = 2
    LONG = 3
    FLOAT = 4
    DOUBLE = 5
    NULL = 6
    TIMESTAMP = 7
    LONGLONG = 8
    INT24 = 9
    DATE = 10
    TIME = 11
    DATETIME = 12
    YEAR = 13
    NEWDATE = 14
    VARCHAR = 15
    BIT = 16
    TIMESTAMP2 = 17
    DATETIME2 = 18
    TIME2 = 19
    TYPED_ARRAY = 20
    # MariaDB
    BLOB_COMPRESSED = 140
    VARCHAR_COMPRESSED = 141
    VECTOR = 242
    INVALID = 243
    BOOL = 244
    JSON = 245
    NEWDECIMAL = 246
    ENUM = 247
    SET = 248
    TINY_BLOB = 249
    MEDIUM_BLOB = 250
    LONG_BLOB = 251
    BLOB = 252
    VAR_STRING = 253
    STRING = 254
    GEOMETRY = 255


class EventFlag(IntFlag):
    """Bits of the `flags` field of an event header."""

    LOG_EVENT_BINLOG_IN_USE_F = 0x0001
    LOG_EVENT_THREAD_SPECIFIC_F = 0x0004
    LOG_EVENT_SUPPRESS_USE_F = 0x0008
    LOG_EVENT_ARTIFICIAL_F = 0x0020
    LOG_EVENT_RELAY_LOG_F = 0x0040
    LOG_EVENT_IGNORABLE_F = 0x0080
    LOG_EVENT_NO_FILTER_F = 0x0100
    LOG_EVENT_MTS_ISOLATE_F = 0x0200


class RowsFlag(IntFlag):
    """Bits of the `flags` field of a rows event."""

    STMT_END_F = 0x0001
    NO_FOREIGN_KEY_CHECKS_F = 0x0002
    RELAXED_UNIQUE_CHECKS_F = 0x0004
    COMPLETE_ROWS_F = 0x0008
    USE_SQL_FOREIGN_KEY_F = 0x0010


class ChecksumAlg(IntEnum):
    """`enum_binlog_checksum_alg`."""

    OFF = 0
    CRC32 = 1


class MetadataType(IntEnum):
    """`Optional_metadata_field_type` of a table map; 12 since 8.0.23, 13 since 9.0."""

    SIGNEDNESS = 1
    DEFAULT_CHARSET = 2
    COLUMN_CHARSET = 3
    COLUMN_NAME = 4
    SET_STR_VALUE = 5
    ENUM_STR_VALUE = 6
    GEOMETRY_TYPE = 7
    SIMPLE_PRIMARY_KEY = 8
    PRIMARY_KEY_WITH_PREFIX = 9
    ENUM_AND_SET_DEFAULT_CHARSET = 10
    ENUM_AND_SET_COLUMN_CHARSET = 11
    COLUMN_VISIBILITY = 12
    VECTOR_DIMENSIONALITY = 13


# Post-header lengths as MySQL 9.7 writes them in its format description event, for types 1..42.
# fmt: off
POST_HEADER_LENS: Final = bytes((
    0, 13, 0, 8, 0, 0, 0, 0, 4, 0, 4, 0, 0, 0, 99, 0, 4, 26, 8, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 10, 10, 10, 42, 42, 0, 18,
    52, 0, 10, 40, 0, 0,
))
# fmt: on

# What this package reads: the lengths its parsers are written for. Another length means a format that nobody here
# knows.
KNOWN_POST_HEADER_LENS: Final[dict[int, int]] = {
    EventType.QUERY_EVENT: 13,
    EventType.ROTATE_EVENT: 8,
    EventType.APPEND_BLOCK_EVENT: 4,
    EventType.DELETE_FILE_EVENT: 4,
    EventType.BEGIN_LOAD_QUERY_EVENT: 4,
    EventType.EXECUTE_LOAD_QUERY_EVENT: 26,
    EventType.TABLE_MAP_EVENT: 8,
    EventType.WRITE_ROWS_EVENT_V1: 8,
    EventType.UPDATE_ROWS_EVENT_V1: 8,
    EventType.DELETE_ROWS_EVENT_V1: 8,
    EventType.WRITE_ROWS_EVENT: 10,
    EventType.UPDATE_ROWS_EVENT: 10,
    EventType.DELETE_ROWS_EVENT: 10,
    EventType.PARTIAL_UPDATE_ROWS_EVENT: 10,
}


def version_number(version: str) -> int:
    """Return 90704 for "9.7.4-log" (MySQL `get_server_version`)."""
    numbers = [0, 0, 0]
    for i, part in enumerate(version.split(".")[:3]):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        numbers[i] = int(digits) if digits else 0
    return numbers[0] * 10000 + numbers[1] * 100 + numbers[2]
