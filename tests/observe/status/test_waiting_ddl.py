"""A DDL that waits has a name everywhere: in the merge's result and log, `ddl locks`, `status`, alarms and metrics."""

import json
import logging
from pathlib import Path

import pytest

from binlog_merge.cli import main
from binlog_merge.cli.status_text import lines_of
from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.files.state_notes import DECISIONS_NOTE, NOTES_FOLDER
from binlog_merge.observe.status.metrics import exposition
from binlog_merge.observe.status.observer import Observer
from tests.merge_e2e.local import merge

CLUSTER = Path(__file__).resolve().parents[3] / "fixtures" / "shards-pessimistic" / "cluster.yaml"
RENAME = "RENAME COLUMN"


def test_a_ddl_that_waits_has_a_name(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    with caplog.at_level(logging.INFO, "binlog_merge.pipeline.coordinate"):
        result = merge(CLUSTER, tmp_path / "out")
    (lock,) = (lock for lock in result.locks if lock["stage"] == "waiting")
    assert lock["table"] == "shop.orders" and RENAME in lock["sql"]
    assert len(lock["done"]) == 2 and len(lock["awaited"]) == 1

    begins = [record for record in caplog.records if record.message == "a DDL begins to wait"]
    assert [record.__dict__["awaited"] for record in begins] == [lock["awaited"]]

    seen = Observer(MergeConfig.load(CLUSTER), tmp_path / "out").look()
    assert seen.merged is not None and seen.merged.locks == len(result.locks)
    (ddl,) = seen.merged.waiting_ddl
    assert {**seen.to_dict()["log"]["waiting_ddl"][0], "time": None} == json.loads(json.dumps({**lock, "time": None}))
    assert ddl.time is not None
    said = f"run by {', '.join(lock['done'])}"
    (problem,) = (problem for problem in seen.problems if problem.code == "ddl-waits")
    assert said in problem.text and f"waits for {lock['awaited'][0]}" in problem.text and RENAME in problem.text
    assert any(said in line and line.startswith("  DDL ") for line in lines_of(seen))
    shown = exposition(seen, "")[0].decode()
    assert f'awaited="{lock["awaited"][0]}"' in shown and f'id="{lock["id"]}"' in shown

    assert main.run(["ddl", "locks", "--merged", str(tmp_path / "out"), "-o", "json"]) == 0
    told = json.loads(capsys.readouterr().out)["locks"]
    assert [(one["id"], one["sql"], one["since"]["order_key"]) for one in told] == [(ddl.id, ddl.sql, ddl.since)]


def test_the_log_tells_when_it_waits_no_longer(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    out = tmp_path / "out"
    id = str(merge(CLUSTER, out).locks[0]["id"])
    assert main.run(["ddl", "resolve", id, "--skip", "--merged", str(out)]) == 0
    with caplog.at_level(logging.INFO, "binlog_merge.pipeline.coordinate"):
        merge(CLUSTER, out)
    ended = [record.__dict__["id"] for record in caplog.records if record.message == "a DDL waits no longer"]
    assert ended == [id]
    seen = Observer(MergeConfig.load(CLUSTER), out).look()
    assert seen.merged is not None and (seen.merged.locks, seen.merged.waiting_ddl) == (0, ())


def test_what_is_decided_is_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """At once, about DDL and about transactions, until it is withdrawn; a merge makes a note that is lost anew."""
    out, cluster = tmp_path / "out", MergeConfig.load(CLUSTER)
    (lock,) = (lock for lock in merge(CLUSTER, out).locks if lock["stage"] == "waiting")
    id, awaited = str(lock["id"]), str(lock["awaited"][0])
    assert Observer(cluster, out).look().decisions == ()

    def resolve(*arguments: str) -> None:
        assert main.run(["ddl", "resolve", *arguments, "--merged", str(out)]) == 0
        capsys.readouterr()

    def listed() -> tuple[list[tuple[str, str, str]], list[str]]:
        seen = Observer(cluster, out).look()
        assert seen.decisions_count == len(seen.decisions) and {p.code for p in seen.problems} <= {"ddl-waits"}
        lines = list(lines_of(seen))
        first = next(i for i, line in enumerate(lines) if line.startswith("  decided "))
        shown = [line[13:] for line in lines[first : first + len(seen.decisions)]]
        return [(one.id, one.action, one.of) for one in seen.decisions], shown

    resolve(id, "--as-if-done", awaited)
    assert listed() == ([(id, "as-if-done", awaited)], [f"{id}: as-if-done {awaited}"])
    resolve(id, "--withdraw")
    assert Observer(cluster, out).look().decisions == ()
    resolve(id, "--skip")
    gtid = "3e11fa47-71ca-11e1-9e33-c80aa9429562:23"
    resolve(gtid, "--skip")
    both = [(id, "skip", ""), (gtid, "skip", "")], [f"{id}: skip", f"{gtid}: skip"]
    assert listed() == both
    (out / NOTES_FOLDER / DECISIONS_NOTE).unlink()
    merge(CLUSTER, out)
    assert listed() == both
    assert main.run(["status", "--config", str(CLUSTER), "--merged", str(out), "-o", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["decisions"] == [{"id": id, "action": "skip", "of": ""}, {"id": gtid, "action": "skip", "of": ""}]
