"""Checks a rows event that is too big to hold in memory against its table map: walks it piece by piece, by lengths.

The kernel walks a piece up to its last whole row. A row that is longer than a piece is walked cell by cell, reading
only the bytes that give the cells' lengths.
"""

import numpy as np
import numpy.typing as npt

from binlog_merge.binlog.constants import UPDATE_TYPES, EventType
from binlog_merge.binlog.kernels.row_lengths import rows_begin, rows_end
from binlog_merge.files.source import Source
from binlog_merge.pipeline.base.pieces import view

PIECE = 8 << 20
_HEAD = 4096  # more than columns-present bitmaps and a row's null bitmap take


class GiantRows:
    """The rows of one event, from `start`, after its extra data, to `end`."""

    def __init__(
        self, source: Source, start: int, end: int, kind: int, steps: npt.NDArray[np.int64], shape: int
    ) -> None:
        self._source, self._end, self._kind = source, end, kind
        self._steps, self._shape = steps, shape
        self._columns = int(steps[shape])
        self._at = start

    def fit(self) -> bool:
        """Return whether the rows end exactly at the end of the event."""
        head = self._read(self._at, _HEAD)
        begin = int(rows_begin(head, 0, len(head), self._kind, self._columns))
        if begin < 0:
            return False
        width = (self._columns + 7) // 8
        images = 2 if self._kind in UPDATE_TYPES else 1
        bitmaps = head[begin : begin + width * images].copy()
        self._at += begin + width * images
        while self._at < self._end:
            piece = np.concatenate([bitmaps, self._read(self._at, PIECE)])
            reached = int(rows_end(piece, 0, len(bitmaps), len(piece), self._kind, self._steps, self._shape))
            if reached < 0:
                return False
            if reached > len(bitmaps):
                self._at += reached - len(bitmaps)
            elif not all(self._image(bitmaps[i * width : (i + 1) * width], i) for i in range(images)):
                return False
        return self._at == self._end

    def _read(self, at: int, size: int) -> npt.NDArray[np.uint8]:
        buffer = np.empty(max(0, min(size, self._end - at)), np.uint8)
        got = self._source.read_into(view(buffer), at) if len(buffer) else 0
        return buffer[:got]

    def _image(self, present: npt.NDArray[np.uint8], number: int) -> bool:
        """Skip one image at the current offset. Returns False if it contradicts the table map."""
        if self._kind == EventType.PARTIAL_UPDATE_ROWS_EVENT and number == 1:
            options = self._read(self._at, 1)
            if not len(options) or options[0] > 1:
                return False
            self._at += 1 + ((int(self._steps[self._shape + 1]) + 7) // 8 if options[0] else 0)
        held = np.flatnonzero(np.unpackbits(present, bitorder="little")[: self._columns])
        size = (len(held) + 7) // 8
        nulls = self._read(self._at, size)
        if len(nulls) < size:
            return False
        self._at += size
        is_null = np.unpackbits(nulls, bitorder="little")[: len(held)]
        for column, null in zip(held.tolist(), is_null.tolist(), strict=True):
            start = self._shape + 3 + 4 * column
            width, prefix, most, nullable = (int(n) for n in self._steps[start : start + 4])
            if null:
                if not nullable:
                    return False
                continue
            length = int.from_bytes(self._read(self._at, prefix).tobytes(), "little") if prefix else 0
            if length > most:
                return False
            self._at += width + prefix + length
        return self._at <= self._end
