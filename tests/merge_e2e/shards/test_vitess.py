"""Rows that Vitess moves between shards, in its own words on real servers: each change comes out once.

VReplication copies what other shards have, and follows their changes, forth before traffic is switched and back
afterwards; in each of these transactions it writes down in `_vt` how far it is.
"""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from binlog_merge.cli import main as cli
from binlog_merge.cli.output import summary
from binlog_merge.errors import ConfigError, KeysInDoubt, ShardDdlStopped
from binlog_merge.files.remote_log import opened_log
from binlog_merge.log.log import Log
from binlog_merge.log.replay_options import history_of
from binlog_merge.pipeline.values import MergeResult
from binlog_merge.verification.whole import verify
from tests.effort import effort
from tests.merge_e2e.local import merge, written
from tests.merge_e2e.shards.renames import T
from tests.merge_e2e.shards.stage import Played, Route, Session, Stage, rows_of
from tests.merge_e2e.shards.test_renames import grown

pytestmark = [pytest.mark.mysql]

SIDECAR = (
    "CREATE DATABASE IF NOT EXISTS `_vt`",
    "CREATE TABLE IF NOT EXISTS `_vt`.copy_state (`id` bigint unsigned NOT NULL AUTO_INCREMENT, "
    "`vrepl_id` int NOT NULL, `table_name` varbinary(128) NOT NULL, `lastpk` mediumblob, PRIMARY KEY (`id`))",
    "CREATE TABLE IF NOT EXISTS `_vt`.vreplication (`id` int NOT NULL AUTO_INCREMENT, `workflow` varbinary(1000), "
    "`source` mediumblob NOT NULL, `pos` longblob NOT NULL, `stop_pos` longblob, PRIMARY KEY (`id`))",
    "INSERT INTO `_vt`.vreplication (workflow, source, pos) VALUES ('move', '', '')",
)
COPIED = "INSERT INTO `_vt`.copy_state (lastpk, vrepl_id, table_name) VALUES ('fields', 1, 't')"
FOLLOWED = "UPDATE `_vt`.vreplication SET pos = CONCAT(pos, '+')"
LEFT_OUT = {"ignore-schemas": ["_vt"], "ignore-transactions": ["_vt.vreplication", "_vt.copy_state"]}
CARRIED = 8
"""The transactions in which VReplication changes rows in `moved`."""
ROUTES = (Route("vt_shop", "t", ("shop", "t")), Route("vt_sharded", "t", ("shop", "t")))


def by_vreplication(session: Session, noted: str, *statements: str) -> None:
    """Run what VReplication runs in a transaction."""
    for sql in ("BEGIN", *statements, noted, "COMMIT"):
        session.run(sql)


def moved(old: Session, new: Session, source: str, target: str) -> None:
    """Move the rows with an odd id from one server to the other while an application changes them."""
    for session, database in ((old, source), (new, target)):
        session.run(f"CREATE DATABASE {database}")
        session.run(f"USE {database}")
        session.run(f"CREATE TABLE t {T}")
        for sql in SIDECAR:
            session.run(sql)
    old.run("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd')")
    by_vreplication(new, COPIED, "INSERT INTO t (id, v) VALUES (1, 'a'), (3, 'c')")
    old.run("UPDATE t SET v = 'a+' WHERE id = 1")
    old.run("INSERT INTO t VALUES (5, 'e'), (6, 'f')")
    by_vreplication(new, FOLLOWED, "UPDATE t SET v = 'a+' WHERE id = 1", "INSERT INTO t (id, v) VALUES (5, 'e')")
    old.run("DELETE FROM t WHERE id = 3")
    by_vreplication(new, FOLLOWED, "DELETE FROM t WHERE id = 3")
    # The traffic is switched here. VReplication goes back from now on.
    new.run("UPDATE t SET v = 'a++' WHERE id = 1")
    new.run("INSERT INTO t VALUES (3, 'c again'), (7, 'g')")
    old.run("UPDATE t SET v = 'b+' WHERE id = 2")
    by_vreplication(old, FOLLOWED, "UPDATE t SET v = 'a++' WHERE id = 1")
    by_vreplication(old, FOLLOWED, "INSERT INTO t (id, v) VALUES (3, 'c again'), (7, 'g')")
    new.run("DELETE FROM t WHERE id = 5")
    by_vreplication(old, FOLLOWED, "DELETE FROM t WHERE id = 5")
    # Switched back, and forth again.
    old.run("UPDATE t SET v = 'g+' WHERE id = 7")
    by_vreplication(new, FOLLOWED, "UPDATE t SET v = 'g+' WHERE id = 7")
    new.run("INSERT INTO t VALUES (8, 'h')")
    by_vreplication(old, FOLLOWED, "INSERT INTO t (id, v) VALUES (8, 'h')")


WANTED = [("1", "a++"), ("2", "b+"), ("3", "c again"), ("4", "d"), ("6", "f"), ("7", "g+"), ("8", "h")]


def played(
    stage: Stage, name: str, source: str, target: str, routes: Sequence[Route], complete: str = ""
) -> list[Played]:
    stage.clear()
    with stage.scene(name, routes) as (nodes, files):
        moved(nodes["n1"], nodes["n2"], source, target)
        if complete:
            nodes["n1"].run(complete)
            nodes["n2"].run("INSERT INTO t VALUES (9, 'i')")
    return list(files)


def configured(stage: Stage, name: str, files: Sequence[Played], **sections: Any) -> Path:
    return stage.configuration(name, files, "pessimistic", sections={"shard-doubts": "error", **sections})


def carried_out(stage: Stage, path: Path, table: tuple[str, str]) -> tuple[MergeResult, list[tuple[str | None, ...]]]:
    """Merge, verify, and carry out what came of it; returns the rows that a table has then."""
    out = path.parent / "out"
    result = merge(path, out)
    assert result.warnings == ()
    with opened_log(str(out)) as folder:
        assert not verify(Log(folder), history_of(folder.directory)).keys.faults
    stage.carry_out(out)
    return result, sorted(rows_of(stage.target, table, ["id", "v"]))


def test_a_reshard_comes_out_as_what_the_application_did(stage: Stage) -> None:
    files = played(stage, "reshard", "vt_shop", "vt_shop", ())
    path = configured(stage, "reshard", files, **LEFT_OUT)
    result, rows = carried_out(stage, path, ("vt_shop", "t"))
    assert rows == WANTED
    assert (result.ignored["transactions"], result.ignored["transactions_of"]) == (CARRIED, ["vt_shop.t"])
    told = "\n".join(summary(result.to_dict(), "out"))
    assert f"{CARRIED} transactions left out by `ignore-transactions`, of vt_shop.t" in told


@pytest.mark.parametrize("mode", ["pessimistic", "optimistic"])
def test_secondary_keys_that_are_deferred(stage: Stage, mode: str) -> None:
    """By default VReplication drops the keys of the tables that it fills, and adds them when it has copied the rows.

    In pessimistic mode this waits for the other shards, and says so.
    """
    stage.clear()
    with stage.scene(f"deferred-{mode}", ()) as (nodes, files):
        for session in nodes.values():
            for sql in ("CREATE DATABASE vt_shop", "USE vt_shop", f"CREATE TABLE t {T[:-1]}, KEY k (v))", *SIDECAR):
                session.run(sql)
        old, new = nodes["n1"], nodes["n2"]
        old.run("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
        new.run("ALTER TABLE `vt_shop`.`t` DROP KEY `k`")
        by_vreplication(new, COPIED, "INSERT INTO t (id, v) VALUES (1, 'a')")
        old.run("INSERT INTO t VALUES (4, 'd')")
        new.run("ALTER TABLE `vt_shop`.`t` ADD KEY `k` (`v`)")
        new.run("INSERT INTO t VALUES (3, 'c')")
        old.run("INSERT INTO t VALUES (6, 'f')")
    path = stage.configuration(f"deferred-{mode}", files, mode, sections={"shard-doubts": "error", **LEFT_OUT})
    result, rows = carried_out(stage, path, ("vt_shop", "t"))
    assert rows == [
        (str(n), v) for n, v in zip((1, 2, 3, 4, 6), "abcdf", strict=True) if n != 3 or mode == "optimistic"
    ]
    assert [(lock["sql"], lock["awaited"]) for lock in result.locks][:1] == (
        [] if mode == "optimistic" else [("ALTER TABLE `vt_shop`.`t` DROP KEY `k`", ["n1/vt_shop/t"])]
    )
    assert (result.waiting > 0) == (mode == "pessimistic")


def test_rows_that_are_copied_collide_where_nothing_is_said(stage: Stage) -> None:
    files = played(stage, "reshard-plain", "vt_shop", "vt_shop", ())
    path = configured(stage, "reshard-plain", files, **{"ignore-schemas": ["_vt"]})
    with pytest.raises(KeysInDoubt):
        merge(path, path.parent / "out")


def test_tables_that_move_to_another_keyspace(stage: Stage) -> None:
    files = played(stage, "move", "vt_shop", "vt_sharded", ROUTES)
    result, rows = carried_out(stage, configured(stage, "move", files, **LEFT_OUT), ("shop", "t"))
    assert rows == WANTED
    assert (result.ignored["transactions"], result.ignored["transactions_of"]) == (CARRIED, ["shop.t"])


def test_a_keyspace_whose_tables_keep_their_names_is_copied_as_it_is(stage: Stage) -> None:
    """Then they are two tables, and the copy is what fills the second one."""
    files = played(stage, "apart", "vt_shop", "vt_sharded", ())
    result, rows = carried_out(
        stage, configured(stage, "apart", files, **{"ignore-schemas": ["_vt"]}), ("vt_shop", "t")
    )
    assert rows == WANTED
    there = [row for row in WANTED if row[0] in "1378"]
    assert sorted(rows_of(stage.target, ("vt_sharded", "t"), ["id", "v"])) == there
    assert result.ignored["transactions"] == 0


@pytest.mark.parametrize("complete", ["drop table `vt_shop`.`t`", ""], ids=["dropped", "kept"])
def test_the_end_of_a_move(stage: Stage, complete: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`Complete` drops the table of the source: it waits for a decision, and holds nothing back."""
    files = played(stage, f"complete-{bool(complete)}", "vt_shop", "vt_sharded", ROUTES, complete or "DO 0")
    path = configured(stage, f"complete-{bool(complete)}", files, **LEFT_OUT)
    result, rows = carried_out(stage, path, ("shop", "t"))
    assert rows == sorted([*WANTED, ("9", "i")])
    assert [lock["sql"] for lock in result.locks] == ["DROP TABLE `shop`.`t`"] * bool(complete)
    if complete:
        (lock,) = result.locks
        assert cli.run(["ddl", "resolve", lock["id"], "--skip", "--merged", str(path.parent / "out")]) == 0
        capsys.readouterr()
        assert merge(path, path.parent / "out").locks == ()


def test_a_source_that_is_renamed_at_the_end_is_a_doubt(stage: Stage) -> None:
    files = played(
        stage, "renamed", "vt_shop", "vt_sharded", ROUTES, "rename table `vt_shop`.`t` TO `vt_shop`.`_t_old`"
    )
    path = configured(stage, "renamed", files, **LEFT_OUT)
    with pytest.raises(ShardDdlStopped, match="_t_old"):
        merge(path, path.parent / "out")


def test_a_dropped_table_that_comes_back_is_a_doubt(stage: Stage) -> None:
    """What is reverted is an online DDL: the rows are those that the target has dropped."""
    gone = "`_vt_hld_6ace8bcef73211ea87e9f875a4d24e90_20261201040101_`"
    stage.clear()
    with stage.scene("back", ()) as (nodes, files):
        for sql in ("CREATE DATABASE vt_shop", "USE vt_shop", f"CREATE TABLE t {T}", "INSERT INTO t VALUES (1, 'a')"):
            nodes["n1"].run(sql)
        nodes["n1"].run(f"RENAME TABLE `t` TO {gone}")
        nodes["n1"].run(f"RENAME TABLE {gone} TO `t`")
    path = configured(stage, "back", files, **LEFT_OUT)
    with pytest.raises(ShardDdlStopped, match="RENAME TABLE"):
        merge(path, path.parent / "out")


def test_a_sidecar_database_that_would_come_out_stops_the_merge(stage: Stage) -> None:
    files = played(stage, "sidecar", "vt_shop", "vt_shop", ())
    path = configured(stage, "sidecar", files)
    with pytest.raises(ConfigError, match="Vitess's sidecar database") as raised:
        merge(path, path.parent / "out")
    assert raised.value.remedy == "leave it out: `ignore-schemas: [_vt]`"


@pytest.mark.extended  # what is left out depends on each transaction alone
def test_merges_cut_into_runs_come_to_the_same(stage: Stage) -> None:
    files = played(stage, "runs", "vt_shop", "vt_shop", ())
    one = configured(stage, "runs-whole", files, **LEFT_OUT)
    merge(one, one.parent / "out", partitions=3)
    whole = written(one.parent / "out")
    path = configured(stage, "runs-cut", files, **LEFT_OUT)
    assert grown(path, whole, random.Random(1), effort(6, 40)) == whole
