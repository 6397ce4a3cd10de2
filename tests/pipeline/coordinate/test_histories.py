"""What DDL makes of a node's tables, statement by statement, up to the first that nobody understands."""

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from binlog_merge.binlog.query_session import SessionVariables
from binlog_merge.errors import ChecksumMismatch, DdlNotUnderstoodError
from binlog_merge.pipeline.base.render_values import LogicalDdl
from binlog_merge.pipeline.base.state import NO_BOUND, Bound
from binlog_merge.pipeline.coordinate.driver import Added, cursor_of, done_by
from binlog_merge.pipeline.coordinate.histories import Extended, base_versions, extend_logical, extend_physical
from binlog_merge.pipeline.coordinate.statements import LISTED, Listing, NotCarried
from snapshot_store.ddl import parse_dump
from snapshot_store.history import SchemaHistory
from snapshot_store.store.merge import StoredSchemas
from snapshot_store.topology import Route, Topology
from snapshot_store.tso import ORIGIN, OrderKey
from tests.pipeline.coordinate.test_coordinating import ADD, CREATE, NODES, coordinated, key, out, ran, shown

BASE = "CREATE DATABASE d; USE d; CREATE TABLE t (id INT PRIMARY KEY, v INT);"


def part(node: str | None = None, dump: str = BASE) -> StoredSchemas:
    """Return what a store holds that has only a base schema: a node's, or the logical one."""
    tables, schemas = base_versions(parse_dump(dump), node, "base.sql")
    return StoredSchemas(SchemaHistory(tables, schemas), {})


def ran_on_a(
    *sqls: str, store: StoredSchemas | None = None, opaque: bool = False, topology: Topology | None = None
) -> Extended:
    """Run statements on node a at TSOs 10, 20, 30…"""
    store = store or part("a")
    ddls = [ran(10 * i, sql) for i, sql in enumerate(sqls, 1)]
    return extend_physical(store.history, cursor_of(store, "a", opaque), "a", ddls, topology or Topology())


def shapes(found: Extended) -> list[tuple[int, str, list[str] | None]]:
    """Return (TSO, table, columns) of new versions; None where the table is gone."""
    return [
        (v.key.commit_tso, v.name, None if v.table is None else [c.name for c in v.table.columns])
        for v in found.versions
    ]


def test_each_statement_takes_up_what_the_one_before_has_left() -> None:
    found = ran_on_a("ALTER TABLE t ADD c INT", "RENAME TABLE t TO u", "ALTER TABLE u DROP v", "DROP TABLE u")
    assert sorted(shapes(found)) == [
        (10, "t", ["id", "v", "c"]), (20, "t", None), (20, "u", ["id", "v", "c"]), (30, "u", ["id", "c"]),
        (40, "u", None),
    ]  # fmt: skip
    assert found.error is None and [one.ddl.sql for one in found.applied][-1] == "DROP TABLE u"
    assert all(v.node == "a" and v.position == v.key.commit_tso for v in found.versions)


def test_nothing_behind_a_statement_that_nobody_understands_is_applied() -> None:
    found = ran_on_a("ALTER TABLE t ADD c INT", "ALTER TABLE t FROBNICATE", "DROP TABLE t")
    assert shapes(found) == [(10, "t", ["id", "v", "c"])]
    assert isinstance(found.error, DdlNotUnderstoodError) and found.stopped == OrderKey(20, 0, 1, 1)
    assert found.tables == (("d", "t"),) and "binlog-merge schema set d.t" in found.error.remedy
    told = ran_on_a("ALTER TABLE t FROBNICATE", "CREATE TABLE u (id INT)", opaque=True)
    assert told.error is None and [v.opaque for v in told.versions] == [True, False] and len(told.notes) == 1


def test_what_is_known_of_no_table_is_passed_over_and_listed() -> None:
    found = ran_on_a("ALTER TABLE strange ADD c INT", "ALTER TABLE t ADD c INT")
    assert [one.sql for one in found.ignored] == ["ALTER TABLE strange ADD c INT"]
    assert [(ddl.sql, name) for ddl, name in found.passed] == [("ALTER TABLE strange ADD c INT", ("d", "strange"))]
    assert shapes(found) == [(20, "t", ["id", "v", "c"])]
    hidden = ran_on_a("ALTER TABLE t FROBNICATE", topology=Topology(ignored=("d",)))
    assert hidden.error is None and not hidden.versions and len(hidden.ignored) == 1


def test_a_table_that_no_base_has_takes_the_logical_shape_through_the_routes() -> None:
    topology = Topology((Route("d", "t_*", "d", "t"),))
    found = ran_on_a("ALTER TABLE t_3 ADD c INT", store=part(), topology=topology)
    assert shapes(found) == [(10, "t_3", ["id", "v", "c"])]
    assert ran_on_a("ALTER TABLE t_3 ADD c INT", store=part()).passed


def logical(*sqls: str) -> Extended:
    ddls = [LogicalDdl(key(10 * i), "d", sql, SessionVariables(timestamp=1)) for i, sql in enumerate(sqls, 1)]
    return extend_logical(cursor_of(part(), None, False), ddls, 80400)


def test_logical_ddl_follow_each_other_up_to_what_is_not_understood() -> None:
    found = logical("ALTER TABLE t ADD c INT", "ALTER TABLE t DROP c", "ALTER TABLE t GRIND", "DROP TABLE t")
    assert shapes(found) == [(10, "t", ["id", "v", "c"]), (20, "t", ["id", "v"])]
    assert found.stopped == key(30) and found.error is not None and found.error.order_key == key(30).text()
    assert all(v.node is None for v in found.versions)


def test_up_to_where_a_nodes_ddl_is_in_its_history() -> None:
    ddls = [ran(10, "ALTER TABLE t ADD c INT"), ran(20, "ALTER TABLE t FROBNICATE"), ran(30, "DROP TABLE t")]
    store = part("a")
    step = extend_physical(store.history, cursor_of(store, "a", False), "a", ddls, Topology())
    assert done_by([step], ddls, ORIGIN) == ddls[1].key.previous() < ddls[1].key
    assert done_by([Extended((), ())], ddls[:1], ORIGIN) == ddls[0].key
    assert done_by([], [], ddls[0].key) == ddls[0].key, "a node that ran nothing is where it was"


@given(st.lists(st.tuples(st.integers(1, 9), st.booleans())))
def test_of_all_that_stops_a_run_the_least_key_is_its_bound(found: Sequence[tuple[int, bool]]) -> None:
    added = Added()
    for number, (tso, by_step) in enumerate(found):
        error = ChecksumMismatch(str(number), order_key=key(tso))
        stopped = Extended((), (), stopped=key(tso), error=error, notes=(str(number),))
        added = added.plus([stopped]) if by_step else added.plus(notes=[str(number)], bound=Bound.of(error))
    assert added.notes == tuple(str(number) for number in range(len(found)))
    least = min((tso, number) for number, (tso, _) in enumerate(found)) if found else None
    assert added.bound.error is None if least is None else added.bound.error is not None
    if least is not None and added.bound.error is not None:
        assert (added.bound.key.commit_tso, int(added.bound.error.message)) == least
    assert Added().bound == NO_BOUND


# Where no marker stands that is alike on all nodes.
FAULTS = st.dictionaries(
    st.integers(20, 60).filter(lambda tso: tso % 10 != 5), st.sampled_from(["a", "b", "incomplete"]), max_size=4
)


@settings(max_examples=40)
@given(FAULTS)
def test_nothing_comes_out_at_or_behind_the_first_fault(faults: dict[int, str]) -> None:
    markers = {f"t{tso}": f"ALTER TABLE t ADD c{tso} INT" for tso in range(15, 65, 10)}
    lone = {f"t{tso}": "ALTER TABLE t ADD lone INT" for tso, kind in faults.items() if kind == "incomplete"}
    alike = {name: sql for name, sql in markers.items() if name not in lone}
    both = [shown(1, t10=CREATE, **markers | lone), shown(2, t10=CREATE, **alike)]
    ddls = {
        node: [ran(5, CREATE), *(ran(tso, "ALTER TABLE t GRIND") for tso in sorted(faults) if faults[tso] == node)]
        for node in NODES
    }
    found = coordinated(ddls, both)
    first = min(faults, default=None)
    assert [tso for tso, _ in out(found)] == [tso for tso in (10, *range(15, 65, 10)) if first is None or tso < first]
    if first is None:
        assert found.bound == NO_BOUND
    else:
        assert found.bound.key.commit_tso == first and found.bound.error is not None
        made = [v for v in found.new_tables if v.node is None and v.key < found.bound.key]
        assert [v.key.commit_tso for v in made] == [tso for tso, _ in out(found)]


def test_a_listing_counts_all_and_keeps_the_first_of_each_kind() -> None:
    listing = Listing()
    for kind in ("A", "B", "A"):
        listing.add(NotCarried("a", "f", i, "x" * 999, kind, "why") for i in range(LISTED - 1))
    assert listing.count == 3 * (LISTED - 1)
    one, two = listing.to_list()
    assert (one["kind"], one["count"], len(one["first"])) == ("A", 2 * (LISTED - 1), LISTED)
    assert (two["count"], len(two["first"])) == (LISTED - 1, LISTED - 1)
    assert [first["position"] for first in one["first"]] == [*range(LISTED - 1), 0]
    assert {len(first["sql"]) for first in one["first"]} == {300}


def test_what_is_said_of_markers_does_not_depend_on_what_nodes_ran() -> None:
    markers = [shown(1, t10=CREATE, t20=ADD), shown(2, t10=CREATE, t20=ADD)]
    ddls = {"a": [ran(9, CREATE), ran(18, ADD)], "b": [ran(9, CREATE), ran(19, ADD)]}
    assert out(coordinated({}, markers)) == out(coordinated(ddls, markers)) == [(10, CREATE), (20, ADD)]
