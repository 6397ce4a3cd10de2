"""What `from binlog_merge import ...` gives, and that importing the package costs nothing."""

import inspect
import json
import subprocess
import sys
from pathlib import Path

import pymysql
import pytest

import binlog_merge
from tests.command_line import command_line
from tests.merge_e2e.cases import case_named, copy_case
from tests.merge_e2e.local import merge

FUNCTIONS = ("capture", "inspect", "merge", "replay", "serve", "transactions", "verify")
FAKE_JOB = (
    "import sys, types\n"
    "job = types.ModuleType('binlog_merge.spark.job'); job.merge = lambda *a, **k: (a, k); job.MergeResult = dict\n"
    "sys.modules['binlog_merge.spark'] = types.ModuleType('binlog_merge.spark')\n"
    "sys.modules['binlog_merge.spark.job'] = job\n"
)


@pytest.fixture(scope="module")
def merged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("api")
    merge(copy_case(case_named("two-nodes"), folder / "case"), folder / "merged")
    return folder / "merged"


def test_merge_is_the_function() -> None:
    program = "from binlog_merge import merge\nassert merge(1, end_of_input=True) == ((1,), {'end_of_input': True})\n"
    subprocess.run([sys.executable, "-c", "import binlog_merge\n" + FAKE_JOB + program], check=True)


def test_importing_the_package_loads_nothing() -> None:
    program = "import sys, binlog_merge; sys.exit(len([m for m in sys.modules if m.startswith('binlog_merge.')]))"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_names() -> None:
    assert {"MergeConfig", "MergeError", "errors", *FUNCTIONS} <= set(dir(binlog_merge))
    assert binlog_merge.MergeConfig.__module__ == "binlog_merge.config.merge_config"
    assert binlog_merge.errors.MergeError is binlog_merge.MergeError
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = binlog_merge.nothing


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_say_what_they_take(name: str) -> None:
    function = getattr(binlog_merge, name)
    assert inspect.isfunction(function), "a folder of the same name has taken its place"
    assert function.__doc__.splitlines()[0].endswith((".", ";", ","))
    assert "args" not in inspect.signature(function).parameters


def test_only_a_merge_needs_spark() -> None:
    """Functions of the package stay what they are when folders of the same names are imported, and load no Spark."""
    program = (
        "import sys, binlog_merge, binlog_merge.targets.server.run, binlog_merge.verification.whole\n"
        "import binlog_merge.binlog_server.server, binlog_merge.node_capture.nodes\n"
        "from binlog_merge import capture, inspect, replay, serve, verify\n"
        "assert all(map(callable, (capture, inspect, replay, serve, verify)))\n"
        "sys.exit('pyspark' in sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_merged_log_is_read_as_the_commands_read_it(merged: Path, tmp_path: Path) -> None:
    first = merged / "binlog.000001"
    events = [json.loads(line) for line in command_line(["inspect", first, "-v", "-o", "jsonl"]).stdout.splitlines()]
    assert [event["type"] for event in binlog_merge.inspect(first, rows=True)] == [event["type"] for event in events]
    assert len(events) > 10
    assert binlog_merge.verify(merged).transactions == 10
    assert binlog_merge.replay(merged, f"duckdb://{tmp_path}/a.db").transactions == 10
    assert binlog_merge.replay(merged, f"duckdb://{tmp_path}/a.db").transactions == 0
    assert binlog_merge.replay(merged, f"parquet://{tmp_path}/changes").last_rank == 10
    with pytest.raises(binlog_merge.MergeError, match="no local path"):
        binlog_merge.replay(merged, "duckdb://host/a.db")


def test_a_merged_log_is_served_while_a_block_runs(merged: Path) -> None:
    with binlog_merge.serve(merged, port=0) as address:
        connection = pymysql.connect(host=address.host, port=address.port, user="rep")
        with connection, connection.cursor() as cursor:
            cursor.execute("SHOW BINARY LOGS")
            assert [row[0] for row in cursor.fetchall()] == sorted(p.name for p in merged.glob("binlog.0*"))
    with pytest.raises(pymysql.err.OperationalError):
        pymysql.connect(host=address.host, port=address.port, user="rep")
