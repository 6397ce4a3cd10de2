"""Where a verb's output goes, and what it reads that is not as it should be: an exit code of the table, and a word."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest

from binlog_merge.cli.main import run
from binlog_merge.errors import ConfigError, IoError
from tests.effort import keeping
from tests.merge_e2e.cases import case_named
from tests.merge_e2e.local import merge

KINDS = ["empty", "text", "half", "zeros", "head", "foreign", "folder", "absent"]


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an output whose tables have names beyond ASCII."""
    folder = tmp_path_factory.mktemp("out")
    merge(case_named("strange-names") / "cluster.yaml", folder)
    return folder


def _verbs(out: Path) -> list[list[str]]:
    store = ["--store", str(out)]
    return [
        ["inspect", "-v", str(out / "binlog.000001")],
        ["inspect", "-o", "jsonl", str(out / "binlog.000001")],
        ["schema", "show", "*", *store],
        ["schema", "history", "*", *store],
        ["schema", "check", *store],
        ["schema", "sql", "SELECT * FROM table_versions", *store],
        ["verify", str(out)],
        ["tso-of", "--position", f"binlog.000001:{(out / 'binlog.000001').stat().st_size}", str(out)],
        ["--help"],
    ]


def _run(arguments: Sequence[str], **options: Any) -> "subprocess.CompletedProcess[bytes]":
    command = [sys.executable, "-m", "binlog_merge.cli.main", *arguments]
    environment = os.environ | options.pop("env", {})
    return subprocess.run(command, stderr=subprocess.PIPE, env=environment, timeout=600, check=False, **options)


def _silent(done: "subprocess.CompletedProcess[bytes]") -> bool:
    return not any(word in done.stderr for word in (b"Traceback", b"Exception ignored", b"internal:"))


@pytest.mark.parametrize("number", keeping([2], [1, 2, 4, 8]))
def test_output_that_cannot_go_anywhere(out: Path, number: int) -> None:
    verb = _verbs(out)[number]
    with Path("/dev/full").open("wb") as full:
        done = _run(verb, stdout=full)
    assert done.returncode == 31, (verb, done.stderr)
    assert b"No space left" in done.stderr
    assert _silent(done)
    reader, writer = os.pipe()
    os.close(reader)
    done = _run(verb, stdout=writer)
    os.close(writer)
    assert done.returncode in (0, 1), (verb, done.stderr)
    assert done.stderr == b""
    done = _run(verb, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, preexec_fn=lambda: os.close(0))
    assert done.returncode in (0, 1), (verb, done.stderr)


@pytest.mark.parametrize("number", keeping([0], [0, 2]))
def test_the_output_for_machines_does_not_depend_on_the_locale(out: Path, number: int) -> None:
    verb = _verbs(out)[number]
    plain = _run(verb, stdout=subprocess.PIPE, env={"PYTHONIOENCODING": "", "LC_ALL": "C.UTF-8"})
    for other in ({"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}):
        done = _run(verb, stdout=subprocess.PIPE, env=other)
        assert (done.returncode, done.stdout) == (plain.returncode, plain.stdout), (verb, other, done.stderr)
        assert _silent(done)


@pytest.fixture
def store(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Return a file that is no schema store, or no longer a whole one."""
    path = tmp_path / "schema.duckdb"
    good = (request.getfixturevalue("out") / "schema.duckdb").read_bytes()
    kind = request.param
    if kind == "foreign":
        with duckdb.connect(str(path)) as other:
            other.execute("CREATE TABLE mine (a INTEGER)")
    elif kind == "folder":
        path.mkdir()
    elif kind != "absent":
        path.write_bytes(
            {"empty": b"", "text": b"hello " * 900, "half": good[: len(good) // 2], "zeros": bytes(len(good))}.get(
                kind, good[:4100] + bytes(x ^ 5 for x in good[4100:4200]) + good[4200:]
            )
        )
    return path


@pytest.mark.parametrize("store", KINDS, indirect=True)
def test_a_store_that_is_none(store: Path, out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = store.read_bytes() if store.is_file() else None
    for verb in _verbs(out)[2:6]:
        code = run([str(store) if argument == str(out) else argument for argument in verb])
        told = capsys.readouterr().err
        assert code == 37, (verb, told)
        assert "what to do:" in told or "schema import" in told, told
        assert "Traceback" not in told
    assert before is None or store.read_bytes() == before  # somebody else's database stays as it is


def test_an_output_with_a_strange_name(tmp_path: Path, out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "a [strange] *folder* #1 100% 'ü\""
    merge(case_named("strange-names") / "cluster.yaml", folder, end_of_input=False)
    merge(case_named("strange-names") / "cluster.yaml", folder)
    assert (folder / "binlog.000001").read_bytes() == (out / "binlog.000001").read_bytes()
    assert run(["schema", "show", "*", "--store", str(folder)]) == 0
    shown = capsys.readouterr().out
    assert run(["schema", "show", "*", "--store", str(out)]) == 0
    assert capsys.readouterr().out == shown


def test_a_question_mark_in_a_path(tmp_path: Path, out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ConfigError, match=r"holds a \?"):
        merge(case_named("two-nodes") / "cluster.yaml", tmp_path / "a?b")
    (tmp_path / "a?b").mkdir()
    (tmp_path / "a?b" / "schema.duckdb").write_bytes((out / "schema.duckdb").read_bytes())
    assert run(["schema", "show", "*", "--store", str(tmp_path / "a?b")]) == 37
    assert "a ? in a path" in capsys.readouterr().err


def test_an_output_directory_that_is_no_text_or_no_directory(tmp_path: Path) -> None:
    config = case_named("two-nodes") / "cluster.yaml"
    with pytest.raises(ConfigError, match="not UTF-8"):
        merge(config, Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff")))
    (tmp_path / "file").write_text("x")
    with pytest.raises(IoError):
        merge(config, tmp_path / "file")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "real").mkdir()
    assert merge(config, tmp_path / "link").transactions > 0


def test_a_relative_output_directory_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = merge(case_named("two-nodes") / "cluster.yaml", Path("sub/out"))
    assert result.files[0]["path"] == str(tmp_path / "sub/out/binlog.000001")
