"""A run's shards without markers: what is known of them, what this run adds, and what the next run must know."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from binlog_merge.config import MergeConfig
from binlog_merge.errors import StoreUnusable
from binlog_merge.job import shard_faults as faults
from binlog_merge.job.bound import NO_BOUND, Bound
from binlog_merge.job.groups import first_rows
from binlog_merge.job.nodes import ScannedNode
from binlog_merge.job.stores import STORE_NAME
from binlog_merge.job.touched import Line, Names, referring
from binlog_merge.merge.coordinate.shard_ddl import Placed
from binlog_merge.merge.coordinate.shard_json import entries_of, log_from_json, log_to_json
from binlog_merge.merge.coordinate.shard_log import ShardLog, coordinated
from binlog_merge.merge.coordinate.shards import SESSION, Together, coordinate_shards
from binlog_merge.merge.histories import Extended, PhysicalDdl
from binlog_merge.merge.not_carried import ON_DISK, NotCarried
from binlog_merge.merge.render import LogicalDdl
from binlog_merge.merge.session_variables import SessionVariables
from binlog_merge.shard.files import without_files
from binlog_merge.shard.joined import join_all
from binlog_merge.shard.modes import Modes
from binlog_merge.shard.notes import (
    DECISIONS,
    LOCKS,
    HeldRows,
    Locks,
    Source,
    decisions_from_json,
    lock_of,
    locks_to_json,
)
from binlog_merge.shard.place_keys import key_of
from binlog_merge.shard.values import Decided
from binlog_merge.shard.writing import writing_session
from binlog_merge.stages.holds import Holds
from binlog_merge.store_errors import as_merge_errors
from binlog_merge.topologies import route_of
from snapshot_store.ddl import DdlEffect
from snapshot_store.errors import SnapshotStoreError
from snapshot_store.history import GIVEN, SchemaHistory, SchemaVersion, TableVersion
from snapshot_store.model import Schema
from snapshot_store.topology import Topology
from snapshot_store.tso import ORIGIN, OrderKey

LOG = "shard-log"
_UNKNOWN = SessionVariables(sql_mode=SESSION.sql_mode, utf8mb4_collation=255, explicit_defaults_for_timestamp=1)
"""The session of what operators write, as servers since 8.0 have it: an event that is silent means 5.7's."""
_AFTER_BASE = OrderKey(0, 0, 1, 0)
_AT_BASE = OrderKey(0, 0, 0, 1)
"""Where the logical tables begin that no base has, and shards are there for."""


def modes_of(config: MergeConfig, topology: Topology) -> Modes:
    """Return how the tables of a configuration are coordinated."""
    routes, extracts = {}, {}
    for rule in config.routes:
        route = route_of(rule, config)
        routes[route] = rule.shard_mode or config.shard_mode
        extract = rule.extract()
        if extract is not None:
            extracts[route] = extract
    return Modes(topology, config.shard_mode, routes, extracts)


@dataclass
class ShardWork:
    """What a run makes of DDL that no marker tells of. Does nothing where all tables are by marker."""

    config: MergeConfig
    topology: Topology
    floor: OrderKey
    directory: Path
    log: ShardLog = field(default_factory=ShardLog)
    decisions: tuple[Decided, ...] = ()
    together: Together = field(default_factory=Together)
    bound: Bound = NO_BOUND
    cut: list[NotCarried] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.active = self.config.coordinates
        self.modes = modes_of(self.config, self.topology)
        if self.active and self.floor > ORIGIN:
            with as_merge_errors(self.directory / STORE_NAME):
                texts = entries_of(self._note(LOG) or "[]")
            # A run that was killed between the store and the manifest has left a later one too.
            text = next((text for since, text in reversed(texts) if since <= self.floor.text()), None)
            if text is None:
                raise StoreUnusable(
                    "the schema store does not say what the shards have run before",
                    file=str(self.directory / STORE_NAME),
                    remedy="restore the store from a copy, or merge into an empty directory",
                )
            with as_merge_errors(self.directory / STORE_NAME):
                self.log = log_from_json(text).before(self.floor)

    def _note(self, name: str) -> str | None:
        from snapshot_store.store import Store

        path = self.directory / STORE_NAME
        if not path.exists():
            return None
        with as_merge_errors(path), Store.open(path) as store:
            return store.note(name)

    def lines(self, store: Names, joined: Sequence[str]) -> set[Line]:
        """Return the lines of history that coordination must see."""
        if not self.active:
            return set()
        lines: set[Line] = {(None, *name) for name in self.log.names()}
        lines |= {(None, schema, "") for _, schema, _ in lines}
        lines.update(referring(store, self.log.renamed()))
        if self.floor == ORIGIN or joined:
            for node, schema, table in store.names():
                if (
                    node is None
                    or not self.modes.coordinates(node, schema)
                    or (self.floor > ORIGIN and node not in joined)
                ):
                    continue
                lines |= {(node, schema, table), (node, schema, "")}
                logical = coordinated(self.modes, node, schema, table) if table else None
                lines |= {(None, *logical), (None, logical[0], "")} if logical is not None else set()
        return lines

    def begin(
        self, history: SchemaHistory, given: Sequence[TableVersion], nodes: Sequence[str], joined: Sequence[str]
    ) -> None:
        """Take in what there is at the beginning, and the shards that people say there are; `joined` are nodes new in
        this run.
        """
        if not self.active:
            return
        # What is said of the moment before the floor counts from there on.
        latest = (v for v in history.versions if v.key == self.floor.previous() > ORIGIN and v.origin in GIVEN)
        for version in (*latest, *given):
            if version.node is None or version.table is None:
                continue
            if history.at(version.schema, version.name, version.key, version.node) is None:
                self.log.join(version.node, [version.table], version.key, self.modes)
        first = self.floor == ORIGIN
        if first:
            base = history.catalog(_AFTER_BASE)
            self.log.logical, self.log.schemas = dict(base.tables), {*base.schemas, *(s for s, _ in base.tables)}
        for node in nodes if first else joined:
            catalog = history.catalog(_AFTER_BASE, node)
            if first:
                self.log.begin(node, catalog.tables.values(), catalog.schemas, self.modes)
            else:
                self.log.join(node, catalog.tables.values(), self.floor.previous(), self.modes)
        if first:
            self.log.logical = {name: t for name, t in self.log.logical.items() if name in self.log.members}

    def first_tables(self) -> tuple[list[TableVersion], list[SchemaVersion]]:
        """Return the logical tables at the beginning that no base has: what their shards come to."""
        tables, schemas = [], {}
        for name, members in self.log.members.items() if self.active and self.floor == ORIGIN else ():
            joined = join_all(members.values())
            if name not in self.log.logical and joined is not None:
                self.log.logical[name] = joined
                self.log.schemas.add(name[0])
                tables.append(TableVersion(_AT_BASE, 0, *name, joined))
                schemas[name[0]] = SchemaVersion(_AT_BASE, name[0], Schema(name[0], joined.charset, joined.collation))
        return tables, list(schemas.values())

    def take(self, node: str, extended: Extended) -> None:
        """Take in what a node ran."""
        if not self.active:
            return
        for error in faults.not_taken(node, extended, self.modes):
            self.bound = min(self.bound, Bound.of(error))
        for one in extended.applied:
            self._note_files(node, one.ddl, one.effect)
            try:
                self.log.take(node, [one], self.modes)
            except SnapshotStoreError as raised:
                self.bound = min(self.bound, Bound.of(faults.not_understood(node, one.ddl, raised)))
                return

    def _note_files(self, node: str, ddl: PhysicalDdl, effect: DdlEffect) -> None:
        """List the clauses about files that are cut from a statement that comes out."""
        if not any(coordinated(self.modes, node, *name) for name in effect.effects.changed if name[1]):
            return
        for clause in without_files(ddl.sql, ddl.session)[1]:
            kind = f"{clause.split()[0].rstrip('=').upper()} clause"
            self.cut.append(NotCarried(node, ddl.file, ddl.position, ddl.sql, kind, ON_DISK))

    def check_rows(self, scanned: Sequence[ScannedNode], known: set[Line]) -> None:
        """Note an error for the first rows of each node that are of a shard of which nothing is known."""
        for node in scanned if self.active else ():
            strangers = {
                name
                for block in node.blocks
                for tables in block.sets
                for name in tables
                if (node.source_id, *name) not in known and coordinated(self.modes, node.source_id, *name)
            }
            found = first_rows(node, strangers, self.floor) if strangers else None
            if found is not None:
                self.bound = min(self.bound, Bound.of(faults.unknown_rows(node.source_id, *found)))

    def coordinate(self, limit: OrderKey) -> tuple[list[LogicalDdl], Bound, list[str]]:
        """Bring together what shards have run below `limit`; returns the DDL that come out, where it stopped, and
        warnings.
        """
        if not self.active:
            return [], NO_BOUND, []
        with as_merge_errors(self.directory / STORE_NAME):
            self.decisions = decisions_from_json(self._note(DECISIONS) or "[]")
        bound = self.bound if self.bound.key <= limit else NO_BOUND
        limit = min(limit, bound.key)
        self.together = coordinate_shards(self.log, self.modes, self.decisions, limit, self.floor)
        if self.together.stop is not None:
            bound = Bound.of(faults.stopped(self.log, *self.together.stop))
        elif (too_many := Bound.of(faults.too_many(self.log, self.together, limit))).error is not None:
            bound, limit = too_many, too_many.key
            self.together = coordinate_shards(self.log, self.modes, self.decisions, limit, self.floor)
        stop = self.together.stop
        moves = self.log.moves(self.modes, limit if stop is None else min(limit, stop[1].key))
        doubts = [f for f in (*self.together.findings, *moves) if f.found >= self.floor]
        doubts.sort(key=lambda f: f.found)
        warnings = []
        for doubt in doubts:
            found = faults.in_doubt(self.log, doubt)
            if found is None:
                continue
            if self.config.shard_doubts == "error":
                self.together = coordinate_shards(self.log, self.modes, self.decisions, doubt.found, self.floor)
                together = [d for d in doubts if (d.found, d.doubt) == (doubt.found, doubt.doubt)]
                bound = Bound.of(faults.in_doubt(self.log, *together))
                break
            do = f"; {doubt.remedy}" if doubt.remedy else ""
            warnings.append(f"{found.message}: {found.file}:{found.position}{do}")
        # Versions at or above the floor are made again by every run, also of DDL that are published.
        ddl = [self._ddl(placed) for placed in self.together.ddl if key_of(placed.place) >= self.floor]
        return ddl, bound, warnings

    def _ddl(self, placed: Placed) -> LogicalDdl:
        ran = None if placed.cause is None else self.log.ran.get(placed.cause)
        variables = _UNKNOWN if ran is None else ran.variables
        if ran is None or not placed.as_run:
            session = writing_session(replace(SESSION, sql_mode=variables.sql_mode))
            variables = replace(variables, sql_mode=session.sql_mode)
        return LogicalDdl(key_of(placed.place), placed.schema, placed.sql, variables, placed.table is None)

    def holds(self) -> Holds | None:
        """Return what the stages must know; None where no table is coordinated here."""
        if not self.active:
            return None
        return Holds(self.together.effects, tuple(d.place for d in self.together.ddl if d.place.key >= self.floor))

    def locks(self, known: OrderKey, held: Sequence[HeldRows] = ()) -> Locks:
        """Return what waits, where everything below `known` has been taken in."""

        def source(node: str, key: OrderKey) -> Source:
            ran = self.log.ran.get((node, key))  # none of tables that people say there are
            return Source("", "", 0) if ran is None else Source(ran.sql, ran.file, ran.position)

        open_ = tuple(lock_of(one, mode, source) for mode, one in self.together.open if mode != "marker")
        stop = None if self.together.stop is None else self.together.stop[1]
        at = None if stop is None or isinstance(stop.event, Decided) else stop.key
        return Locks(known, open_, tuple(held), at)

    def keep(self, next_floor: OrderKey, known: OrderKey, held: Sequence[HeldRows] = ()) -> None:
        """Leave what the next run must know, and what operators want to."""
        from snapshot_store.store import Store

        if not self.active:
            return
        path = self.directory / STORE_NAME
        with as_merge_errors(path), Store.open(path) as store:
            log = self.log.before(next_floor).settled(self.together.settled, next_floor)
            entries = [e for e in entries_of(store.note(LOG) or "[]") if e[0] <= self.floor.text() < next_floor.text()]
            store.set_note(LOG, json.dumps([*entries[-1:], [next_floor.text(), log_to_json(log)]]))
            store.set_note(LOCKS, locks_to_json(self.locks(known, held)))
