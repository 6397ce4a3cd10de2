"""Undoing, or doing again, as a binlog file: `mysqlbinlog FILE | mysql` applies it, byte for byte, without triggers.

    FORMAT_DESCRIPTION   PREVIOUS_GTIDS?   ( GTID?   BEGIN   ( TABLE_MAP   ROWS )*   XID )*

With GTID events it is for servers with gtid_mode=ON, without them for others. Every event has a checksum.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from binlog_merge.binlog.constants import BINLOG_MAGIC, MAX_EVENT_SIZE, EventFlag, EventType
from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.gtid_set import GtidSet
from binlog_merge.binlog.header import RawEvent, pack_event
from binlog_merge.binlog.kernels import log_index as x
from binlog_merge.binlog.kernels import render_layout as k
from binlog_merge.binlog.kernels import transaction_events as w
from binlog_merge.log.table_changes import TableChanges
from binlog_merge.time_travel.blocks import blocks, ordered
from binlog_merge.time_travel.inverse_events import forward_events, inverse_events
from binlog_merge.time_travel.selection import Reader

_SERVER_VERSION: Final = 80_000


@dataclass(frozen=True, slots=True)
class Bodies:
    """The bodies of the rows events of transactions.

    `events` are those of all transactions (B_*, in `data`), `counts` is how many of them each one has; `ranks` are its
    rank, `commit_us` its time in µs since 1970.
    """

    data: Any
    events: Any
    counts: Any
    ranks: Any
    commit_us: Any

    def cut(self, number: int) -> tuple["Bodies", "Bodies"]:
        """Return the first `number` transactions, and the others."""
        events = int(self.counts[:number].sum())
        first = Bodies(
            self.data, self.events[:events], self.counts[:number], self.ranks[:number], self.commit_us[:number]
        )
        rest = Bodies(
            self.data, self.events[events:], self.counts[number:], self.ranks[number:], self.commit_us[number:]
        )
        return first, rest


@dataclass
class Binlog:
    """Writes events one after the other; `sid` is the UUID of GTIDs to give, None for none."""

    description: RawEvent
    sid: bytes | None = None
    position: int = len(BINLOG_MAGIC)
    transactions: int = 0
    rows: int = 0

    def head(self) -> bytes:
        """Return the beginning of the file."""
        header = self.description.header
        data = BINLOG_MAGIC + self._event(EventType.FORMAT_DESCRIPTION_EVENT, bytes(self.description.body), 0, 0)
        if self.sid is not None:
            nothing = GtidSet().pack()
            flag = EventFlag.LOG_EVENT_IGNORABLE_F
            data += self._event(EventType.PREVIOUS_GTIDS_LOG_EVENT, nothing, header.timestamp, flag)
        return data

    def written(self, bodies: Bodies) -> memoryview:
        """Return the events of transactions, whose row events are given."""
        sizes = w.FRAME + bodies.events[:, w.B_END] - bodies.events[:, w.B_BEGIN]
        if (largest := int(sizes.max())) > MAX_EVENT_SIZE:
            raise BinlogFormatError(f"event of {largest} bytes is larger than {MAX_EVENT_SIZE}", offset=self.position)
        out = np.empty(int(sizes.sum()) + w.MOST_AROUND * len(bodies.counts), np.uint8)
        registers = np.zeros(k.REGISTERS, np.int64)
        registers[k.SERVER_ID], registers[k.SERVER_VERSION] = self.description.header.server_id, _SERVER_VERSION
        registers[k.FILE_BASE], registers[k.RANK], registers[k.SEQUENCE] = (
            self.position, self.transactions, self.transactions,
        )  # fmt: skip
        sid = np.frombuffer(bytearray(self.sid or b""), np.uint8)
        end = w.write_transactions(bodies.data, bodies.events, bodies.counts, bodies.commit_us, sid, registers, out)
        self.position += end
        self.transactions += len(bodies.counts)
        return memoryview(out.data)[:end]

    def _event(self, kind: int, body: bytes, timestamp: int, flags: int) -> bytes:
        server_id = self.description.header.server_id
        data = pack_event(
            kind, body, timestamp=timestamp, server_id=server_id, flags=flags, position=self.position, checksum=True
        )
        self.position += len(data)
        return data


@dataclass(frozen=True, slots=True)
class RowsWriter:
    """Makes rows events of rows: those that undo them, or `do_again`."""

    do_again: bool

    def block(self, chosen: list[TableChanges], backwards: bool) -> tuple[Bodies, int]:
        """Return the transactions of a segment, and how many rows they have."""
        make = forward_events if self.do_again else inverse_events
        made = [make(each) for each in chosen]
        order, numbers, ends = ordered(chosen[0].segment, [(each.numbers, each.lasts) for each in made], backwards)
        base, placed = 0, []
        for each in made:
            placed.append(each.bodies + np.array((base, base, 0)))
            base += len(each.data)
        events = np.concatenate(placed)[order].reshape(-1, 3)
        facts = chosen[0].transactions[numbers]
        bodies = Bodies(
            np.concatenate([each.data for each in made]), events, 2 * np.diff(ends, prepend=0),
            facts[:, x.X_RANK].copy(), facts[:, x.X_COMMIT_US].copy(),
        )  # fmt: skip
        return bodies, sum(each.rows for each in made)


def binlog(reader: Reader, out: Binlog, do_again: bool = False) -> Iterator[bytes | memoryview]:
    """Yield the bytes of the file. Raises what reading the rows does, before the first byte unless `do_again`."""

    def found() -> Iterator[Bodies]:
        for bodies, rows in blocks(reader, RowsWriter(do_again), backwards=not do_again):
            out.rows += rows
            yield bodies

    begun = False
    for bodies in _whole(found()):
        if not begun:
            yield out.head()
            begun = True
        yield out.written(bodies)


def _whole(blocks: Iterable[Bodies]) -> Iterator[Bodies]:
    """Yield whole transactions: one may go on in the next block."""
    waiting: list[Bodies] = []
    for block in blocks:
        rest = block
        if waiting and waiting[0].ranks[0] == block.ranks[0]:
            first, rest = block.cut(1)
            waiting.append(first)
            if not len(rest.counts):
                continue
        if waiting:
            yield _joined(waiting)
        done, last = rest.cut(len(rest.counts) - 1)
        if len(done.counts):
            yield done
        waiting = [last]
    if waiting:
        yield _joined(waiting)


def _joined(parts: Sequence[Bodies]) -> Bodies:
    """Return a transaction whose parts are given."""
    if len(parts) == 1:
        return parts[0]
    bases = np.cumsum([0, *(len(part.data) for part in parts[:-1])]).tolist()
    events = [part.events + np.array((base, base, 0)) for part, base in zip(parts, bases, strict=True)]
    counts = np.array([sum(int(part.counts[0]) for part in parts)], np.int64)
    data = np.concatenate([part.data for part in parts])
    return Bodies(data, np.concatenate(events), counts, parts[0].ranks, parts[0].commit_us)
