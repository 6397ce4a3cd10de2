"""Which master and which settings a session gets, and when it is started at all."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from binlog_merge.errors import ConfigError, IoError, NoFiles
from binlog_merge.spark.session import LOCAL, active_session, is_local, settings
from tests.merge_e2e.cases import case_named, copy_case

STANDALONE = "spark://h:7077"


def master_of(
    master: str | None = None,
    options: dict[str, str] | None = None,
    configured: dict[str, str] | None = None,
    submitted: dict[str, str] | None = None,
) -> str:
    return settings(master, options or {}, configured or {}, submitted)["spark.master"]


def test_the_nearest_master_wins() -> None:
    option, configured, submitted = ({"spark.master": name} for name in ("option", "configured", "submitted"))
    assert master_of() == LOCAL
    assert master_of(configured=configured) == "configured"
    assert master_of(configured=configured, submitted=submitted) == "submitted"
    assert master_of(None, option, configured, submitted) == "option"
    assert master_of(STANDALONE, option, configured, submitted) == STANDALONE


def test_what_spark_submit_was_told_wins_over_what_we_would_say() -> None:
    ours = settings(None, {}, {}, None)
    submitted = {"spark.master": "yarn", "spark.driver.memory": "4g", "spark.executor.cores": "3"}
    given = settings(None, {"spark.executor.cores": "2"}, {"spark.driver.memory": "9g", "a": "b"}, submitted)
    assert given == {**ours, **submitted, "spark.executor.cores": "2", "a": "b"}


@pytest.mark.parametrize(
    ("master", "local"), [("local", True), ("local[*]", True), (STANDALONE, False), ("yarn", False), ("k8s://h", False)]
)
def test_masters_of_one_machine(master: str, local: bool) -> None:
    assert is_local(master) is local


@pytest.mark.spark
def test_a_session_that_is_active_is_taken(spark: object) -> None:
    assert active_session() is spark
    assert active_session(LOCAL) is spark
    with pytest.raises(ConfigError, match=r"a Spark session on local\[\*\] is active already"):
        active_session(STANDALONE)


@pytest.mark.parametrize(
    ("master", "user", "address"),
    [("local[1]", None, "127.0.0.1"), ("local[1]", "127.0.0.2", "127.0.0.2"), (STANDALONE, None, None)],
)
def test_a_driver_is_on_loopback_only_where_its_executors_are_on_its_machine(
    master: str, user: str | None, address: str | None, tmp_path: Path
) -> None:
    """A Java that only notes the address that it is to have."""
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f'#!/bin/sh\nprintf "%s" "${{SPARK_LOCAL_IP-none}}" >{tmp_path}/address\nexit 1\n')
    java.chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if name != "SPARK_LOCAL_IP"}
    given = {} if user is None else {"SPARK_LOCAL_IP": user}
    done = _merge(case_named("two-nodes") / "cluster.yaml", tmp_path / "out", master, {
        **environment, **given, "JAVA_HOME": str(tmp_path)
    })  # fmt: skip
    assert done.returncode == ConfigError.exit_code, done.stderr
    assert (tmp_path / "address").read_text() == (address or "none")


@pytest.mark.parametrize("verb", [[], ["--end-of-input"], ["-o", "json"]])
def test_no_java_is_started_for_files_that_are_not_there(verb: list[str], tmp_path: Path) -> None:
    config = copy_case(case_named("two-nodes"), tmp_path / "case")
    for node in ("dn-1", "dn-2"):
        (config.parent / "nodes" / node).rename(tmp_path / node)
    done = _without_java(config, tmp_path / "out", *verb)
    assert done.returncode == NoFiles.exit_code, done.stderr
    assert "no-files: no binlog file matches" in done.stderr


def test_no_java_is_started_for_an_output_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = _without_java(case_named("two-nodes") / "cluster.yaml", tmp_path / "file" / "out")
    assert done.returncode == IoError.exit_code, done.stderr
    assert "Not a directory" in done.stderr


def test_where_the_files_are_in_order_java_is_missed(tmp_path: Path) -> None:
    done = _without_java(case_named("two-nodes") / "cluster.yaml", tmp_path / "out")
    assert done.returncode == ConfigError.exit_code, done.stderr
    assert "no Java at /nowhere/bin/java" in done.stderr


def _without_java(config: Path, out: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return _merge(config, out, None, {**os.environ, "JAVA_HOME": "/nowhere"}, *options)


def _merge(
    config: Path, out: Path, master: str | None, environment: dict[str, str], *options: str
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "binlog_merge.cli.main", "merge", "-c", str(config), "--out", str(out), *options]
    command += [] if master is None else ["--master", master]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
