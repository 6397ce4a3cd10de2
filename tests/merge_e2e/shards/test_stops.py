"""Where shards contradict each other the merge stops, on real servers, and goes on when somebody has decided."""

import json
from pathlib import Path
from typing import Any

import pytest

from binlog_merge.cli import main
from binlog_merge.errors import MergeError
from tests.merge_e2e.local import merge, state_of, written
from tests.merge_e2e.shards.scenario import Play, Scenario, check, play
from tests.merge_e2e.shards.scenarios import PLAIN
from tests.merge_e2e.shards.stage import Played, Stage, columns_of

pytestmark = [pytest.mark.mysql]

Captured = pytest.CaptureFixture[str]


def played(stage: Stage, number: int, script: str, **values: Any) -> tuple[Play, Played]:
    return play(stage, Scenario(f"stops {number}", PLAIN, script, alike=False, **values), number)


def stopped(path: Path, code: str) -> MergeError:
    with pytest.raises(MergeError) as raised:
        merge(path, path.parent / "out")
    assert raised.value.code == code, raised.value
    return raised.value


def locks(capsys: Captured, out: Path) -> list[dict[str, Any]]:
    assert main.run(["ddl", "locks", "--out", str(out), "-o", "json"]) == 0
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["locks"]
    return found


def resolve(capsys: Captured, out: Path, table: str, *arguments: str) -> None:
    assert main.run(["ddl", "resolve", table, *arguments, "--out", str(out)]) == 0, capsys.readouterr().err
    capsys.readouterr()


def test_another_ddl_than_the_others(stage: Stage, capsys: Captured) -> None:
    one, files = played(
        stage,
        901,
        """
        t11 work
        t11 ADD COLUMN c INT
        t11 work
        t12 work
        t21 ADD COLUMN c DOUBLE
        t21 work
        """,
    )
    path = stage.configuration("another", [files], "pessimistic")
    out = path.parent / "out"
    error = stopped(path, "shard-ddl")
    assert (error.node, Path(error.file or "").name) == ("n2", files.files["n2"].name)
    assert error.position and "ADD COLUMN c DOUBLE" in error.message and "ddl resolve" in (error.remedy or "")
    before = written(out)
    assert stopped(path, "shard-ddl").position == error.position  # and nothing has changed
    assert written(out) == before
    (lock,) = locks(capsys, out)
    assert (lock["stage"], [s["shard"] for s in lock["done"]]) == ("waiting", ["n1/s901_n1/t11"])
    resolve(capsys, out, "s901.t", "--emit", "ALTER TABLE t ADD COLUMN c DOUBLE")
    merge(path, out)
    (lock,) = locks(capsys, out)
    assert [s["shard"] for s in lock["done"]] == ["n2/s901_n2/t21"]
    resolve(capsys, out, "s901.t", "--skip")
    merge(path, out)
    assert locks(capsys, out) == []
    stage.target.drop_databases()
    stage.carry_out(out)
    assert columns_of(stage.target, ("s901", "t"))["c"] == "double"
    check(stage, one, files)


def test_a_decision_that_cannot_be_carried_out(stage: Stage, capsys: Captured) -> None:
    """What was decided fits no more when its turn comes: the merge says so, and it can be taken back."""
    _, files = played(stage, 902, "t11 RENAME COLUMN a TO c\nt11 work\nt21 work")
    path = stage.configuration("decision", [files], "pessimistic")
    out = path.parent / "out"
    merge(path, out)
    resolve(capsys, out, "s902.t", "--emit", "ALTER TABLE t DROP COLUMN a")
    from binlog_merge.pipeline.coordinate.shards import notes
    from snapshot_store.store.db import Store

    with Store.open(out / "schema.duckdb") as store:
        store.set_note(notes.DECISIONS, (store.note(notes.DECISIONS) or "").replace("DROP COLUMN a", "DROP COLUMN zz"))
    error = stopped(path, "shard-ddl")
    assert "what was decided about" in error.message and "--withdraw" in (error.remedy or "")
    resolve(capsys, out, "s902.t", "--withdraw")
    merge(path, out)
    assert len(locks(capsys, out)) == 1


DOUBT = """
    t11 work
    t12 work
    t11 RENAME COLUMN a TO c
    t11 work
    t12 ADD COLUMN c INT
    t12 DROP COLUMN a
    t12 work
    t21 RENAME COLUMN a TO c
    t21 work
    """


def test_values_that_come_to_differ(stage: Stage) -> None:
    _, files = played(stage, 903, DOUBT)
    result, _ = stage.perform("doubt", [files], "optimistic")
    assert any("rename-by-drop" in warning and "t11" in warning for warning in result.warnings)
    path = stage.configuration("doubt-error", [files], "optimistic", sections={"shard-doubts": "error"})
    error = stopped(path, "shard-doubt")
    assert error.node in ("n1", "n2") and error.position and "shard-doubts: warn" in (error.remedy or "")
    stage.configuration("doubt-error", [files], "optimistic", sections={"shard-doubts": "warn"})
    merge(path, path.parent / "out")
    assert written(path.parent / "out") == written(path.parent.parent / "doubt" / "out")


def test_shards_that_nothing_is_known_of(stage: Stage) -> None:
    _, before = played(stage, 904, "t11 row")
    with stage.scene("later", before.routes) as (sessions, files):
        sessions["n1"].run("INSERT INTO s904_n1.t11 (id) VALUES (77)")
    path = stage.configuration("unknown", files, "pessimistic")
    error = stopped(path, "unknown-table-schema")
    assert "neither a base schema nor a CREATE TABLE" in error.message and "base.physical" in (error.remedy or "")
    assert state_of(path.parent / "out").rank == 0
