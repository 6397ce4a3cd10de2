"""Questions to a small cluster's history: two shards of one table, one ahead of its DDL, one late; a dropped table."""

import dataclasses
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapshot_store.ask import questions
from snapshot_store.ask.skew import check, skew
from snapshot_store.ddl import parse_dump
from snapshot_store.errors import BeforeBase, UnknownTable
from snapshot_store.history import SchemaHistory, TableVersion
from snapshot_store.model import Table
from snapshot_store.names import Moment, NamePattern, since, time_of
from snapshot_store.store.db import Store
from snapshot_store.topology import SYSTEM_SCHEMAS, Route, Topology
from snapshot_store.tso import ORIGIN, OrderKey
from tests.snapshot_store.strategies import UNHURRIED, VERSIONS

TOPOLOGY = Topology((Route("shop_*", "orders_*", "shop", "orders"),), SYSTEM_SCHEMAS | {"__cdc__"})


def table(columns: str, name: str = "orders", schema: str = "shop") -> Table:
    (made,) = parse_dump(f"CREATE TABLE `{name}` ({columns})", schema).tables.values()
    return made


def key(tso: int, seq: int = 0, node: int = 0) -> OrderKey:
    return OrderKey(tso, 1, seq, node)


OLD, NEW = "id INT PRIMARY KEY, name VARCHAR(10)", "id INT PRIMARY KEY, note INT DEFAULT 5, name VARCHAR(20)"


def shard(number: int, columns: str) -> Table:
    return table(columns, f"orders_{number}", f"shop_{number}")


def version(
    at: OrderKey, made: Table | None, ddl: str = "", node: str | None = None, origin: str = "ddl"
) -> TableVersion:
    named = made or table("a INT", "gone")
    return TableVersion(at, 0, named.schema, named.name, made, ddl, node, f"{node or 'logical'}.1", 4, origin)


HISTORY = SchemaHistory().with_versions(
    [
        version(ORIGIN, table(OLD), origin="base"),
        version(key(30), table(NEW), "ALTER TABLE orders …", origin="marker"),
        version(key(40), table("a INT", "gone"), "CREATE TABLE gone (a INT)", origin="marker"),
        version(key(50), None, "DROP TABLE gone", origin="marker"),
        version(ORIGIN, shard(1, OLD), node="n1", origin="base"),
        version(key(20, 1, 1), shard(1, NEW), "ALTER TABLE orders_1 …", "n1"),
        version(ORIGIN, shard(2, OLD), node="n2", origin="base"),
        version(key(35, 1, 2), shard(2, NEW), "ALTER TABLE orders_2 …", "n2"),
        version(ORIGIN, table("x INT", "t", "mysql"), node="n2", origin="base"),
    ]
)
ORDERS = (None, "shop", "orders")
GONE = (None, "shop", "gone")


def names(text: str, **options: object) -> list[str]:
    found = questions.find(HISTORY, [NamePattern.parse(text)], topology=TOPOLOGY, **options)  # type: ignore[arg-type]
    return [questions.name_of(line) for line in found]


def test_find() -> None:
    assert names("shop.orders") == names("orders") == names("s?op.ord*") == ["shop.orders"]
    assert names("*") == ["shop.gone", "shop.orders"]
    assert names("orders", physical=True) == ["shop_1.orders_1 of node n1", "shop_2.orders_2 of node n2"]
    assert names("orders", physical=True, node="n2") == ["shop_2.orders_2 of node n2"]
    assert names("*.orders_1", node="n1") == ["shop_1.orders_1 of node n1"]
    assert names("`shop`.`orders`") == ["shop.orders"]
    with pytest.raises(UnknownTable, match=r"the logical history has no table shop\.ordres: is it shop\.orders "):
        names("shop.ordres")
    with pytest.raises(UnknownTable, match=r"no table `?shop\.\*"):
        names("`shop`.`*`")
    with pytest.raises(UnknownTable, match="no node has a physical table of nothing"):
        names("nothing", physical=True)


def test_the_store_finds_what_the_history_finds(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s") as store:
        store.append_versions(HISTORY.versions)
        store.set_topology(TOPOLOGY)
        assert store.topology() == TOPOLOGY
        for text in ("shop.orders", "orders", "s?op.*", "*", "shop_1.orders_1", "no_such", "*_1.*"):
            for options in ({}, {"physical": True}, {"node": "n1"}, {"physical": True, "node": "n2"}):
                pattern = [NamePattern.parse(text)]
                try:
                    expected = questions.find(HISTORY, pattern, topology=TOPOLOGY, **options)  # type: ignore[arg-type]
                except UnknownTable:
                    with pytest.raises(UnknownTable):
                        store.find(pattern, **options)  # type: ignore[arg-type]
                else:
                    assert store.find(pattern, **options) == expected  # type: ignore[arg-type]
                    part = store.history_of(expected)
                    assert set(part.versions) == {v for v in HISTORY.versions if (v.node, v.schema, v.name) in expected}
        at = Moment.at_tso(33)
        assert skew(store.history_at(at.key), TOPOLOGY, at) == skew(HISTORY, TOPOLOGY, at)


@pytest.mark.parametrize(
    ("moment", "columns"),
    [("0", 2), ("29", 2), ("30", 3), (key(29, 9, 9).text(), 2), (key(30).text(), 3), ("99", 3)],
)
def test_show_takes_in_what_committed_at_the_moment(moment: str, columns: int) -> None:
    (shown,) = questions.show(HISTORY, [ORDERS], Moment.parse(moment))
    assert shown.table is not None and len(shown.table.columns) == columns


def test_show_passes_over_what_was_not_there_if_something_was() -> None:
    assert [v.name for v in questions.show(HISTORY, [GONE, ORDERS], Moment.at_tso(60))] == ["orders"]
    with pytest.raises(UnknownTable, match=r"shop\.gone was gone at TSO 60: DROP TABLE gone"):
        questions.show(HISTORY, [GONE], Moment.at_tso(60))
    with pytest.raises(UnknownTable, match=r"shop\.gone did not exist yet at TSO 3: it was made by CREATE TABLE gone"):
        questions.show(HISTORY, [GONE], Moment.at_tso(3))


def test_before_the_base_nothing_is_guessed() -> None:
    late = SchemaHistory().with_versions([version(key(100), table(OLD), origin="base")])
    with pytest.raises(BeforeBase, match=r"shop\.orders was at TSO 99 is not known: .* the base from logical\.1"):
        questions.show(late, [ORDERS], Moment.at_tso(99))
    assert questions.show(late, [ORDERS], Moment.at_tso(100))
    begins = OrderKey(1_790_000_000_000 << 22, 0, 0, 0)
    with pytest.raises(BeforeBase, match="the binlogs begin at 2026-09-21"):
        questions.show(HISTORY, [ORDERS], Moment.parse("2020-01-01"), begins)
    with pytest.raises(BeforeBase, match="the binlogs begin at"):
        skew(HISTORY, TOPOLOGY, Moment.parse("2020-01-01"), beginning=begins)
    assert questions.show(HISTORY, [ORDERS], Moment.at_tso(1), begins)  # a place in the order, not a time


def test_history_tells_what_changed() -> None:
    made = questions.history(HISTORY, [ORDERS, GONE])
    assert [(c.version.name, c.kind, len(c.changes)) for c in made] == [
        ("orders", "base", 0),
        ("orders", "changed", 2),
        ("gone", "made", 0),
        ("gone", "dropped", 0),
    ]
    assert [c.kind for c in questions.history(HISTORY, [ORDERS], Moment.at_tso(30), Moment.at_tso(30))] == ["changed"]
    assert questions.history(HISTORY, [ORDERS], Moment.at_tso(31)) == ()


def test_diff_gives_the_statement_too() -> None:
    (one,) = questions.diff(HISTORY, [ORDERS], Moment.at_tso(1), Moment.at_tso(30))
    assert [type(change).__name__ for change in one.changes] == ["ColumnAdded", "ColumnChanged"]
    assert one.statements == (
        "ALTER TABLE `shop`.`orders`\n  ADD COLUMN `note` int DEFAULT '5' AFTER `id`,\n"
        "  MODIFY COLUMN `name` varchar(20) DEFAULT NULL",
    )
    (made,) = questions.diff(HISTORY, [GONE], Moment.at_tso(1), Moment.at_tso(45))
    assert made.before is None and made.statements[0].startswith("CREATE TABLE `shop`.`gone`")
    (dropped,) = questions.diff(HISTORY, [GONE], Moment.at_tso(45), Moment.at_tso(55))
    assert dropped.after is None and dropped.statements == ("DROP TABLE `shop`.`gone`",)
    with pytest.raises(UnknownTable):
        questions.diff(HISTORY, [GONE], Moment.at_tso(1), Moment.at_tso(2))


def test_skew_says_how_rows_are_reshaped() -> None:
    assert skew(HISTORY, TOPOLOGY, Moment.at_tso(1)).skews == ()
    ahead = skew(HISTORY, TOPOLOGY, Moment.at_tso(25))
    assert (ahead.compared, len(ahead.skews)) == (2, 1)
    (one,) = ahead.skews
    assert one.physical.node == "n1" and one.reshaped and not one.reordered
    assert [c.name for c in one.trimmed] == ["note"] and one.padded == ()
    assert [(a.type.length, b.type.length) for a, b in one.converted] == [(20, 10)]
    (behind,) = skew(HISTORY, TOPOLOGY, Moment.at_tso(32), [NamePattern.parse("shop.*")]).skews
    assert behind.physical.node == "n2" and [c.name for c in behind.padded] == ["note"]
    assert behind.statements[0].startswith("ALTER TABLE `shop_2`.`orders_2`")
    with pytest.raises(UnknownTable, match="no physical table makes x"):
        skew(HISTORY, TOPOLOGY, Moment.at_tso(32), [NamePattern.parse("x")])


def test_a_key_that_differs_is_no_reshaping() -> None:
    extra = HISTORY.with_versions([version(key(60), shard(1, f"{NEW}, KEY extra (note)"), "…", "n1")])
    (one,) = skew(extra, TOPOLOGY, Moment.at_tso(60)).skews
    assert not one.reshaped and [type(change).__name__ for change in one.changes] == ["IndexDropped"]


def test_check_goes_over_the_whole_history() -> None:
    checked = check(HISTORY, TOPOLOGY)
    assert (checked.logical_tables, checked.physical_tables, checked.versions) == (2, 2, 9)
    found = [(f.kind, f.node, f.begins.commit_tso, f.ends and f.ends.commit_tso) for f in checked.findings]
    assert found == [("behind", "n2", 30, 35), ("ahead", "n1", 20, 30)]
    assert [f.kind for f in checked.problems] == ["behind"]


def test_check_finds_what_lasts_and_what_has_no_counterpart() -> None:
    odd = HISTORY.with_versions(
        [
            version(key(60), shard(1, OLD), "…", "n1"),
            version(key(61), table("a INT", "local", "own"), "…", "n1"),
            version(key(62), table("a INT", "alone"), "…", origin="marker"),
        ]
    )
    found = {(f.kind, f.logical) for f in check(odd, TOPOLOGY).problems}
    assert found >= {
        ("lasting", ("shop", "orders")),
        ("no-logical-table", ("own", "local")),
        ("no-physical-table", ("shop", "alone")),
    }


def test_what_a_folded_history_cannot_tell_it_does_not_guess(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s") as store:
        store.append_versions(HISTORY.versions)
        store.fold(key(45))
        with pytest.raises(BeforeBase, match="folded"):
            store.history_at(OrderKey(25, 0, 0, 0))
        folded = store.load_history()
    with pytest.raises(BeforeBase):
        questions.show(folded, [ORDERS], Moment.at_tso(25))
    with pytest.raises(BeforeBase):
        skew(folded, TOPOLOGY, Moment.at_tso(25))
    assert questions.show(folded, [ORDERS], Moment.at_tso(45)) != ()
    assert [c.kind for c in questions.history(folded, [ORDERS])] == ["base"]


@pytest.mark.parametrize("text", ["", "a.b.c", ".", "x.", "2026-13-01", "yesterday", "1" * 53, "٣"])
def test_what_is_no_name_and_no_moment_is_refused(text: str) -> None:
    if text.count(".") != 0 or not text:
        with pytest.raises(ValueError, match="not a table's name"):
            NamePattern.parse(text)
    with pytest.raises(ValueError, match="no moment"):
        Moment.parse(text)


def test_times() -> None:
    midnight = Moment.parse("2026-09-21T00:00:00")
    assert midnight == Moment.at_time(time_of(midnight.first))  # type: ignore[arg-type]
    assert Moment.parse("2026-09-21T02:00:00+02:00").first == midnight.first
    assert since(midnight.first) == "2026-09-21T00:00:00.000Z"
    assert (since(ORIGIN), since(key(7))) == ("the beginning", "TSO 7")
    assert midnight.after.commit_tso - midnight.first.commit_tso == 1 << 22


@UNHURRIED
@given(VERSIONS, st.integers(0, 4))
def test_a_partial_history_answers_as_the_whole(versions: list[TableVersion], tso: int) -> None:
    whole = SchemaHistory().with_versions(versions)
    for line in {(v.node, v.schema, v.name) for v in whole.versions}:
        part = SchemaHistory(tuple(v for v in whole.versions if (v.node, v.schema, v.name) == line))
        moment = Moment.at_tso(tso)
        answers = []
        for one in (whole, part):
            try:
                answers.append(questions.table_at(one, line, moment))
            except UnknownTable as error:
                answers.append(str(error))  # type: ignore[arg-type]
        assert answers[0] == answers[1]
    assert dataclasses.is_dataclass(whole)


def test_what_only_table_maps_know_is_not_taken_for_dropped() -> None:
    made = TableVersion(OrderKey(5, 0, 0, 0), 0, "d", "new", None, "CREATE TABLE new FROB", "n1", origin="opaque")
    known = SchemaHistory().with_versions([made])
    line = ("n1", "d", "new")
    (shown,) = questions.show(known, [line], Moment.at_tso(6))
    assert shown.opaque and shown.table is None
    (change,) = questions.history(known, [line])
    assert change.kind == "opaque"
    assert skew(known, Topology(), Moment.at_tso(6)).compared == 0
