"""What transactions of an output file depend on: the schemas by which it is found, and how a continued file goes on.

See `reshape.writesets`. Between the rounds of a process the history of the open file is carried in memory; another
process makes it again from the file's own bytes, with the same result.
"""

import json
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np

from binlog_merge.binlog.constants import BINLOG_MAGIC, EventType
from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.kernels.writesets import LARGE
from binlog_merge.errors import ManifestError, io_error
from binlog_merge.files.manifest import OutputFile
from binlog_merge.pipeline.gather.values import Schemas
from binlog_merge.reshape.target_keys import TargetKeys, table_of
from binlog_merge.reshape.writesets import History, References, Writesets, order_key_of, references_of
from binlog_merge.store_errors import as_merge_errors
from snapshot_store.history import SchemaHistory, TableVersion
from snapshot_store.store.db import Store
from snapshot_store.tso import OrderKey

_WINDOW: Final = 8 << 20
_VERSION: Final = 1
"""Of a note: another hash of keys, or another bound, is another version."""
_GTIDS: Final = (int(EventType.GTID_LOG_EVENT), int(EventType.ANONYMOUS_GTID_LOG_EVENT))


@dataclass(frozen=True, slots=True)
class OpenHistory:
    """The history of an open file of this size."""

    name: str
    size: int
    history: History

    def of(self, file: OutputFile) -> History | None:
        """Return the history, if it is that of a file as it is."""
        return self.history if (self.name, self.size) == (file.name, file.size) else None

    def note(self) -> bytes:
        """Return the history as bytes, for a host that goes on and has not read the file: see `noted`."""
        values = {"version": _VERSION, "start": self.history.start, "unknown": self.history.unknown}
        return json.dumps(values).encode() + b"\n" + self.history.entries


def noted(file: OutputFile, note: tuple[int, bytes] | None) -> OpenHistory | None:
    """Return the history in a note about a file, and the size that the file had then; None if there is none.

    Of another version's note nothing is taken: then the file is read. Raises ManifestError if it is damaged.
    """
    if note is None:
        return None
    size, data = note
    first, _, entries = data.partition(b"\n")
    try:
        values = json.loads(first)
        if values["version"] != _VERSION:
            return None
        return OpenHistory(file.name, size, History(int(values["start"]), int(values["unknown"]), entries))
    except (ValueError, KeyError, TypeError) as error:
        raise ManifestError(f"the note about {file.name} is damaged: {error}") from None


def writesets_of(schemas: Schemas, history: History | None) -> Writesets:
    """Return what finds the dependencies of a task's transactions."""
    return Writesets(schemas.history.at, _references_in(schemas.history), history, schemas.target)


def _references_in(history: SchemaHistory) -> Callable[[OrderKey], References]:
    names = {(v.schema, v.name) for v in history.versions if v.node is None and v.table and v.table.foreign_keys}

    def references_at(key: OrderKey) -> References:
        tables = (table_of(history.at(*name, key)) for name in names)
        return references_of(table for table in tables if table is not None)

    return references_at


def history_of_file(
    path: Path, file: OutputFile, store: Path, target: TargetKeys, filtered: bool, before: OpenHistory | None = None
) -> History:
    """Return the history of an open file, made again from its own bytes and the schema store.

    `target` has the tables of which a target may hold other keys. `filtered`: not all statements are in the file.
    `before` is what the history was when the file was shorter: only what follows is read. Raises IoError, and
    ManifestError if the bytes are no merged log.
    """
    with as_merge_errors(store), Store.open(store, read_only=True) as opened:
        stored = opened.merging()

        @cache
        def versions_of(schema: str, name: str) -> SchemaHistory:
            return opened.history_of([(None, schema, name)])

        def version_at(schema: str, name: str, key: OrderKey) -> TableVersion | None:
            return versions_of(schema, name).at(schema, name, key)

        referring = opened.history_of(stored.with_foreign_keys())
        known = None if before is None else before.history
        writesets = Writesets(version_at, _references_in(referring), known, target)
        first, last = OrderKey.parse(file.first_key), OrderKey.parse(file.last_key)
        changes = stored.changed_between(first, last, all_of_them=filtered)
        try:
            _read(path, len(BINLOG_MAGIC) if before is None else before.size, file.size, writesets, changes)
        except OSError as error:
            raise io_error(error, str(path)) from error
        except BinlogFormatError as error:
            raise ManifestError(
                f"the open file cannot be read again: {error.reason}",
                file=str(path),
                remedy="`binlog-merge verify` says what is wrong with it",
            ) from None
        return writesets.history()


def _read(path: Path, at: int, size: int, writesets: Writesets, changes: Sequence[OrderKey]) -> None:
    """Take all transactions of a file from a position on, some megabytes of whole ones at a time.

    `changes` are the keys behind which schemas change that no statement of the file says.
    """
    left = list(changes)
    with path.open("rb") as source:
        window = _WINDOW
        while at < size:
            source.seek(at)
            data = bytearray(source.read(min(window, size - at)))
            whole, large = _whole(data, at + len(data) == size)
            if large is not None and whole == 0:
                length, sequence = large
                writesets.pass_over(sequence, length)
                at += length
            elif whole == 0:
                if at + len(data) == size:
                    raise BinlogFormatError("it ends within a transaction")
                window *= 2
            else:
                _take(writesets, data, whole, left)
                at, window = at + whole, _WINDOW


def _take(writesets: Writesets, data: bytearray, end: int, changes: list[OrderKey]) -> None:
    """Take whole transactions, data[:end]; behind each of the `changes`, which is then removed, with maps anew."""
    view = np.frombuffer(data, np.uint8)
    begun = at = 0
    while changes and at < end:
        if data[at + 4] not in _GTIDS:
            at += int.from_bytes(data[at + 9 : at + 13], "little")
            continue
        key = order_key_of(view, at, end)
        if key is not None and key > changes[0]:
            writesets.take(view[begun:at], at - begun, patch=False)
            writesets.forget_maps()
            begun = at
            del changes[: bisect_left(changes, key)]
        at += _packed(data, at + 19 + 49)
    writesets.take(view[begun:end], end - begun, patch=False)


def _whole(data: bytearray, is_all: bool) -> tuple[int, tuple[int, int] | None]:
    """Return how many bytes are of whole transactions, and the length and number of a large one that begins there."""
    at = whole = 0
    while at + 19 <= len(data):
        size = int.from_bytes(data[at + 9 : at + 13], "little")
        if size < 23:
            raise BinlogFormatError("an event's length is impossible")
        if data[at + 4] in _GTIDS:
            if at + 19 + 58 > len(data):
                return at, None
            length = _packed(data, at + 19 + 49)
            if length > LARGE:
                return at, (length, int.from_bytes(data[at + 19 + 34 : at + 19 + 42], "little"))
            if at + length > len(data):
                return at, None
            at += length
            continue
        if at + size > len(data):
            return whole, None
        at += size
        whole = at
    return (len(data) if is_all else at), None


def _packed(data: bytearray, at: int) -> int:
    width = {252: 2, 253: 3, 254: 8}.get(data[at], 0)
    return int.from_bytes(data[at + 1 : at + 1 + width], "little") if width else data[at]
