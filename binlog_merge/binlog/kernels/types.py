"""The numbers of `EventType` and `ColumnType` as plain integers, which numba compiles to constants."""

from typing import Any

from numba import njit

from binlog_merge.binlog.constants import DUMMY_TABLE_ID, ColumnType, EventFlag, EventType, RowsFlag

QUERY_EVENT = int(EventType.QUERY_EVENT)
STOP_EVENT = int(EventType.STOP_EVENT)
ROTATE_EVENT = int(EventType.ROTATE_EVENT)
FORMAT_DESCRIPTION_EVENT = int(EventType.FORMAT_DESCRIPTION_EVENT)
XID_EVENT = int(EventType.XID_EVENT)
TABLE_MAP_EVENT = int(EventType.TABLE_MAP_EVENT)
WRITE_ROWS_EVENT_V1 = int(EventType.WRITE_ROWS_EVENT_V1)
UPDATE_ROWS_EVENT_V1 = int(EventType.UPDATE_ROWS_EVENT_V1)
DELETE_ROWS_EVENT_V1 = int(EventType.DELETE_ROWS_EVENT_V1)
INCIDENT_EVENT = int(EventType.INCIDENT_EVENT)
ROWS_QUERY_LOG_EVENT = int(EventType.ROWS_QUERY_LOG_EVENT)
WRITE_ROWS_EVENT = int(EventType.WRITE_ROWS_EVENT)
UPDATE_ROWS_EVENT = int(EventType.UPDATE_ROWS_EVENT)
DELETE_ROWS_EVENT = int(EventType.DELETE_ROWS_EVENT)
GTID_LOG_EVENT = int(EventType.GTID_LOG_EVENT)
ANONYMOUS_GTID_LOG_EVENT = int(EventType.ANONYMOUS_GTID_LOG_EVENT)
PREVIOUS_GTIDS_LOG_EVENT = int(EventType.PREVIOUS_GTIDS_LOG_EVENT)
XA_PREPARE_LOG_EVENT = int(EventType.XA_PREPARE_LOG_EVENT)
PARTIAL_UPDATE_ROWS_EVENT = int(EventType.PARTIAL_UPDATE_ROWS_EVENT)
TRANSACTION_PAYLOAD_EVENT = int(EventType.TRANSACTION_PAYLOAD_EVENT)
GTID_TAGGED_LOG_EVENT = int(EventType.GTID_TAGGED_LOG_EVENT)
SEQUENCE_EVENT = int(EventType.SEQUENCE_EVENT)
GCN_EVENT = int(EventType.GCN_EVENT)

STATEMENT_TYPES = (
    int(EventType.INTVAR_EVENT),
    int(EventType.LOAD_EVENT),
    int(EventType.SLAVE_EVENT),
    int(EventType.CREATE_FILE_EVENT),
    int(EventType.APPEND_BLOCK_EVENT),
    int(EventType.EXEC_LOAD_EVENT),
    int(EventType.DELETE_FILE_EVENT),
    int(EventType.NEW_LOAD_EVENT),
    int(EventType.RAND_EVENT),
    int(EventType.USER_VAR_EVENT),
    int(EventType.BEGIN_LOAD_QUERY_EVENT),
    int(EventType.EXECUTE_LOAD_QUERY_EVENT),
)
"""Events of statements that are logged as text, including LOAD DATA."""
NO_CHANGE_TYPES = (
    int(EventType.HEARTBEAT_LOG_EVENT),
    int(EventType.IGNORABLE_LOG_EVENT),
    int(EventType.TRANSACTION_CONTEXT_EVENT),
    int(EventType.VIEW_CHANGE_EVENT),
    int(EventType.HEARTBEAT_LOG_EVENT_V2),
    int(EventType.CONSENSUS_LOG_EVENT),
    int(EventType.PREVIOUS_CONSENSUS_INDEX_LOG_EVENT),
    int(EventType.CONSENSUS_CLUSTER_INFO_EVENT),
    int(EventType.CONSENSUS_EMPTY_EVENT),
)
"""Heartbeats, and the internal events of group replication and of PolarDB-X's consensus layer."""

IGNORABLE = int(EventFlag.LOG_EVENT_IGNORABLE_F)
SUPPRESS_USE = int(EventFlag.LOG_EVENT_SUPPRESS_USE_F)
STMT_END = int(RowsFlag.STMT_END_F)
NO_TABLE = int(DUMMY_TABLE_ID)


@njit(inline="always")
def is_rows(kind: Any) -> bool:
    """Return whether an event is a rows event, of any version."""
    return (
        WRITE_ROWS_EVENT <= kind <= DELETE_ROWS_EVENT
        or WRITE_ROWS_EVENT_V1 <= kind <= DELETE_ROWS_EVENT_V1
        or kind == PARTIAL_UPDATE_ROWS_EVENT
    )


@njit(inline="always")
def is_write(kind: Any) -> bool:
    """Return whether a rows event inserts."""
    return kind in (WRITE_ROWS_EVENT, WRITE_ROWS_EVENT_V1)


@njit(inline="always")
def is_whole_update(kind: Any) -> bool:
    """Return whether a rows event updates, with complete values in its after images."""
    return kind in (UPDATE_ROWS_EVENT, UPDATE_ROWS_EVENT_V1)


@njit(inline="always")
def is_update(kind: Any) -> bool:
    """Return whether a rows event updates: its rows have two images each."""
    return kind in (UPDATE_ROWS_EVENT, UPDATE_ROWS_EVENT_V1, PARTIAL_UPDATE_ROWS_EVENT)


@njit(inline="always")
def has_extra_data(kind: Any) -> bool:
    """Return whether a rows event has extra data with a length after its post-header, as those of version 2 do."""
    return kind >= WRITE_ROWS_EVENT


BEHIND_GROUPS = (
    GTID_LOG_EVENT,
    ANONYMOUS_GTID_LOG_EVENT,
    GTID_TAGGED_LOG_EVENT,
    GCN_EVENT,
    SEQUENCE_EVENT,
    ROTATE_EVENT,
    STOP_EVENT,
)
"""Events that stand behind a group and never inside one: GTID events, what stands in front of them, a file's end."""


TINY = int(ColumnType.TINY)
SHORT = int(ColumnType.SHORT)
LONG = int(ColumnType.LONG)
FLOAT = int(ColumnType.FLOAT)
DOUBLE = int(ColumnType.DOUBLE)
NULL = int(ColumnType.NULL)
TIMESTAMP = int(ColumnType.TIMESTAMP)
LONGLONG = int(ColumnType.LONGLONG)
INT24 = int(ColumnType.INT24)
DATE = int(ColumnType.DATE)
TIME = int(ColumnType.TIME)
DATETIME = int(ColumnType.DATETIME)
YEAR = int(ColumnType.YEAR)
NEWDATE = int(ColumnType.NEWDATE)
VARCHAR = int(ColumnType.VARCHAR)
BIT = int(ColumnType.BIT)
TIMESTAMP2 = int(ColumnType.TIMESTAMP2)
DATETIME2 = int(ColumnType.DATETIME2)
TIME2 = int(ColumnType.TIME2)
VECTOR = int(ColumnType.VECTOR)
JSON = int(ColumnType.JSON)
NEWDECIMAL = int(ColumnType.NEWDECIMAL)
ENUM = int(ColumnType.ENUM)
SET = int(ColumnType.SET)
TINY_BLOB = int(ColumnType.TINY_BLOB)
MEDIUM_BLOB = int(ColumnType.MEDIUM_BLOB)
LONG_BLOB = int(ColumnType.LONG_BLOB)
BLOB = int(ColumnType.BLOB)
VAR_STRING = int(ColumnType.VAR_STRING)
STRING = int(ColumnType.STRING)
GEOMETRY = int(ColumnType.GEOMETRY)

ONE_BYTE_OF_METADATA = (
    *(FLOAT, DOUBLE, TIMESTAMP2, DATETIME2, TIME2),
    *(VECTOR, JSON, TINY_BLOB, MEDIUM_BLOB, LONG_BLOB, BLOB, GEOMETRY),
)
TWO_BYTES_OF_METADATA = (VARCHAR, BIT, NEWDECIMAL, ENUM, SET, VAR_STRING, STRING)
"""Types by the number of their metadata bytes in a table map; all others have none."""
