"""The scan stage: walk one piece of a binlog file and write its index block.

A piece owns the groups that begin in [start, stop). Its result is final except for three things that assemble settles
per node: the greatest commit TSO in earlier pieces, XA COMMITs whose prepare or TSO is in an earlier piece, and
prepares that are still open at the end. A piece with damage keeps what precedes the damage and returns its offset.
"""

from collections.abc import Sequence

import numpy as np

from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.header import EventHeader
from binlog_merge.binlog.kernels import scan_layout as k
from binlog_merge.binlog.kernels.scan import find_group
from binlog_merge.errors import ChecksumMismatch, MergeError
from binlog_merge.files.known import open_known
from binlog_merge.files.read_ahead import BLOCK
from binlog_merge.files.source import Source
from binlog_merge.pipeline.scan import found as scan_found
from binlog_merge.pipeline.scan.values import ScanResult, ScanTask
from binlog_merge.pipeline.scan.walk import CHUNK, Walk, giant_event, leaving_out, new_arrays, read, run

FIND_BUFFER = 20 << 20  # more than find_group asks to see of one event
GIANT_EVENT = 64 << 20  # a bigger row event is not held in memory: its checksum is taken piece by piece


def scan(task: ScanTask) -> ScanResult:
    """Walk one piece and write its block; damage is returned as `error`, never raised."""
    rows = min(1 << 20, max(1 << 10, (min(task.stop, task.size) - task.start) // 512))
    walk = leaving_out(Walk(task, new_arrays(rows)))
    walk.reg[k.NEXT_SEQUENCE] = k.FILE_BEGINS if task.start <= 4 else k.ANY_SEQUENCE
    first, truncated, error = -1, None, None
    try:
        with open_known(task.file, BLOCK) as source:
            source.expect(task.stop)
            first, truncated = _walk_piece(walk, source)
    except MergeError as raised:
        error = raised.located(node=task.node, file=task.file.path).to_dict()
    except BinlogFormatError as raised:
        position = raised.offset if raised.offset >= 0 else int(walk.reg[k.BASE] + walk.reg[k.POS])
        error = ChecksumMismatch(raised.reason, node=task.node, file=task.file.path, position=position).to_dict()
    return scan_found.result(walk, first, truncated, error)


def scan_all(tasks: Sequence[ScanTask]) -> list[ScanResult]:
    """Walk several small pieces, one after the other."""
    return [scan(task) for task in tasks]


def _walk_piece(walk: Walk, source: Source) -> tuple[int, int | None]:
    """Walk the piece; returns the offset where its first group may begin (-1: it owns none), and that of a truncated
    event.
    """
    task, reg = walk.task, walk.reg
    crc = 4 if task.checksum else 0
    first = offset = max(4, task.start) if task.exact or task.start <= 4 else _find_group(source, task, crc)
    if first < 0:
        return -1, None
    buffer = np.empty(min(CHUNK, max(task.size, 1 << 12)), np.uint8)
    if offset == 4:
        # The FDE was checked when the file was found; while the file is in use its checksum does not cover its flags.
        read(source, buffer, offset, task.size)
        offset += EventHeader.parse(buffer[:19].tobytes()).event_size
    while True:
        got = read(source, buffer, offset, task.size)
        reg[k.BASE], reg[k.POS] = offset, 0
        reason = run(walk, buffer, got, crc)
        offset = int(reg[k.BASE] + reg[k.POS])
        left = task.size - offset
        if reason == k.DONE or left == 0:
            return first, None
        if left < 19:
            return first, offset
        head = np.empty(19, np.uint8)
        read(source, head, offset, task.size)
        length = EventHeader.parse(head.tobytes()).event_size
        if length > left:
            return first, offset
        if length > GIANT_EVENT:
            giant_event(walk, source, offset, length)
            offset += length
        elif length > len(buffer):
            buffer = np.empty(length + CHUNK, np.uint8)


def _find_group(source: Source, task: ScanTask, crc: int) -> int:
    """Return the offset of the first group that begins at or after the piece's start and before its stop, or -1."""
    buffer = np.empty(min(FIND_BUFFER, task.size), np.uint8)
    offset = max(4, task.start - k.GCN_SIZE)  # a GTID event right after the start may belong to a group before it
    while offset < task.stop and offset + 19 <= task.size:
        got = read(source, buffer, offset, task.size)
        found = int(find_group(buffer, got, offset, 0, crc, max(0, task.start - offset)))
        if 0 <= found < got:
            return offset + found if offset + found < task.stop else -1
        known = -1 - found if found < 0 else got
        if offset + got >= task.size and known == 0:
            return -1
        # At `known` an event begins that is not whole in the buffer; without progress it is no event at all.
        offset += known if known > 0 else 1
    return -1
