"""Reads byte ranges of the nodes' files into one buffer.

The ranges of a window are scattered over the files, mostly in order within each file. Ranges close to each other are
read as one. A range far from the others costs one more read and nothing else, however far TSO order and file order
diverge.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from binlog_merge.config.uri import local_path
from binlog_merge.files.known import KnownSource, open_known
from binlog_merge.files.read_ahead import MOST_HELD, block_size
from binlog_merge.files.source import Bytes, Source
from binlog_merge.pipeline.base.columns import Column, view
from binlog_merge.pipeline.gather.rows import Rows
from binlog_merge.pipeline.gather.values import InputFile

WINDOW_BYTES = 4 << 20
GAP = 64 << 10  # ranges closer than this are read as one


class InputReader:
    """Reads the input files of one gather task; `buffer` holds the bytes read last."""

    def __init__(self, nodes: Mapping[int, str], files: Mapping[tuple[int, int], InputFile]) -> None:
        self._nodes, self._files = nodes, files
        self._sources: dict[tuple[int, int], KnownSource] = {}
        self._instead = {
            (*place, each.start): each.group for place, file in files.items() for each in file.known.instead
        }
        self._remote = any(local_path(file.path) is None for file in files.values())
        self._ends: dict[tuple[int, int], int] = {}
        self.buffer = np.empty(WINDOW_BYTES * 2, np.uint8)

    def close(self) -> None:
        """Close all open files."""
        for source in self._sources.values():
            source.close()

    def expect(self, rows: Rows) -> None:
        """Say that these rows are read next: of remote files they are read ahead."""
        if not self._remote:
            return
        place = (rows.node << np.int64(32)) | rows.file
        files, which = np.unique(place, return_inverse=True)
        ends = np.zeros(len(files), np.int64)
        np.maximum.at(ends, which, rows.end)
        self._ends = {(int(at >> 32), int(at & 0xFFFFFFFF)): int(end) for at, end in zip(files, ends, strict=True)}
        for known in self._sources.keys() & self._ends.keys():
            self._sources[known].expect(self._ends[known])
        if sum(source.held for source in self._sources.values()) > MOST_HELD:
            for known in self._sources.keys() - self._ends.keys():
                self._sources[known].release()

    def source(self, node: int, file: int) -> Source:
        """Return the open source of a file."""
        if (node, file) not in self._sources:
            opened = open_known(self._files[node, file].known, block_size(len(self._ends)))
            opened.expect(self._ends.get((node, file), 0))
            self._sources[node, file] = opened
        return self._sources[node, file]

    def instead(self, node: Column, file: Column, begin: Column) -> dict[int, bytes]:
        """Return, by row, the groups that are read in place of those that begin there."""
        if not self._instead:
            return {}
        places = zip(node.tolist(), file.tolist(), begin.tolist(), strict=True)
        return {i: self._instead[place] for i, place in enumerate(places) if place in self._instead}

    def group(self, node: int, file: int, start: int, stop: int) -> tuple[Source, int, int]:
        """Return where the group at [start, stop) of a file is read: a source, and its place there."""
        group = self._instead.get((node, file, start))
        return (self.source(node, file), start, stop) if group is None else (Bytes(group), 0, len(group))

    def crc(self, node: int, file: int) -> int:
        """Return the length of the checksum in a file's events: 4 or 0."""
        return 4 if self._files[node, file].checksum else 0

    def place(self, rows: Rows, row: int) -> dict[str, Any]:
        """Return the location of a row's branch, as the arguments of an error."""
        node, file = int(rows.node[row]), int(rows.file[row])
        return {
            "node": self._nodes[node],
            "file": self._files[node, file].path,
            "position": int(rows.start[row]),
            "order_key": rows.key(row),
        }

    def read(
        self, node: Column, file: Column, begin: Column, length: Column, skip: npt.NDArray[np.bool_]
    ) -> tuple[Column, int]:
        """Read byte ranges into the buffer, except those to skip. Returns the offset of each in the buffer, and the
        bytes used.
        """
        order = np.lexsort((begin, file, node))
        node, file, begin, length = node[order], file[order], begin[order], np.where(skip, 0, length)[order]
        new = np.ones(len(order), np.bool_)
        if len(order) > 1:
            far = begin[1:] > begin[:-1] + length[:-1] + GAP
            new[1:] = far | (node[1:] != node[:-1]) | (file[1:] != file[:-1])
        heads = np.flatnonzero(new)
        ends = np.maximum.reduceat(begin + length, heads)
        sizes = ends - begin[heads]
        offsets = np.cumsum(sizes) - sizes
        used = int(sizes.sum())
        self._make_room(used)
        part = view(self.buffer)
        for head, size, offset in zip(heads.tolist(), sizes.tolist(), offsets.tolist(), strict=True):
            if size:
                source = self.source(int(node[head]), int(file[head]))
                source.read_into(part[offset : offset + size], int(begin[head]))
        run = np.cumsum(new) - 1
        at = np.empty(len(order), np.int64)
        at[order] = offsets[run] + begin - begin[heads][run]
        return at, used

    def append(self, data: bytes, used: int) -> int:
        """Append bytes after the `used` bytes of the buffer. Returns the new number of used bytes."""
        self._make_room(used + len(data), keep=used)
        self.buffer[used : used + len(data)] = np.frombuffer(data, np.uint8)
        return used + len(data)

    def _make_room(self, size: int, keep: int = 0) -> None:
        if size > len(self.buffer):
            bigger = np.empty(size + (size >> 2), np.uint8)
            bigger[:keep] = self.buffer[:keep]
            self.buffer = bigger
