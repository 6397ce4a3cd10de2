"""Column types for kernels: the numbers of `ColumnType` as plain integers, which numba compiles to constants."""

from binlog_merge.binlog.constants import ColumnType

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
