"""The command line: what it prints where, and what it exits with."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from binlog_merge.cli import main, signals
from binlog_merge.cli.merge import check_java
from binlog_merge.cli.replay_options import password_of
from binlog_merge.errors import (
    ERROR_CLASSES,
    EXIT_CODES,
    ChecksumMismatch,
    ConfigError,
    EngineFailed,
    IoError,
    LateTransaction,
    ManifestError,
    MergeError,
)
from binlog_merge.pipeline.rounds import IN_DRIVER
from tests.cli.conftest import CLUSTER, RESULT, FakeJob
from tests.merge_e2e.cases import case_named

CONFIGURED = {"spark.ui.enabled": "false", "a": "config"}
ON_SPARK = {"in_driver": 0, "at_need": False}

Captured = pytest.CaptureFixture[str]


def test_help_is_printed_without_arguments(capsys: Captured) -> None:
    assert main.run([]) == 0
    text = capsys.readouterr().out
    assert "binlog-merge demo" in text
    for row in EXIT_CODES:
        assert re.search(rf"^ +{row.exit_code}  {row.code} ", text, re.MULTILINE), row


@pytest.mark.parametrize("group", ["schema", "ddl", "filter"])
def test_a_group_alone_is_its_help(group: str, capsys: Captured) -> None:
    assert main.run([group]) == 0
    assert capsys.readouterr().out.startswith("Usage: binlog-merge " + group)


@pytest.mark.parametrize("verb", ["merge", "capture", "demo", "inspect"])
def test_every_verb_has_help(verb: str, capsys: Captured) -> None:
    assert main.run([verb, "--help"]) == 0
    assert len(capsys.readouterr().out.splitlines()) > 8


def test_help_fits_the_screen(capsys: Captured) -> None:
    main.run(["merge", "--help"])
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 120


def test_version(capsys: Captured) -> None:
    assert main.run(["--version"]) == 0
    assert capsys.readouterr().out.startswith("binlog-merge ")


def test_python_m_is_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "binlog_merge", "no-verb"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith("binlog-merge: config: No such command 'no-verb'")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("po", {"position-of"}),
        ("schema his", {"history"}),
        ("inspect --start", {"--start-position"}),
        ("inspect -o js", {"json", "jsonl"}),
    ],
)
def test_a_shell_gets_completions(words: str, expected: set[str]) -> None:
    asked = {
        "_BINLOG_MERGE_COMPLETE": "complete_bash",
        "COMP_WORDS": f"binlog-merge {words}",
        "COMP_CWORD": str(len(words.split())),
    }
    command = [sys.executable, "-m", "binlog_merge"]
    done = subprocess.run(command, env=os.environ | asked, capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == expected


def test_help_and_configuration_errors_are_fast_and_load_nothing_heavy(tmp_path: Path) -> None:
    program = (
        "import sys; from binlog_merge.cli.main import run; run(['--help']); run(['merge', '-c', 'none.yaml'])\n"
        "heavy = {'pyspark', 'duckdb', 'sqlglot', 'numba', 'pandas', 'pyarrow'} & set(sys.modules)\n"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_help_loads_no_verb_s_own_libraries() -> None:
    """It needs the texts of all verbs, and nothing of what they work with."""
    program = (
        "import sys; from binlog_merge.cli.main import run; run(['--help'])\n"
        "found = {'numpy', 'pydantic', 'urllib.request', 'binlog_merge.config.nodes', 'snapshot_store.ddl.actions'}\n"
        "found &= set(sys.modules); sys.exit(str(found) if found else 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_place_that_is_none_is_told_without_java_and_kernels(cluster: str, tmp_path: Path) -> None:
    """Whatever else uses the machine, it is over as soon as Python is up."""
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n")
    java.chmod(0o755)
    for folder in ("dn-1", "foreign"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mysql-bin.000001").write_bytes(b"\xfebin")
    lines = [
        (["verify", "foreign"], 28, "no merge has written here", "give the directory of a merged log"),
        (["verify", "nothing"], 28, "there is no such directory", "check the merged log's path"),
        (["merge", "-c", cluster, "--merged", "/proc/x/y"], 31, "no directory can be made", "choose another directory"),
        (["merge", "-c", cluster, "--merged", cluster], 31, "it is no directory", "give a directory, or a new name"),
    ]
    for line, code, message, remedy in lines:
        done = subprocess.run(
            [sys.executable, "-m", "binlog_merge", *line],
            cwd=tmp_path,
            env={**os.environ, "JAVA_HOME": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "kernels")},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stderr
        assert message in done.stderr and f"what to do: {remedy}" in done.stderr
    assert not (tmp_path / "started").exists()
    assert not list(tmp_path.glob("kernels/**/*.nb*"))


def test_merge_prints_a_summary(job: FakeJob, cluster: str, tmp_path: Path, capsys: Captured) -> None:
    assert main.run(["merge", "--config", cluster]) == 0
    assert job.session == (None, {}, CONFIGURED)
    assert job.stopped == 1
    assert job.out == tmp_path / "merged"
    assert job.options == {"start_tso": None, "stop_tso": None, "end_of_input": False, "work": None, **ON_SPARK}
    out, err = capsys.readouterr()
    assert out.startswith(f"12 transactions (1 of them DDL) of 1 node merged into {tmp_path}/merged\n")
    for part in (
        "binlog.000001  1,234,567 bytes",
        "holds the others back",
        "2 branches not below the watermark, which dn-1 holds back",
    ):
        assert part in out
    assert "X'61',X'62',1" in out
    assert r"a table named \x1b[31mred" in out
    assert err == "starting Spark\nscan: 3/3 in 0.0 s\n"


def test_merge_passes_its_options_on(job: FakeJob, cluster: str, tmp_path: Path) -> None:
    arguments = ["--out", str(tmp_path / "o"), "--start-tso", "5", "--stop-tso", "9", "--end-of-input"]
    spark = ["--master", "local[2]", "--conf", "a=b=c", "--conf", "d="]
    assert main.run(["merge", "-c", cluster, *arguments, *spark]) == 0
    assert job.session == ("local[2]", {"a": "b=c", "d": ""}, CONFIGURED)
    assert job.out == tmp_path / "o"
    assert job.options == {"start_tso": 5, "stop_tso": 9, "end_of_input": True, "work": None, **ON_SPARK}


@pytest.mark.parametrize(
    ("spark", "arguments", "in_driver", "at_need"),
    [
        ({}, [], IN_DRIVER, True),
        ({}, ["--in-driver", "1KiB"], 1024, True),
        ({}, ["--in-driver", "0"], 0, False),
        ({}, ["--master", "local[2]"], 0, False),
        ({}, ["--conf", "a=b"], 0, False),
        ({"spark.driver.memory": "2g"}, [], 0, False),
        ({"spark.driver.memory": "2g"}, ["--in-driver", "1MiB"], 1 << 20, False),
    ],
)
def test_stages_that_read_little_run_in_this_process_unless_an_engine_is_named(
    job: FakeJob, tmp_path: Path, spark: dict[str, str], arguments: list[str], in_driver: int, at_need: bool
) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text("\n".join([*CLUSTER.splitlines()[:-1], f"spark: {json.dumps(spark)}"]))
    assert main.run(["merge", "-c", str(path), *arguments]) == 0
    assert (job.options["in_driver"], job.options["at_need"]) == (in_driver, at_need)


def test_json_is_exactly_one_object(job: FakeJob, cluster: str, capsys: Captured) -> None:
    assert main.run(["merge", "-c", cluster, "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["error"] is None
    assert {key: document[key] for key in RESULT.values} == RESULT.values
    assert document["schema_version"] == 1


@pytest.mark.parametrize("error", ERROR_CLASSES)
def test_every_error_has_its_exit_code(error: type[MergeError], job: FakeJob, cluster: str, capsys: Captured) -> None:
    job.raises = error("it is so", node="dn-1", file="mysql-bin.000003", position=4711, order_key="0" * 54)
    assert main.run(["merge", "-c", cluster]) == error.exit_code
    out, err = capsys.readouterr()
    assert out == ""
    assert f"binlog-merge: {error.code}: it is so\n" in err
    assert "node dn-1, file mysql-bin.000003, position 4711, order key 000000" in err
    assert job.stopped == 1


def test_json_of_an_error_after_a_partial_publish(job: FakeJob, cluster: str, capsys: Captured) -> None:
    job.raises = LateTransaction("too late", node="dn-1")
    job.raises.result = RESULT
    assert main.run(["merge", "-c", cluster, "--output=json"]) == LateTransaction.exit_code
    document = json.loads(capsys.readouterr().out)
    assert document["error"]["code"] == "late-transaction"
    assert document["error"]["node"] == "dn-1"
    assert document["transactions"] == 12


def test_text_of_an_error_after_a_partial_publish(job: FakeJob, cluster: str, capsys: Captured) -> None:
    job.raises = ChecksumMismatch("damaged")
    job.raises.result = RESULT
    assert main.run(["merge", "-c", cluster]) == 12
    out, err = capsys.readouterr()
    assert out.startswith("12 transactions")
    assert "checksum-mismatch: damaged" in err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "Missing option '--config'"),
        (["-c", "none.yaml"], "cannot read the configuration"),
        (["-c", "CLUSTER", "--conf", "x"], "--conf spark.driver.memory=4g"),
        (["-c", "CLUSTER", "--start-tso", "9", "--stop-tso", "9"], "--start-tso 9 is not below --stop-tso 9"),
        (["-c", "CLUSTER", "--start-tso", "-1"], "--start-tso"),
        (["-c", "CLUSTER", "--frobnicate"], "No such option"),
    ],
)
@pytest.mark.parametrize("as_json", [False, True])
def test_usage_errors(
    arguments: list[str], says: str, as_json: bool, job: FakeJob, cluster: str, capsys: Captured
) -> None:
    arguments = [cluster if a == "CLUSTER" else a for a in arguments]
    assert main.run(["merge", *arguments, *(["-o", "json"] if as_json else [])]) == ConfigError.exit_code
    out, err = capsys.readouterr()
    assert says in err
    assert job.session is None
    assert out == "" or json.loads(out)["error"]["code"] == "config"


def test_an_unknown_verb_is_a_usage_error() -> None:
    assert main.run(["murge"]) == 2


def test_an_unexpected_error_is_short_unless_debugged(job: FakeJob, cluster: str, capsys: Captured) -> None:
    job.raises = ZeroDivisionError("by zero")
    assert main.run(["merge", "-c", cluster]) == 70
    assert "Traceback" not in (first := capsys.readouterr().err)
    assert "internal: ZeroDivisionError: by zero" in first
    assert main.run(["merge", "-c", cluster, "--debug"]) == 70
    assert "Traceback" in capsys.readouterr().err


def test_an_error_of_an_executor_is_told_in_one_line(job: FakeJob, cluster: str, capsys: Captured) -> None:
    told = "An exception:\nTraceback (most recent call last):\n  File 'x'\n    f(x)\nKeyError: 7\n SQLSTATE: 38000\n"
    job.raises = RuntimeError(told)
    assert main.run(["merge", "-c", cluster]) == 70
    assert "internal: RuntimeError: KeyError: 7\n" in capsys.readouterr().err


def test_ctrl_c(job: FakeJob, cluster: str, capsys: Captured) -> None:
    job.raises = KeyboardInterrupt()
    assert main.run(["merge", "-c", cluster, "-o", "json"]) == 130
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "interrupted"
    assert job.stopped == 1


def test_sigterm(tmp_path: Path) -> None:
    program = (
        "import time; from binlog_merge.cli import main, merge\n"
        "import binlog_merge.config.merge_config as config\n"
        "def load(path): print('ready', flush=True); time.sleep(600)\n"
        "config.MergeConfig.load = load\n"
        "import sys; sys.argv = ['binlog-merge', 'merge', '-c', 'x']; main.main()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 143
    assert "terminated" in err


def test_a_reader_that_goes_away_is_no_error() -> None:
    files = [str(case_named("three-nodes-online-ddl") / "nodes" / node / "binlog.000001") for node in ("dn-1", "dn-2")]
    command = [sys.executable, "-m", "binlog_merge", "inspect", "-v", *files]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr is not None
    assert (process.stderr.read(), process.wait(300)) == (b"", 0)


def test_java_is_looked_for_before_spark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ConfigError, match="Java 17"):
        check_java()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").write_text("#!/bin/sh\n")
    (tmp_path / "bin" / "java").chmod(0o755)
    check_java()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="no Java on the PATH"):
        check_java()


def test_no_output_directory(job: FakeJob, cluster: str, capsys: Captured) -> None:
    text = Path(cluster).read_text().replace("output: {dir: merged}\n", "")
    Path(cluster).write_text(text)
    assert main.run(["merge", "-c", cluster]) == 2
    assert "give --merged DIR" in capsys.readouterr().err


@pytest.mark.parametrize(("signal_", "code"), [(KeyboardInterrupt, 130), (signals.Terminated, 143)])
def test_what_fails_because_of_a_signal_is_the_signal(
    signal_: type[BaseException], code: int, job: FakeJob, cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop() -> None:
        raise KeyError("p")  # as py4j does when an answer was cut off

    job.raises = signal_()
    monkeypatch.setattr(job, "stop", stop)
    assert main.run(["merge", "--config", cluster]) == code


def test_ctrl_c_prints_no_traceback_of_the_bridge_to_java() -> None:
    program = (
        "import logging, sys\nfrom binlog_merge.cli import main\nsys.argv[1:] = ['--version']\n"
        "try: main.main()\nexcept SystemExit: pass\n"
        "logging.exception('KeyboardInterrupt while sending command.')\nlogging.error('something else')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "ERROR:root:something else"


FULL = Path("/dev/full")


@pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("verb", [["--help"], ["position-of", "--tso", "1", "none", "-o", "json"]])
def test_a_stdout_that_takes_nothing_is_no_fault_of_the_program(verb: list[str]) -> None:
    command = [sys.executable, "-m", "binlog_merge.cli.main", *verb]
    with FULL.open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert "Traceback" not in done.stderr
    assert done.returncode in (IoError.exit_code, ManifestError.exit_code), done.stderr


def test_a_closed_stdout_is_no_fault_of_the_program(tmp_path: Path) -> None:
    command = f"{sys.executable} -m binlog_merge.cli.main inspect {tmp_path}/none >&-"
    done = subprocess.run(["sh", "-c", command], stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == IoError.exit_code, done.stderr
    assert "check the path" in done.stderr


def test_a_position_beyond_all_files_is_refused(capsys: Captured) -> None:
    assert main.run(["inspect", "--start-position", "9" * 30, "none"]) == ConfigError.exit_code
    assert "--start-position" in capsys.readouterr().err


def merged(tmp_path: Path, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Merge two nodes' files in a process of its own, with other variables in its environment."""
    config = case_named("two-nodes") / "cluster.yaml"
    command = [
        sys.executable,
        "-m",
        "binlog_merge.cli.main",
        "merge",
        "-c",
        str(config),
        "--out",
        str(tmp_path / "out"),
    ]
    whole = {**os.environ, **environment}
    return subprocess.run([*command, *options], capture_output=True, text=True, env=whole, check=False)


@pytest.mark.extended  # with a Java that says the same words: spark/test_session
def test_a_spark_that_does_not_start_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the settings of a cluster."""
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    done = merged(tmp_path, "--master", "yarn")
    assert done.returncode == ConfigError.exit_code, done.stderr
    assert "config: Spark does not start: When running with " in done.stderr and "at org.apache" not in done.stderr
    told = merged(tmp_path, "--master", "yarn", "--log-level", "debug")
    assert "at org.apache.spark" in told.stderr


def test_a_java_that_is_killed_may_start_another_time(tmp_path: Path) -> None:
    """As a system without memory does it. A first Java says how to start the second, which is to be Spark."""
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text('#!/bin/sh\n[ "$1" = Spark ] && kill -9 $$\nprintf "\\n$0\\0Spark\\0"\n')
    java.chmod(0o755)
    done = merged(tmp_path, "--in-driver", "0", JAVA_HOME=str(tmp_path))
    assert done.returncode == EngineFailed.exit_code, done.stderr
    assert "its Java was ended by signal 9" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_during_an_import_is_not_lost(number: int, tmp_path: Path) -> None:
    """Some modules catch everything around an import that may fail; some in C abort the process."""
    (tmp_path / "greedy.py").write_text(
        f"import os, signal\ntry:\n    os.kill(os.getpid(), {int(number)})\n    import json.tool\n"
        "except BaseException:\n    print('taken')\n"
    )
    program = (
        "import os, signal, sys, time\nfrom binlog_merge.cli import signals\nsignals.heed_signals()\n"
        f"sys.path.insert(0, {str(tmp_path)!r})\ntry:\n    import greedy\n    os.write(1, b'imported\\n')\n"
        "    time.sleep(1000)\nexcept (signals.Terminated, KeyboardInterrupt) as e:\n    sys.exit(type(e).__name__)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    expected = "Terminated" if number == signal.SIGTERM else "KeyboardInterrupt"
    assert (done.stdout, done.stderr.strip()) == ("imported\n", expected)


def test_ctrl_c_before_the_verbs_are_imported_is_told_as_later(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys\nfrom binlog_merge.cli import start\n"
        f"sys.argv[1:] = ['serve', {str(tmp_path)!r}, '-o', 'json']\n"
        "class Finder:\n    def find_spec(self, name, *_):\n"
        "        if name == 'typer': os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Finder())\nstart.main()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, json.loads(done.stdout)["error"]["code"]) == (130, "interrupted"), done.stderr
    assert "Traceback" not in done.stderr


def test_a_sigterm_while_a_process_is_started_is_not_lost() -> None:
    """Python drops what a hook of fork raises."""
    program = (
        "import os, signal, subprocess, sys, time\nfrom binlog_merge.cli import signals\nsignals.heed_signals()\n"
        "os.register_at_fork(after_in_parent=lambda: os.kill(os.getpid(), signal.SIGTERM) or len(''))\n"
        "try:\n    subprocess.run(['true'], preexec_fn=lambda: None)\n    time.sleep(1000)\n"
        "except signals.Terminated:\n    sys.exit(143)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (143, "")


def test_what_a_command_writes_is_for_its_account_and_group_alone(tmp_path: Path) -> None:
    program = "import os, sys; os.umask(0o022); from binlog_merge.cli.main import run; sys.exit(run({arguments}))"
    dump = tmp_path / "dump.sql"
    dump.write_text("CREATE DATABASE d; CREATE TABLE d.t (a INT)")
    store = tmp_path / "schema.duckdb"
    arguments = ["schema", "import", "--sql", str(dump), "--store", str(store)]
    subprocess.run([sys.executable, "-c", program.format(arguments=arguments)], check=True, capture_output=True)
    subprocess.run(
        [
            sys.executable,
            "-c",
            program.format(arguments=["schema", "export", "--store", str(store), str(tmp_path / "out")]),
        ],
        check=True,
        capture_output=True,
    )
    modes = {
        path.name: oct(path.stat().st_mode & 0o777) for path in (store, *tmp_path.glob("out"), *tmp_path.glob("out/*"))
    }
    assert modes.pop("out") == "0o750" and set(modes.values()) == {"0o640"}, modes


@pytest.mark.parametrize(("mode", "warns"), [(0o644, True), (0o640, False), (0o600, False), (0o604, True)])
def test_a_password_file_that_everybody_may_read_is_named(
    mode: int, warns: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "pw"
    file.write_text("secret\n")
    file.chmod(mode)
    assert password_of(file) == "secret"
    assert (f"every account of this machine may read {file}" in capsys.readouterr().err) is warns
