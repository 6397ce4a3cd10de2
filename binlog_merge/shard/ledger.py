"""The logical table as coordination goes on, and everything that is written down on the way."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from binlog_merge.shard.clauses import applied, steps_of
from binlog_merge.shard.composed import Composed, compose, composed
from binlog_merge.shard.doubts import MOVING, moves_rows
from binlog_merge.shard.joined import order
from binlog_merge.shard.shapes import one
from binlog_merge.shard.values import (
    Effect,
    Event,
    Fault,
    Finding,
    Logical,
    Place,
    Shard,
    ShardDdl,
    Start,
    Step,
    Stop,
)
from binlog_merge.shard.writing import Renames, write, writing_session
from snapshot_store.ddl.session import DdlSession
from snapshot_store.errors import SnapshotStoreError
from snapshot_store.model import Table
from snapshot_store.tso import OrderKey


class Stopped(Exception):  # noqa: N818 (carries a result out of the run, and nothing else)
    """Coordination cannot go on behind an event."""

    def __init__(self, fault: Fault, event: Event, detail: str) -> None:
        super().__init__(detail)
        self.stop = Stop(fault, event, detail)


class Ledger:
    """Writes logical DDL, each at the next place behind the event at hand."""

    def __init__(
        self, table: Table | None, session: DdlSession, inert: Mapping[str, Mapping[Shard, int]] | None = None
    ) -> None:
        self.table = None if table is None else one(table)
        self.session = session
        self.logical: list[Logical] = []
        self.effects: list[Effect] = []
        self.findings: list[Finding] = []
        self.swallowed: list[Event] = []
        self._rank = 0
        self._key: OrderKey | None = None
        self._inert: dict[str, dict[Shard, int]] = {text: dict(counts) for text, counts in (inert or {}).items()}

    def begin(self, event: Event) -> None:
        """Go on to another event, which may come of the same statement as the last; its session counts from here on."""
        if event.key != self._key:
            self._key, self._rank = event.key, 0
        if isinstance(event, ShardDdl) and event.session is not None:
            self.session = event.session

    def start(self, members: Mapping[Shard, Table], left: bool) -> Start:
        """Return where coordination can go on from here."""
        return Start(dict(members), self.table, left, self.session, {t: dict(c) for t, c in self._inert.items()})

    def here(self, event: Event) -> Place:
        """Return the place behind what has been written at this event so far."""
        return Place(event.key, self._rank)

    def append(self, event: Event, statements: tuple[str, ...], table: Table | None, own: bool = True) -> Place:
        """Write statements that make the logical table what it is now; return their place."""
        place = self.here(event)
        self._rank += 1
        self.table = None if table is None else one(table)
        self.logical.append(Logical(place, statements, table, event, own))
        return place

    def become(
        self, event: Event, joined: Table, own: Sequence[tuple[str, ...]], renames: Renames, origin: Table, alone: bool
    ) -> tuple[Place, tuple[str, ...]]:
        """Make the logical table what accepts the same as `joined`; return the place, and the columns that are gone.

        `alone`: all rows of the logical table are one shard's. Raises Stopped where no statement does.
        """
        if self.table is None or order(self.table, joined) == 0:
            return self._inert_place(event, alone), ()
        written = write(self.table, joined, own, renames, origin, self.session, alone)
        if written is None:
            raise Stopped(Fault.NOT_WRITABLE, event, "no statement makes the logical table what the shards come to")
        if not written.statements:
            self.table = one(written.table)
            return self.here(event), ()
        gone = tuple(c.name for c in self.table.columns if written.table.index_of(c.name) is None)
        return self.append(event, written.statements, written.table, written.own), gone

    def since(self, count: int, before: Table) -> Composed:
        """Return what the logical DDL behind the first `count` makes of the logical table, which was `before`."""
        table, steps, session = before, list[Step](), replace(self.session, validate=False)
        for sql in (sql for logical in self.logical[count:] for sql in logical.statements):
            steps += steps_of(sql, table, session)
            table = steps[-1].after
        return composed(before, steps)

    def doubt(self, findings: Iterable[Finding]) -> None:
        """Note what is to be said of statements that take effect at the event at hand."""
        self.findings += [replace(finding, at=self._key) for finding in findings]

    def took_effect(self, ddls: Sequence[ShardDdl], place: Place) -> None:
        """Note that statements took effect."""
        self.effects += [Effect(ddl.shard, ddl.key, place, ddl.renames) for ddl in ddls]

    def _inert_place(self, event: Event, alone: bool) -> Place:
        """Write a DDL that changes nothing the order of tables knows of (a comment, an engine): once, not per shard.

        One that the logical table does not take (its partitions are its own) is swallowed, and so is one that would
        empty a column, or a partition, of other shards' rows too.
        """
        here = self.here(event)
        if self.table is None or not isinstance(event, ShardDdl) or order(event.before, event.after) != 0:
            return here
        if not alone and (compose([event]).replaced or moves_rows(event, *MOVING)):
            self.swallowed.append(event)
            return here
        counts = self._inert.setdefault(plain(event.sql), {})
        most = max(counts.values(), default=0)
        counts[event.shard] = counts.get(event.shard, 0) + 1
        if counts[event.shard] <= most:
            return here
        try:
            table = applied(self.table, event.sql, writing_session(self.session))
        except SnapshotStoreError:
            table = None
        if table is None or order(table, self.table) != 0:
            self.swallowed.append(event)
            return here
        return self.append(event, (event.sql,), table)


_QUOTED = re.compile(r"""('(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")""", re.DOTALL)


def plain(sql: str) -> str:
    """Return a statement's text without what blanks, backticks and letter case make outside of strings."""
    pieces = _QUOTED.split(sql.strip().rstrip(";"))
    pieces[::2] = [" ".join(piece.replace("`", "").split()).casefold() for piece in pieces[::2]]
    return " ".join(pieces)
