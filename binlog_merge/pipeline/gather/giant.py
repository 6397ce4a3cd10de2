"""Writes transactions too big for a window: they are read, rewritten and written piece by piece, in bounded memory.

The GTID event that opens a transaction holds the transaction's length, which is known only at the end. Once a piece has
been written the length is above 2**24 (the output buffer is larger than that), so its encoding takes nine bytes and the
event can be overwritten in place.
"""

import zlib
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from binlog_merge.binlog.constants import ROWS_TYPES, ROWS_V1_TYPES, RowsFlag
from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.header import EventHeader
from binlog_merge.binlog.kernels import render_layout as k
from binlog_merge.binlog.kernels import scan_layout as ks
from binlog_merge.binlog.kernels.render import render_events
from binlog_merge.binlog.kernels.transaction_events import begin_transaction, end_transaction, length_width, write_gtid
from binlog_merge.binlog.kernels.writesets import LARGE
from binlog_merge.errors import ChecksumMismatch, MergeError
from binlog_merge.files.source import Source
from binlog_merge.pipeline.base.pieces import view
from binlog_merge.pipeline.gather.arranging import Doubt, no_order
from binlog_merge.pipeline.gather.giant_order import PIECE, giant_in_order, unpacked_pieces, whole_events
from binlog_merge.pipeline.gather.giant_rows import GiantRows
from binlog_merge.pipeline.gather.judge import judge_piece
from binlog_merge.pipeline.gather.renderer import Renderer
from binlog_merge.pipeline.gather.rows import Rows
from binlog_merge.pipeline.gather.traces import Part, branch_parts
from binlog_merge.reshape.writesets import OFF, Writesets

STREAMED_EVENT = (
    32 << 20
)  # a row event above this size is copied in pieces, not held in memory, if its rows pass unchanged

Buffer = npt.NDArray[np.uint8]


def write_giant(state: Renderer, rows: Rows, start: int, stop: int, hints: bool, key_doubts: bool) -> tuple[Doubt, ...]:
    """Write the transaction of rows[start:stop], and return what is in doubt.

    With `hints`, its statements have trace hints. Raises KeysInDoubt if no order keeps keys unique, but for
    `key_doubts`.
    """
    state.flush()
    parts, server, doubts = _parts(state, rows, start, stop, hints)
    if any(doubt.certain for doubt in doubts) and not key_doubts:
        raise no_order(doubts, start).located(**state.reader.place(rows, start))
    position, width = state.out.position, 9
    try:
        while True:
            total = _write(state, rows, start, parts, server, width)
            right = int(length_width(total - width))
            if right == width:
                break
            # Nothing has been flushed: a transaction with a shorter length fits the buffer.
            state.out.truncate(position)
            _restore(state, position)
            width = right
    except MergeError:
        state.out.truncate(position)
        _restore(state, position)
        raise
    _patch_gtid(state, rows, start, position, total, width)
    if state.writesets is not None:
        state.flush()
        if total > LARGE:
            state.writesets.pass_over(int(state.reg[k.SEQUENCE]), total)
        else:
            try:
                _depend(state, state.writesets, position)
            except BinlogFormatError as error:
                state.out.truncate(position)
                _restore(state, position)
                raise ChecksumMismatch(error.reason, **state.reader.place(rows, start)) from None
    state.reg[k.RANK] += 1
    state.reg[k.SEQUENCE] += 1
    state.reg[k.LENGTH_WIDTH] = 0
    state.flush()
    return doubts


def _depend(state: Renderer, writesets: Writesets, position: int) -> None:
    """Write what a transaction depends on into its GTID event, where it is in the file already."""
    whole = np.frombuffer(bytearray(state.out.read_back(position)), np.uint8)
    writesets.take(whole, len(whole))
    event = EventHeader.parse(whole[:19].tobytes())
    state.out.overwrite(position, whole[: event.event_size].tobytes())


def _restore(state: Renderer, position: int) -> None:
    reg = state.reg
    reg[k.OUT] = reg[k.TXN_OUT] = reg[k.INJECT] = 0
    reg[k.FILE_BASE], reg[k.IN], reg[k.LENGTH_WIDTH] = position, -1, 0
    reg[k.EVENTS], reg[k.ROW_EVENTS], reg[k.RESHAPED_ROWS] = (
        reg[k.SAVED_EVENTS], reg[k.SAVED_ROW_EVENTS], reg[k.SAVED_RESHAPED],
    )  # fmt: skip


def _key(rows: Rows, row: int, server: int) -> npt.NDArray[np.int64]:
    archive = int(rows.flags[row] & ks.ARCHIVE != 0)
    return np.array([*rows.key(row), int(rows.commit_us[row]), server, archive], np.int64)


def _parts(
    state: Renderer, rows: Rows, start: int, stop: int, hints: bool
) -> tuple[list[Part], int, tuple[Doubt, ...]]:
    """Return the parts of a transaction in output order, its server id, and what is in doubt."""
    parts, server, hinted = list[Part](), 0, False
    for row in range(start, stop) if hints else ():
        first, last = int(rows.start[row]), int(rows.end[row])
        if rows.flags[row] & ks.COMPRESSED:
            parts.append(Part(row, first, last))
            continue
        source = state.reader.source(int(rows.node[row]), int(rows.file[row]))
        found, branch_server, any_hint = branch_parts(source, row, first, last, _crc(state, rows, row))
        parts += found
        server, hinted = server or branch_server, hinted or any_hint
    if hinted and stop - start > 1:
        return sorted(parts, key=lambda part: part.trace), server, ()
    parts, doubts = giant_in_order(state, rows, start, stop)
    return parts, server, doubts


def _write(state: Renderer, rows: Rows, start: int, parts: Sequence[Part], server: int, width: int) -> int:
    """Write all events of the transaction; returns its length."""
    reg, position = state.reg, state.out.position
    begin_transaction(state.out.buffer, reg, state.sid, _key(rows, start, server), width)
    # Whole from the beginning, for who reads along; the length is not known yet.
    write_gtid(
        state.out.buffer, int(reg[k.TXN_OUT]), reg, state.sid, int(rows.commit_us[start]), 0, width, 0,
        int(reg[k.SEQUENCE]) - 1,
    )  # fmt: skip
    for part in parts:
        reg[k.N_MAPS] = reg[k.INJECT] = 0
        _write_part(state, rows, part)
    if reg[k.OUT] + k.FRAME > len(state.out.buffer):
        _make_room(state)
    end_transaction(state.out.buffer, reg, _key(rows, start, server))
    return state.out.position + int(reg[k.OUT]) - position


def _patch_gtid(state: Renderer, rows: Rows, row: int, position: int, total: int, width: int) -> None:
    reg = state.reg.copy()
    reg[k.FILE_BASE], reg[k.TIMESTAMP] = position, int(rows.commit_us[row]) // 1_000_000
    event = np.zeros(256, np.uint8)
    before = int(reg[k.SEQUENCE]) - 1
    size = int(write_gtid(event, 0, reg, state.sid, int(rows.commit_us[row]), total, width, 0, before))
    if state.out.position == position:
        state.out.buffer[:size] = event[:size]
    else:
        state.out.overwrite(position, event[:size].tobytes())


def _spill(state: Renderer) -> bool:
    """Write what is final. The last rows event of an open statement stays buffered, as it may still become the
    statement's end.

    Returns False if nothing could be written.
    """
    reg, buffer = state.reg, state.out.buffer
    keep = int(reg[k.LAST_ROWS]) if reg[k.LAST_ROWS] >= 0 else int(reg[k.OUT])
    if reg[k.STATEMENT_OUT] >= 0:
        keep = min(keep, int(reg[k.STATEMENT_OUT]))  # the table maps may still be removed
    if keep == 0:
        return False
    left = buffer[keep : int(reg[k.OUT])].copy()
    state.out.write(keep)
    buffer[: len(left)] = left
    reg[k.OUT] = len(left)
    reg[k.FILE_BASE] = state.out.position
    for place in (k.LAST_ROWS, k.STATEMENT_OUT):
        if reg[place] >= 0:
            reg[place] -= keep
    return True


def _make_room(state: Renderer) -> None:
    """Write what is final or, if nothing is, double the buffer."""
    if not _spill(state):
        bigger = np.empty(2 * len(state.out.buffer), np.uint8)
        bigger[: int(state.reg[k.OUT])] = state.out.buffer[: int(state.reg[k.OUT])]
        state.out.buffer = bigger


def _write_part(state: Renderer, rows: Rows, part: Part) -> None:
    row, crc = part.row, _source(state, rows, part)[1]
    if rows.flags[row] & ks.COMPRESSED and part.unpacked is None:
        group = state.reader.group(int(rows.node[row]), int(rows.file[row]), part.start, part.stop)
        pieces, crc = unpacked_pieces(*group, crc), 0
    else:
        pieces = _pieces(state, rows, part)
    for buffer, end in pieces:
        state.reg[k.IN] = 0
        state.judged(judge_piece(state.plans, int(state.reg[k.N_MAPS]), rows, row, buffer, end, crc))
        _render(state, rows, row, buffer, end, crc)


def _source(state: Renderer, rows: Rows, part: Part) -> tuple[Source, int]:
    """Return the file that a part is in, and the length of the checksums there."""
    if part.unpacked is not None:
        return part.unpacked, 0
    return state.reader.source(int(rows.node[part.row]), int(rows.file[part.row])), _crc(state, rows, part.row)


def _crc(state: Renderer, rows: Rows, row: int) -> int:
    return state.reader.crc(int(rows.node[row]), int(rows.file[row]))


def _render(state: Renderer, rows: Rows, row: int, buffer: Buffer, end: int, crc: int) -> None:
    reg = state.reg
    while True:
        reason = int(
            render_events(
                reg, state.plans.arrays, buffer, end, crc, int(rows.node[row]), state.out.buffer, state.inject, OFF
            )
        )
        if reason == k.FINISHED:
            return
        if reason == k.FULL:
            _make_room(state)
        elif reason == k.NOT_WHOLE:
            raise ChecksumMismatch("an event is not whole", position=int(rows.start[row]))
        else:
            state.serve(reason, crc, buffer, rows, row)


def _pieces(state: Renderer, rows: Rows, part: Part) -> Iterator[tuple[Buffer, int]]:
    """Yield a part's bytes in pieces of whole events. A giant rows event that passes unchanged is written here
    instead.
    """
    source, _ = _source(state, rows, part)
    offset, stop = part.start, part.stop
    buffer = np.empty(PIECE, np.uint8)
    while offset < stop:
        got = source.read_into(view(buffer)[: min(len(buffer), stop - offset)], offset)
        whole = whole_events(buffer, got)
        if whole:
            yield buffer, whole
            offset += whole
            continue
        if got < 19:
            raise ChecksumMismatch("the file became shorter while it was read", position=offset)
        size = EventHeader.parse(buffer[:19].tobytes()).event_size
        if size > STREAMED_EVENT and _copy_through(state, rows, part, buffer[:4096].copy(), offset, size):
            offset += size
        else:
            buffer = np.empty(size, np.uint8)


def _copy_through(state: Renderer, rows: Rows, part: Part, head: Buffer, offset: int, size: int) -> bool:
    """Copy one giant rows event in pieces, computing checksums. Returns False if its rows do not pass unchanged."""
    reg, out = state.reg, state.out
    kind, (source, crc) = int(head[4]), _source(state, rows, part)
    table_id = int.from_bytes(head[19:25].tobytes(), "little")
    maps = state.plans.arrays.maps[: int(reg[k.N_MAPS])]
    found = np.flatnonzero(maps[:, 0] == table_id)
    if kind not in ROWS_TYPES or not len(found):
        return False
    plan = state.plans.arrays.plans[int(maps[found[-1], 1])]
    ends = bool(head[25] & RowsFlag.STMT_END_F)
    if plan[k.KIND] != k.IDENTITY or plan[k.ASKED] or not ends:
        return False
    if not crc or reg[k.CHECK_ROWS]:
        extra = 8 + (int.from_bytes(head[27:29].tobytes(), "little") if kind not in ROWS_V1_TYPES else 0)
        shapes, steps = state.plans.arrays.shapes, int(plan[k.STEPS])
        if not GiantRows(source, offset + 19 + extra, offset + size - crc, kind, shapes, steps).fit():
            return False  # rendering the event reports the error
    _spill_all(state)
    length = size - crc + 4
    event = head[:27].copy()
    event[0:4] = np.frombuffer(int(reg[k.TIMESTAMP]).to_bytes(4, "little"), np.uint8)
    event[5:9] = np.frombuffer(int(reg[k.SERVER_ID]).to_bytes(4, "little"), np.uint8)
    event[9:13] = np.frombuffer(length.to_bytes(4, "little"), np.uint8)
    event[13:17] = np.frombuffer(((out.position + length) & 0xFFFFFFFF).to_bytes(4, "little"), np.uint8)
    event[17:19] = 0
    event[19:25] = np.frombuffer(int(plan[k.TABLE_ID]).to_bytes(6, "little"), np.uint8)
    out.buffer[:27] = event
    out.write(27)
    read_check, write_check = zlib.crc32(head[:27].tobytes()), zlib.crc32(event.tobytes())
    done, end = 27, size - crc
    while done < end:
        room = view(out.buffer)[: min(PIECE, end - done)]
        got = source.read_into(room, offset + done)
        if not got:
            raise ChecksumMismatch("the file became shorter while it was read", position=offset + done)
        read_check, write_check = zlib.crc32(room[:got], read_check), zlib.crc32(room[:got], write_check)
        out.write(got)
        done += got
    if crc:
        trailer = np.empty(4, np.uint8)
        source.read_into(view(trailer), offset + end)
        if int.from_bytes(trailer.tobytes(), "little") != read_check:
            raise ChecksumMismatch(
                "an event's checksum is wrong; it was right when the file was scanned", position=offset
            )
    out.buffer[:4] = np.frombuffer(write_check.to_bytes(4, "little"), np.uint8)
    out.write(4)
    reg[k.FILE_BASE] = out.position
    reg[k.EVENTS] += 1
    reg[k.ROW_EVENTS] += 1
    return True


def _spill_all(state: Renderer) -> None:
    """Write everything: the event that follows ends the statement."""
    state.reg[k.LAST_ROWS] = state.reg[k.STATEMENT_OUT] = -1
    state.out.write(int(state.reg[k.OUT]))
    state.reg[k.OUT] = 0
    state.reg[k.FILE_BASE] = state.out.position
