"""Which master and which settings a session gets, and when it is started at all."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from unittest import mock

import pytest

from binlog_merge.errors import ConfigError, EngineFailed, IoError, NoFiles
from binlog_merge.spark import java
from binlog_merge.spark.session import LOCAL, active_session, create_session, is_local, settings
from tests.command_line import Done
from tests.effort import effort, keeping
from tests.forked import forked_command
from tests.merge_e2e.cases import case_named, copy_case, oracle
from tests.merge_e2e.local import written

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
    ours = settings("yarn", {}, {}, None)
    submitted = {"spark.master": "yarn", "spark.driver.memory": "4g", "spark.executor.cores": "3"}
    given = settings(None, {"spark.executor.cores": "2"}, {"spark.driver.memory": "9g", "a": "b"}, submitted)
    assert given == {**ours, **submitted, "spark.executor.cores": "2", "a": "b"}


@pytest.mark.parametrize(
    ("master", "local"),
    [
        ("local", True),
        ("local[*]", True),
        (STANDALONE, False),
        ("yarn", False),
        ("k8s://h", False),
        ("local-cluster[2,1,1024]", False),
    ],
)
def test_masters_of_one_machine(master: str, local: bool) -> None:
    assert is_local(master) is local


def test_a_master_of_no_kind_is_told_without_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("binlog_merge.spark.session._create", lambda *_: pytest.fail("Java was started"))
    for master, options in (("foo://x", None), (None, {"spark.master": "127.0.0.1:7077"})):
        with pytest.raises(ConfigError, match="is no Spark master") as caught:
            create_session(master, options)
        assert "spark://HOST:7077" in caught.value.remedy


def test_a_cluster_keeps_its_own_way_to_run_plans() -> None:
    key = "spark.sql.codegen.wholeStage"
    assert settings("local[2]", {}, {}, None)[key] == "false"
    assert settings("local[2]", {key: "true"}, {}, None)[key] == "true"
    assert key not in settings(STANDALONE, {}, {}, None)


def test_a_cluster_says_itself_whether_it_shows_what_runs() -> None:
    assert settings("local[2]", {}, {}, None)["spark.ui.enabled"] == "false"
    for master in (STANDALONE, "yarn", "local-cluster[2,1,1024]"):
        assert "spark.ui.enabled" not in settings(master, {}, {}, None)
    assert settings("yarn", {}, {"spark.ui.enabled": "true"}, None)["spark.ui.enabled"] == "true"


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
    assert done.returncode == EngineFailed.exit_code, done.stderr
    assert (tmp_path / "address").read_text() == (address or "none")


@pytest.mark.parametrize("verb", keeping([["-o", "json"]], [[], ["--end-of-input"], ["-o", "json"]]))
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


def test_a_merge_that_reads_little_starts_no_java(tmp_path: Path) -> None:
    case = case_named("two-nodes")
    home = _java_that_only_notes_its_start(tmp_path)
    done = _merge(case / "cluster.yaml", tmp_path / "out", None, {**os.environ, "JAVA_HOME": str(home)})
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "started").exists() and written(tmp_path / "out") == oracle(case).files


@pytest.mark.spark
def test_the_first_stage_that_reads_more_starts_spark(tmp_path: Path) -> None:
    """What scan reads of these nodes is more than the command says, what gather reads is less."""
    case = case_named("two-nodes")
    done = _merge(case / "cluster.yaml", tmp_path / "out", None, os.environ, "--in-driver", "12kB")
    assert done.returncode == 0, done.stderr
    assert done.stderr.index("discover: 1/1") < done.stderr.index("starting Spark") < done.stderr.index("scan: ")
    assert written(tmp_path / "out") == oracle(case).files


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
    config, options = case_named("two-nodes") / "cluster.yaml", ("--in-driver", "0", "--log-format", "json")
    done = _merge(config, tmp_path / "out", None, environment, *options)
    assert done.returncode == EngineFailed.exit_code
    assert done.stdout == ""
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    said = [line["event"] for line in lines if line["logger"] == "binlog_merge.spark.java"]
    assert "no memory left" in said and not any("incubator" in line for line in said)


SHORT = (
    "There is insufficient memory for the Java Runtime Environment to continue.",
    "java.lang.OutOfMemoryError: unable to create native thread: possibly out of memory or process/resource limits",
    "Error: Could not find or load main class org.apache.spark.launcher.Main",
)


WRONG = (
    "Invalid maximum heap size: -Xmxfoo",
    "Unrecognized VM option 'NoSuch'",
    'Exception in thread "main" org.apache.spark.SparkException: Master must either be yarn or start with spark',
)
STARTS = """
import sys
from binlog_merge.errors import MergeError
from binlog_merge.spark.session import create_session

for line in sys.stdin:
    open(sys.argv[1], "w").write(line)
    try:
        create_session("local[1]")
    except MergeError as error:
        print(error.exit_code, line.strip()[-20:] in str(error))
"""


def test_what_is_wrong_is_told_from_what_may_pass(tmp_path: Path) -> None:
    """Java's own words, as it says them under `ulimit -v`, `-u` and `-n`, and for settings that are wrong."""
    environment = {**os.environ, "JAVA_HOME": _java(tmp_path, f"cat {tmp_path}/words >&2\nexit 1")}
    command = [sys.executable, "-c", STARTS, str(tmp_path / "words")]
    words = "".join(f"{line}\n" for line in (*SHORT, *WRONG, "a word that nobody knows"))
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, input=words)
    assert done.stdout.splitlines() == [*["49 True"] * 3, *["2 True"] * 3, "49 True"], done.stderr


FOLLOWS = """
import sys
from pathlib import Path
from threading import Event

from binlog_merge.cli.merge import Session
from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.pipeline.base.runner import silent
from binlog_merge.spark.job import Pace, follow

class Watch:
    failures = 0
    def merged(self, result): print(self.failures, result.transactions > 0); stop.set()
    def failed(self, error, pause): self.failures += 1; assert error.exit_code == 49
    def recovered(self, seconds): pass

stop, cluster = Event(), MergeConfig.load(sys.argv[1])
with Session(cluster, "local[1]", {}, silent) as spark:
    follow(spark, cluster, Path(sys.argv[2]), stop, Watch(), Pace(first_pause=0.0, last_pause=0.0))
"""


@pytest.mark.spark
def test_a_merge_goes_on_once_java_starts(tmp_path: Path) -> None:
    """However often it could not."""
    times = effort(2, 100)
    real = os.environ.get("JAVA_HOME")
    java = Path(real) / "bin" / "java" if real else Path(str(shutil.which("java")))
    counting = (
        f"echo >>{tmp_path}/starts; test $(wc -l <{tmp_path}/starts) -gt {times} || {{ echo '{SHORT[0]}'; exit 1; }}"
    )
    home = _java(tmp_path, f'{counting}\nexec {java} "$@"')
    command = [sys.executable, "-c", FOLLOWS, str(case_named("two-nodes") / "cluster.yaml"), str(tmp_path / "out")]
    environment = {**os.environ, "JAVA_HOME": home}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.stdout == f"{times} True\n", done.stderr


def _java(folder: Path, script: str) -> str:
    """Return a JAVA_HOME whose java runs a script of the shell."""
    java = folder / "home" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(0o755)
    return str(folder / "home")


def test_an_archive_of_classes_is_taken_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "name", lambda: tmp_path / "java")
    assert java.options() == ""
    with java.making() as part:
        assert part is not None
        assert f"-XX:ArchiveClassesAtExit={part}" in java.options(part)
        with java.making() as other:
            assert other is None, "one makes it"
        part.write_text("half")
        part.unlink()
    assert java.options() == ""
    with java.making() as part:
        assert part is not None
        part.write_text("whole")
    path = tmp_path / "java-5.jsa"
    assert path.read_text() == "whole" and not part.exists()
    assert f"-XX:SharedArchiveFile={path}" in java.options()
    path.write_text("who")  # Java would end with SIGBUS
    assert java.options() == "" and not path.exists()


def _java_that_only_notes_its_start(folder: Path) -> Path:
    java = folder / "home" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\ntouch {folder}/started\nexit 1\n")
    java.chmod(0o755)
    return folder / "home"


def _with_java_that_only_notes_its_start(config: Path, out: Path, folder: Path, *options: str) -> Done:
    home = _java_that_only_notes_its_start(folder)
    done = _merge(config, out, None, {**os.environ, "JAVA_HOME": str(home)}, "--in-driver", "0", *options)
    assert not (folder / "started").exists()
    return done


def _merge(config: Path, out: Path, master: str | None, environment: Mapping[str, str], *options: str) -> Done:
    """Merge in a process that has no session, with an environment of its own."""
    command = ["merge", "-c", str(config), "--out", str(out), *options]
    command += [] if master is None else ["--master", master]
    with mock.patch.dict(os.environ, environment, clear=True):
        return forked_command(command)
