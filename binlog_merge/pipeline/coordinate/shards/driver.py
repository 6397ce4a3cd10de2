"""Coordinates a run's shards without markers: earlier runs' log, what this run adds, and the notes for the next run."""

import json
import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from binlog_merge.binlog.query_session import SessionVariables, ddl_session
from binlog_merge.config.merge_config import MergeConfig, route_of, topology_of
from binlog_merge.config.modes import Modes
from binlog_merge.errors import ConfigError, StoreUnusable
from binlog_merge.moved_keys import key_of
from binlog_merge.pipeline.assemble.nodes import ScannedNode
from binlog_merge.pipeline.base.render_values import LogicalDdl
from binlog_merge.pipeline.base.state import NO_BOUND, Bound
from binlog_merge.pipeline.coordinate.histories import Extended, PhysicalDdl
from binlog_merge.pipeline.coordinate.read_again import first_rows
from binlog_merge.pipeline.coordinate.shards import faults
from binlog_merge.pipeline.coordinate.shards.clauses import without_files
from binlog_merge.pipeline.coordinate.shards.databases import written_in
from binlog_merge.pipeline.coordinate.shards.ddl import Doubted, PassedWarning, Placed, Warned, passed_on
from binlog_merge.pipeline.coordinate.shards.log import ShardLog, coordinated
from binlog_merge.pipeline.coordinate.shards.log_json import entries_of, log_from_json, log_to_json
from binlog_merge.pipeline.coordinate.shards.notes import (
    DECISIONS,
    LOCKS,
    HeldRows,
    Lock,
    Locks,
    NodeStatement,
    decisions_from_json,
    lock_of,
    lock_values,
    locks_from_json,
    locks_to_json,
    says_the_same,
)
from binlog_merge.pipeline.coordinate.shards.optimistic.shapes import join_all
from binlog_merge.pipeline.coordinate.shards.row_findings import Counted, losses, not_counted
from binlog_merge.pipeline.coordinate.shards.together import Together, coordinate_shards
from binlog_merge.pipeline.coordinate.shards.tools import Away, FirstRows
from binlog_merge.pipeline.coordinate.shards.values import WRITTEN, Decided, Finding, Holds, Name, Shard
from binlog_merge.pipeline.coordinate.shards.writing import writing_session
from binlog_merge.pipeline.coordinate.statements import ON_DISK, NotCarried
from binlog_merge.pipeline.coordinate.stores import STORE_NAME, SchemaCache, stored_note
from binlog_merge.pipeline.coordinate.touched import HistoryQueries, referring
from binlog_merge.store_errors import as_merge_errors
from snapshot_store.ddl import DdlEffect, DdlSession
from snapshot_store.errors import SnapshotStoreError
from snapshot_store.history import GIVEN, HistoryKey, SchemaHistory, SchemaVersion, TableVersion
from snapshot_store.model import Schema, Table
from snapshot_store.topology import Topology
from snapshot_store.tso import ORIGIN, OrderKey

LOG = "shard-log"
_LOG = logging.getLogger(__name__)
_UNKNOWN = SessionVariables(sql_mode=WRITTEN.sql_mode, utf8mb4_collation=255, explicit_defaults_for_timestamp=1)
"""The session of statements that operators write, as servers since 8.0 have it: without these values an event means
5.7's.
"""
_AFTER_BASE = OrderKey(0, 0, 1, 0)
_AT_BASE = OrderKey(0, 0, 0, 1)
"""The key of logical tables that no base schema has but whose shards exist from the beginning."""


def modes_of(config: MergeConfig, topology: Topology) -> Modes:
    """Return the mode of coordination of each route in a configuration."""
    routes, extracts = {}, {}
    for rule in config.routes:
        route = route_of(rule, config)
        routes[route] = rule.shard_mode or config.shard_mode
        extract = rule.extract()
        if extract is not None:
            extracts[route] = extract
    return Modes(topology, config.shard_mode, routes, extracts, config.online_ddl)


@dataclass(frozen=True)
class KnownShards:
    """What a run from `floor` on knows about shards without markers.

    `log` has what earlier runs left; it is never changed. Not `active` if markers coordinate all tables. `strict`: a
    doubt about the shards' data stops the merge.
    """

    modes: Modes
    floor: OrderKey
    active: bool = True
    strict: bool = True
    log: ShardLog = field(default_factory=ShardLog)

    def history_keys(self, store: HistoryQueries, joined: Sequence[str]) -> set[HistoryKey]:
        """Return the history keys that coordination needs."""
        if not self.active:
            return set()
        keys: set[HistoryKey] = {(None, *name) for name in self.log.names()}
        keys |= {(None, schema, "") for _, schema, _ in keys}
        keys.update(referring(store, self.log.renamed()))
        if self.floor == ORIGIN or joined:
            for node, schema, table in store.names():
                if (
                    node is None
                    or not self.modes.coordinates(node, schema)
                    or (self.floor > ORIGIN and node not in joined)
                ):
                    continue
                keys |= {(node, schema, table), (node, schema, "")}
                logical = coordinated(self.modes, node, schema, table) if table else None
                keys |= {(None, *logical), (None, logical[0], "")} if logical is not None else set()
        return keys


def read_shards(config: MergeConfig, floor: OrderKey, directory: Path, cache: SchemaCache) -> KnownShards:
    """Return what earlier runs left in the store of an output directory."""
    known = KnownShards(
        modes_of(config, topology_of(config)), floor, config.coordinates, config.shard_doubts == "error"
    )
    if not known.active or floor == ORIGIN:
        return known
    path = directory / STORE_NAME
    with as_merge_errors(path):
        texts = entries_of(_note(directory, LOG, cache) or "[]")
    # A run that was killed between writing the store and the manifest has left a later entry too.
    text = next((text for since, text in reversed(texts) if since <= floor.text()), None)
    if text is None:
        raise StoreUnusable(
            "the schema store does not say what the shards have run before",
            file=str(path),
            remedy="restore the store from a copy, or merge into an empty directory",
        )
    with as_merge_errors(path):
        return replace(known, log=log_from_json(text).before(floor))


def read_decisions(directory: Path, cache: SchemaCache) -> tuple[Decided, ...]:
    """Return the decisions of operators about shards."""
    with as_merge_errors(directory / STORE_NAME):
        return decisions_from_json(_note(directory, DECISIONS, cache) or "[]")


def _note(directory: Path, name: str, cache: SchemaCache) -> str | None:
    path = directory / STORE_NAME
    return cache.note(name, lambda: stored_note(path, name)) if path.exists() else None


@dataclass(frozen=True)
class TakenShards:
    """The log of shards up to the end of the input, and the first logical tables that no base schema has.

    `cut` are clauses that are not part of the output. The bound is at the first statement that cannot be coordinated.
    """

    log: ShardLog = field(default_factory=ShardLog)
    tables: tuple[TableVersion, ...] = ()
    schemas: tuple[SchemaVersion, ...] = ()
    cut: tuple[NotCarried, ...] = ()
    bound: Bound = NO_BOUND


def take_shards(
    known: KnownShards,
    history: SchemaHistory,
    given: Sequence[TableVersion],
    nodes: Sequence[str],
    joined: Sequence[str],
    ran: Sequence[tuple[str, Extended]],
    first_rows: FirstRows,
) -> TakenShards:
    """Return the log of shards with the statements that nodes ran in this run.

    `given` are versions given by operators, `joined` the nodes new in this run.
    """
    if not known.active:
        return TakenShards()
    log = _begun(known, history, given, nodes, joined)
    first = _first_tables(log) if known.floor == ORIGIN else {}
    log.logical = {**log.logical, **first}
    log.schemas = {*log.schemas, *(schema for schema, _ in first)}
    bounds, cut = [NO_BOUND], list[NotCarried]()
    for node, extended in ran:
        names = {*history.names(node), *((v.schema, v.name) for v in extended.versions)}
        bounds += [Bound.of(error) for error in faults.not_taken(node, extended, known.modes, names)]
        for applied in extended.applied:
            cut += _cut(node, applied.ddl, applied.effect, known.modes)
            try:
                log.take(node, [applied], known.modes, first_rows)
            except SnapshotStoreError as raised:
                bounds.append(Bound.of(faults.not_understood(node, applied.ddl, raised)))
                break
    for node in nodes:
        log.show(node, known.modes, first_rows)
    tables = tuple(TableVersion(_AT_BASE, 0, *name, table) for name, table in first.items())
    databases = {name[0]: Schema(name[0], table.charset, table.collation) for name, table in first.items()}
    schemas = tuple(SchemaVersion(_AT_BASE, name, schema) for name, schema in databases.items())
    return TakenShards(log, tables, schemas, tuple(cut), min(bounds))


def _begun(
    known: KnownShards,
    history: SchemaHistory,
    given: Sequence[TableVersion],
    nodes: Sequence[str],
    joined: Sequence[str],
) -> ShardLog:
    """Return a copy of the log, with the tables at the beginning and the shards that operators have given."""
    modes, first = known.modes, known.floor == ORIGIN
    log = ShardLog() if first else known.log.before(known.floor)
    # A version given right before the floor applies from the floor on.
    latest = (v for v in history.versions if v.key == known.floor.previous() > ORIGIN and v.origin in GIVEN)
    for version in (*latest, *given):
        if version.node is None or version.table is None:
            continue
        if history.at(version.schema, version.name, version.key, version.node) is None:
            log.join(version.node, [version.table], version.key, modes)
    if first:
        base = history.catalog(_AFTER_BASE)
        log.logical, log.schemas = dict(base.tables), {*base.schemas, *(s for s, _ in base.tables)}
    for node in nodes if first else joined:
        catalog = history.catalog(_AFTER_BASE, node)
        if first:
            log.begin(node, catalog.tables.values(), catalog.schemas, modes)
        else:
            log.join(node, catalog.tables.values(), known.floor.previous(), modes)
    if first:
        log.logical = {name: t for name, t in log.logical.items() if name in log.members}
        for name, table in log.logical.items():
            _check_keys(name, table, modes)
    return log


def _check_keys(name: Name, table: Table, modes: Modes) -> None:
    """Raise ConfigError if keys of a logical table lack the columns that routes say are part of them."""
    columns = modes.key_columns(name)
    for index in table.indexes if columns else ():
        has = {(part.column or "").lower() for part in index.parts}
        if index.unique and not {column.lower() for column in columns} <= has:
            raise ConfigError(
                f"the base has {'.'.join(name)} with the key {index.name} that lacks {', '.join(columns)}, which the "
                "routes have with key: true",
                remedy="make the base with `schema import --nodes`, which adds it; or add it to every unique key",
            )


def _first_tables(log: ShardLog) -> dict[Name, Table]:
    """Return the logical tables at the beginning that no base schema has: the joins of their shards."""
    tables = {name: join_all(shards.values()) for name, shards in log.members.items() if name not in log.logical}
    return {name: table for name, table in tables.items() if table is not None}


def _cut(node: str, ddl: PhysicalDdl, effect: DdlEffect, modes: Modes) -> Iterator[NotCarried]:
    """Yield the clauses about files that are cut from a statement of the output."""
    if not any(coordinated(modes, node, *name) for name in effect.effects.changed if name[1]):
        return
    for clause in without_files(ddl.sql, ddl.session)[1]:
        kind = f"{clause.split()[0].rstrip('=').upper()} clause"
        yield NotCarried(node, ddl.file, ddl.position, ddl.sql, kind, ON_DISK)


def unknown_rows(known: KnownShards, scanned: Sequence[ScannedNode], keys: Collection[HistoryKey]) -> Bound:
    """Return the bound at the first rows of a shard that has no version; `keys` are the history keys that have one."""
    bound, topology = NO_BOUND, known.modes.topology
    for node in scanned if known.active else ():
        strangers = {
            name
            for block in node.blocks
            for tables in block.sets
            if not topology.ignores_transaction(tables)
            for name in tables
            if (node.source_id, *topology.named(node.source_id, *name)) not in keys
            and coordinated(known.modes, node.source_id, *name)
        }
        ignored = topology.ignores_transaction
        found = first_rows(node, strangers, known.floor, ignored=ignored) if strangers else None
        if found is not None:
            names = [(schema, name) for of, schema, name in keys if of == node.source_id]
            place = (found.key, node.input.files[found.file_index].path, found.start, found.table)
            bound = min(bound, Bound.of(faults.unknown_rows(node.source_id, *place, names)))
    return bound


RowsAt = Callable[[Shard, str, int], int | None]
"""How many rows a shard has before the statement at a position of a file, None if that is unknown."""


def not_known(shard: Shard, file: str, position: int) -> None:
    """Return None: the number is unknown."""


@dataclass(frozen=True)
class CoordinatedShards:
    """The result of coordinating shards below a limit: logical DDL, bound and warnings."""

    known: KnownShards
    log: ShardLog
    together: Together = field(default_factory=Together)
    ddl: tuple[LogicalDdl, ...] = ()
    bound: Bound = NO_BOUND
    warnings: tuple[str, ...] = ()
    warned: tuple[Warned, ...] = ()
    doubt: OrderKey | None = None
    """The key of the event before which a doubt stops the merge."""

    def holds(self) -> Holds | None:
        """Return what the later stages need about held rows; None if no table is coordinated here."""
        if not self.known.active:
            return None
        floor, together = self.known.floor, self.together
        return Holds(together.effects, tuple(d.place for d in together.ddl if d.place.key >= floor))

    def doubted(self, below: OrderKey) -> Doubted:
        """Return the tables in doubt after everything below a key."""
        placed = [ddl for ddl in self.together.ddl if key_of(ddl.place) >= self.known.floor]
        return passed_on(self.log.doubted, self.warned, placed, below, partial(_session, self.log))[0]

    def locks(self, below: OrderKey, held: Sequence[HeldRows] = ()) -> Locks:
        """Return the open coordinations after everything below a key."""

        def source(node: str, key: OrderKey) -> NodeStatement:
            ran = self.log.ran.get((node, key))  # tables given by operators have none
            return NodeStatement("", "", 0) if ran is None else NodeStatement(ran.sql, ran.file, ran.position)

        open_ = tuple(lock_of(waiting, mode, source) for mode, waiting in self.together.open if mode != "marker")
        stop = None if self.together.stop is None else self.together.stop[1]
        at = self.doubt if stop is None or isinstance(stop.event, Decided) else stop.key
        return Locks(below, open_, tuple(held), at)


def coordinated_shards(
    known: KnownShards,
    log: ShardLog,
    decisions: Sequence[Decided],
    taken: Bound,
    limit: OrderKey,
    counted: Counted = not_counted,
    rows_at: RowsAt = not_known,
) -> CoordinatedShards:
    """Coordinate the shards' statements below `limit`. `taken` is the bound at the first statement or row that is
    unusable, `counted` counts the rows of a table and of its copy, `rows_at` those of a shard.
    """
    if not known.active:
        return CoordinatedShards(known, log)
    bound = taken if taken.key <= limit else NO_BOUND
    limit = min(limit, bound.key)
    together = coordinate_shards(log, known.modes, decisions, limit, known.floor)
    if together.stop is not None:
        bound = Bound.of(faults.stopped(log, *together.stop))
    elif (too_many := Bound.of(faults.too_many(log, together, limit))).error is not None:
        bound, limit = too_many, too_many.key
        together = coordinate_shards(log, known.modes, decisions, limit, known.floor)
    stop = together.stop
    end = limit if stop is None else min(limit, stop[1].key)
    moves = log.moves(known.modes, end)
    copied = [losses(swap, counted) for swap in log.swaps if known.floor <= swap.key < end]
    lost = [finding for finding, _ in copied if finding is not None]
    doubts = [f for f in (*together.findings, *moves, *lost) if f.found >= known.floor and not _void(log, f, rows_at)]
    doubts.sort(key=lambda f: f.found)
    warnings, warned, doubted = [warning for _, warning in copied if warning is not None], list[Warned](), None
    for doubt in doubts:
        found = faults.in_doubt(log, doubt)
        if found is None:
            continue
        if known.strict:
            together = coordinate_shards(log, known.modes, decisions, doubt.found, known.floor)
            alike = [d for d in doubts if (d.found, d.doubt) == (doubt.found, doubt.doubt)]
            bound, doubted = Bound.of(faults.in_doubt(log, *alike)), doubt.found
            break
        do = f"; {doubt.remedy}" if doubt.remedy else ""
        warnings.append(f"{found.message}: {found.file}:{found.position}{do}")
        others = log.exchanged(known.modes, doubt.shard.node, doubt.key)
        tables = tuple(dict.fromkeys((*doubt.tables, *others)))
        warned.append(Warned(doubt.found, tables, f"{doubt.shard.node} {Path(found.file or '').name}:{found.position}"))
    warnings += [_away(one) for one in log.tools.before(min(limit, bound.key)).away]
    # Every run makes the versions at or above the floor again, also those of published DDL.
    placed = [ddl for ddl in together.ddl if key_of(ddl.place) >= known.floor]
    written = partial(written_in, log, known.modes, [ddl for ddl in together.ddl if ddl.table is None])
    ddl = tuple(_ddl(log, statement, written) for statement in placed)
    warnings += map(partial(_passed, log), passed_on(log.doubted, warned, placed, limit, partial(_session, log))[1])
    return CoordinatedShards(known, log, together, ddl, bound, tuple(warnings), tuple(warned), doubted)


def _void(log: ShardLog, finding: Finding, rows_at: RowsAt) -> bool:
    """Return whether there is no doubt, as the shard has no rows there."""
    ran = log.ran.get((finding.shard.node, finding.key)) if finding.if_rows else None
    return ran is not None and rows_at(finding.shard, ran.file, ran.position) == 0


def _session(log: ShardLog, placed: Placed) -> DdlSession:
    """Return the session that a statement of the output is parsed in."""
    return log.session(placed.cause)


def _away(away: Away) -> str:
    """Return the warning about a table whose copy has not taken its place yet."""
    name, copy = ".".join(away.name), ".".join(away.copy)
    return (
        f"{away.node}: {name} has been dropped or set aside for its copy {copy}: it stays on the target until {copy} "
        f"gets its name, or something else does (order key {away.key.text()})"
    )


def _passed(log: ShardLog, passed: PassedWarning) -> str:
    """Return the warning about a table that gets rows of a table in doubt."""
    ran = None if passed.ddl.cause is None else log.ran.get(passed.ddl.cause)
    old, new = ".".join(passed.old), ".".join(passed.new)
    true = f"rows of {old} are in {new} from here on: what was said of {old} at {passed.where} is true of {new} too"
    return f"{passed.ddl.sql[:200]!r}: {true}{'' if ran is None else f': {ran.file}:{ran.position}'}"


def _ddl(log: ShardLog, placed: Placed, written: Callable[[Placed, DdlSession], tuple[str, str]]) -> LogicalDdl:
    ran = None if placed.cause is None else log.ran.get(placed.cause)
    variables = _UNKNOWN if ran is None else ran.variables
    if ran is None or not placed.as_run:
        session = writing_session(replace(WRITTEN, sql_mode=variables.sql_mode))
        variables = replace(variables, sql_mode=session.sql_mode)
    database, sql = written(placed, ddl_session(variables, variables.server_version or WRITTEN.server_version))
    return LogicalDdl(key_of(placed.place), database, sql, variables, placed.table is None, origin="shards")


def _log_waiting(before: Sequence[Lock], now: Sequence[Lock]) -> None:
    """Log which DDL begin to wait and for whom, for whom they wait now instead, and which do not wait any more."""
    old, new = {lock.id: lock for lock in before}, {lock.id: lock for lock in now}
    for id, lock in new.items():
        if id not in old:
            _LOG.info("a DDL begins to wait", extra=lock_values(lock))
        elif (old[id].awaited, old[id].stage) != (lock.awaited, lock.stage):
            _LOG.info("a DDL waits for others now", extra=lock_values(lock))
    for id, lock in old.items():
        if id not in new:
            _LOG.info("a DDL waits no longer", extra=lock_values(lock))


def keep_shards(
    shards: CoordinatedShards,
    directory: Path,
    next_floor: OrderKey,
    below: OrderKey,
    held: Sequence[HeldRows],
    cache: SchemaCache,
) -> None:
    """Save the log for the next run, and for operators the coordinations that wait below a key, if they are new."""
    from snapshot_store.store.db import Store

    floor = shards.known.floor
    if not shards.known.active:
        return
    path = directory / STORE_NAME
    log = shards.log.before(next_floor).settled(shards.together.settled, next_floor)
    log.doubted = shards.doubted(next_floor)
    text, locks = log_to_json(log), shards.locks(below, held)
    known = entries_of(_note(directory, LOG, cache) or "[]")
    earlier = _note(directory, LOCKS, cache)
    _log_waiting(() if earlier is None else locks_from_json(earlier).locks, locks.locks)
    same = known and known[-1][0] <= floor.text() and known[-1][1] == text
    # Each round is known further than the one before. To write that alone would be news for the next one.
    if same and says_the_same(earlier, locks):
        return
    with as_merge_errors(path), Store.open(path) as store:
        entries = [e for e in known if e[0] <= floor.text() < next_floor.text()]
        store.set_note(LOG, json.dumps([*entries[-1:], [next_floor.text(), text]]))
        store.set_note(LOCKS, locks_to_json(locks))
