"""Puts the statements of a transaction too big for a window in order: see `gather.arranging`.

Its branches are read up to three times, in pieces: for the kinds of their rows events, and only if one branch may free
what another takes, for the keys of the rows, and for the order. Only the keys' hashes are held, up to
`arranging.MOST_CHANGES`; if there are more, whole branches are put in order.

`whole_events` and `unpacked_pieces` read such branches in pieces of whole events, in bounded memory.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from binlog_merge.binlog.constants import EventType
from binlog_merge.binlog.header import EventHeader
from binlog_merge.binlog.kernels import render_layout as k
from binlog_merge.binlog.kernels import scan_layout as ks
from binlog_merge.binlog.kernels import trace as t
from binlog_merge.binlog.kernels.exchanges import NEAR
from binlog_merge.binlog.payload import TransactionPayload
from binlog_merge.errors import ChecksumMismatch
from binlog_merge.files.scratch import scratch_folder
from binlog_merge.files.source import LocalSource, Source
from binlog_merge.pipeline.base.pieces import view
from binlog_merge.pipeline.gather import arranging
from binlog_merge.pipeline.gather.arranging import (
    Doubt,
    Ints,
    by_branch,
    in_order,
    suspects,
    transactions_that_exchange,
)
from binlog_merge.pipeline.gather.input_reader import NO_PAYLOAD
from binlog_merge.pipeline.gather.key_changes import Changes, key_changes, together
from binlog_merge.pipeline.gather.renderer import Renderer
from binlog_merge.pipeline.gather.rows import Rows
from binlog_merge.pipeline.gather.rows_events import rows_in_piece
from binlog_merge.pipeline.gather.traces import Part, branch_parts

PIECE = 8 << 20

Buffer = npt.NDArray[np.uint8]


def plain_pieces(source: Source, start: int, stop: int) -> Iterator[tuple[int, Buffer, int]]:
    """Yield (offset, buffer, end) of pieces of whole events; an event that is larger than a piece is one by itself."""
    offset, buffer = start, np.empty(PIECE, np.uint8)
    while offset < stop:
        got = source.read_into(view(buffer)[: min(len(buffer), stop - offset)], offset)
        whole = whole_events(buffer, got)
        if whole:
            yield offset, buffer, whole
            offset += whole
            continue
        if got < 19:
            raise ChecksumMismatch("the file became shorter while it was read", position=offset)
        buffer = np.empty(max(PIECE, EventHeader.parse(buffer[:19].tobytes()).event_size), np.uint8)
        if offset + len(buffer) > stop and got == stop - offset:
            raise ChecksumMismatch("an event is not whole", position=offset)


def unpacked_pieces(source: Source, start: int, stop: int, crc: int) -> Iterator[tuple[Buffer, int]]:
    """Yield the events inside a compressed branch in pieces of whole events."""
    offset, found = start, False
    while offset < stop:
        head = np.empty(19, np.uint8)
        source.read_into(view(head), offset)
        header = EventHeader.parse(head.tobytes())
        if header.type_code == EventType.TRANSACTION_PAYLOAD_EVENT:
            found = True
            body = np.empty(header.event_size - 19 - crc, np.uint8)
            source.read_into(view(body), offset + 19)
            left = np.empty(0, np.uint8)
            for chunk in TransactionPayload.parse(body.tobytes()).chunks():
                left = np.concatenate([left, np.frombuffer(chunk, np.uint8)])
                whole = whole_events(left, len(left))
                if whole:
                    yield left, whole
                    left = left[whole:].copy()
            if len(left):
                raise ChecksumMismatch("a transaction payload ends inside an event", position=offset)
        offset += header.event_size
    if not found:
        raise ChecksumMismatch(NO_PAYLOAD, position=start)


def whole_events(buffer: Buffer, end: int) -> int:
    """Return the total length of the whole events at the beginning of a buffer."""
    at = 0
    while at + 19 <= end:
        size = int.from_bytes(buffer[at + 9 : at + 13].tobytes(), "little")
        if size < 19 or at + size > end:
            break
        at += size
    return at


def giant_in_order(state: Renderer, rows: Rows, start: int, stop: int) -> tuple[list[Part], tuple[Doubt, ...]]:
    """Return the parts of the transaction of rows[start:stop] in output order, and what is in doubt."""
    whole = [Part(row, int(rows.start[row]), int(rows.end[row])) for row in range(start, stop)]
    chosen = state.plans.filter
    left_out = chosen is not None and chosen.leaves_out(rows.columns["tso"][start : start + 1]).any()
    if stop - start == 1 or left_out:
        return whole, ()
    found = _found(state, rows, whole)
    nothing = np.zeros(len(found), np.int64)
    near = suspects(state.plans, np.empty(0, np.uint8), found, nothing, most=-1) == NEAR
    if not near.any():
        return whole, ()
    changes = _changes(state, rows, whole, near, touched=False)
    if changes is not None and not len(transactions_that_exchange(nothing, found[:, k.F_SEGMENT], changes)):
        return whole, ()
    found_near = found[near]
    parts = [part for branch in whole for part in _statements(state, rows, branch)]
    found = _found(state, rows, _branches(parts))
    if changes is not None:
        changes = _changes(state, rows, _branches(parts), np.ones(len(found), np.bool_), touched=True)
    if changes is None:
        order, doubts = by_branch(state.plans, range(len(whole)), found_near, start)
        return [whole[branch] for branch in order], doubts
    pieces = np.zeros((len(parts), t.P_COLUMNS), np.int64)
    pieces[:, t.P_SEGMENT] = [part.row - start for part in parts]
    pieces[:, t.P_POS] = [part.start for part in parts]
    order, doubts = in_order(state.plans, pieces, found, changes, start)
    return [parts[number] for number in order], doubts


def _branches(parts: Sequence[Part]) -> list[Part]:
    """Return each branch from the first to the last of its parts."""
    branches: list[Part] = []
    for part in parts:
        if branches and branches[-1].row == part.row:
            branches[-1] = Part(part.row, branches[-1].start, part.stop, unpacked=part.unpacked)
        else:
            branches.append(part)
    return branches


def _found(state: Renderer, rows: Rows, branches: Sequence[Part]) -> Ints:
    return np.concatenate(
        [events for *_, events in _scan(state, rows, branches)] + [np.zeros((0, k.F_COLUMNS), np.int64)]
    )


def _scan(state: Renderer, rows: Rows, branches: Sequence[Part]) -> Iterator[tuple[Buffer, int, Ints]]:
    """Yield the pieces of all branches: (buffer, offset of it, rows events with their places in the file)."""
    first = branches[0].row
    for branch in branches:
        row, known = branch.row, 0
        for offset, buffer, end, crc in _pieces(state, rows, branch):
            events, known = rows_in_piece(state.plans, known, rows, row, buffer, end, crc, k.KEYED)
            events[:, k.F_EVENT] += offset
            events[:, k.F_SEGMENT] = row - first
            yield buffer, offset, events


def _pieces(state: Renderer, rows: Rows, branch: Part) -> Iterator[tuple[int, Buffer, int, int]]:
    """Yield (offset, buffer, end, length of checksums) of a branch's pieces."""
    source, crc = _source(state, rows, branch)
    if branch.unpacked is None and rows.flags[branch.row] & ks.COMPRESSED:
        offset = 0
        for buffer, end in unpacked_pieces(*_group(state, rows, branch), crc):
            yield offset, buffer, end, 0
            offset += end
        return
    for offset, buffer, end in plain_pieces(source, branch.start, branch.stop):
        yield offset, buffer, end, crc


def _source(state: Renderer, rows: Rows, branch: Part) -> tuple[Source, int]:
    if branch.unpacked is not None:
        return branch.unpacked, 0
    node, file = int(rows.node[branch.row]), int(rows.file[branch.row])
    return state.reader.source(node, file), state.reader.crc(node, file)


def _group(state: Renderer, rows: Rows, branch: Part) -> tuple[Source, int, int]:
    """Return where a compressed branch is read."""
    node, file = int(rows.node[branch.row]), int(rows.file[branch.row])
    return state.reader.group(node, file, branch.start, branch.stop)


def _changes(state: Renderer, rows: Rows, branches: Sequence[Part], chosen: Any, touched: bool) -> Changes | None:
    """Return what the chosen ones of all rows events do to keys, None if that is too much to hold."""
    commit_us = rows.commit_us[branches[0].row : branches[-1].row + 1]
    parts: list[Changes] = []
    count, seen = 0, 0
    for buffer, offset, events in _scan(state, rows, branches):
        events[:, k.F_EVENT] -= offset
        own = np.flatnonzero(chosen[seen : seen + len(events)])
        found = key_changes(state.plans, buffer, commit_us, events[own], touched)
        parts.append(found.of_events(own + seen))
        seen, count = seen + len(events), count + len(found)
        if count > arranging.MOST_CHANGES:
            return None
    return together(parts)


def _statements(state: Renderer, rows: Rows, branch: Part) -> list[Part]:
    """Return the statements of a branch. A compressed one is unpacked into a file that goes with its last part."""
    source, crc = _source(state, rows, branch)
    if not rows.flags[branch.row] & ks.COMPRESSED:
        return branch_parts(source, branch.row, branch.start, branch.stop, crc)[0]
    with scratch_folder() as folder:
        path = folder / "unpacked"
        with path.open("wb") as file:
            for buffer, end in unpacked_pieces(*_group(state, rows, branch), crc):
                file.write(buffer[:end].tobytes())
        unpacked = LocalSource(str(path))
    found = branch_parts(unpacked, branch.row, 0, unpacked.size, 0)[0]
    return [Part(part.row, part.start, part.stop, unpacked=unpacked) for part in found]
