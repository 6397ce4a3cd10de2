"""`binlog-merge status`: text for people, JSON for machines, exit codes, and what runs until a signal ends it."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest

from binlog_merge.files.state_notes import MERGE_NOTE, NOTES_FOLDER
from tests.cli.test_stop_never import await_until, grow, nodes_of, published, started
from tests.command_line import command_line
from tests.merge_e2e.local import state_of
from tests.observe.status.looking import Cluster, fresh, merged

CASE, HELD = "three-nodes-online-ddl", "three-nodes-commit-order"


def _arguments(cluster: Cluster, *more: str) -> list[str]:
    return ["status", "--config", str(cluster.path), "--out", str(cluster.out), *more]


def test_a_healthy_cluster(tmp_path: Path) -> None:
    cluster = merged(CASE, tmp_path)
    done = command_line(_arguments(cluster))
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    end = state_of(cluster.out).files[-1]
    assert lines[0] == f"{CASE}: healthy"
    assert f"210 transactions (2 of them DDL) in 1 file, 261.1 KB, up to {end.name}:{end.size}" in done.stdout
    assert "watermark  end of input" in done.stdout and "last DDL   ALTER TABLE orders" in done.stdout
    found = re.findall(
        r"^ +(?:nodes +)?(dn-\d) +captured (\S+) .* ago +read to (\S+) +23 bytes behind", done.stdout, re.M
    )
    assert [name for name, _, _ in found] == ["dn-1", "dn-2", "dn-3"]


def test_one_that_is_not(tmp_path: Path) -> None:
    cluster = merged(HELD, tmp_path, end_of_input=False)
    done = command_line(_arguments(cluster))
    assert done.returncode == 1
    assert done.stdout.startswith(f"{HELD}: NOT HEALTHY\n  errors     the watermark is ")
    assert "held back  dn-3: idle since commit TSO " in done.stdout
    assert command_line(_arguments(cluster, "--max-lag", "1e12")).returncode == 0


def test_json(tmp_path: Path) -> None:
    cluster = merged(HELD, tmp_path, end_of_input=False)
    done = command_line(_arguments(cluster, "-o", "json"))
    values = json.loads(done.stdout)
    assert (done.returncode, done.stdout.count("\n"), values["schema_version"]) == (1, 1, 1)
    assert values["error"] is None and not values["healthy"] and values["nodes"]["dn-3"]["holds_back"]
    assert values["log"]["held"] == 1 and values["lag_seconds"] == values["log"]["watermark"]["lag_seconds"]


def test_before_the_first_merge_and_without_files(tmp_path: Path) -> None:
    cluster = fresh(CASE, tmp_path)
    done = command_line(_arguments(cluster))
    assert done.returncode == 1 and f"errors     no merge has written to {cluster.out} yet" in done.stdout
    for path in (tmp_path / "case" / "nodes").rglob("binlog.*"):
        path.unlink()
    done = command_line(_arguments(cluster))
    assert done.returncode == 1 and done.stdout.count("has no binlog files") == 3
    assert "dn-1  no files  not read  watermark none yet" in done.stdout


def test_branches_and_what_a_note_holds_for_a_terminal(tmp_path: Path) -> None:
    cluster = merged("in-doubt", tmp_path, end_of_input=False)
    path = cluster.out / NOTES_FOLDER / MERGE_NOTE
    note = json.loads(path.read_bytes())
    path.write_text(json.dumps({**note, "warnings": ["\x1b[31mred"], "warnings_count": 3}))
    done = command_line(_arguments(cluster))
    first = note["open_branches"][0]
    assert f"prepared   {first['node']}  {first['file']}:{first['position']}  transaction " in done.stdout
    assert "warnings   \\x1b[31mred\n             and 2 more" in done.stdout and "\x1b" not in done.stdout


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--watch", "--listen", "0"], "contradict each other"),
        (["--listen", "nowhere"], "is no address"),
        (["--interval", "0"], "--interval"),
        (["--max-lag", "x"], "--max-lag"),
    ],
)
def test_wrong_options(more: list[str], says: str, tmp_path: Path) -> None:
    done = command_line(_arguments(fresh(CASE, tmp_path), *more))
    assert done.returncode == 2 and says in done.stderr and "Traceback" not in done.stderr


def test_without_an_output_or_a_configuration(tmp_path: Path) -> None:
    cluster = fresh(CASE, tmp_path)
    text = cluster.path.read_text()
    cluster.path.write_text(re.sub(r"^  dir:.*\n", "", text, flags=re.M))
    done = command_line(["status", "--config", cluster.path])
    assert done.returncode == 2 and "the configuration of three-nodes-online-ddl names no merged log" in done.stderr
    done = command_line(["status", "--config", tmp_path / "none.yaml", "--out", tmp_path])
    assert done.returncode == 2 and "none.yaml" in done.stderr


def test_an_address_that_is_taken(tmp_path: Path) -> None:

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = command_line(_arguments(merged(CASE, tmp_path), "--listen", str(port)))
    assert done.returncode == 2 and "cannot listen" in done.stderr


@contextmanager
def _running(arguments: list[str]) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-m", "binlog_merge.cli.main", *arguments]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_watching_prints_an_object_a_line_until_it_is_interrupted(tmp_path: Path) -> None:
    cluster = merged(CASE, tmp_path)
    with _running(_arguments(cluster, "--watch", "--interval", "0.1", "-o", "jsonl")) as process:
        assert process.stdout is not None
        seen = [json.loads(process.stdout.readline()) for _ in range(3)]
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        assert process.returncode == 130
    assert [values["log"]["transactions"] for values in seen] == [210] * 3
    assert seen[0]["at"] < seen[1]["at"] < seen[2]["at"]


def test_listening_until_it_is_terminated(tmp_path: Path) -> None:
    cluster = merged(CASE, tmp_path)
    with _running(_arguments(cluster, "--listen", "0")) as process:
        assert process.stderr is not None
        said = re.fullmatch(
            rf"the status of {CASE} is shown at (http://127\.0\.0\.1:\d+/)\n", process.stderr.readline()
        )
        assert said is not None
        with urlopen(f"{said[1]}metrics", timeout=60) as answer:
            assert b"binlog_merge_transactions_total 210.0" in answer.read()
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 143 and "Traceback" not in errors


def test_only_a_merge_that_goes_on_shows_its_status(tmp_path: Path) -> None:
    cluster = fresh(CASE, tmp_path)
    done = command_line(["merge", "--config", cluster.path, "--out", cluster.out, "--listen", "0"])
    assert done.returncode == 2 and "--listen is for --stop-never" in done.stderr and not cluster.out.exists()


@pytest.mark.extended  # without Spark: the others
@pytest.mark.spark
def test_a_merge_that_follows_shows_its_status(tmp_path: Path) -> None:
    """Its counters grow with its rounds, and it is healthy as long as what it has is merged."""
    cluster = fresh(CASE, tmp_path)
    nodes = nodes_of(cluster.path)
    grow(nodes, 0.4)
    with started(cluster.path, cluster.out, "--listen", "0") as process:
        assert process.stderr is not None
        lines = iter(process.stderr.readline, b"")
        shown = next(found for line in lines if (found := re.search(rb"is shown at (http://127\.0\.0\.1:\d+/)", line)))
        url = shown[1].decode()
        await_until(process, lambda: _transactions(url) == published(cluster.out) > 0)
        before = _transactions(url)
        grow(nodes, 1)
        await_until(process, lambda: _transactions(url) > before and _transactions(url) == published(cluster.out))
        with urlopen(f"{url}status.json", timeout=60) as answer:
            status = json.load(answer)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate()
    assert process.returncode == 0 and b"Traceback" not in stderr
    assert stdout.decode().splitlines()[-1].startswith(f"stopped: {published(cluster.out)} transactions in ")
    assert status["rates"]["transactions"] > 0 and not status["log"]["end_of_input"]
    assert {node["read"]["file"] for node in status["nodes"].values()} == {"binlog.000001"}
    assert not [problem for problem in status["problems"] if problem["code"] != "watermark-late"]


def _transactions(url: str) -> float:
    with urlopen(f"{url}metrics", timeout=60) as answer:
        found = re.search(r"^binlog_merge_transactions_total (.*)$", answer.read().decode(), re.M)
    return 0.0 if found is None else float(found[1])
