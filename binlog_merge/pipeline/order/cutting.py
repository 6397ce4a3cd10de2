"""Cuts the global order into output files: by input bytes, at transaction boundaries, continuing the open file.

A new file begins before the first transaction at which the open file already holds `max_size` input bytes. The rule
depends only on the order itself, so the files do not depend on how runs and ranges divided the work.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from binlog_merge.files.manifest import ManifestState
from binlog_merge.pipeline.base.blocks import read_told
from binlog_merge.pipeline.base.pieces import Column
from binlog_merge.pipeline.order.ordered import TOLD, OrderResult


@dataclass
class Cut:
    """The rows of one output file.

    `runs` are (order file, from row, to row), `rank` is the rank of its first new transaction. `goes_on`: it continues
    the open file.
    """

    rank: int
    goes_on: bool
    runs: list[tuple[str, int, int]] = field(default_factory=list)


def cut_files(state: ManifestState, max_size: int, ranges: Sequence[OrderResult]) -> list[Cut]:
    """Return the cuts of the ranges' rows, going on from where an output ends."""
    used = None if state.open_file is None else state.open_file.input_bytes
    return cut(ranges, max_size, state.rank + 1, used)


def cut(ranges: Sequence[OrderResult], max_size: int, rank: int, used: int | None) -> list[Cut]:
    """Return the cuts of the ranges' rows. `used` are the input bytes of the open file, None if there is none.

    The first cut may have no rows: then the open file is full and is only closed.
    """
    cuts: list[Cut] = [Cut(rank, True)] if used is not None else []
    filled = used if used is not None else 0
    for part in ranges:
        if not part.rows:
            continue
        if cuts and filled < max_size and filled + part.bytes <= max_size:
            # No transaction of the range begins where the file is full.
            cuts[-1].runs.append((part.path, 0, part.rows))
            filled += part.bytes
            rank += part.transactions
            continue
        columns = read_told(part.path, TOLD)
        before, first = columns["before"], columns["first"]
        ranks = np.cumsum(first) - first
        row = 0
        while row < part.rows:
            if not cuts or filled >= max_size:
                cuts.append(Cut(rank + int(ranks[row]), False))
                filled = 0
            stop = _full_at(before, first, row, max_size - filled)
            end = part.bytes if stop == part.rows else int(before[stop])
            filled += end - int(before[row])
            cuts[-1].runs.append((part.path, row, stop))
            row = stop
        rank += part.transactions
    return [] if cuts and not any(c.runs for c in cuts) else cuts


def _full_at(before: Column, first: Column, row: int, room: int) -> int:
    """Return the row at which the file is full: the first after `row` that begins a transaction at least `room` bytes
    on.

    Returns the number of rows if there is none.
    """
    at = int(np.searchsorted(before, int(before[row]) + room))
    at = max(at, row + 1)
    while at < len(first):
        begins = np.flatnonzero(first[at : at + 4096])
        if len(begins):
            return at + int(begins[0])
        at += 4096
    return len(first)


def rows_of(cuts: Sequence[Cut]) -> Iterator[int]:
    """Yield the number of rows of each file."""
    for file in cuts:
        yield sum(stop - start for _, start, stop in file.runs)
