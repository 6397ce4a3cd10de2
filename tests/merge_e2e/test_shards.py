"""Shards without markers, as a merge coordinates them: what stays in the store, in any runs, and what stops it."""

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from binlog_merge.cli.output import summary
from binlog_merge.errors import ConfigError, ShardDdlStopped, StoreUnusable, UnknownTableSchema
from binlog_merge.moved_keys import place_of
from binlog_merge.pipeline.coordinate.shards.driver import LOG
from binlog_merge.pipeline.coordinate.shards.log import ShardLog
from binlog_merge.pipeline.coordinate.shards.log_json import entries_of, log_from_json, log_to_json
from binlog_merge.pipeline.coordinate.shards.notes import DECISIONS, LOCKS, Locks, decisions_to_json, locks_from_json
from binlog_merge.pipeline.coordinate.shards.values import Decided
from binlog_merge.pipeline.coordinate.stores import STORE_NAME, published_floor
from snapshot_store import parse_table
from snapshot_store.history import TableVersion
from snapshot_store.store.db import Store
from snapshot_store.tso import OrderKey
from tests.effort import keeping
from tests.merge_e2e.cases import FIXTURES, copy_case
from tests.merge_e2e.growth import GrowingNode, schedule
from tests.merge_e2e.local import merge, state_of, written
from tests.simulator import wire
from tests.soak.by_hand import Written

CASES = sorted(path.parent for path in FIXTURES.glob("shards-*/cluster.yaml"))
every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.name))


def logical(out: Path) -> list[TableVersion]:
    """Return the logical history of an output."""
    with Store.open(out / STORE_NAME, read_only=True) as store:
        return [v for v in store.load_history().versions if v.node is None]


def locks(out: Path) -> Locks:
    """Return what waits where an output ends."""
    with Store.open(out / STORE_NAME, read_only=True) as store:
        return locks_from_json(store.note(LOCKS) or "")


def nodes_of(config: Path) -> Mapping[str, GrowingNode]:
    """Take the nodes' files away, to be written bit by bit."""
    return {home.name: GrowingNode.of(home) for home in sorted((config.parent / "nodes").iterdir())}


@every_case
@pytest.mark.parametrize("seed", keeping([0], range(4)))
def test_many_runs_come_to_the_same_decisions(case: Path, seed: int, tmp_path: Path) -> None:
    whole = copy_case(case, tmp_path / "whole")
    merge(whole, tmp_path / "one")
    config = copy_case(case, tmp_path / "case")
    nodes = nodes_of(config)
    rng = random.Random(seed)
    rounds = schedule(nodes, 5, False, rng)
    for number, places in enumerate(rounds, 1):
        for name, place in places.items():
            nodes[name].grow(place, False)
        merge(config, tmp_path / "many", end_of_input=number == len(rounds), partitions=rng.choice([None, 4]))
        last = state_of(tmp_path / "many").last
        for name, state in last.nodes.items() if last is not None else ():
            nodes[name].remove_before(state.checkpoint["file"])
    assert written(tmp_path / "many") == written(tmp_path / "one")
    assert logical(tmp_path / "many") == logical(tmp_path / "one")
    one, many = locks(tmp_path / "one"), locks(tmp_path / "many")
    assert [(lock.id, lock.stage, lock.done, lock.awaited) for lock in many.locks] == [
        (lock.id, lock.stage, lock.done, lock.awaited) for lock in one.locks
    ]
    assert one.locks


@every_case
def test_the_result_says_what_waits(case: Path, tmp_path: Path) -> None:
    result = merge(case / "cluster.yaml", tmp_path / "out")
    (lock,) = result.locks
    (kept,) = locks(tmp_path / "out").locks
    assert lock["id"] == kept.id and lock["awaited"] == [str(shard) for shard in kept.awaited]
    assert result.waiting > 0
    lines = "\n".join(summary(result.to_dict(), "out"))
    assert f"for {lock['awaited'][0]}: {lock['id']}" in lines and "nothing is held back" not in lines


@every_case
def test_the_log_of_shards_is_the_same_after_it_was_text(case: Path, tmp_path: Path) -> None:
    merge(case / "cluster.yaml", tmp_path / "out")
    with Store.open(tmp_path / "out" / STORE_NAME, read_only=True) as store:
        ((since, text),) = entries_of(store.note(LOG) or "")
    assert OrderKey.parse(since) == published_floor(tmp_path / "out")
    log = log_from_json(text)
    assert log.starts and log.database_events and log.effects
    assert log_to_json(log) == text
    assert log_from_json(log_to_json(log)) == log


BEAT = "CREATE OR REPLACE VIEW v AS SELECT 1"  # time goes on
CREATE = "CREATE TABLE {} (`id` bigint NOT NULL, `name` varchar(20) DEFAULT NULL)"


class Shards(Written):
    """Nodes that run statements one after the other, each at a moment of its own."""

    def run(self, node: int, *statements: str) -> None:
        for sql in statements:
            self.tick()
            self.nodes[node].group([wire.query(sql, "shop_0")], ddl=True)

    def row(self, node: int, number: int, name: str = "t_0") -> None:
        self.tick()
        rows = self.insert(self.nodes[node], number, name=name)
        self.nodes[node].group([wire.query("BEGIN"), *rows, wire.xid(1)])

    def tick(self) -> None:
        clock = max(node.clock for node in self.nodes) + 1
        for node in self.nodes:
            node.clock = clock

    def case(
        self, folder: Path, mode: str, tables: str = "t_0", route: Mapping[str, Any] | None = None, **values: Any
    ) -> Path:
        """Write the case; every node begins with these tables."""
        path = self.save(folder, "gtid-time")
        document = yaml.safe_load(path.read_text())
        document["shard-mode"] = mode
        document["base"] = {"physical": {}}
        for node in self.nodes if tables else ():
            base = "".join(f"{CREATE.format(f'`{name}`')};\n" for name in tables.split())
            (folder / "base" / f"{node.source_id}.sql").write_text(f"CREATE DATABASE `shop_0`;\nUSE `shop_0`;\n{base}")
            document["base"]["physical"][node.source_id] = f"base/{node.source_id}.sql"
        document["routes"][0] |= route or {}
        path.write_text(yaml.safe_dump(document | values))
        return path


def ddl(out: Path) -> list[str]:
    """Return the logical DDL of an output, as its history has it."""
    return [" ".join(v.ddl.split()) for v in logical(out) if v.ddl]


def columns(version: TableVersion) -> list[str]:
    assert version.table is not None
    return [column.name for column in version.table.columns]


@pytest.mark.parametrize("mode", ["optimistic", "pessimistic"])
def test_without_a_logical_base_the_table_is_what_its_shards_are(mode: str, tmp_path: Path) -> None:
    shards = Shards(2)
    shards.row(0, 1)
    for node in (0, 1):
        shards.run(node, "ALTER TABLE t_0 ADD COLUMN c INT")
    merge(shards.case(tmp_path, mode), tmp_path / "out")
    first, second = logical(tmp_path / "out")
    assert (first.key, first.schema, first.name, columns(first)) == (OrderKey(0, 0, 0, 1), "shop", "t", ["id", "name"])
    assert (second.ddl, columns(second)) == ("ALTER TABLE `t` ADD COLUMN c INT", ["id", "name", "c"])
    assert not locks(tmp_path / "out").locks


@pytest.mark.parametrize("what", ["rows", "ddl"])
def test_a_shard_of_which_nothing_is_known_stops_the_merge(what: str, tmp_path: Path) -> None:
    shards = Shards(2)
    shards.row(0, 1)
    before = shards.nodes[1].ends[-1][1]
    if what == "rows":
        shards.row(1, 2, "t_9")
    else:
        shards.run(1, "ALTER TABLE t_9 ADD COLUMN c INT")
    shards.row(0, 3)
    config = shards.case(tmp_path, "pessimistic")
    with pytest.raises(UnknownTableSchema, match="neither a base schema nor a CREATE TABLE") as caught:
        merge(config, tmp_path / "out")
    error = caught.value
    assert (error.node, error.position) == ("dn-2", before)
    assert error.file is not None and error.order_key is not None and "base.physical" in error.remedy
    assert error.result.transactions == 1


def test_what_people_say_of_an_unknown_shard_makes_it_one(tmp_path: Path) -> None:
    shards = Shards(2)
    shards.row(0, 1)
    shards.row(1, 2, "t_9")
    for node in (0, 1):
        shards.run(node, "ALTER TABLE t_0 ADD COLUMN c INT")
    shards.row(1, 3, "t_9")
    config = shards.case(tmp_path, "pessimistic")
    with pytest.raises(UnknownTableSchema) as caught:
        merge(config, tmp_path / "out")
    key = OrderKey.parse(caught.value.order_key or "").previous()
    table = parse_table(CREATE.format("t_9")).renamed("shop_0", "t_9")
    with Store.open(tmp_path / "out" / STORE_NAME) as store:
        store.append_versions([TableVersion(key, 0, "shop_0", "t_9", table, node="dn-2", origin="operator")])
    for _ in range(2):
        merge(config, tmp_path / "out")
        (lock,) = locks(tmp_path / "out").locks
        assert [shard.table for shard in lock.awaited] == ["t_9"] and len(lock.done) == 2


def test_create_table_select_on_a_shard(tmp_path: Path) -> None:
    """Its rows come with it, in a transaction; the statement that comes out must not open one."""
    shards = Shards(1)
    shards.run(0, "CREATE DATABASE shop_0")
    shards.tick()
    create = "CREATE TABLE `t_0` (`id` bigint NOT NULL, `name` varchar(20) DEFAULT NULL) START TRANSACTION"
    rows = shards.insert(shards.nodes[0], 1)
    shards.nodes[0].group([wire.query("BEGIN"), wire.query(create, "shop_0"), *rows, wire.xid(1)], ddl=True)
    result = merge(shards.case(tmp_path, "optimistic", tables=""), tmp_path / "out")
    assert [sql.split("(")[0].strip() for sql in ddl(tmp_path / "out")] == ["CREATE TABLE `t`"]
    assert "START TRANSACTION" not in ddl(tmp_path / "out")[0]
    assert (result.transactions, result.ddl) == (3, 2)


def test_node_numbers_leave_room_for_ranks(tmp_path: Path) -> None:
    shards = Shards(1)
    config = shards.case(tmp_path, "optimistic")
    document = yaml.safe_load(config.read_text())
    document["nodes"][0]["node-number"] = 1000
    config.write_text(yaml.safe_dump(document))
    with pytest.raises(ConfigError, match="a node has the number 1000"):
        merge(config, tmp_path / "out")


def test_different_ddl_stops_the_merge_before_it(tmp_path: Path) -> None:
    shards = Shards(2)
    shards.run(0, "ALTER TABLE t_0 ADD COLUMN c INT")
    shards.row(1, 1)
    before = shards.nodes[1].ends[-1][1]
    shards.run(1, "ALTER TABLE t_0 DROP COLUMN name")
    config = shards.case(tmp_path, "pessimistic")
    for _ in range(2):
        with pytest.raises(ShardDdlStopped, match=r"runs 'ALTER TABLE .* DROP COLUMN name' where dn-1") as caught:
            merge(config, tmp_path / "out")
        assert (caught.value.node, caught.value.position) == ("dn-2", before)
        assert locks(tmp_path / "out").stop == OrderKey.parse(caught.value.order_key or "")


def test_shards_that_are_made_unlike_each_other_need_another_beginning(tmp_path: Path) -> None:
    shards = Shards(2)
    for node, type_ in enumerate(("INT", "VARCHAR(20)")):
        shards.run(node, "CREATE DATABASE shop_0", f"CREATE TABLE t_0 (id BIGINT NOT NULL, v {type_})")
    config = shards.case(tmp_path, "pessimistic")
    document = yaml.safe_load(config.read_text())
    del document["base"]
    config.write_text(yaml.safe_dump(document))
    with pytest.raises(ShardDdlStopped, match="dn-2") as caught:
        merge(config, tmp_path / "out")
    assert "base.physical" in (caught.value.remedy or "") and "ddl resolve" not in (caught.value.remedy or "")


def test_rows_of_a_table_that_no_marker_made_say_how_to_do_without(tmp_path: Path) -> None:
    shards = Shards(1)
    shards.run(0, CREATE.format("x"))
    shards.row(0, 1, "x")
    shards.run(0, "DROP TABLE x")
    with pytest.raises(UnknownTableSchema) as caught:
        merge(shards.case(tmp_path / "marker", "marker"), tmp_path / "out")
    assert (caught.value.remedy or "").startswith("if the nodes write no markers, say how to do without")
    assert merge(shards.case(tmp_path / "without", "pessimistic"), tmp_path / "instead").transactions == 4


def test_a_node_that_joins_brings_its_shards(tmp_path: Path) -> None:
    shards = Shards(3)
    for node in (0, 1):
        shards.run(node, "ALTER TABLE t_0 ADD COLUMN c INT")
    config = shards.case(tmp_path, "pessimistic")
    document = yaml.safe_load(config.read_text())
    document["base"]["physical"].pop("dn-3")
    config.write_text(yaml.safe_dump(document | {"nodes": document["nodes"][:2]}))
    merge(config, tmp_path / "out", end_of_input=False)
    shards.run(2, "CREATE DATABASE shop_0", "CREATE TABLE t_0 (id bigint NOT NULL, name varchar(20), c int)")
    for node in (0, 2):
        shards.run(node, "ALTER TABLE t_0 ADD COLUMN d INT")
    shards.save(tmp_path, "gtid-time")
    config.write_text(yaml.safe_dump(document))
    merge(config, tmp_path / "out")
    assert ddl(tmp_path / "out") == ["ALTER TABLE `t` ADD COLUMN c INT"]
    (lock,) = locks(tmp_path / "out").locks
    assert [shard.node for shard in lock.done] == ["dn-1", "dn-3"]
    assert [shard.node for shard in lock.awaited] == ["dn-2"]


@pytest.mark.parametrize("runs", [1, 2])
def test_tables_that_gh_ost_makes_are_no_shards_but_take_their_places(runs: int, tmp_path: Path) -> None:
    shards = Shards(2)
    for node in (0, 1):
        shards.run(
            node,
            "CREATE /* gh-ost */ TABLE _t_0_ghc (id INT)",
            "CREATE /* gh-ost */ TABLE _t_0_gho LIKE t_0",
            "ALTER TABLE _t_0_gho CHANGE COLUMN name title VARCHAR(20)",
        )
        shards.row(node, 1, "_t_0_gho")
    config = shards.case(tmp_path, "pessimistic")
    if runs == 2:
        merge(config, tmp_path / "out", end_of_input=False)
    for node in (0, 1):
        shards.run(node, "RENAME TABLE t_0 TO _t_0_del, _t_0_gho TO t_0", "DROP TABLE _t_0_del, _t_0_ghc")
    shards.case(tmp_path, "pessimistic")
    merge(config, tmp_path / "out")
    assert ddl(tmp_path / "out") == ["ALTER TABLE `t` CHANGE COLUMN name title VARCHAR(20)"]
    assert not locks(tmp_path / "out").locks


def test_databases_come_with_the_first_shard_and_go_with_the_last(tmp_path: Path) -> None:
    shards = Shards(2)
    for node in (0, 1):
        shards.run(
            node,
            "CREATE DATABASE shop_0 CHARACTER SET latin1",
            f"{CREATE.format('t_0')} DEFAULT CHARSET=utf8mb4",
            "ALTER DATABASE shop_0 CHARACTER SET utf8mb4",
            "CREATE TABLE other (id INT)",  # without a route it keeps its name, and needs a database
        )
    settings = {"shard-doubts": "warn"}  # until the last shard is dropped, the first one's rows stay
    config = shards.case(tmp_path, "pessimistic", tables="", **settings)
    merge(config, tmp_path / "out", end_of_input=False)
    for node in (0, 1):
        shards.run(node, "DROP DATABASE shop_0")
    shards.case(tmp_path, "pessimistic", tables="", **settings)
    merge(config, tmp_path / "out")
    with Store.open(tmp_path / "out" / STORE_NAME, read_only=True) as store:
        changes = [v for v in store.load_history().schema_versions if v.node is None]
    assert [v.ddl for v in changes] == [
        "CREATE DATABASE `shop` CHARACTER SET latin1 COLLATE latin1_swedish_ci",
        "ALTER DATABASE `shop` CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci",
        "CREATE DATABASE `shop_0` CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci",
        "DROP DATABASE `shop`",
    ]
    made = [v for v in logical(tmp_path / "out") if (v.schema, v.name) == ("shop", "t")]
    assert [(v.ddl.split("(")[0], v.table is None) for v in made] == [
        ("CREATE TABLE `t` ", False),
        ("DROP DATABASE `shop`", True),
    ]


@pytest.mark.parametrize(
    ("sql", "written", "ranks"),
    [
        ("DROP TABLE t_0, v_0", ["DROP TABLE `t`", "DROP TABLE `v_0`"], [0, 1]),
        (
            "RENAME TABLE t_0 TO u_0, v_0 TO w_0",
            ["RENAME TABLE `shop`.`t` TO `shop_0`.`u_0`, `shop_0`.`v_0` TO `shop_0`.`w_0`"],
            [0, 0, 0, 0],  # the versions of four names
        ),
        (
            "ALTER TABLE t_0 ADD COLUMN x INT, RENAME u_0",
            ["ALTER TABLE `t` ADD COLUMN x INT", "RENAME TABLE `shop`.`t` TO `shop_0`.`u_0`"],
            [0, 1, 1],
        ),
    ],
)
def test_each_statement_of_one_event_has_a_place_of_its_own(
    sql: str, written: list[str], ranks: list[int], tmp_path: Path
) -> None:
    shards = Shards(1)
    shards.run(0, sql)
    config = shards.case(tmp_path, "pessimistic", tables="t_0 v_0")
    merge(config, tmp_path / "out")
    versions = [v for v in logical(tmp_path / "out") if v.ddl]
    assert list(dict.fromkeys(v.ddl for v in versions)) == written
    assert [place_of(v.key).rank for v in versions] == ranks
    assert len({place_of(v.key).key for v in versions}) == 1


def test_decisions_that_wait_in_the_store_are_taken_in(tmp_path: Path) -> None:
    shards = Shards(2)
    shards.run(0, "ALTER TABLE t_0 ADD COLUMN c INT")
    shards.row(1, 1)
    config = shards.case(tmp_path, "pessimistic")
    merge(config, tmp_path / "out")
    (lock,) = locks(tmp_path / "out").locks
    assert (lock.mode, lock.stage, lock.ran[0].sql) == ("pessimistic", "waiting", "ALTER TABLE t_0 ADD COLUMN c INT")
    assert Path(lock.ran[0].file).name == "binlog.000001" and lock.ran[0].position > 4
    shards.row(1, 2)
    shards.case(tmp_path, "pessimistic")
    floor = published_floor(tmp_path / "out")
    sql = "ALTER TABLE `shop`.`t` ADD COLUMN c BIGINT"
    decided = Decided(floor._replace(seq=floor.seq + 1, node_seq=0), lock.id, "emit", sql)
    with Store.open(tmp_path / "out" / STORE_NAME) as store:
        store.set_note(DECISIONS, decisions_to_json([decided]))
    for _ in range(2):
        merge(config, tmp_path / "out")
        assert ddl(tmp_path / "out") == ["ALTER TABLE `t` ADD COLUMN c BIGINT"]
        assert not locks(tmp_path / "out").locks


def test_a_corrected_store_brings_its_decisions_to_a_merge_from_the_start(tmp_path: Path) -> None:
    shards = Shards(2)
    shards.run(0, "ALTER TABLE t_0 ADD COLUMN c INT")
    shards.row(1, 1)
    config = shards.case(tmp_path, "pessimistic")
    merge(config, tmp_path / "out")
    (lock,) = locks(tmp_path / "out").locks
    floor = published_floor(tmp_path / "out")
    decided = Decided(floor._replace(seq=floor.seq + 1, node_seq=0), lock.id, "skip")
    with Store.open(tmp_path / "out" / STORE_NAME) as store:
        store.set_note(DECISIONS, decisions_to_json([decided]))
    shards.row(1, 2)
    config = shards.case(tmp_path, "pessimistic", base={"store": str(tmp_path / "out" / STORE_NAME)})
    merge(config, tmp_path / "again")
    assert not locks(tmp_path / "again").locks


def test_a_store_that_lost_the_log_of_shards_stops_the_merge(tmp_path: Path) -> None:
    shards = Shards(1)
    shards.row(0, 1)
    config = shards.case(tmp_path, "pessimistic")
    merge(config, tmp_path / "out")
    with Store.open(tmp_path / "out" / STORE_NAME) as store:
        text = store.note(LOG)
        store.set_note(LOG, "[1]")
    assert text is not None
    with pytest.raises(StoreUnusable, match="not the JSON of shards"):
        merge(config, tmp_path / "out")
    (tmp_path / "out" / STORE_NAME).unlink()
    with pytest.raises(StoreUnusable, match="does not say what the shards have run before"):
        merge(config, tmp_path / "out")


def test_what_is_settled_is_not_looked_at_again(tmp_path: Path) -> None:
    """Decisions that make names differ for good, and shards that are gone, count from run to run all the same."""
    shards = Shards(2)
    settings = {"shard-doubts": "warn"}  # shards are dropped before the last one is
    config = shards.case(tmp_path, "pessimistic", **settings)
    out = tmp_path / "out"

    def run(decide: bool = False) -> ShardLog:
        shards.case(tmp_path, "pessimistic", **settings)
        if decide:
            (lock,) = locks(out).locks
            floor = published_floor(out)
            decided = Decided(floor._replace(seq=floor.seq + 1, node_seq=0), lock.id, "skip")
            with Store.open(out / STORE_NAME) as store:
                store.set_note(DECISIONS, decisions_to_json([decided]))
        merge(config, out, end_of_input=False)
        with Store.open(out / STORE_NAME, read_only=True) as store:
            text = entries_of(store.note(LOG) or "")[-1][1]
        assert log_to_json(log_from_json(text)) == text
        return log_from_json(text)

    for node in (0, 1):
        shards.run(node, "ALTER TABLE t_0 ADD COLUMN c INT", "CREATE TABLE other (a INT)")
    shards.run(0, BEAT)
    shards.run(1, BEAT)
    assert not run().events
    shards.run(0, "ALTER TABLE t_0 RENAME COLUMN c TO d")
    shards.run(1, "CREATE TABLE t_1 LIKE t_0", BEAT)
    shards.run(0, BEAT)
    log = run()
    assert [type(event).__name__ for _, event in log.events] == ["ShardDdl", "Joins"]
    for node in (0, 1):
        shards.run(node, BEAT)
    run(decide=True)
    for name in ("t_0", "t_1"):
        shards.run(1, f"ALTER TABLE {name} RENAME COLUMN c TO d")
    for node in (0, 1):
        shards.run(node, BEAT)
    log = run()
    assert not log.events and {e.shard.table for e in log.effects} == {"t_0", "t_1"}
    for table in ("t_0", "t_1"):
        shards.run(1, f"DROP TABLE {table}")
    shards.run(0, "TRUNCATE TABLE t_0", BEAT)
    shards.run(1, BEAT)
    log = run()
    # One shard was emptied and the others are gone: that came out as one statement, and no rows are left.
    assert not log.starts["shop", "t"][1].rows_left
    merge(config, out)
    assert ddl(out)[-1] == "TRUNCATE TABLE `t`"
    whole = shards.case(tmp_path, "pessimistic", **settings, base={"store": str(out / STORE_NAME)})
    merge(whole, tmp_path / "whole")
    assert written(tmp_path / "whole") == written(out)


def test_modes_may_differ_from_table_to_table(tmp_path: Path) -> None:
    shards = Shards(2)
    shards.run(0, "ALTER TABLE t_0 ADD COLUMN c INT", "ALTER TABLE u_0 ADD COLUMN c INT", "ALTER TABLE m ADD c INT")
    route = {"schema-pattern": "shop_*", "table-pattern": "u_*", "target-schema": "shop", "target-table": "u"}
    only_markers = {"missing": "warn"}  # no marker will say when `m` changes
    config = shards.case(tmp_path, "marker", "t_0 u_0 m", {"shard-mode": "optimistic"}, markers=only_markers)
    document = yaml.safe_load(config.read_text())
    document["routes"].append(route | {"shard-mode": "pessimistic"})
    config.write_text(yaml.safe_dump(document))
    merge(config, tmp_path / "out")
    assert ddl(tmp_path / "out") == ["ALTER TABLE `t` ADD COLUMN c INT"]
    assert [lock.mode for lock in locks(tmp_path / "out").locks if lock.stage == "waiting"] == ["pessimistic"]


def test_not_for_polardbx(tmp_path: Path) -> None:
    config = copy_case(
        FIXTURES / "polardbx-rename", tmp_path, lambda values: values.update({"shard-mode": "optimistic"})
    )
    with pytest.raises(ConfigError, match="the nodes are PolarDB-X's"):
        merge(config, tmp_path / "out")


def test_without_any_carrier_shards_are_ordered_by_their_clocks(tmp_path: Path) -> None:
    shards = Shards(2)
    shards.row(0, 1)
    config = shards.case(tmp_path, "optimistic", **{"commit-tso": {"carrier": "auto"}})
    assert merge(config, tmp_path / "out").carrier == "gtid-time"
