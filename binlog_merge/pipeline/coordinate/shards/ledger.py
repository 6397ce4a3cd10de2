"""The logical table under coordination, and the record of its logical DDL, effects and findings."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from binlog_merge.moved_keys import DdlPlace
from binlog_merge.pipeline.coordinate.shards.clauses import applied, steps_of
from binlog_merge.pipeline.coordinate.shards.net_change import NetChange, net_change, net_change_of, plain, reads_alike
from binlog_merge.pipeline.coordinate.shards.optimistic.shapes import Shape, Shapes, order
from binlog_merge.pipeline.coordinate.shards.optimistic.unseen import Level, levelled, loosened, tightens
from binlog_merge.pipeline.coordinate.shards.row_findings import MOVING, moves_rows
from binlog_merge.pipeline.coordinate.shards.values import (
    Effect,
    Event,
    Fault,
    Finding,
    Logical,
    Moves,
    Shard,
    ShardDdl,
    Start,
    Step,
    Stop,
)
from binlog_merge.pipeline.coordinate.shards.writing import Candidate, Renames, write, writing_session
from snapshot_store.ask.alter import alter_sql
from snapshot_store.errors import SnapshotStoreError
from snapshot_store.model import Table
from snapshot_store.mysql.sql.session import DdlSession
from snapshot_store.render_sql import in_session
from snapshot_store.tso import OrderKey


class Stopped(Exception):  # noqa: N818 (carries a result out of the run, and nothing else)
    """Coordination cannot continue after an event."""

    def __init__(self, fault: Fault, event: Event, detail: str) -> None:
        super().__init__(detail)
        self.stop = Stop(fault, event, detail)


class Ledger:
    """Records logical DDL, each at the next rank after the current event."""

    def __init__(
        self,
        shapes: Shapes,
        table: Table | None,
        session: DdlSession,
        inert: Mapping[str, Mapping[Shard, int]] | None = None,
    ) -> None:
        self.shapes = shapes
        self.shape = None if table is None else shapes.of(table)
        self.session = session
        self.logical: list[Logical] = []
        self.effects: list[Effect] = []
        self.findings: list[Finding] = []
        self.swallowed: list[Event] = []
        self._rank = 0
        self._key: OrderKey | None = None
        self._inert: dict[str, dict[Shard, int]] = {text: dict(counts) for text, counts in (inert or {}).items()}

    @property
    def table(self) -> Table | None:
        """Return the logical table as it is now."""
        return None if self.shape is None else self.shapes[self.shape]

    def begin(self, event: Event) -> None:
        """Start another event, which may come from the same statement as the last."""
        if event.key != self._key:
            self._key, self._rank = event.key, 0
        self.resume(event)

    def resume(self, event: Event) -> None:
        """Continue at the current event with one that has waited for it."""
        self.session = self.session_of(event)

    def session_of(self, event: Event) -> DdlSession:
        """Return the session of an event's text: its own, else the last that is known."""
        known = None if isinstance(event, Moves) else event.session
        return self.session if known is None else known

    def start(self, members: Mapping[Shard, Table], rows_left: bool) -> Start:
        """Return the state from which coordination can continue later."""
        return Start(members, self.table, rows_left, self.session, {t: dict(c) for t, c in self._inert.items()})

    def here(self, event: Event) -> DdlPlace:
        """Return the place after what has been written at the current event so far, which `event` is, or waited for."""
        return DdlPlace(event.key if self._key is None else self._key, self._rank)

    def append(
        self,
        event: Event,
        statements: tuple[str, ...],
        table: Table | None,
        own: bool = True,
        author: Event | None = None,
    ) -> DdlPlace:
        """Write the statements that turn the logical table into `table`; return their place.

        `author` is the event whose text and session it is, if not `event`.
        """
        place, session = self.here(event), self.session_of(event if author is None else author)
        self._rank += 1
        self.shape = None if table is None else self.shapes.of(table)
        self.logical.append(Logical(place, statements, table, event, own, author=author, session=session))
        return place

    def become(
        self, event: Event, joined: Shape, own: Sequence[Candidate], renames: Renames, origin: Table, alone: bool
    ) -> tuple[DdlPlace, tuple[str, ...]]:
        """Write DDL that makes the logical table accept all rows that `joined` accepts.

        Returns its place and the columns dropped. `alone`: all rows of the logical table belong to one shard. Raises
        Stopped if no statement does it.
        """
        table = self.table
        if table is None or self.shape is None or self.shapes.alike(self.shape, joined):
            return self._inert_place(event, self.shapes[joined], alone), ()
        written = write(table, self.shapes[joined], own, renames, origin, self.session_of(event), alone)
        if written is None:
            raise Stopped(Fault.NOT_WRITABLE, event, "no statement makes the logical table what the shards come to")
        if not written.statements:
            self.shape = self.shapes.of(written.table)
            return self.here(event), ()
        gone = tuple(c.name for c in table.columns if written.table.index_of(c.name) is None)
        return self.append(event, written.statements, written.table, written.own, written.author), gone

    def loosen(self, event: Event, joined: Shape, ddls: Sequence[ShardDdl]) -> None:
        """Write that the logical table loses the checks and foreign keys that statements of shards have dropped."""
        if self.table is None:
            return
        for sql in alter_sql(self.table, loosened(self.table, self.shapes[joined], ddls)):
            text, session = " ".join(sql.split("\n")), writing_session(self.session_of(event))
            self.append(event, (in_session(text, session),), applied(self.table, text, session), own=False)

    def level(self, event: Event, ddls: Sequence[ShardDdl], tables: Collection[Table]) -> None:
        """Write what all shards (`tables`) say of the table that no order of tables sees, as statements brought it."""
        level = Level.of(((ddl.before, ddl.after) for ddl in ddls), tables)
        if self.table is None or level is None:
            return
        session = self.session_of(event)
        steps = [
            step.sql
            for ddl in ddls
            if ddl.shard == ddls[-1].shard and reads_alike(self.session_of(ddl), session)
            for step in ddl.steps
        ]
        for sql, table in levelled(self.table, level, steps, writing_session(session)):
            self.append(event, (sql,), table, own=False)

    def move(self, shard: Shard, to: Shard) -> None:
        """Count for `to` what `shard` has run, which is called so from here on."""
        for counts in self._inert.values():
            counts[to] = counts.pop(shard, 0)

    def since(self, count: int, before: Table) -> NetChange:
        """Return the net change of the logical DDL after the first `count`; the logical table was `before`."""
        table, steps = before, list[Step]()
        for sql, session in ((sql, logical.session) for logical in self.logical[count:] for sql in logical.statements):
            steps += steps_of(sql, table, replace(session, validate=False))
            table = steps[-1].after
        return net_change(before, steps)

    def doubt(self, findings: Iterable[Finding]) -> None:
        """Record findings about statements that take effect at the current event."""
        self.findings += [replace(finding, at=self._key) for finding in findings]

    def took_effect(self, ddls: Sequence[ShardDdl], place: DdlPlace) -> None:
        """Record that statements take effect at a place."""
        self.effects += [Effect(ddl.shard, ddl.key, place, ddl.renames) for ddl in ddls]

    def _inert_place(self, event: Event, joined: Table, alone: bool) -> DdlPlace:
        """Write a DDL that does not change how tables compare (a comment, an engine), once and not once per shard.

        It is swallowed if the logical table does not accept it (it has its own partitions), or if it would empty a
        column or a partition for other shards' rows too.
        """
        here = self.here(event)
        logical = self.table
        if logical is None or not isinstance(event, ShardDdl):
            return here
        if not self.shapes.alike(self.shapes.of(event.before), self.shapes.of(event.after)):
            return here
        if not alone and tightens(event.before, event.after, joined):
            return here  # the last shard brings it
        if not alone and (net_change_of([event]).replaced or moves_rows(event, *MOVING)):
            self.swallowed.append(event)
            return here
        counts = self._inert.setdefault(plain(event.sql, self.session_of(event)), {})
        most = max(counts.values(), default=0)
        counts[event.shard] = counts.get(event.shard, 0) + 1
        if counts[event.shard] <= most and not alone:
            return here
        try:
            table = applied(logical, event.sql, writing_session(self.session_of(event)))
        except SnapshotStoreError:
            table = None
        if table is None or order(table, logical) != 0:
            self.swallowed.append(event)
            return here
        return self.append(event, (event.sql,), table)
