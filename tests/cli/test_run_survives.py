"""`binlog-merge run` and what passes: Java that cannot start, an address in use, an edit that is not whole, a hang."""

import os
import shutil
import signal
import socket
from pathlib import Path

import psutil
import pytest

from binlog_merge.errors import ConfigError
from binlog_merge.files.manifest import Manifest
from tests.cli.test_run_live import Run, running, served_port, until
from tests.effort import effort
from tests.merge_e2e.cases import case_named, copy_case
from tools.demo_live.cluster import free_ports

pytestmark = pytest.mark.spark


# Java's failures are spark/test_session's; hangs and addresses in use, of any program, are test_supervisor's.
@pytest.mark.extended
def test_what_passes_ends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = copy_case(case_named("two-nodes"), tmp_path)
    settings = config.read_text()
    monkeypatch.setenv("JAVA_HOME", _fails_first(2, tmp_path))
    (port,) = free_ports(1)
    options = ("--port", str(port), "--hangs-after", "20", "--master", "local[1]")
    with running(tmp_path, *options) as run:
        assert served_port(run) == port
        until(lambda: _transactions(tmp_path) > 0)
        tried = [line for line in run.lines() if "insufficient memory" in line["event"] and line["fields"].get("code")]
        assert [line["fields"]["code"] for line in tried] == ["engine-failed"] * 2
        assert not run.events("ended", "merge")

        config.write_text(settings[: len(settings) // 3] + "\n  {")
        os.kill(run.pid("merge"), signal.SIGSTOP)
        os.kill(run.pid("serve"), signal.SIGKILL)
        with _taken(port):
            until(lambda: [e["code"] for e in run.events("ended", "serve")][:2] == [-9, ConfigError.exit_code])
        until(lambda: len(run.events("hung", "merge")) == 1 and len(run.events("started", "merge")) == 2)
        until(lambda: _listens(port))
        before = _transactions(tmp_path)
        assert before > 0 and run.process.poll() is None
        config.write_text(settings)
        assert run.end() == 0


@pytest.mark.extended  # what follows does so in spark/test_session, `run` starts it again in test_supervisor
def test_java_that_fails_a_hundred_times_ends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy_case(case_named("two-nodes"), tmp_path)
    times = effort(5, 100)
    monkeypatch.setenv("JAVA_HOME", _fails_first(times, tmp_path))
    with running(tmp_path, "--no-serve", "--longest-pause", "0.01", "--master", "local[1]") as run:
        for number in range(times):
            until(lambda: _starts(tmp_path) > number)  # noqa: B023
        until(lambda: _transactions(tmp_path) > 0)
        assert run.end() == 0
    assert not run.events("gave up", "merge")


@pytest.mark.extended  # that what hangs is ended: test_supervisor
def test_java_that_hangs_is_ended_and_started_again(tmp_path: Path) -> None:
    """While the Python that waits for it lives."""
    copy_case(case_named("two-nodes"), tmp_path)
    (file,) = (tmp_path / "nodes" / "dn-1").glob("binlog.*1")
    written = bytearray(file.read_bytes())
    written[21] |= 1  # its server has it open, and goes on with it
    file.write_bytes(written[: len(written) // 2])
    options = ("--no-serve", "--in-driver", "0", "--hangs-after", "15", "--master", "local[1]")
    with running(tmp_path, *options) as run:
        until(lambda: _transactions(tmp_path) > 0)
        before, java = _transactions(tmp_path), _java_of(run.pid("merge"))
        java.suspend()
        with file.open("ab") as end:
            end.write(written[len(written) // 2 :])
        until(lambda: not java.is_running())
        until(lambda: _transactions(tmp_path) > before)
        assert run.events("hung", "merge")
        assert run.end() == 0


def _java_of(pid: int) -> psutil.Process:
    """Return the Java that a process has started."""
    return next(one for one in psutil.Process(pid).children(recursive=True) if one.name() == "java")


@pytest.mark.extended  # a port that is taken: binlog_server/test_serve
def test_an_address_in_use_at_the_first_start_is_said_at_once(tmp_path: Path) -> None:
    copy_case(case_named("two-nodes"), tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        run = Run(tmp_path, "--port", str(taken.getsockname()[1]), "--master", "local[1]")
        assert run.process.wait(240) == ConfigError.exit_code


def _taken(port: int) -> socket.socket:
    """Return a socket that listens at a port, as soon as that is free."""
    found: list[socket.socket] = []

    def free() -> bool:
        try:
            found.append(socket.create_server(("127.0.0.1", port)))
        except OSError:
            return False
        return True

    until(free)
    return found[0]


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 5).close()
    except OSError:
        return False
    return True


def _transactions(folder: Path) -> int:
    if not (folder / "merged" / "manifest.jsonl").exists():
        return 0
    return Manifest.load(folder / "merged").state.rank


def _starts(folder: Path) -> int:
    """Return how often `_fails_first`'s java was started."""
    started = folder / "starts"
    return started.stat().st_size if started.exists() else 0


def _fails_first(times: int, folder: Path) -> str:
    """Return a JAVA_HOME whose java has no memory that many times, and then is the real one."""
    real = os.environ.get("JAVA_HOME")
    java = Path(real) / "bin" / "java" if real else Path(str(shutil.which("java")))
    fake = folder / "home" / "bin" / "java"
    fake.parent.mkdir(parents=True)
    says = "echo 'There is insufficient memory for the Java Runtime Environment to continue.'; exit 1"
    fake.write_text(
        f"#!/bin/sh\nprintf x >>{folder}/starts\ntest $(wc -c <{folder}/starts) -gt {times} || {{ {says}; }}\n"
        f'exec {java} "$@"\n'
    )
    fake.chmod(0o755)
    return str(folder / "home")
