"""Which master and which settings a session gets, and when it is started at all."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from binlog_merge.errors import ConfigError, IoError, NoFiles
from binlog_merge.spark import class_archive
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
    done = _with_java_that_only_notes_its_start(config, tmp_path / "out", tmp_path, *verb)
    assert done.returncode == NoFiles.exit_code, done.stderr
    assert "no-files: no binlog file matches" in done.stderr


def test_no_java_is_started_for_an_output_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    config = case_named("two-nodes") / "cluster.yaml"
    done = _with_java_that_only_notes_its_start(config, tmp_path / "file" / "out", tmp_path)
    assert done.returncode == IoError.exit_code, done.stderr
    assert "it is no directory" in done.stderr


def test_that_java_is_missing_is_said_before_anything_is_written(tmp_path: Path) -> None:
    environment = {**os.environ, "JAVA_HOME": "/nowhere"}
    done = _merge(case_named("two-nodes") / "cluster.yaml", tmp_path / "out", None, environment)
    assert done.returncode == ConfigError.exit_code, done.stderr
    assert "no Java at /nowhere/bin/java" in done.stderr
    assert not (tmp_path / "out").exists()


def test_what_java_prints_is_logged_and_stdout_has_nothing_of_it(tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    words = 'echo out; echo "WARNING: Using incubator modules: jdk.incubator.vector" >&2; echo "no memory left" >&2'
    java.write_text(f"#!/bin/sh\n{words}\nexit 1\n")
    java.chmod(0o755)
    environment = {**os.environ, "JAVA_HOME": str(tmp_path)}
    done = _merge(case_named("two-nodes") / "cluster.yaml", tmp_path / "out", None, environment, "--log-format", "json")
    assert done.returncode == ConfigError.exit_code
    assert done.stdout == ""
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    said = [line["event"] for line in lines if line["logger"] == "binlog_merge.spark.gateway"]
    assert "no memory left" in said and not any("incubator" in line for line in said)


def test_an_archive_of_classes_is_taken_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(class_archive, "name", lambda: tmp_path / "java")
    assert class_archive.options() == ""
    with class_archive.making() as part:
        assert part is not None
        assert f"-XX:ArchiveClassesAtExit={part}" in class_archive.options(part)
        with class_archive.making() as other:
            assert other is None, "one makes it"
        part.write_text("half")
        part.unlink()
    assert class_archive.options() == ""
    with class_archive.making() as part:
        assert part is not None
        part.write_text("whole")
    path = tmp_path / "java-5.jsa"
    assert path.read_text() == "whole" and not part.exists()
    assert f"-XX:SharedArchiveFile={path}" in class_archive.options()
    path.write_text("who")  # Java would end with SIGBUS
    assert class_archive.options() == "" and not path.exists()


def _with_java_that_only_notes_its_start(
    config: Path, out: Path, folder: Path, *options: str
) -> subprocess.CompletedProcess[str]:
    java = folder / "home" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\ntouch {folder}/started\nexit 1\n")
    java.chmod(0o755)
    done = _merge(config, out, None, {**os.environ, "JAVA_HOME": str(folder / "home")}, *options)
    assert not (folder / "started").exists()
    return done


def _merge(
    config: Path, out: Path, master: str | None, environment: dict[str, str], *options: str
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "binlog_merge.cli.main", "merge", "-c", str(config), "--out", str(out), *options]
    command += [] if master is None else ["--master", master]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
