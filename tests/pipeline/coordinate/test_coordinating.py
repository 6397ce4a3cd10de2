"""The coordinate stage on values: what markers, nodes' DDL and shards come to, and where it stops."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest

from binlog_merge.binlog.query_session import SessionVariables
from binlog_merge.config.merge_config import MergeConfig, topology_of
from binlog_merge.errors import DdlNotUnderstoodError, MarkerIncomplete, UnannouncedDdl
from binlog_merge.pipeline.base.state import GREATEST_KEY, NO_BOUND, Bound
from binlog_merge.pipeline.coordinate.driver import CoordinationInput, CoordinationReader, coordinate
from binlog_merge.pipeline.coordinate.histories import PhysicalDdl, base_versions
from binlog_merge.pipeline.coordinate.marker.announced import Announced, Change
from binlog_merge.pipeline.coordinate.marker.driver import cluster_view, kept_after, take_messages
from binlog_merge.pipeline.coordinate.marker.markers import PUBLIC, Instruction, Marker, MarkerCopy
from binlog_merge.pipeline.coordinate.marker.sightings import NodeMarkers, Sighting
from binlog_merge.pipeline.coordinate.shards.driver import KnownShards, modes_of
from binlog_merge.pipeline.coordinate.shards.log import no_rows
from binlog_merge.pipeline.coordinate.shards.tools import FirstRows
from binlog_merge.pipeline.coordinate.value import Coordination, made_of
from snapshot_store.ddl import DdlSession, ParsedDdl, parse_dump
from snapshot_store.history import SchemaHistory
from snapshot_store.store.merge import StoredSchemas
from snapshot_store.tso import ORIGIN, OrderKey

NODES = ("a", "b")
CREATE = "CREATE TABLE t (id INT PRIMARY KEY)"
ADD = "ALTER TABLE t ADD c INT"


class Given:
    """`CoordinationReader` of which everything is given: an empty store, and logs without surprises."""

    scanned: tuple[()] = ()

    def part(self, *_: Any) -> StoredSchemas:
        return StoredSchemas(SchemaHistory(), {})

    def decisions(self) -> tuple[()]:
        return ()

    def unknown_rows(self, *_: Any) -> Bound:
        return NO_BOUND

    def counted(self, *_: Any) -> None:
        return None

    def rows_at(self, *_: Any) -> None:
        return None

    def first_rows(self, *_: Any) -> FirstRows:
        return no_rows

    def stray_markers(self, *_: Any) -> Bound:
        return NO_BOUND

    def physical_tables(self, *_: Any) -> set[Any]:
        return set()


def config_of(**values: Any) -> MergeConfig:
    nodes = [{"source-id": name, "files": f"/{name}/*"} for name in NODES]
    return MergeConfig.model_validate({"version": 1, "name": "c", "nodes": nodes, **values}, by_alias=True)


def key(tso: int, node: int = 0) -> OrderKey:
    return OrderKey(tso, 0, 0, node)


def ran(tso: int, sql: str) -> PhysicalDdl:
    return PhysicalDdl(OrderKey(tso, 0, 1, 1), "binlog.1", tso, "d", ParsedDdl.of(sql, DdlSession()))


def shown(node: int, **messages: Any) -> NodeMarkers:
    """Return a node that shows markers: t10="CREATE …" at TSO 10, or an instruction."""
    return NodeMarkers(
        tuple(
            Sighting(
                key(int(at[1:])),
                node,
                NODES[node - 1],
                "binlog.1",
                4,
                MarkerCopy(
                    message if isinstance(message, Instruction) else Marker(None, "DDL", "d", "t", message, PUBLIC, ""),
                    SessionVariables(),
                ),
            )
            for at, message in messages.items()
        )
    )


class Based(Given):
    """The same with a logical base."""

    def __init__(self, sql: str) -> None:
        self._history = SchemaHistory(*base_versions(parse_dump(sql), None, "base.sql"))

    def part(self, *_: Any) -> StoredSchemas:
        return StoredSchemas(self._history, {})


def coordinated(
    ddls: Mapping[str, Sequence[PhysicalDdl]],
    markers: Sequence[NodeMarkers] = (),
    limit: OrderKey = GREATEST_KEY,
    kept: Sequence[Change] = (),
    given: Given | None = None,
    **config: Any,
) -> Coordination:
    settings = config_of(**config)
    modes = modes_of(settings, topology_of(settings))
    numbers = [(1, "a"), (2, "b")]
    known = CoordinationInput(
        settings, 80400, ORIGIN, NODES, (), {name: ddls.get(name, ()) for name in NODES}, {}, markers,
        cluster_view(settings, False, numbers, {}, markers, {}),
        KnownShards(modes, ORIGIN, settings.coordinates),
        Announced(settings.markers, modes, ORIGIN, kept, active=not settings.coordinates),
    )  # fmt: skip
    return coordinate(known, cast(CoordinationReader, given or Given()), limit)


def out(found: Coordination) -> list[tuple[int, str]]:
    return [(ddl.key.commit_tso, ddl.sql) for ddl in found.ddl]


def test_a_ddl_comes_out_where_its_marker_stands_on_every_node() -> None:
    found = coordinated({}, [shown(1, t10=CREATE, t20=ADD), shown(2, t10=CREATE, t20=ADD)])
    assert out(found) == [(10, CREATE), (20, ADD)] and found.bound == NO_BOUND
    assert [len(v.table.columns) for v in found.new_tables if v.table is not None] == [1, 2]


def test_below_a_limit_a_marker_is_complete_or_stops_the_run() -> None:
    markers = [shown(1, t10=CREATE, t20=ADD, t30="DROP TABLE t"), shown(2, t10=CREATE)]
    found = coordinated({}, markers)
    assert out(found) == [(10, CREATE)] and found.bound.key == key(20)
    assert isinstance(found.bound.error, MarkerIncomplete) and found.bound.error.node == "a"
    assert coordinated({}, markers, limit=key(20)).bound == NO_BOUND


def test_the_first_of_all_that_is_not_understood_is_the_bound() -> None:
    both = [shown(1, t10=CREATE, t40=ADD), shown(2, t10=CREATE, t40=ADD)]
    ddls = {
        "a": [ran(5, CREATE), ran(30, "ALTER TABLE t FROBNICATE")],
        "b": [ran(6, CREATE), ran(20, "ALTER TABLE t GRIND")],
    }
    found = coordinated(ddls, both)
    assert isinstance(found.bound.error, DdlNotUnderstoodError)
    assert (found.bound.error.node, found.bound.key) == ("b", OrderKey(20, 0, 1, 1))
    assert found.bound.tables == (("d", "t"),) and out(found) == [(10, CREATE)]
    assert found.ddl_done == {"a": OrderKey(30, 0, 1, 0), "b": OrderKey(20, 0, 1, 0)}
    made = made_of(found, Bound(key(10), found.bound.error, found.bound.tables), ORIGIN, None)
    assert {v.node for v in made.tables} == {"a", "b"}, "logical versions from the bound on are made again"
    assert made.stop is not None and made.stop.tables == (("d", "t"),)


def test_without_any_marker_a_ddl_that_changes_rows_stops_the_run() -> None:
    ddls = {"a": [ran(10, CREATE), ran(20, ADD)], "b": []}
    found = coordinated(ddls)
    assert isinstance(found.bound.error, UnannouncedDdl) and found.bound.key.commit_tso == 10
    assert not found.seen
    seen = coordinated(ddls, [shown(1, t9=CREATE), shown(2, t9=CREATE)])
    assert seen.seen and seen.bound == NO_BOUND and [w for w in seen.notes if "no marker tells of" in w]
    assert [change.key.commit_tso for change in seen.pending] == [20]


SHOP = "CREATE DATABASE shop; USE shop; CREATE TABLE orders (id INT PRIMARY KEY)"
ROUTES = [
    {"schema-pattern": "s_[0-9]", "table-pattern": "o_[0-9]*_?", "target-schema": "shop", "target-table": "orders"},
    {"schema-pattern": "s_[0-9]", "target-schema": "shop"},
]


@pytest.mark.parametrize(
    ("sql", "routes", "stops"),
    [
        ("DROP DATABASE shop", [], True),
        ("DROP DATABASE s_7", ROUTES[:1], True),
        ("DROP DATABASE s_7", ROUTES[1:], True),
        ("DROP DATABASE s_7", [], False),
        ("DROP DATABASE t_7", ROUTES, False),
    ],
)
def test_a_database_that_only_the_logical_base_knows_is_not_dropped_unseen(
    sql: str, routes: Sequence[Any], stops: bool
) -> None:
    """The target would keep its rows, whether or not the log shows what the node had there."""
    with_one_marker = [shown(1, t5=CREATE), shown(2, t5=CREATE)]
    found = coordinated({"a": [ran(20, sql)]}, given=Based(SHOP), routes=list(routes))
    seen = coordinated({"a": [ran(20, sql)]}, with_one_marker, given=Based(SHOP), routes=list(routes))
    assert [(each.node, each.sql) for of in found.ignored.listed.values() for each in of] == [("a", sql)]
    assert seen.bound == NO_BOUND and bool(seen.notes) == stops
    if stops:
        assert isinstance(found.bound.error, UnannouncedDdl) and found.bound.key.commit_tso == 20
        assert "changes rows of shop.orders" in found.bound.error.message
        assert seen.notes[0].startswith(f"shop.orders: no marker tells of '{sql}'")
        told = [shown(1, t5=CREATE, t30="DROP DATABASE shop"), shown(2, t5=CREATE, t30="DROP DATABASE shop")]
        assert not coordinated({"a": [ran(20, sql)]}, told, given=Based(SHOP), routes=list(routes)).notes
    else:
        assert found.bound == NO_BOUND


def test_shards_come_together_at_the_last_of_them() -> None:
    ddls = {"a": [ran(10, CREATE), ran(20, ADD)], "b": [ran(11, CREATE), ran(30, ADD)]}
    found = coordinated(ddls, **{"shard-mode": "pessimistic"})
    assert found.bound == NO_BOUND and found.holds is not None and not found.locks
    assert [tso for tso, sql in out(found) if sql.startswith("ALTER")] == [30]
    waits = coordinated({**ddls, "b": ddls["b"][:1]}, **{"shard-mode": "pessimistic"})
    assert [[str(shard) for shard in lock.awaited] for lock in waits.locks] == [["b/d/t"]]
    assert not [sql for _, sql in out(waits) if sql.startswith("ALTER")]


def test_who_leaves_the_cluster_holds_nothing_back() -> None:
    markers = [shown(1, t10=Instruction("StorageInstChange", '["a"]')), shown(2)]
    numbers = [(1, "a"), (2, "b")]
    view = cluster_view(config_of(), True, numbers, {}, markers, {"a": key(20), "b": key(20)})
    assert view.bound("a", None) == key(10) and view.bound("b", key(20)) is None
    assert view.required(key(5)) == [(2, "b")] and view.required(key(20)) == [(1, "a")]
    plain = cluster_view(config_of(), False, numbers, {}, markers, {})
    assert plain.bound("b", None) == ORIGIN and plain.bound("b", key(7)) == key(7)


def test_what_the_next_run_must_know_of_a_cluster() -> None:
    numbers = [(1, "a"), (2, "b")]
    kept = {"by_markers": False, "jobs": [[1, 2, 0]], "members": ["b"]}
    view = cluster_view(config_of(), True, numbers, kept, [shown(1), shown(2)], {})
    assert view.required(key(1)) == [(2, "b")]
    messages = take_messages(view, [], {}, "query", 80400)
    assert kept_after(messages, key(9)) == kept, "nothing was said since"


def test_a_warning_is_given_once_for_rows_that_went_and_taken_back_when_the_marker_has_come() -> None:
    """TRUNCATE again and again does not make what a run keeps grow."""
    copies = {"t9": CREATE, "t60": "TRUNCATE TABLE t"}
    markers = [shown(1, **copies), shown(2, **copies)]
    kept: tuple[Change, ...] = ()
    said, before = [], 0
    for limit in (30, 35, 50, 55, 70, 75):
        new = [ran(tso, "TRUNCATE TABLE t") for tso in (20, 40) if before <= tso < limit]
        before = limit
        found = coordinated({name: [ran(10, CREATE), *new] for name in NODES}, markers, key(limit), kept)
        assert len(found.pending) <= len(NODES)
        kept = tuple(Change.from_json(json.loads(json.dumps(each.to_json()))) for each in found.pending)
        said.append([note.partition("'")[0] for note in found.notes])
    warned, back = "d.t: no marker tells of ", "d.t: the warning that no marker tells of "
    assert said == [[warned], [], [warned], [], [back], []] and not kept
