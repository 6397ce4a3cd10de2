"""The transactions of a merged log's files as rows of numbers, without what stands in them (`kernels.log_walk`).

A transaction's length is in its GTID event, so a large one costs no more than a small one.
"""

from collections.abc import Iterator
from io import RawIOBase
from typing import Any, Final, NoReturn, cast

import numpy as np
import numpy.typing as npt

from binlog_merge.binlog.constants import BINLOG_MAGIC
from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.events import FormatDescription, parse_event
from binlog_merge.binlog.kernels import log_index as x
from binlog_merge.errors import ChecksumMismatch, ManifestError, io_error
from binlog_merge.files.log_folder import LogFolder
from binlog_merge.files.manifest import OutputFile
from binlog_merge.log.reader import DAMAGED, check_kept, events_of, file_items
from snapshot_store.tso import OrderKey

Numbers = npt.NDArray[np.int64]
_WINDOW: Final = 1 << 20
_MOST: Final = 1 << 16


def key_of(row: Any) -> OrderKey | None:
    """Return the order key in a row of the index, None if the log does not say it."""
    if row[x.X_TSO] < 0:
        return None
    return OrderKey(int(row[x.X_TSO]), int(row[x.X_ID]), int(row[x.X_SEQ]), int(row[x.X_NODE]))


def transactions_of(
    folder: LogFolder, file: OutputFile, window: int = _WINDOW, at: int = len(BINLOG_MAGIC), rank: int = 0
) -> Iterator[Numbers]:
    """Yield the transactions of a file, many at a time; the columns are X_* of `kernels.log_walk`.

    They begin with the one at `at`, whose rank is given if that is not the file's first event; those of each window
    come then at once, for who looks for one of them.

    Raises ChecksumMismatch and ManifestError for damage, and what is wrong with a store.
    """
    check_kept(folder, file)
    path = folder.place(file.name)
    reg, out = np.zeros(x.REGISTERS, np.int64), np.empty((_MOST, x.COLUMNS), np.int64)
    reg[x.AT], reg[x.RANK] = at, (rank or file.first_rank) - 1
    if at > len(BINLOG_MAGIC):
        reg[x.CHECKSUM] = checksum_of(folder, file)
    try:
        with cast(RawIOBase, folder.opened(file, 0)) as source:
            while reg[x.AT] < file.size:
                base = int(reg[x.AT])
                buffer = _read(source, base, min(window, file.size - base), path)
                why, before = x.FULL, int(reg[x.COUNT])
                while why == x.FULL:
                    why = x.index(buffer, len(buffer), base, file.size, reg, out)
                    if why == x.DAMAGED or (why == x.MORE and reg[x.AT] == base and before == reg[x.COUNT]):
                        _damaged(folder, file, path, int(reg[x.AT]))
                    if (why == x.FULL or rank) and reg[x.COUNT]:
                        yield out[: int(reg[x.COUNT])].copy()
                        reg[x.COUNT] = 0
    except OSError as error:
        raise io_error(error, path) from error
    if reg[x.RANK] != file.last_rank:
        _damaged(folder, file, path, int(reg[x.AT]))
    if reg[x.COUNT]:
        yield out[: int(reg[x.COUNT])].copy()


def checksum_of(folder: LogFolder, file: OutputFile) -> int:
    """Return the kind of checksum that a file's events have, as its format description says; 0: none."""
    path = folder.place(file.name)
    try:
        described = parse_event(next(events_of(folder, file)))
    except BinlogFormatError as error:
        raise ChecksumMismatch(error.reason, file=path, position=len(BINLOG_MAGIC), remedy=DAMAGED) from None
    if not isinstance(described, FormatDescription):
        _damaged(folder, file, path, len(BINLOG_MAGIC))
    return int(described.checksum)


def _read(source: RawIOBase, base: int, size: int, path: str) -> npt.NDArray[np.uint8]:
    found = np.empty(size, np.uint8)
    source.seek(base)
    view, done = memoryview(found.data), 0
    while done < size:
        count = source.readinto(view[done:])
        if not count:
            raise ManifestError(f"{path} is shorter than published", file=path, remedy=DAMAGED)
        done += count
    return found


def _damaged(folder: LogFolder, file: OutputFile, path: str, position: int) -> NoReturn:
    """Raise the error that `reader.file_items` raises for this file."""
    try:
        for _ in file_items(folder, file, file.first_rank):
            pass
    except BinlogFormatError as error:
        raise ChecksumMismatch(error.reason, file=path, position=position, remedy=DAMAGED) from None
    raise ChecksumMismatch("no transaction begins where one should", file=path, position=position, remedy=DAMAGED)
