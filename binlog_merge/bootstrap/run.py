"""Makes a target exactly what a running cluster is at some transaction of the merged log, in rounds.

    low    the last transaction of the log; every node shows it to new statements
    copy   the rows of the round's tables, chunk by chunk, while the cluster is written to
    high   a transaction of the log by which all that the chunks can have seen is published
    apply  the log from behind low up to high: a row becomes what its last event says, whatever was read

A row that no event behind `low` names is as it was read, by whichever chunk; any other is as its last event says, also
one that moved between shards while they were read. So at `high` the target is what the log makes of the cluster there.
A table on which a statement of the log, or a DDL on a node, came between (`window`) is emptied and copied in the next
round; the others go on with the log. Everything is recorded in the target, with the rows: a run that is killed anywhere
goes on.
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any, Final

import duckdb

from binlog_merge.bootstrap.nodes import Changed, NodeReader, copied_by_threads
from binlog_merge.bootstrap.parties import Node, Options, Result, Target
from binlog_merge.bootstrap.plan import RoutedTables, check_tables, of_catalog, shown_key
from binlog_merge.bootstrap.published import unpublished
from binlog_merge.bootstrap.values import (
    CATCHING_UP,
    COPYING,
    EXACT,
    Chunk,
    End,
    Identity,
    Name,
    Progress,
    Reading,
    Shard,
    Stage,
    Texts,
    Unsettled,
)
from binlog_merge.bootstrap.window import judged
from binlog_merge.errors import WAYS_OUT_OF_COLLISIONS, NotYet, ReplayStopped, ServerRefused
from binlog_merge.files.failpoint import failpoint
from binlog_merge.log.checkpoint import Checkpoint, checkpoints_of
from binlog_merge.log.log import Log
from binlog_merge.log.replay_options import history_of
from binlog_merge.tables.load import catalog_at
from snapshot_store.model import Catalog
from snapshot_store.server import message_of

_LOG = logging.getLogger(__name__)
_GOES_ON: Final = "see to the target, and run the bootstrap again; it goes on where it was"
_SAY_SECONDS: Final = 10.0
_LOOK_SECONDS: Final = 0.2
_PAUSE_SECONDS: Final = 1.0
_UNSETTLED: Final = (
    "its shards must be as the logical table: let the DDL that is under way come to its end, and run it again; or "
    "correct the table's definition, `schema set`"
)
_LOOKS: Final = 25
"""How often a key that two shards showed is looked for again: a row may move between them."""


def bootstrap(
    binlog: Log,
    places: RoutedTables,
    nodes: Sequence[Node],
    target: Target,
    options: Options,
    report: Callable[[str], None] = lambda text: None,
) -> Result:
    """Fill a target, or go on with it.

    Raises UnsupportedInput for nodes and tables that cannot be read so, NotYet, ReplayStopped, and what targets raise.
    """
    import pymysql

    try:
        return _Bootstrap(binlog, places, nodes, target, options, report).run()
    except pymysql.MySQLError as error:
        raise ServerRefused(f"{target.address}: {message_of(error)}", remedy=_GOES_ON) from error
    except duckdb.Error as error:
        raise ReplayStopped(f"{target.address}: {str(error).splitlines()[0]}", remedy=_GOES_ON) from error


@dataclass
class _Bootstrap:
    binlog: Log
    places: RoutedTables
    nodes: Sequence[Node]
    target: Target
    options: Options
    report: Callable[[str], None]
    result: Result = field(default_factory=lambda: Result(Checkpoint(0)))
    _unsettled: dict[Name, float] = field(default_factory=dict)
    _said: float = 0.0

    def run(self) -> Result:
        stage = self.target.stage()
        if stage is None and (rank := self.target.rank_there()) is not None:
            self.result.place = self._place(rank)
            return self.result
        stage = stage if stage is not None else self._begun()
        if stage.phase == EXACT:
            self.target.finish(stage)
        while stage.phase != EXACT:
            try:
                stage = self._round(stage)
            except Changed as changed:
                self.report(f"{changed}: the tables of this round are copied anew")
                stage = self._anew(stage)
        self.result.place = self._place(stage.low)
        self.result.rounds = stage.number
        self.result.rows = dict(sorted(stage.rows.items()))
        self.result.again = list(stage.repeated)
        self.result.doubted = list(stage.doubted)
        return self.result

    def _round(self, stage: Stage) -> Stage:
        catalog = self._catalog(stage.low)
        self.target.know(catalog)
        if not self.target.begun():
            self.target.begin_again(stage, catalog, self.binlog, stage.tables)
        if stage.phase == COPYING:
            unsettled = self._copy(stage, catalog)
            self._bound(unsettled)
            stage = self._high(stage, unsettled, catalog)
        self._say(f"applying the log up to transaction {stage.high}")
        failpoint("bootstrap-catching-up")
        self.target.catch_up(stage, self.binlog)
        high = stage.high or 0
        catalog = self._catalog(high)
        self.target.end_round(stage, catalog)
        failpoint("bootstrap-caught-up")
        return self._next(stage, high, catalog)

    # The phases of a round

    def _begun(self) -> Stage:
        """Begin the first round, with all tables of the log."""
        low = self._last_rank()
        catalog = self._catalog(low)
        stage = Stage(COPYING, 1, low, tuple(sorted(catalog.tables)), self._servers(catalog, catalog.tables))
        self.target.begin(stage, catalog, self.binlog, stage.tables)
        return stage

    def _copy(self, stage: Stage, catalog: Catalog) -> dict[Name, str]:
        """Copy the rows of the round's tables; return the tables that could not be, with the reasons."""
        with ExitStack() as stack:
            readers = {node.name: stack.enter_context(node.reader(stage.servers[node.name])) for node in self.nodes}
            for node in self.nodes:
                # After `low` was read: whatever the log had then, had been captured.
                readers[node.name].wait_for(node.captured())
            shards = [shard for reader in readers.values() for shard in reader.shards()]
            work, unsettled = self._work(stage, catalog, shards)
            if stage.number > 1:  # for the DDL that made this round: where it goes on, no shard is read in vain
                unsettled |= self._under_way(readers, work)
            progress = self.target.progress()
            self._say_what_is_copied(
                stage, [reading.name for reading in work.values() if reading.name not in unsettled]
            )
            for found in copied_by_threads(
                readers, work, progress, self.options.chunk_rows, self.target.as_text, unsettled
            ):
                if isinstance(found, Unsettled):
                    self._say(f"{'.'.join(found.name)} is copied again: {found.reason}")
                    unsettled.setdefault(found.name, found.reason)
                elif found.reading.name not in unsettled:
                    self._insert(found, progress)
                    self._say_now_and_then(stage, work, progress)
        return unsettled

    def _under_way(self, readers: Mapping[str, NodeReader], work: Mapping[Shard, Reading]) -> dict[Name, str]:
        """Return the tables of which a shard is not as the logical table, with the reasons."""
        reasons: dict[Name, str] = {}
        for shard, reading in work.items():
            if reading.name not in reasons and (why := readers[shard.node].unsettled(shard, reading)) is not None:
                reasons[reading.name] = why.reason
                self._say(f"{'.'.join(reading.name)} is not copied yet: {why.reason}")
        return reasons

    def _work(
        self, stage: Stage, catalog: Catalog, shards: Sequence[Shard]
    ) -> tuple[dict[Shard, Reading], dict[Name, str]]:
        """Return what is to be read of which physical tables, and the tables of which there is nothing to read."""
        work: dict[Shard, Reading] = {}
        unknown = set()
        for shard in shards:
            name = self.places.name(shard)
            table = None if name is None else catalog.get(*name)
            if name in stage.tables and table is not None:
                work[shard] = self.places.reading(shard, table)
            elif name is not None and table is None:
                unknown.add(str(shard))
        self.result.not_in_log = sorted(unknown)
        self.result.views = sorted(".".join(view) for view in catalog.views)
        there = {reading.name for reading in work.values()}
        return work, {name: "no node has it" for name in stage.tables if name not in there}

    def _say_what_is_copied(self, stage: Stage, names: Sequence[Name]) -> None:
        """Say it, for the table of each shard."""
        if names:
            tables = "1 table" if len(set(names)) == 1 else f"{len(set(names))} tables"
            self._say(f"round {stage.number}: copying {tables} from {len(names)} on the nodes")

    def _say_now_and_then(self, stage: Stage, work: Mapping[Shard, Any], progress: Mapping[Shard, Progress]) -> None:
        if time.monotonic() - self._said > _SAY_SECONDS:
            rows = sum(one.rows for one in progress.values())
            done = sum(one.done for one in progress.values())
            self._say(f"round {stage.number}: {rows:,} rows, {done} of {len(work)} tables on the nodes are copied")

    def _insert(self, chunk: Chunk, progress: dict[Shard, Progress]) -> None:
        before = progress.get(chunk.shard, Progress())
        now = Progress(chunk.last, chunk.done, before.rows + len(chunk.rows))
        if double := self.target.insert(chunk, now, replace=False):
            self._check_double(chunk, double)
            self.target.insert(chunk, now, replace=True)
        progress[chunk.shard] = now
        _LOG.debug("copied", extra={"shard": str(chunk.shard), "rows": now.rows, "done": now.done})

    def _check_double(self, chunk: Chunk, keys: Sequence[Texts]) -> None:
        """Raise ReplayStopped if shards have rows with the same key, not only while one moves between them."""
        reading = chunk.reading
        with ExitStack() as stack:
            readers = [stack.enter_context(node.reader(None)) for node in self.nodes]
            shards = [(r, s) for r in readers for s in r.shards() if self.places.name(s) == reading.name]
            looks = [(r, s, self.places.reading(s, reading.table)) for r, s in shards]
            left = list(keys)
            for _ in range(_LOOKS):
                # One by one: the texts of a key may differ from shard to shard, where a collation takes them for equal.
                left = [key for key in left if sum(bool(r.found(s, own, [key])) for r, s, own in looks) > 1]
                if not left:
                    return
                time.sleep(_LOOK_SECONDS)
        key = min(left, key=str)
        having = [str(shard) for reader, shard, own in looks if reader.found(shard, own, [key])]
        raise ReplayStopped(
            f"{len(having)} shards of {'.'.join(reading.name)} have a row with the same key, "
            f"{shown_key(reading, key)}: {', '.join(having)}",
            remedy=WAYS_OUT_OF_COLLISIONS,
        )

    def _high(self, stage: Stage, unsettled: Mapping[Name, str], catalog: Catalog) -> Stage:
        """Wait until the log has all that was read, and record up to where it is to be applied."""
        ends: dict[str, End] = {}
        for node in self.nodes:
            with node.reader(stage.servers[node.name]) as reader:
                ends[node.name] = node.place(reader.end())
        self._wait(lambda: self._not_published(stage, ends))
        high = self.binlog.last_rank
        window = judged(self.binlog, stage.low, high, stage.tables, catalog, self.options.system_zone)
        again, rows = window.again | set(unsettled), {**stage.rows, **self._rows()}
        # A table that is copied again is read anew: what was doubted of it before is settled.
        before = {name for name in stage.doubted if tuple(name.split(".", 1)) not in {*stage.tables, *again}}
        doubted = tuple(sorted(before | {".".join(name) for name in window.doubted - again}))
        stage = replace(stage, phase=CATCHING_UP, high=high, again=tuple(sorted(again)), rows=rows, doubted=doubted)
        self.target.begin_catching_up(stage)
        return stage

    def _not_published(self, stage: Stage, ends: Mapping[str, End]) -> str:
        """Return what of the nodes' logs is not published yet, as text; "" if all is."""
        self.binlog.refresh()
        unpublished_ends = unpublished(self.binlog.state, ends)
        for node in self.nodes:
            if node.name in unpublished_ends:
                with node.reader(stage.servers[node.name]):
                    pass  # raises Changed
        return ", ".join(
            f"{node} up to {ends[node].file}:{ends[node].position} (now {place.file}:{place.position})"
            if place is not None
            else node
            for node, place in unpublished_ends.items()
        )

    def _rows(self) -> dict[str, int]:
        """Return how many rows were read in this round, by table."""
        rows: dict[str, int] = {}
        for shard, done in self.target.progress().items():
            table = ".".join(self.places.name(shard) or ())
            rows[table] = rows.get(table, 0) + done.rows
        return rows

    def _next(self, stage: Stage, high: int, catalog: Catalog) -> Stage:
        """Return what follows a round: the next one, or the end."""
        again = of_catalog(stage.again, catalog)
        if not again:
            done = Stage(
                EXACT,
                stage.number,
                high,
                (),
                stage.servers,
                rows=stage.rows,
                repeated=stage.repeated,
                doubted=stage.doubted,
            )
            self.target.finish(done)
            return done
        names = [".".join(name) for name in again]
        self._say(f"{', '.join(names)}: copied again")
        repeated = tuple(sorted({*stage.repeated, *names}))
        following = Stage(
            COPYING,
            stage.number + 1,
            high,
            again,
            self._servers(catalog, again),
            rows=stage.rows,
            repeated=repeated,
            doubted=stage.doubted,
        )
        self.target.begin_round(following, catalog)
        return following

    def _anew(self, stage: Stage) -> Stage:
        """Begin the round again, with the servers that the nodes have now."""
        if stage.phase == CATCHING_UP:
            return stage
        catalog = self._catalog(stage.low)
        self._wait_for_nodes()
        again = replace(stage, servers=self._servers(catalog, stage.tables))
        self.target.begin_round(again, catalog)
        return again

    # Helpers

    def _bound(self, unsettled: Mapping[Name, str]) -> None:
        """Raise NotYet for a table that no round could read for too long."""
        now = time.monotonic()
        self._unsettled = {name: self._unsettled.get(name, now) for name in unsettled}
        for name, since in self._unsettled.items():
            if now - since > self.options.wait_seconds:
                raise NotYet(f"{'.'.join(name)} cannot be read as the log has it: {unsettled[name]}", remedy=_UNSETTLED)
        if unsettled:
            time.sleep(_PAUSE_SECONDS)

    def _servers(self, catalog: Catalog, copied: Iterable[Name]) -> dict[str, Identity]:
        """Return the servers that the nodes have now. Raises UnsupportedInput for what cannot be copied."""
        servers: dict[str, Identity] = {}
        logged = True
        for node in self.nodes:
            with node.reader(None) as reader:
                reader.check()
                logged = logged and reader.logs_cascades
                assert reader.identity is not None
                servers[node.name] = reader.identity
        check_tables([catalog.tables[name] for name in copied], logged)
        return servers

    def _wait_for_nodes(self) -> None:
        for node in self.nodes:
            with node.reader(None):
                pass

    def _last_rank(self) -> int:
        self._wait(self._nothing_yet)
        return self.binlog.last_rank

    def _nothing_yet(self) -> str:
        """Return what a log lacks that does not say what tables there are; "" if it does."""
        self.binlog.refresh()
        return "" if self.binlog.last_rank or history_of(self.binlog.directory) is not None else "something"

    def _wait(self, lacking: Callable[[], str]) -> None:
        """Wait until nothing is lacking. Raises NotYet if nothing changes for too long."""
        since, before = time.monotonic(), ""
        while text := lacking():
            if text != before:
                since, before = time.monotonic(), text
                self._say(f"waiting until the merge publishes {text}")
            elif time.monotonic() - since > self.options.wait_seconds:
                raise NotYet(f"the merge does not publish {text}")
            time.sleep(_LOOK_SECONDS)

    def _catalog(self, rank: int) -> Catalog:
        return catalog_at(self.binlog, history_of(self.binlog.directory), rank, self.options.system_zone)

    def _place(self, rank: int) -> Checkpoint:
        return checkpoints_of(self.binlog, {rank})[rank]

    def _say(self, text: str) -> None:
        self._said = time.monotonic()
        self.report(text)
