"""Reads the positions and order keys of a merged log's transactions, from GTID event to GTID event.

A transaction's length is in its GTID event, so the events between are not read. Its key is in its CTS text; a DDL's key
is in its PolarDB-X comment lines, else in the schema store, else it is only known to be between its neighbours' keys.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, TypeVar

from binlog_merge.binlog import errors as format_errors
from binlog_merge.binlog.constants import EVENT_HEADER_LEN, EventType
from binlog_merge.binlog.events import EventHeader, RawEvent, frame
from binlog_merge.binlog.gtid import Gtid
from binlog_merge.binlog.query import Query
from binlog_merge.errors import (
    CHECK_PATH,
    ChecksumMismatch,
    ConfigError,
    IoError,
    OutsideLog,
    TruncatedEvent,
)
from binlog_merge.files.log_folder import LogFolder, folder_of
from binlog_merge.files.manifest import ManifestState, OutputFile
from binlog_merge.files.source import io_error
from binlog_merge.polardbx.ddl.comments import split_comment
from snapshot_store.tso import OrderKey

_GTIDS = (EventType.GTID_LOG_EVENT, EventType.ANONYMOUS_GTID_LOG_EVENT)
_CTS = ("# CTS::", "CTS::")
_KEY_DIGITS = 54
# ROWS_QUERY with CTS:: and 54 digits, with or without ::ARCHIVE after them: header, length byte, text, checksum.
_CTS_SIZE = EVENT_HEADER_LEN + 1 + len("CTS::") + _KEY_DIGITS + 4
_CTS_SIZES = (_CTS_SIZE, _CTS_SIZE + len("::ARCHIVE"))

Read = TypeVar("Read")


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transaction of the log, from its GTID event to its end; `ddl` is its statement if it is a DDL.

    `key` is None for a DDL whose key is not known.
    """

    file: str
    start: int
    end: int
    gtid: str
    key: OrderKey | None
    ddl: str | None


class MergedLog:
    """The published files of an output directory. Raises ManifestError if there is no manifest."""

    def __init__(self, place: Path | LogFolder) -> None:
        self.folder = folder_of(place)
        self.state: ManifestState = self.folder.state()
        if not self.state.files:
            raise OutsideLog(f"nothing has been published in {self.folder} yet")

    @property
    def files(self) -> tuple[OutputFile, ...]:
        """Return all published files, in order."""
        return self.state.files

    def file(self, name: str) -> OutputFile:
        """Return the file with this name. Raises ConfigError if the log has none."""
        for file in self.files:
            if file.name == name:
                return file
        raise ConfigError(
            f"the log has no file {name}: its files are {self.files[0].name} to {self.files[-1].name}",
            file=self.folder.place(name),
            remedy="give --position as FILE:POS, FILE being a file's name without its directory",
        )

    def path(self, file: OutputFile) -> Path:
        """Return the local path of a file. Raises IoError, and what is wrong with a store."""
        try:
            return self.folder.path(file)
        except OSError as error:
            raise io_error(error, self.folder.place(file.name)) from error

    def transactions(self, file: OutputFile) -> Iterator[Transaction]:
        """Yield a file's transactions in order; keys of DDL that their text does not contain come from the store."""
        for found in read_transactions(self.path(file), file.size):
            if found.key is None and found.ddl is not None:
                found = Transaction(*_values(found)[:4], self._ddl_key(found, file), found.ddl)
            yield found

    def _ddl_key(self, found: Transaction, file: OutputFile) -> OrderKey | None:
        low, high = OrderKey.parse(file.first_key), OrderKey.parse(file.last_key)
        if found.start == _first_start(self.path(file)):
            return low
        keys = [key for key, text in self._stored if text == found.ddl and low <= key <= high]
        return keys[0] if len(keys) == 1 else None

    @cached_property
    def _stored(self) -> tuple[tuple[OrderKey, str], ...]:
        """Return the keys and texts of all logical DDL in the schema store."""
        from binlog_merge.cli.schema.store import opened, store_path

        if not store_path(self.folder.directory).exists():
            return ()
        with opened(self.folder.directory) as store:
            history = store.load_history()
        tables = {(v.key, v.ddl) for v in history.versions if v.node is None and v.origin == "marker"}
        databases = {(v.key, v.ddl) for v in history.schema_versions if v.node is None and v.origin == "marker"}
        return tuple(sorted(tables | databases))


def _values(found: Transaction) -> tuple[str, int, int, str]:
    return found.file, found.start, found.end, found.gtid


def _first_start(path: Path) -> int:
    with _opened(path) as file:
        position = 4
        while (header := _header(file, position, path)) is not None and header.type_code not in _GTIDS:
            position += header.event_size
    return position


def read_transactions(path: Path, size: int) -> Iterator[Transaction]:
    """Yield the transactions in the first `size` bytes of a file. Raises MergeError for a damaged one."""
    with _opened(path) as file:
        position = 4
        while position < size:
            header = _header(file, position, path)
            if header is None:
                raise TruncatedEvent(f"the file is shorter than the {size} bytes published", file=str(path))
            if header.type_code not in _GTIDS:
                position += header.event_size
                continue
            gtid = Gtid.parse(event_at(file, position, path).body)
            end = position + (gtid.transaction_length or 0)
            if not position + header.event_size < end <= size:
                raise ChecksumMismatch(
                    f"a transaction of {gtid.transaction_length} bytes does not fit", file=str(path), position=position
                )
            key, ddl = _key_and_ddl(file, position + header.event_size, end, path)
            yield Transaction(path.name, position, end, gtid.text, key, ddl)
            position = end


def boundaries(path: Path, start: int, end: int) -> Iterator[int]:
    """Yield the offsets of the events in [start, end) of a file."""
    with _opened(path) as file:
        while start < end and (header := _header(file, start, path)) is not None:
            yield start
            start += header.event_size


def _key_and_ddl(file: BinaryIO, first: int, end: int, path: Path) -> tuple[OrderKey | None, str | None]:
    """Return the order key and the DDL in a transaction's first events and its last one; None for what is missing."""
    event = event_at(file, first, path)
    query = Query.parse(event.body)
    key = next((_key_of(event_at(file, at, path)) for at in _ends_with_cts(file, end, first)), None)
    if query.text != "BEGIN":
        comment, statement = _comment(query.text, path, first)
        return key or comment, statement
    second = event_at(file, first + event.header.event_size, path)
    if key is None and second.type_code == EventType.ROWS_QUERY_LOG_EVENT:
        key = _key_of(second)
    return key, None


def _comment(text: str, path: Path, position: int) -> tuple[OrderKey | None, str]:
    try:
        comment, statement = split_comment(text)
    except ValueError as error:
        raise ChecksumMismatch(str(error), file=str(path), position=position) from None
    return (comment.key if comment is not None else None), statement


def _ends_with_cts(file: BinaryIO, end: int, first: int) -> Iterator[int]:
    """Yield the offset of the CTS text at the end of a transaction, if there is one."""
    for size in _CTS_SIZES:
        file.seek(max(first, end - size))
        head = file.read(EVENT_HEADER_LEN)
        if (
            end - size > first
            and head[4] == EventType.ROWS_QUERY_LOG_EVENT
            and int.from_bytes(head[9:13], "little") == size
            and int.from_bytes(head[13:17], "little") == end & 0xFFFFFFFF
        ):
            yield end - size


def _key_of(event: RawEvent) -> OrderKey | None:
    text = bytes(event.body[1:]).decode("utf-8", "replace")
    for prefix in _CTS:
        if text.startswith(prefix):
            digits = text[len(prefix) : len(prefix) + _KEY_DIGITS]
            return OrderKey.parse(digits) if len(digits) == _KEY_DIGITS and digits.isdigit() else None
    return None


def _header(file: BinaryIO, position: int, path: Path) -> EventHeader | None:
    file.seek(position)
    head = file.read(EVENT_HEADER_LEN)
    if not head:
        return None
    return _guarded(lambda: EventHeader.parse(head), path, position)


def event_at(file: BinaryIO, position: int, path: Path) -> RawEvent:
    """Return the event at a position of an open file, checked. Raises MergeError for a damaged one."""
    header = _header(file, position, path)
    size = 0 if header is None else header.event_size
    if size < EVENT_HEADER_LEN + 4 or position + size > os.fstat(file.fileno()).st_size:
        raise TruncatedEvent("there is no whole event", file=str(path), position=position)
    file.seek(position)
    data = memoryview(file.read(size))
    return _guarded(lambda: frame(data, 0, file=str(path), offset=position, checksum=True), path, position)


def _guarded(read: Callable[[], Read], path: Path, position: int) -> Read:
    try:
        return read()
    except format_errors.BinlogFormatError as error:
        raise ChecksumMismatch(error.reason, file=str(path), position=position) from None


def _opened(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        raise IoError(f"{error.strerror or error}", file=str(path), remedy=CHECK_PATH) from error
