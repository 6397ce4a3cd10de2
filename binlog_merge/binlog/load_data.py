"""LOAD DATA logged as a statement: its file in blocks, then the statement that loads it.

    BEGIN_LOAD_QUERY (17), APPEND_BLOCK (9)    | file_id 4 | block |
    DELETE_FILE (11)                           | file_id 4 |
    EXECUTE_LOAD_QUERY (18)                    a query event, with | file_id 4 | start 4 | end 4 | duplicates 1 | more
                                               in its post-header: the file's name is query[start:end]

Source: mysql-server `libs/mysql/binlog/event/load_data_events.h`.
"""

from dataclasses import dataclass
from typing import Final, Self

from binlog_merge.binlog.query import Query
from binlog_merge.binlog.wire import Buffer, Reader, pack_uint

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
