"""`--log-level` and `--log-format`: what runs say on stderr, a line an event."""

import json
import logging
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from binlog_merge.cli import log_lines
from binlog_merge.cli.log_lines import Level, LineFormat, start_log
from tests.binlog_server.merged import merged
from tests.binlog_server.running import from_position, serving
from tests.cli.conftest import FakeJob
from tests.command_line import command_line
from tests.merge_e2e.local import merge

CASE = Path(__file__).parents[2] / "fixtures" / "two-nodes" / "cluster.yaml"
LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (DEBUG|INFO|WARNING|ERROR) binlog_merge(\.\w+)*: .+")

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    yield
    start_log(Level.warning, LineFormat.text)


def _documents(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_merge_logs_what_its_stages_do(tmp_path: Path, capsys: Captured) -> None:
    start_log(Level.info, LineFormat.json)
    result = merge(CASE, tmp_path)
    lines = _documents(capsys.readouterr().err)
    assert all(list(line) == ["time", "level", "logger", "event", "fields"] for line in lines)
    assert {line["level"] for line in lines} == {"info"}
    stages = [line["fields"] for line in lines if line["event"] == "stage done"]
    assert {s["stage"]: s["seconds"] for s in stages} == dict(result.stages)
    assert [s["stage"] for s in stages] == ["discover", "scan", "assemble", "coordinate", "order", "gather", "publish"]
    found, published = (next(x for x in lines if x["event"] == e) for e in ("files found", "published"))
    assert found["fields"]["nodes"].keys() == result.nodes.keys()
    assert published["logger"] == "binlog_merge.pipeline.publish"
    assert published["fields"]["files"] == [file["name"] for file in result.files]
    assert published["fields"]["transactions"] == result.transactions
    read = {x["fields"]["node"]: x["fields"]["read_to"] for x in lines if x["event"] == "node assembled"}
    assert read == {name: node.read_to for name, node in result.nodes.items()}


def test_debug_adds_pieces_ranges_and_files(tmp_path: Path, capsys: Captured) -> None:
    start_log(Level.debug, LineFormat.text)
    result = merge(CASE, tmp_path)
    text = capsys.readouterr().err
    assert all(LINE.fullmatch(line) for line in text.splitlines()), text
    for event in ("stage begins stage=scan", "piece scanned node=", "range ordered range=0", "file written file=b"):
        assert event in text
    assert f"size={result.files[0]['size']}" in text


def test_by_default_nothing_is_logged_but_warnings_as_they_are(tmp_path: Path, capsys: Captured) -> None:
    start_log(Level.warning, LineFormat.text)
    merge(CASE, tmp_path)
    assert capsys.readouterr().err == ""
    logging.getLogger("binlog_merge").warning("a compiled kernel cannot be kept: %s", "x")
    assert capsys.readouterr().err == "a compiled kernel cannot be kept: x\n"


def test_the_options_of_a_verb(job: FakeJob, cluster: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def merging(*arguments: Any, **options: Any) -> Any:
        logging.getLogger("binlog_merge.pipeline.run").info("a word", extra={"one": "a b", "two": 2})
        return job_merge(*arguments, **options)

    job_merge = job.merge
    monkeypatch.setattr(sys.modules["binlog_merge.spark.job"], "merge", merging)
    plain = command_line(["merge", "-c", cluster])
    assert plain.returncode == 0
    assert re.fullmatch(r"starting Spark\nscan: 3/3 in \d\.\d s\n", plain.stderr), plain.stderr
    logged = command_line(["merge", "-c", cluster, "--log-level", "info"])
    assert ' INFO binlog_merge.pipeline.run: a word one="a b" two=2\nstarting Spark\nscan: 3/3' in logged.stderr
    assert logged.stdout == plain.stdout
    assert command_line(["merge", "-c", cluster]).stderr.startswith("starting Spark\nscan: 3/3"), (
        "an earlier run's log goes on"
    )


def test_in_json_all_of_stderr_is_json(job: FakeJob, cluster: str, tmp_path: Path) -> None:
    done = command_line(["merge", "-c", cluster, "--log-format", "json"])
    starts, stage = _documents(done.stderr)
    assert (starts["event"], starts["fields"]) == ("starting Spark", {})
    assert (stage["event"], stage["fields"]["stage"], stage["fields"]["tasks"]) == ("progress", "scan", 3)
    failed = command_line(["merge", "-c", tmp_path / "none.yaml", "--log-format", "json"])
    (error,) = _documents(failed.stderr)
    assert failed.returncode == error["fields"]["exit_code"] != 0
    assert (error["level"], error["logger"]) == ("error", "binlog_merge")
    assert str(tmp_path / "none.yaml") in (error["event"] + str(error["fields"]["file"]))


@pytest.mark.parametrize("verb", ["merge", "demo", "capture", "serve", "replay", "verify"])
def test_verbs_that_run_have_the_options(verb: str) -> None:
    text = command_line([verb, "--help"]).stdout
    assert "--log-level" in text
    assert "--log-format" in text
    wrong = command_line([verb, "--log-level", "loud"])
    assert wrong.returncode == 2, wrong.stderr


def test_a_line_stays_a_line_and_cannot_steer_a_terminal(capsys: Captured) -> None:
    start_log(Level.info, LineFormat.text)
    logging.getLogger("binlog_merge.x").info("read", extra={"table": "a\nb\x1b[31m", "empty": ""})
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    assert "\x1b" not in line
    assert line.endswith(' empty=""\n')


def test_say_has_an_event_of_its_own_in_json(capsys: Captured) -> None:
    start_log(Level.error, LineFormat.json)
    log_lines.say("dn-1: connected", "connected", node="dn-1")
    (line,) = _documents(capsys.readouterr().err)
    assert (line["event"], line["fields"]) == ("connected", {"node": "dn-1"})


def test_capture_logs_every_retry(tmp_path: Path) -> None:
    config = tmp_path / "cluster.yaml"
    config.write_text("version: 1\nname: live\nnodes: [{source-id: dn-1, server: 'mysql://root@127.0.0.1:1'}]\n")
    arguments = ["capture", "-c", config, "--retry-seconds", "0.3"]
    done = command_line([*arguments, "--log-level", "info", "--log-format", "json"])
    assert done.returncode == 39
    lines = _documents(done.stderr)
    retries = [line["fields"] for line in lines if line["event"] == "connection lost"]
    assert [retry["retry_in"] for retry in retries[:2]] in ([0.1], [0.1, 0.2])
    assert {(r["node"], r["server"]) for r in retries} == {("dn-1", "mysql://root@127.0.0.1:1")}
    assert lines[-2]["event"] == "capture ends"
    assert lines[-1]["fields"]["code"] == "server"


def test_serve_logs_connections_and_dumps(capsys: Captured) -> None:
    out = merged("two-nodes")
    start_log(Level.info, LineFormat.json)
    with serving(out) as running, running.reading(from_position("binlog.000001")) as events:
        assert list(events)
    lines = _documents(capsys.readouterr().err)
    assert [x["event"] for x in lines] == ["connected", "dump begins", "connection ends"]
    assert len({x["fields"]["peer"] for x in lines}) == 1
    assert (lines[1]["fields"]["begin"], lines[1]["fields"]["server_id"]) == ("binlog.000001:4", 7)


def test_replay_and_verify_log_how_far_they_are(tmp_path: Path) -> None:
    source, log = merged("two-nodes"), ["--log-level", "debug", "--log-format", "json"]
    for url in (f"duckdb://{tmp_path}/shop.db", f"parquet://{tmp_path}/changes"):
        done = command_line(["replay", "--from", source, "--to", url, "-o", "json", *log])
        assert done.returncode == 0, done.stderr
        applied = [line["fields"]["last"] for line in _documents(done.stderr) if line["event"] == "applied"]
        assert applied[-1] == json.loads(done.stdout)["last_rank"], url
    looked = [line["fields"]["file"] for line in _documents(command_line(["verify", source, *log]).stderr)]
    assert looked == sorted(path.name for path in source.glob("binlog.0*"))
