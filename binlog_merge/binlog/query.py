"""The query event and its status variables, and the events whose statements it ends: LOAD DATA, USER_VAR.

    | thread_id 4 | exec_time 4 | schema length 1 | error_code 2 | status length 2 |
    | status variables | schema NUL | statement |

A status variable is a code and a value. Only the code determines the value's length, so everything after an unknown
code is unreadable; servers write codes in ascending order for that reason. The raw bytes are packed; the parsed dict is
for reading. Source: mysql-server `libs/mysql/binlog/event/statement_events.cpp` (Query_event); PolarDB-X codes 200 and
201.

LOAD DATA logged as a statement: its file in blocks, then the statement that loads it.

    BEGIN_LOAD_QUERY (17), APPEND_BLOCK (9)    | file_id 4 | block |
    DELETE_FILE (11)                           | file_id 4 |
    EXECUTE_LOAD_QUERY (18)                    a query event, with | file_id 4 | start 4 | end 4 | duplicates 1 | more
                                               in its post-header: the file's name is query[start:end]

Source: mysql-server `libs/mysql/binlog/event/load_data_events.h`.

The USER_VAR event: the value of a user variable for the statement after it.

    | name length 4 | name | is NULL 1 |, and if it is not: | type 1 | collation 4 | length 4 | value | flags 1 |

Source: mysql-server `libs/mysql/binlog/event/statement_events.cpp` (User_var_event), `include/field_types.h`
(Item_result).
"""

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from enum import IntEnum
from typing import Any, Final, Self

from binlog_merge.binlog.decimals import decode_decimal
from binlog_merge.binlog.wire import Buffer, Reader, pack_uint
from snapshot_store.mysql.text.charsets import charset_of
from snapshot_store.mysql.text.codecs import python_codec

_MAX_DBS: Final = 16
_OVER_MAX_DBS: Final = 254
_UTF8MB4: Final = 255
"""The collation of the client if an event does not have it."""


class StatusVar(IntEnum):
    """`Query_event_status_vars`, with the additions of forks."""

    Q_FLAGS2_CODE = 0
    Q_SQL_MODE_CODE = 1
    Q_CATALOG_CODE = 2
    Q_AUTO_INCREMENT = 3
    Q_CHARSET_CODE = 4
    Q_TIME_ZONE_CODE = 5
    Q_CATALOG_NZ_CODE = 6
    Q_LC_TIME_NAMES_CODE = 7
    Q_CHARSET_DATABASE_CODE = 8
    Q_TABLE_MAP_FOR_UPDATE_CODE = 9
    Q_MASTER_DATA_WRITTEN_CODE = 10
    Q_INVOKER = 11
    Q_UPDATED_DB_NAMES = 12
    Q_MICROSECONDS = 13
    Q_COMMIT_TS = 14
    Q_COMMIT_TS2 = 15
    Q_EXPLICIT_DEFAULTS_FOR_TIMESTAMP = 16
    Q_DDL_LOGGED_WITH_XID = 17
    Q_DEFAULT_COLLATION_FOR_UTF8MB4 = 18
    Q_SQL_REQUIRE_PRIMARY_KEY = 19
    Q_DEFAULT_TABLE_ENCRYPTION = 20
    Q_ENABLE_CASCADE_TRIGGERS = 21
    # MariaDB
    Q_HRNOW = 128
    Q_XID = 129
    # PolarDB-X
    Q_LIZARD_COMMIT_GCN = 200
    Q_LIZARD_PREPARE_GCN = 201


def _number(size: int) -> Callable[[Reader], int]:
    return lambda r: r.uint(size, "status variable")


def _string(r: Reader) -> bytes:
    return bytes(r.take(r.u8("length of a status variable"), "status variable"))


def _catalog(r: Reader) -> bytes:
    # 5.0.0..5.0.3 wrote a NUL after a catalog that is not empty.
    name = _string(r)
    if name:
        r.take(1, "end of the catalog")
    return name


def _charset(r: Reader) -> tuple[int, int, int]:
    return r.u16("character_set_client"), r.u16("collation_connection"), r.u16("collation_server")


def _db_names(r: Reader) -> tuple[bytes, ...] | None:
    count = r.u8("number of schemas")
    if count >= _OVER_MAX_DBS:
        return None  # more than the server lists
    names: list[bytes] = []
    for _ in range(count):
        end = bytes(r.data[r.pos : r.end]).find(b"\0")
        if end < 0:
            raise r.fail("a schema name does not end with NUL")
        names.append(bytes(r.take(end + 1)[:-1]))
    return tuple(names)


_READ: Final[dict[int, Callable[[Reader], Any]]] = {
    StatusVar.Q_FLAGS2_CODE: _number(4),
    StatusVar.Q_SQL_MODE_CODE: _number(8),
    StatusVar.Q_CATALOG_CODE: _catalog,
    StatusVar.Q_AUTO_INCREMENT: lambda r: (r.u16("auto_increment_increment"), r.u16("auto_increment_offset")),
    StatusVar.Q_CHARSET_CODE: _charset,
    StatusVar.Q_TIME_ZONE_CODE: _string,
    StatusVar.Q_CATALOG_NZ_CODE: _string,
    StatusVar.Q_LC_TIME_NAMES_CODE: _number(2),
    StatusVar.Q_CHARSET_DATABASE_CODE: _number(2),
    StatusVar.Q_TABLE_MAP_FOR_UPDATE_CODE: _number(8),
    StatusVar.Q_MASTER_DATA_WRITTEN_CODE: _number(4),
    StatusVar.Q_INVOKER: lambda r: (_string(r), _string(r)),
    StatusVar.Q_UPDATED_DB_NAMES: _db_names,
    StatusVar.Q_MICROSECONDS: _number(3),
    StatusVar.Q_COMMIT_TS: _number(8),
    StatusVar.Q_COMMIT_TS2: lambda r: (r.u64("last_committed"), r.u64("sequence_number")),
    StatusVar.Q_EXPLICIT_DEFAULTS_FOR_TIMESTAMP: _number(1),
    StatusVar.Q_DDL_LOGGED_WITH_XID: _number(8),
    StatusVar.Q_DEFAULT_COLLATION_FOR_UTF8MB4: _number(2),
    StatusVar.Q_SQL_REQUIRE_PRIMARY_KEY: _number(1),
    StatusVar.Q_DEFAULT_TABLE_ENCRYPTION: _number(1),
    StatusVar.Q_ENABLE_CASCADE_TRIGGERS: _number(1),
    StatusVar.Q_HRNOW: _number(3),
    StatusVar.Q_XID: _number(8),
    StatusVar.Q_LIZARD_COMMIT_GCN: _number(8),
    StatusVar.Q_LIZARD_PREPARE_GCN: _number(8),
}


def _named(value: bytes) -> bytes:
    return pack_uint(len(value), 1) + value


def _pack_db_names(names: Sequence[bytes]) -> bytes:
    """Return the names in the order in which servers write them; of more than 16, that they are too many."""
    if len(names) > _MAX_DBS:
        return pack_uint(_OVER_MAX_DBS, 1)
    return pack_uint(len(names), 1) + b"".join(name + b"\0" for name in sorted(names, reverse=True))


_PACK: Final[Mapping[StatusVar, Callable[[Any], bytes]]] = {
    StatusVar.Q_FLAGS2_CODE: lambda v: pack_uint(v, 4),
    StatusVar.Q_SQL_MODE_CODE: lambda v: pack_uint(v, 8),
    StatusVar.Q_AUTO_INCREMENT: lambda v: b"".join(pack_uint(n, 2) for n in v),
    StatusVar.Q_CHARSET_CODE: lambda v: b"".join(pack_uint(n, 2) for n in v),
    StatusVar.Q_TIME_ZONE_CODE: _named,
    StatusVar.Q_LC_TIME_NAMES_CODE: lambda v: pack_uint(v, 2),
    StatusVar.Q_CHARSET_DATABASE_CODE: lambda v: pack_uint(v, 2),
    StatusVar.Q_INVOKER: lambda v: b"".join(map(_named, v)),
    StatusVar.Q_UPDATED_DB_NAMES: _pack_db_names,
    StatusVar.Q_MICROSECONDS: lambda v: pack_uint(v, 3),
    StatusVar.Q_EXPLICIT_DEFAULTS_FOR_TIMESTAMP: lambda v: pack_uint(v, 1),
    StatusVar.Q_DDL_LOGGED_WITH_XID: lambda v: pack_uint(v, 8),
    StatusVar.Q_DEFAULT_COLLATION_FOR_UTF8MB4: lambda v: pack_uint(v, 2),
    StatusVar.Q_SQL_REQUIRE_PRIMARY_KEY: lambda v: pack_uint(v, 1),
    StatusVar.Q_DEFAULT_TABLE_ENCRYPTION: lambda v: pack_uint(v, 1),
    StatusVar.Q_ENABLE_CASCADE_TRIGGERS: lambda v: pack_uint(v, 1),
}
"""The variables that are written, in ascending order, as readers stop at the first code that they do not know."""


def pack_status_vars(values: Mapping[StatusVar, Any]) -> bytes:
    """Return the bytes of status variables."""
    return b"".join(pack_uint(code, 1) + _PACK[code](values[code]) for code in sorted(values))


def status_spans(raw: Buffer) -> Iterator[tuple[int, int, int]]:
    """Yield each known status variable's code, and where it begins, code included, and ends in `raw`."""
    r = Reader(raw, "status variables")
    while r.left() and (code := r.data[r.pos]) in _READ:
        start = r.pos
        r.u8("code")
        _READ[code](r)
        yield code, start, r.pos


def parse_status_vars(raw: Buffer) -> tuple[dict[StatusVar, Any], bytes]:
    """Return the variables by code, and the bytes from the first unknown code on (empty if all are known)."""
    r = Reader(raw, "status variables")
    found: dict[StatusVar, Any] = {}
    while r.left():
        code = r.data[r.pos]
        if code not in _READ:
            return found, r.rest()
        r.u8("code")
        found[StatusVar(code)] = _READ[code](r)
    return found, b""


@dataclass(frozen=True, slots=True)
class Query:
    """QUERY_EVENT. `schema` and `query` are bytes: their character set is the session's (Q_CHARSET_CODE).

    `status_vars` is parsed from `status_raw`, which is packed; `status_unknown` is its rest from an unknown code on.
    """

    thread_id: int
    exec_time: int
    error_code: int
    schema: bytes
    query: bytes
    status_raw: bytes = b""
    status_vars: Mapping[StatusVar, Any] = field(default_factory=dict, compare=False)
    status_unknown: bytes = field(default=b"", compare=False)

    @classmethod
    def parse(cls, body: Buffer) -> Self:
        """Parse the body of a QUERY_EVENT with a post-header of 13 bytes (every server since 5.0)."""
        r = Reader(body, "query event")
        thread_id, exec_time = r.u32("thread_id"), r.u32("exec_time")
        schema_length, error_code, status_length = r.u8("schema length"), r.u16("error_code"), r.u16("status length")
        status = bytes(r.take(status_length, "status variables"))
        schema = bytes(r.take(schema_length, "schema"))
        if r.u8("end of schema") != 0:
            raise r.fail("the schema name does not end with NUL")
        found, unknown = parse_status_vars(status)
        return cls(thread_id, exec_time, error_code, schema, r.rest(), status, found, unknown)

    def pack(self) -> bytes:
        """Return the body."""
        return b"".join(
            (
                pack_uint(self.thread_id, 4),
                pack_uint(self.exec_time, 4),
                pack_uint(len(self.schema), 1),
                pack_uint(self.error_code, 2),
                pack_uint(len(self.status_raw), 2),
                self.status_raw,
                self.schema,
                b"\0",
                self.query,
            )
        )

    @property
    def text(self) -> str:
        """Return the statement as text, decoded from the client's character set; invalid bytes become surrogates."""
        return self.query.decode(self._codec, "surrogateescape")

    def with_text(self, text: str) -> Self:
        """Return the event with another statement, in the client's character set."""
        return self if text == self.text else replace(self, query=text.encode(self._codec, "surrogateescape"))

    @property
    def _codec(self) -> str:
        client, _, _ = self.status_vars.get(StatusVar.Q_CHARSET_CODE) or (_UTF8MB4, 0, 0)
        return python_codec(charset_of(client)) or "utf-8"

    @property
    def schema_is_utf8(self) -> bool:
        """Return whether the schema name is UTF-8, as all names of a server are."""
        return not any("\udc80" <= character <= "\udcff" for character in self.schema_text)

    @property
    def schema_text(self) -> str:
        return self.schema.decode("utf-8", "surrogateescape")


_QUERY_POST_HEADER: Final = 13
_ON_DUPLICATES: Final = 3  # error, IGNORE, REPLACE


@dataclass(frozen=True, slots=True)
class LoadBlock:
    """BEGIN_LOAD_QUERY_EVENT and APPEND_BLOCK_EVENT: the first and further bytes of a file."""

    file_id: int
    block: bytes

    @classmethod
    def parse(cls, body: Buffer) -> Self:
        r = Reader(body, "block of a loaded file")
        return cls(r.u32("file id"), r.rest())

    def pack(self) -> bytes:
        return pack_uint(self.file_id, 4) + self.block


@dataclass(frozen=True, slots=True)
class DeleteFile:
    """DELETE_FILE_EVENT: the statement failed, and the blocks are not needed."""

    file_id: int

    @classmethod
    def parse(cls, body: Buffer) -> Self:
        r = Reader(body, "delete file event")
        file_id = r.u32("file id")
        r.done()
        return cls(file_id)

    def pack(self) -> bytes:
        return pack_uint(self.file_id, 4)


@dataclass(frozen=True, slots=True)
class ExecuteLoadQuery:
    """EXECUTE_LOAD_QUERY_EVENT: `name` is the file name's range in the query; `duplicates` is 1 IGNORE, 2 REPLACE."""

    query: Query
    file_id: int
    name: tuple[int, int]
    duplicates: int

    @classmethod
    def parse(cls, body: Buffer) -> Self:
        r = Reader(body, "execute load query event")
        head = bytes(r.take(_QUERY_POST_HEADER, "post-header"))
        file_id, start, end, duplicates = r.u32("file id"), r.u32("start"), r.u32("end"), r.u8("duplicates")
        query = Query.parse(head + r.rest())
        if not start <= end <= len(query.query) or duplicates >= _ON_DUPLICATES:
            raise r.fail(f"the file's name at {start} to {end}, duplicates {duplicates}")
        return cls(query, file_id, (start, end), duplicates)

    def pack(self) -> bytes:
        body = self.query.pack()
        own = b"".join((*(pack_uint(n, 4) for n in (self.file_id, *self.name)), pack_uint(self.duplicates, 1)))
        return body[:_QUERY_POST_HEADER] + own + body[_QUERY_POST_HEADER:]


_UNSIGNED: Final = 1
_NUMBER_BYTES: Final = 8


class UserVarType(IntEnum):
    """The types of `Item_result` that variables can have."""

    STRING = 0
    REAL = 1
    INT = 2
    DECIMAL = 4


@dataclass(frozen=True, slots=True)
class UserVar:
    """USER_VAR_EVENT. `raw` are the value's bytes, None for NULL; `flags` is None if an old server wrote none."""

    name: bytes
    kind: UserVarType = UserVarType.STRING
    collation: int = 0
    raw: bytes | None = None
    flags: int | None = None

    @classmethod
    def parse(cls, body: Buffer) -> Self:
        r = Reader(body, "user variable event")
        name = bytes(r.take(r.u32("name length"), "name"))
        if r.u8("whether it is NULL"):
            r.done()
            return cls(name)
        number = r.u8("type")
        if number not in set(UserVarType):
            raise r.fail(f"type {number} is not known")
        kind, collation = UserVarType(number), r.u32("collation")
        raw = bytes(r.take(r.u32("length"), "value"))
        if kind in (UserVarType.REAL, UserVarType.INT) and len(raw) != _NUMBER_BYTES:
            raise r.fail(f"a number of {len(raw)} bytes")
        flags = r.u8("flags") if r.left() else None
        r.done()
        found = cls(name, kind, collation, raw, flags)
        found.value()
        return found

    def pack(self) -> bytes:
        name = pack_uint(len(self.name), 4) + self.name
        if self.raw is None:
            return name + b"\1"
        value = bytes([0, self.kind]) + pack_uint(self.collation, 4) + pack_uint(len(self.raw), 4) + self.raw
        return name + value + (b"" if self.flags is None else bytes([self.flags]))

    def value(self) -> bytes | float | int | Decimal | None:
        """Return the value; text as bytes, whose character set is that of `collation`."""
        if self.raw is None or self.kind == UserVarType.STRING:
            return self.raw
        if self.kind == UserVarType.REAL:
            return float(struct.unpack("<d", self.raw)[0])
        if self.kind == UserVarType.INT:
            return int.from_bytes(self.raw, "little", signed=not (self.flags or 0) & _UNSIGNED)
        r = Reader(self.raw, "DECIMAL of a user variable")
        precision, scale = r.u8("precision"), r.u8("scale")
        if not scale <= precision <= 81 or not precision:
            raise r.fail(f"DECIMAL({precision},{scale})")
        return decode_decimal(r.rest(), precision, scale)
