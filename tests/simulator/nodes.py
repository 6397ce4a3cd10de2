"""A simulated storage node: it writes binlog files, group after group, and knows where each group ends."""

import random
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from tests.simulator import wire
from tests.simulator.wire import Event, Gtid


@dataclass(frozen=True)
class Manner:
    """How a node is configured, as far as its binlog shows it."""

    source_id: str
    number: int
    server_id: int
    sid: bytes
    version: str
    checksum: bool
    gtids: str  # on, off, tagged (some are), none (no GTID events at all)
    image: str  # FULL, MINIMAL, NOBLOB
    full_metadata: bool
    compression: float  # how often a transaction is compressed
    rows_query: bool
    timestamps: bool = True


@dataclass
class Node:
    """A node's binlog as it grows. `greatest` and `counter` follow the order's rules for transactions without a TSO."""

    manner: Manner
    rng: random.Random
    clock: int
    files: list[bytearray] = field(default_factory=list)
    ends: list[tuple[int, int]] = field(default_factory=list)  # (file, offset) behind each group and at each head
    sequence: int = 0
    gnos: dict[str, int] = field(default_factory=dict)  # the last number that it gave, by tag
    logged: dict[tuple[bytes, str], set[int]] = field(default_factory=dict)  # the numbers of its GTIDs
    table_ids: int = 100
    greatest: tuple[int, int] = (0, 0)
    counter: int = 0

    @property
    def source_id(self) -> str:
        return self.manner.source_id

    @property
    def data(self) -> bytearray:
        return self.files[-1]

    def name(self, file: int) -> str:
        """Return a file's name by its index."""
        return f"binlog.{file + 1:06d}"

    def begin_file(self) -> None:
        """Begin a new file, closing the one before it with ROTATE or STOP."""
        if self.files:
            text = struct.pack("<Q", 4) + self.name(len(self.files)).encode()
            stop = self.rng.random() < 0.2
            self._write(Event(wire.STOP, b"") if stop else Event(wire.ROTATE, text))
        self.clock += 1  # files that begin in one second would look alike
        m = self.manner
        self.files.append(bytearray(wire.MAGIC))
        body = wire.format_description(m.version, self.clock if self.rng.random() < 0.5 else 0, m.checksum)
        # The format description ends with a checksum whatever the algorithm says.
        self.data.extend(wire.frame(Event(wire.FORMAT_DESCRIPTION, body), self.clock, m.server_id, 4, True))
        self._write(Event(wire.PREVIOUS_GTIDS, wire.previous_gtids(self.logged), 0x80))
        self.ends.append((len(self.files) - 1, len(self.data)))
        self.sequence = 0

    def _write(self, event: Event) -> None:
        m = self.manner
        self.data.extend(wire.frame(event, self.clock, m.server_id, len(self.data), m.checksum))

    def key_of_local(self) -> tuple[int, int, int, int]:
        """Return the order key of the next transaction without a TSO."""
        self.counter += 1
        return (*self.greatest, self.counter, self.manner.number)

    def committed(self, key: tuple[int, int]) -> None:
        """Note a commit TSO that this log now shows."""
        if key > self.greatest:
            self.greatest, self.counter = key, 0

    def stray(self) -> None:
        """Write an event between groups that readers may ignore."""
        kinds = (wire.IGNORABLE, wire.HEARTBEAT_V2, wire.STRANGER)
        self._write(Event(self.rng.choice(kinds), self.rng.randbytes(self.rng.randrange(1, 40)), 0x80))
        self.ends.append((len(self.files) - 1, len(self.data)))

    def group(
        self,
        events: Sequence[Event],
        *,
        ddl: bool = False,
        gno: int | None = None,
        original_us: int | None = None,
        compressible: bool = False,
    ) -> int:
        """Write a group; returns the commit time (us) that a reader sees."""
        m, rng = self.manner, self.rng
        self.clock += rng.random() < 0.3
        events = list(events)
        if rng.random() < 0.05:
            at = rng.randrange(len(events))
            events.insert(at, Event(rng.choice((wire.IGNORABLE, wire.STRANGER)), rng.randbytes(9), 0x80))
        if compressible and m.compression and rng.random() <= m.compression:
            inside = [e for e in events if e.type not in (wire.STRANGER, wire.IGNORABLE)]
            events = [wire.payload(inside, self.clock, m.server_id, rng.random() < 0.8)]
        micros = self.clock * 1_000_000 + rng.randrange(1_000_000)
        if m.gtids != "none":
            gtid = replace(self._gtid(gno), immediate_us=micros, original_us=original_us, ddl=ddl)
            self._write(gtid.event(self.sequence, self.sequence + 1, events, m.checksum))
            self.sequence += 1
        for event in events:
            self._write(event)
        self.ends.append((len(self.files) - 1, len(self.data)))
        if m.gtids == "none" or not (m.timestamps or m.gtids == "tagged"):
            return self.clock * 1_000_000
        return micros

    def _gtid(self, gno: int | None) -> Gtid:
        """Return the next GTID, or one with this number: of another source where the node has logged it before."""
        m, kind = self.manner, self._kind(gno)
        tag = "team" if kind == wire.GTID_TAGGED else ""
        sid = m.sid
        while gno is not None and gno in self.logged.get((sid, tag), ()):
            sid = ((int.from_bytes(sid, "big") + 1) % (1 << 128)).to_bytes(16, "big")
        logged = self.logged.setdefault((sid, tag), set())
        if gno is None:
            gno = next(number for number in count(self.gnos.get(tag, 0) + 1) if number not in logged)
            self.gnos[tag] = gno
        if kind != wire.ANONYMOUS_GTID:
            logged.add(gno)
        return Gtid(kind, sid, gno, 0, tag=tag, timestamps=m.timestamps)

    def _kind(self, gno: int | None) -> int:
        if self.manner.gtids == "off" and gno is None:
            return wire.ANONYMOUS_GTID
        tagged = self.manner.gtids == "tagged" and self.rng.random() < 0.5
        return wire.GTID_TAGGED if tagged else wire.GTID
