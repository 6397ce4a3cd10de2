"""What needs no Spark runs where neither pyspark nor Java is; and merge says what to install."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pymysql
import pytest
import typer

from binlog_merge.cli.verbs import application
from tests.binlog_server.merged import merged
from tests.binlog_server.running import PASSWORD, USER
from tests.merge_e2e.cases import case_named
from tests.mysql_server import MySqlServer

CASE = "three-nodes-online-ddl"
PROGRAM = """
import json, sys
sys.modules["pyspark"] = sys.modules["py4j"] = None  # importing them fails, as if they were not installed
from binlog_merge.cli.main import run
codes = [run(arguments) for arguments in json.loads(sys.argv[1])]
print(codes, file=sys.stderr)
sys.exit(max(codes))
"""


def _started(*commands: Sequence[object], nothing: Path) -> "subprocess.Popen[str]":
    """Start a process that runs these commands one after the other, on a machine with an empty PATH."""
    environment = {k: v for k, v in os.environ.items() if k not in ("JAVA_HOME", "SPARK_HOME")} | {"PATH": str(nothing)}
    said = json.dumps([[str(argument) for argument in command] for command in commands])
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", PROGRAM, said], env=environment, stdout=pipe, stderr=pipe, text=True)


def _run(*commands: Sequence[object], nothing: Path) -> tuple[int, str, str]:
    process = _started(*commands, nothing=nothing)
    out, err = process.communicate(timeout=300)
    return process.returncode, out, err


def test_every_verb_has_help(tmp_path: Path) -> None:
    verbs = list(typer.main.get_command(application()).commands)  # type: ignore[attr-defined]
    code, out, err = _run(*([verb, "--help"] for verb in verbs), nothing=tmp_path)
    assert code == 0, err
    assert out.count("Usage: binlog-merge ") == len(verbs) > 15


def test_warm_has_kernels_for_those_who_read(tmp_path: Path) -> None:
    code, told, err = _run(["warm"], nothing=tmp_path)
    assert code == 0, err
    assert "kernels: " in told and "not archived: pyspark is not installed, which merge, demo and run need" in told
    without_java = PROGRAM.replace('sys.modules["pyspark"] = sys.modules["py4j"] = None', "pass")
    assert without_java != PROGRAM
    environment = {k: v for k, v in os.environ.items() if k != "JAVA_HOME"} | {"PATH": str(tmp_path)}
    command = [sys.executable, "-c", without_java, json.dumps([["warm"], ["warm", "--java-only"]])]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert "[0, 2]" in done.stderr, done.stderr
    assert "not archived: no Java on the PATH, which merge, demo and run need" in done.stdout


def test_a_merged_log_is_looked_at_verified_and_replayed(tmp_path: Path) -> None:
    out = merged(CASE)
    code, told, err = _run(
        ["inspect", "-v", out / "binlog.000001"],
        ["schema", "history", "shop.orders", "--store", out],
        ["position-of", "--tso", 1 << 62, out],
        ["verify", out],
        ["replay", "--from", out, "--to", f"duckdb://{tmp_path}/shop.db"],
        ["replay", "--from", out, "--to", f"parquet://{tmp_path}/changes"],
        nothing=tmp_path,
    )
    assert code == 0, err
    for part in ("### INSERT INTO `shop`.`orders`", "ADD COLUMN note", "210 transactions"):
        assert part in told
    assert any((tmp_path / "changes").rglob("*.parquet"))


def test_a_merged_log_is_served(tmp_path: Path) -> None:
    (tmp_path / "pw").write_text(PASSWORD)
    command = ["serve", merged(CASE), "--port", 0, "--password-file", tmp_path / "pw"]
    process = _started(command, nothing=tmp_path)
    try:
        assert process.stdout is not None
        port = int(process.stdout.readline().split("127.0.0.1:")[1].split()[0])
        with (
            contextlib.closing(pymysql.connect(host="127.0.0.1", port=port, user=USER, password=PASSWORD)) as session,
            session.cursor() as cursor,
        ):
            cursor.execute("SHOW BINARY LOGS")
            assert [row[0] for row in cursor.fetchall()] == sorted(p.name for p in merged(CASE).glob("binlog.0*"))
    finally:
        process.terminate()
        process.communicate(timeout=60)


@pytest.mark.mysql
def test_a_server_is_captured(mysql_server: MySqlServer, tmp_path: Path) -> None:
    config = {
        "version": 1,
        "name": "one",
        "nodes": [{"source-id": "a", "server": f"mysql://root@localhost/?socket={mysql_server.socket}"}],
        "capture": {"dir": str(tmp_path / "captured")},
    }
    (tmp_path / "cluster.yaml").write_text(json.dumps(config))
    code, told, err = _run(["capture", "--config", tmp_path / "cluster.yaml"], nothing=tmp_path)
    assert code == 0, err
    assert "1 node captured" in told
    assert any((tmp_path / "captured" / "a").glob("*.0*"))


@pytest.mark.parametrize(("pyspark", "reason"), [(False, "pyspark is not installed"), (True, "no Java on the PATH")])
def test_merge_says_what_to_install(pyspark: bool, reason: str, tmp_path: Path) -> None:
    arguments = ["merge", "--config", str(case_named(CASE) / "cluster.yaml"), "--out", str(tmp_path / "out")]
    blocked = "" if pyspark else "sys.modules['pyspark'] = None"
    program = (
        "import sys\n"
        f"{blocked}\n"
        "from binlog_merge.cli.main import run\n"
        f"code = run({arguments})\n"
        "sys.exit('pyspark was imported' if sys.modules.get('pyspark') else code)\n"
    )
    environment = {k: v for k, v in os.environ.items() if k != "JAVA_HOME"} | {"PATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert reason in done.stderr and "what to do: " in done.stderr and "install" in done.stderr
    assert not (tmp_path / "out").exists()


def test_demo_keeps_an_earlier_one_where_it_cannot_make_another(tmp_path: Path) -> None:
    out = tmp_path / "demo"
    shutil.copytree(merged("three-nodes-online-ddl"), out)
    before = sorted(path.name for path in out.iterdir())
    code, _, err = _run(["demo", "--out", out], nothing=tmp_path)
    assert code == 2 and "pip install" in err, err
    assert sorted(path.name for path in out.iterdir()) == before
