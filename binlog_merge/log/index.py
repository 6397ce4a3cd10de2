"""Where the transactions of a merged log's files stand, as rows of numbers, and which chunk of a file they are in.

transactions_of   goes from GTID event to GTID event (`kernels.log_index`): a large transaction costs as little as a
                  small one
chunks_of         a file in chunks of about 1 MiB, and what is known of each:

    AT, RANK    where its first transaction begins, and that transaction's rank
    TSO … NODE  the greatest order key in it, -1 if it says none
    US          the latest commit time in it, in µs
    UNKNOWN_US  that of the transactions in it of which the log says no key, -1 if there are none
    CLOCKED     whether its commit times are the physical part of their TSOs (but for those without a TSO of their own)

Whoever looks for a place finds its chunk by bisection, and reads that chunk. The chunks of a file take one walk, and
are kept (`files.sidecar`). A file that still grows has them up to where it ended; what came since is its last chunk,
until that is large.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from io import RawIOBase
from typing import Any, Final, NoReturn, cast

import numpy as np
import numpy.typing as npt

from binlog_merge.binlog.constants import BINLOG_MAGIC
from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.events import FormatDescription, parse_event
from binlog_merge.binlog.kernels import log_index as x
from binlog_merge.errors import ChecksumMismatch, ManifestError, MergeError, io_error
from binlog_merge.files import sidecar as kept
from binlog_merge.files.log_folder import LogFolder
from binlog_merge.files.manifest import OutputFile
from binlog_merge.log.reader import DAMAGED, check_kept, events_of, file_items
from snapshot_store.tso import LOGICAL_BITS, OrderKey

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


AT, RANK, TSO, ID, SEQ, NODE, US, UNKNOWN_US, CLOCKED = range(9)
COLUMNS: Final = 9
CHUNK: Final = 1 << 20
TAIL: Final = 16 << 20
"""What a growing file may have grown by before it is indexed again."""
_KIND: Final = "places"
_NOT_KNOWN: Final = (-1, -1, -1, -1, 1 << 62, 1 << 62, 0)


@dataclass(frozen=True)
class Chunks:
    """The chunks of a file, in order; the last one ends with the file. `rows` has the columns above.

    `complete` is False if nothing is known of the last chunk but where it begins.
    """

    rows: Numbers
    size: int
    last_rank: int
    complete: bool = True

    def __len__(self) -> int:
        return len(self.rows)

    def at(self, number: int) -> int:
        """Return where a chunk begins; the end of the file for the number after the last."""
        return int(self.rows[number, AT]) if number < len(self) else self.size

    def rank(self, number: int) -> int:
        """Return the rank of a chunk's first transaction; the one after the file's for the number after the last."""
        return int(self.rows[number, RANK]) if number < len(self) else self.last_rank + 1

    def of_rank(self, rank: int) -> int:
        """Return the number of the chunk with a transaction of the file."""
        return max(0, int(np.searchsorted(self.rows[:, RANK], rank, "right")) - 1)

    def of_position(self, position: int) -> int:
        """Return the number of the chunk in which a position is."""
        return max(0, int(np.searchsorted(self.rows[:, AT], position, "right")) - 1)

    def last_before(self, key: OrderKey) -> int:
        """Return the number of the last chunk that has a key less than `key`, 0 if there is none."""
        for number in range(self._bisected(key), -1, -1):
            found = self.rows[number, TSO : NODE + 1].tolist()
            if found[0] >= 0 and tuple(found) < tuple(key):
                return number
        return 0

    def _bisected(self, key: OrderKey) -> int:
        """Return the number of the last chunk whose TSO is not greater; keys grow, where they are known."""
        known = np.maximum.accumulate(self.rows[:, TSO])
        return max(0, int(np.searchsorted(known, key.commit_tso, "right")) - 1)


def chunks_of(folder: LogFolder, file: OutputFile) -> Chunks:
    """Return the chunks of a file: those that are kept, or that a walk finds, which are kept then.

    A small file, one that is not in a local folder, and a damaged one is a single chunk of which nothing is known.
    """
    known = folder.indexes.get(file.name)
    if isinstance(known, Chunks) and known.size == file.size:
        return known
    found = _found(folder, file)
    folder.indexes[file.name] = found
    return found


def transactions_from(folder: LogFolder, file: OutputFile, chunks: Chunks, number: int) -> Iterator[Numbers]:
    """Yield the transactions of a file from a chunk on; see `index.transactions_of`."""
    at = chunks.at(number) if number else len(BINLOG_MAGIC)
    return transactions_of(folder, file, at=at, rank=chunks.rank(number))


def transactions_between(folder: LogFolder, file: OutputFile, first: int, last: int) -> Iterator[Numbers]:
    """Yield the transactions of a file whose ranks are from `first` to `last`; see `index.transactions_of`."""
    if first > file.last_rank or last < file.first_rank:
        return
    chunks = chunks_of(folder, file)
    for rows in transactions_from(folder, file, chunks, chunks.of_rank(first)):
        within = rows[(rows[:, x.X_RANK] >= first) & (rows[:, x.X_RANK] <= last)]
        if len(within):
            yield within
        if rows[-1, x.X_RANK] >= last:
            return


def _found(folder: LogFolder, file: OutputFile) -> Chunks:
    beside = folder.sidecars
    if beside is None or file.size < kept.LEAST_BYTES or not (beside / file.name).exists():
        return _one(file)
    sidecar = kept.read_sidecar(beside, _KIND, folder.cluster_uuid, file)
    rows, size, rank = np.zeros((0, COLUMNS), np.int64), len(BINLOG_MAGIC), file.first_rank
    if sidecar is not None:
        rows, size, rank = sidecar.arrays["chunks"], sidecar.covered.size, sidecar.covered.last_rank + 1
        if size == file.size:
            return Chunks(rows, file.size, file.last_rank)
        if file.size - size < TAIL:
            return Chunks(np.vstack([rows, (size, rank, *_NOT_KNOWN)]), file.size, file.last_rank, False)
    if not kept.may_keep(beside):
        return _one(file)
    try:
        more = transactions_of(folder, file, at=size, rank=rank) if len(rows) else transactions_of(folder, file)
        rows = np.vstack([rows, *_cut(more)])
        covered = kept.covered_by(beside / file.name, folder.cluster_uuid, file)
    except (MergeError, OSError):
        return _one(file)
    kept.write_sidecar(beside, _KIND, kept.Sidecar(covered, {}, {"chunks": rows}))
    return Chunks(rows, file.size, file.last_rank)


def _one(file: OutputFile) -> Chunks:
    row = np.array([(len(BINLOG_MAGIC), file.first_rank, *_NOT_KNOWN)], np.int64)
    return Chunks(row, file.size, file.last_rank, False)


def _cut(batches: Iterable[Numbers]) -> Iterator[Any]:
    """Yield the rows of chunks that have these transactions."""
    chunk: Any = None
    for rows in batches:
        begin = 0
        while begin < len(rows):
            if chunk is not None and rows[begin, x.X_AT] >= chunk[AT] + CHUNK:
                yield chunk
                chunk = None
            if chunk is None:
                chunk = [int(rows[begin, x.X_AT]), int(rows[begin, x.X_RANK]), -1, -1, -1, -1, -1, -1, 1]
            end = max(begin + 1, int(np.searchsorted(rows[:, x.X_AT], chunk[AT] + CHUNK)))
            _count(chunk, rows[begin:end])
            begin = end
    if chunk is not None:
        yield chunk


def _count(chunk: list[int], rows: Numbers) -> None:
    known = rows[rows[:, x.X_TSO] >= 0]
    unknown = rows[rows[:, x.X_TSO] < 0]
    if len(known):
        chunk[TSO : NODE + 1] = known[-1, [x.X_TSO, x.X_ID, x.X_SEQ, x.X_NODE]].tolist()
    chunk[US] = max(chunk[US], int(rows[:, x.X_COMMIT_US].max()))
    if len(unknown):
        chunk[UNKNOWN_US] = max(chunk[UNKNOWN_US], int(unknown[:, x.X_COMMIT_US].max()))
    own = known[known[:, x.X_SEQ] == 0]
    if (own[:, x.X_COMMIT_US] // 1000 != own[:, x.X_TSO] >> LOGICAL_BITS).any():
        chunk[CLOCKED] = 0
