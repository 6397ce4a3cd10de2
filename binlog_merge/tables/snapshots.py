"""Snapshots of a kept DuckDB file: whole copies, dated, which nobody writes to any more.

A copy gets its name when it is on disk and was found to be whole, so that readers of the folder never see half of one;
what a killed replay left behind is removed by the next. DuckDB's lock stays with the replay meanwhile: the copy is made
by another process, for the lock of a process ends when it closes any descriptor of the file (fcntl).
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from binlog_merge.binlog.kernels import log_index as x
from binlog_merge.errors import IoError, MergeError, io_error
from binlog_merge.files.failpoint import failpoint
from binlog_merge.log.index import Numbers, transactions_of
from binlog_merge.log.log import Log
from binlog_merge.log.replay_options import ReplayOptions, ReplayResult
from binlog_merge.log.rows import TableShapes
from binlog_merge.tables.load import load
from binlog_merge.tables.snapshot_places import SnapshotFolder, SnapshotPlace, rank_in, snapshot_name
from binlog_merge.tables.target import DuckdbTarget
from snapshot_store.tso import FIRST_MILLIS, LOGICAL_BITS, OrderKey, carries_time

_COPY: Final = "import shutil, sys; shutil.copyfile(sys.argv[1], sys.argv[2])"


@dataclass(frozen=True)
class Snapshots:
    """Which snapshots are made, and how many are kept (None: all).

    `every` µs: where the log's commit times pass a multiple of that. None: where the replay ends.
    """

    place: SnapshotPlace
    every: int | None = None
    keep: int | None = None


def load_with_snapshots(
    binlog: Log,
    target: DuckdbTarget,
    history: TableShapes | None,
    options: ReplayOptions,
    snapshots: Snapshots,
) -> ReplayResult:
    """Load a range as `load` does, and make snapshots on the way. Raises as `load` does, OutputBusy and IoError."""
    begun = (options.first_rank or 1) - 1 if target.rank is None else target.rank
    total = ReplayResult(begun + 1, begun, snapshots=[])
    last = min(binlog.last_rank, options.last_rank or binlog.last_rank)
    try:
        with snapshots.place.held():
            names = snapshots.place.names()
            _check_cluster(snapshots.place, names, target)
            there = {rank_in(name) for name in names}
            for rank, micros in _due(binlog, begun + (target.rank is None), last, snapshots):
                if rank not in there:
                    _go_on(binlog, target, history, options, rank, total)
                    _take(target, snapshots, snapshot_name(rank, micros), total)
            _go_on(binlog, target, history, options, options.last_rank, total)
    except MergeError as error:
        error.result = total
        raise
    return total


def _go_on(
    binlog: Log,
    target: DuckdbTarget,
    history: TableShapes | None,
    options: ReplayOptions,
    last: int | None,
    total: ReplayResult,
) -> None:
    if target.rank is not None and target.rank == last:
        return
    begins = options.first_rank if target.rank is None else None
    stretch = replace(options, first_rank=begins, last_rank=last)
    try:
        total.go_on(load(binlog, target, history, stretch))
    except MergeError as error:
        if error.result is not None:
            total.go_on(error.result)
        raise


def _check_cluster(place: SnapshotPlace, names: list[str], target: DuckdbTarget) -> None:
    """Raise ConfigError for a folder of another cluster's snapshots, which would be taken for one's own."""
    if names and isinstance(place, SnapshotFolder):
        with DuckdbTarget(place.path / names[-1], target.cluster, None, read_only=True):
            pass


def _due(binlog: Log, first: int, last: int, snapshots: Snapshots) -> list[tuple[int, int]]:
    """Return the (rank, commit time) of the transactions behind which snapshots are due: no more than are kept."""
    if last < max(first, binlog.state.first_rank, 1):
        return []
    if snapshots.every is None:
        found = list(_times(binlog, last, last))
    else:
        found = list(_passing(_times(binlog, first, last), snapshots.every))
    return found if snapshots.keep is None else found[-snapshots.keep :]


def _passing(times: Iterator[tuple[int, int]], every: int) -> Iterator[tuple[int, int]]:
    """Yield the last transaction before each multiple of `every` that has been passed."""
    before: tuple[int, int] | None = None
    for rank, micros in times:
        if before is not None and before[1] and micros // every > before[1] // every:
            yield before
        before = rank, micros


def _times(binlog: Log, first: int, last: int) -> Iterator[tuple[int, int]]:
    """Yield (rank, commit time in µs) of transactions; times grow: one before the greatest so far counts as that."""
    by_tso = carries_time(OrderKey.parse(binlog.state.files[-1].last_key).commit_tso)
    for file in binlog.state.files:
        if file.last_rank < first or file.first_rank > last:
            continue
        greatest = 0
        for rows in transactions_of(binlog.folder, file):
            times = np.maximum(np.maximum.accumulate(_commit_times(rows, by_tso)), greatest)
            greatest = int(times[-1])
            kept = (rows[:, x.X_RANK] >= first) & (rows[:, x.X_RANK] <= last)
            yield from zip(rows[kept, x.X_RANK].tolist(), times[kept].tolist(), strict=True)


def _commit_times(rows: Numbers, by_tso: bool) -> Numbers:
    """Return commit times, 0 for what has none: what stands before the first TSO, in a log whose TSOs carry time."""
    tsos = rows[:, x.X_TSO]
    timeless = (tsos >= 0) & (tsos < FIRST_MILLIS << LOGICAL_BITS)
    return np.where(timeless, 0, rows[:, x.X_COMMIT_US]) if by_tso else rows[:, x.X_COMMIT_US]


def _take(target: DuckdbTarget, snapshots: Snapshots, name: str, total: ReplayResult) -> None:
    """Make a snapshot of the target as it is, and remove those that are too many."""
    assert total.snapshots is not None
    place = snapshots.place
    target.checkpoint()
    part = place.part(target.path, name)
    try:
        _copied(target.path, part)
        failpoint("snapshot-copied")
        with DuckdbTarget(part, target.cluster, None, read_only=True) as copy:
            if copy.rank != target.rank:
                raise IoError(f"the copy is of transaction {copy.rank}, not {target.rank}", file=str(part))
        place.publish(part, name)
    except OSError as error:
        raise io_error(error, str(part)) from error
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)
    total.snapshots.append(name)
    failpoint("snapshot-made")
    if snapshots.keep is not None:
        old = place.names()[: -snapshots.keep]
        place.remove(old)
        total.removed += old


def _copied(source: Path, part: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _COPY, str(source), str(part)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise IoError(f"the snapshot cannot be made: {reason}", file=str(part))
