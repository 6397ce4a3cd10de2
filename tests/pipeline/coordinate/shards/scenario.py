"""A small cluster that runs SQL, and tells coordination what it ran: every statement is an event."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from binlog_merge.moved_keys import DdlPlace
from binlog_merge.pipeline.coordinate.shards import pessimistic
from binlog_merge.pipeline.coordinate.shards.events import NodeDdl, shard_events
from binlog_merge.pipeline.coordinate.shards.optimistic import run as optimistic
from binlog_merge.pipeline.coordinate.shards.optimistic.shapes import join_all, order
from binlog_merge.pipeline.coordinate.shards.tools import ToolTables
from binlog_merge.pipeline.coordinate.shards.values import Decided, Event, Outcome, Renamed, Shard, ShardDdl, ShardEvent
from binlog_merge.pipeline.order.waits import Waits
from snapshot_store.ddl import DdlSession, ParsedDdl
from snapshot_store.ddl.apply.statement import apply_ddl
from snapshot_store.model import Catalog, Table
from snapshot_store.topology import Route, Topology
from snapshot_store.tso import OrderKey
from tests.pipeline.order.arranging import Touching, arrange, in_order

SESSION = DdlSession()
WAYS = {"optimistic": optimistic.coordinate, "pessimistic": pessimistic.coordinate}
ROWS = re.compile(r"\s*(?:insert\s+(?:ignore\s+)?into|replace\s+into|update|delete\s+from)\s+([\w`.]+)", re.IGNORECASE)
MADE = re.compile(r"\s*create\s+(?:database|schema)\s+`?(\w+)", re.IGNORECASE)
ROUTES = Topology((Route("shardddl*", "tb*", "shardddl", "tb"), Route("shop*", "t*", "shop", "t")))
Name = tuple[str, str]


@dataclass(frozen=True)
class Row:
    """A change of rows of one shard: its key, and the shard's table at that moment, under the logical name."""

    key: OrderKey
    shard: Shard
    table: Table


@dataclass
class Cluster:
    """Runs statements on nodes, in the order given; each gets a key of its own."""

    topology: Topology = ROUTES
    default_schema: str = "shop"
    catalogs: dict[str, Catalog] = field(default_factory=dict)
    members: dict[Name, dict[Shard, Table]] = field(default_factory=dict)
    events: dict[Name, list[Event]] = field(default_factory=dict)
    rows: dict[Name, list[Row]] = field(default_factory=dict)
    tools: ToolTables = field(default_factory=ToolTables)
    sessions: dict[tuple[str, OrderKey], DdlSession] = field(default_factory=dict)
    moment: int = 0

    def key(self) -> OrderKey:
        self.moment += 1
        return OrderKey(self.moment, 0, 0, 1)

    def begin(self, node: str, sql: str) -> None:
        """Run a CREATE TABLE before the logs begin; rows that are there already make no difference."""
        if ROWS.match(sql):
            return
        catalog = self.catalog(node, sql)
        effect = apply_ddl(catalog, sql, self.default_schema, SESSION)
        self.catalogs[node] = effect.catalog
        for name in effect.changed:
            logical = self.topology.logical_name(node, *name)
            table = effect.catalog.get(*name)
            if logical is not None and table is not None:
                self.members.setdefault(logical, {})[Shard(node, *name)] = table.renamed(*logical)

    def catalog(self, node: str, sql: str) -> Catalog:
        catalog = self.catalogs.get(node, Catalog())
        made = MADE.match(sql)
        for schema in {self.default_schema, *re.findall(r"(\w+)`?\.`?\w+", sql)}:
            if schema not in catalog.schemas and (made is None or made[1] != schema):
                catalog = apply_ddl(catalog, f"CREATE DATABASE `{schema}`", None, SESSION).catalog
        return catalog

    def run(self, node: str, sql: str, session: DdlSession = SESSION) -> None:
        """Run a statement: DDL, or one that changes rows, of which only the table is looked at."""
        key, found = self.key(), ROWS.match(sql)
        if found is None:
            self.sessions[node, key] = session
            self._run_ddl(node, key, sql, session)
            return
        *schema, table = found[1].replace("`", "").split(".")
        name = (schema[0] if schema else self.default_schema, table)
        logical = None if name in self.tools.of_node(node) else self.topology.logical_name(node, *name)
        shape = self.catalogs.get(node, Catalog()).get(*name)
        if logical is not None and shape is not None:
            self.rows.setdefault(logical, []).append(Row(key, Shard(node, *name), shape.renamed(*logical)))

    def _run_ddl(self, node: str, key: OrderKey, sql: str, session: DdlSession) -> None:
        before = self.catalog(node, sql)
        effect = apply_ddl(before, sql, self.default_schema, session)
        parsed = ParsedDdl.of(sql, session)
        step = self.tools.step(node, key, parsed, before, effect, self.default_schema, lambda name: True)
        self.tools.add(step.events)
        ddl = NodeDdl(node, key, parsed, before, effect, step, self.default_schema)
        self.catalogs[node] = effect.catalog
        for logical, event in by_table(shard_events(ddl, self.topology)):
            self.events.setdefault(logical, []).append(event)

    def decide(self, way: str, action: Literal["emit", "skip", "as-if-done"], sql: str = "", shard: str = "") -> None:
        """Decide about the DDL that has waited longest."""
        waiting = self.outcome(way).open[0]
        awaited = next((s for s in waiting.awaited if s.table == shard), None)
        self.events.setdefault(("shop", "t"), []).append(Decided(self.key(), waiting.id, action, sql, awaited))

    def outcome(self, way: str, logical: Name = ("shop", "t"), until: int | None = None) -> Outcome:
        """Return what the events come to."""
        events = self.events.get(logical, [])[:until]
        return WAYS[way](self.members.get(logical, {}), None, events, SESSION)


def by_table(events: Iterable[tuple[Name, ShardEvent]]) -> Iterator[tuple[Name, ShardEvent]]:
    """Yield events, of renames those by which a tool's table comes into a shard's place."""
    for name, event in events:
        if not isinstance(event, Renamed):
            yield name, event
        elif event.tool and event.new is not None:
            yield from ((event.new, ddl) for ddl in event.instead)


def cluster(create: str, *shards: str) -> Cluster:
    """Return a cluster whose shards (n1.t1, n2.t2 …) are all made by one CREATE TABLE of a table named t."""
    made = Cluster()
    for shard in shards:
        node, table = shard.split(".")
        made.begin(node, re.sub(r"\bt\b", table, create, count=1))
    return made


def ran(create: str, shards: str, *statements: str) -> Cluster:
    """Return a cluster after statements such as "t1 ADD COLUMN c INT" or "t2 row"; shard tN stands on node nN."""
    tables = shards.split()
    made = cluster(create, *(f"n{table[1:]}.{table}" for table in tables))
    for text in statements:
        table, _, what = text.partition(" ")
        node = f"n{table[1:]}"
        if what == "row":
            made.run(node, f"INSERT INTO {table} VALUES ()")
        elif what.split(" ")[0] in ("CREATE", "DROP", "TRUNCATE", "RENAME") and " TABLE " in f" {what} ":
            made.run(node, what)
        else:
            made.run(node, f"ALTER TABLE {table} {what}")
    return made


def written(outcome: Outcome) -> list[str]:
    """Return the logical DDL's statements, each on one line."""
    return [" ".join(sql.split()) for logical in outcome.logical for sql in logical.statements]


def placed(rows: Iterable[Row], outcome: Outcome) -> list[tuple[Row, DdlPlace | None]]:
    """Return where each row comes out; where coordination stops, nothing behind it does."""
    rows = [row for row in rows if outcome.stop is None or row.key < outcome.stop.key]
    transactions = [Touching(row.key, frozenset({row.shard})) for row in rows]
    places = arrange(transactions, outcome.effects)
    return [(row, place) for row, (_, place) in zip(rows, places, strict=True)]


def merged(rows: Iterable[Row], outcome: Outcome, start: Table | None, events: Iterable[Event] = ()) -> list[str]:
    """Return the merged order: DDL as their statements, rows as their shard and key.

    Each row that comes out must find a logical table that takes it, once its columns have the names they have there;
    only what its shard, or all shards, have dropped since (`events`) may be lacking.
    """
    drops = [(e.shard, e.key, {n.lower() for s in e.steps for n in s.drops}) for e in events if isinstance(e, ShardDdl)]
    out = placed(rows, outcome)
    by_key = {row.key: row for row, _ in out}
    waits = Waits(outcome.effects)
    entries: list[tuple[tuple[DdlPlace, int, OrderKey], str]] = []
    for logical in outcome.logical:
        entries += [((logical.place, 0, logical.place.key), " ".join(s.split())) for s in logical.statements]
    came = in_order([(Touching(row.key, frozenset({row.shard})), place) for row, place in out])
    for transaction, place in came:
        row = by_key[transaction.key]
        since = [names for shard, key, names in drops if shard == row.shard and row.key < key <= place.key]
        check_fits(row, place, outcome, start, waits, set().union(*since))
        entries.append(((place, 1, row.key), f"{row.shard.table}@{row.key.commit_tso}"))
    return [text for _, text in sorted(entries)]


def check_fits(
    row: Row, place: DdlPlace, outcome: Outcome, start: Table | None, waits: Waits, dropped: set[str]
) -> None:
    """Fail if a row has a column that the logical table has not, where it comes out."""
    before = [logical.table for logical in outcome.logical if logical.place <= place]
    table = before[-1] if before else start
    assert table is not None, f"{row} comes out where there is no logical table"
    names = {c.name.lower() for c in row.table.columns}
    for old, new in waits.renames(row.shard, row.key, place):
        names = {new.lower() if n == old.lower() else n for n in names}
    later = dropped_later(row, place, outcome)
    lacking = names - {c.name.lower() for c in table.columns} - later - dropped
    assert not lacking, f"{row.shard} at {row.key.commit_tso} has {lacking}, the logical table at {place} has not"


def dropped_later(row: Row, place: DdlPlace, outcome: Outcome) -> set[str]:
    """Return columns that the logical table no longer has since all shards dropped them."""
    tables = [logical.table for logical in outcome.logical if row.key < logical.place.key and logical.place <= place]
    had = [{c.name.lower() for c in table.columns} for table in tables if table is not None]
    return set().union(*had) - had[-1] if had else set()


def check_agreement(outcome: Outcome) -> None:
    """Fail unless nothing waits but a DROP TABLE, and the logical table is what the shards come to."""
    assert outcome.stop is None, outcome.stop
    dropped = {(ddl.shard, ddl.key) for one in outcome.open for ddl in one.ran if ddl.sql.startswith("DROP TABLE ")}
    waiting = {(effect.shard, effect.key) for effect in outcome.effects if effect.place is None}
    assert waiting <= dropped, outcome.open
    joined = join_all(outcome.members.values())
    assert joined is not None
    assert outcome.table is not None
    assert order(outcome.table, joined) == 0
