"""`binlog-merge purge`, as MySQL's PURGE BINARY LOGS: to a file, before a time, and not past readers."""

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from binlog_merge.cli.verbs import application
from binlog_merge.errors import ConfigError, ManifestError, MergeError, OutputBusy, OutsideLog, ReadersBehind
from binlog_merge.files.lock import OutputLock
from binlog_merge.files.manifest import Manifest
from binlog_merge.files.state_notes import NOTES_FOLDER, write_state_note
from binlog_merge.log.log import Log
from binlog_merge.log.place import parse_place
from tests.binlog_server.merged import merged_copy


def _purge(*arguments: str | Path) -> str:
    result = CliRunner().invoke(application(), ["purge", *map(str, arguments)], catch_exceptions=True)
    if isinstance(result.exception, MergeError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


def test_to_a_file_and_before_a_time(tmp_path: Path) -> None:
    out = merged_copy("two-nodes", tmp_path)
    names = [file.name for file in Manifest.load(out).state.files]
    assert json.loads(_purge(out, "--to", names[2], "--dry-run", "-o", "json"))["files"] == names[:2]
    assert all((out / name).exists() for name in names)
    for number, name in enumerate(names):
        os.utime(out / name, (1_700_000_000 + number * 60,) * 2)
    text = _purge(out, "--before", "2023-11-14 22:13:21")  # 1 s after the first
    assert f"removed: {names[0]}" in text and f"the log begins with {names[1]}" in text
    write_state_note(out / NOTES_FOLDER / "serve-h-1.json", {"readers": [{"peer": "a:1", "file": names[1]}]})
    with pytest.raises(ReadersBehind, match=f"{names[1]} still has to be sent to a:1 at {names[1]}"):
        _purge(out, "--to", names[2])
    assert "transactions" in _purge(out, "--to", f"{out}/{names[2]}", "--force")
    assert not (out / names[1]).exists() and (out / names[2]).exists()
    assert "0 files" in _purge(out, "--to", names[2])
    binlog = Log(out)
    for stop in (f"{binlog.cluster_uuid}:1", f"{binlog.cluster_uuid}:1-{binlog.state.first_rank - 1}"):
        with pytest.raises(OutsideLog, match=f"--stop {stop} is not in the log any more"):
            binlog.between(None, parse_place("--stop", stop))


def test_what_is_refused(tmp_path: Path) -> None:
    out = merged_copy("two-nodes", tmp_path)
    with pytest.raises(ConfigError, match="no file binlog"):
        _purge(out, "--to", "binlog.000077")
    with pytest.raises(ConfigError, match="is no time"):
        _purge(out, "--before", "yesterday")
    for both in ((), ("--to", "binlog.000002", "--before", "2026-01-01")):
        with pytest.raises(ConfigError, match="either"):
            _purge(out, *both)
    with pytest.raises(ManifestError, match="no merge has written here"):
        _purge(tmp_path, "--to", "binlog.000002")
    with OutputLock(out), pytest.raises(OutputBusy):
        _purge(out, "--to", "binlog.000002")
