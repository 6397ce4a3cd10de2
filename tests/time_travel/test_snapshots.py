"""Snapshots of a kept DuckDB file: when they are made, what a kill leaves, which are kept, and that others see them.

DuckDB itself says what is in one; the log's times are chosen, with `original_commit_timestamp`.
"""

import signal
import stat
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest

from binlog_merge.log.log import Log
from binlog_merge.log.replay_options import ReplayOptions, history_of
from binlog_merge.tables.snapshot_places import SnapshotFolder
from binlog_merge.tables.snapshots import Snapshots, load_with_snapshots
from binlog_merge.tables.target import DuckdbTarget
from tests.command_line import command_line
from tests.forked import forked_command
from tests.json_documents import check
from tests.mysql_server import MySqlServer
from tests.time_travel.one_server import merged_of

pytestmark = pytest.mark.mysql

_DAY = datetime(2026, 9, 21, tzinfo=UTC)
_TIMES = ("09:00:00", "10:00:00", "10:59:59", "11:00:00", "13:30:00", "13:40:00", "15:00:00", "15:00:01")
HOURLY = ("20260921T090000Z-2.db", "20260921T105959Z-4.db", "20260921T110000Z-5.db", "20260921T134000Z-7.db")
"""What passes a full hour: rank 1 creates the database, and each time above is of one transaction."""


@pytest.fixture(scope="module")
def log(_shared_mysql_server: MySqlServer, tmp_path_factory: pytest.TempPathFactory) -> Log:
    server = _shared_mysql_server
    server.drop_databases()
    server.execute("RESET BINARY LOGS AND GTIDS")
    with server.connect() as connection, connection.cursor() as cursor:
        for number, time in enumerate(("09:00:00", *_TIMES)):
            micros = int(datetime.fromisoformat(f"{_DAY:%Y-%m-%d}T{time}Z").timestamp() * 1_000_000)
            cursor.execute(f"SET SESSION original_commit_timestamp = {micros}")
            if number == 0:
                cursor.execute("CREATE DATABASE shop")
            elif number == 1:
                cursor.execute("CREATE TABLE shop.t (id INT PRIMARY KEY, n INT)")
            else:
                cursor.execute(f"INSERT INTO shop.t VALUES ({number}, {number})")
                connection.commit()
    found = merged_of(server, tmp_path_factory.mktemp("log"))
    server.drop_databases()
    assert found.last_rank == len(_TIMES) + 1
    return found


def replay(log: Log, folder: Path, *options: object) -> Any:
    done = command_line(
        ["replay", "--merged", log.directory, "--to", f"duckdb://{folder / 'kept.db'}", "-o", "json", *options]
    )
    return check("replay", done.stdout)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != ".lock")


def rows_in(file: Path) -> int:
    with duckdb.connect(str(file), read_only=True) as connection:
        ((rank, rows),) = connection.execute(
            'SELECT "rank", (SELECT count(*) FROM shop.t) FROM binlog_merge.replay_position'
        ).fetchall()
    assert rows == max(0, rank - 2)
    return int(rank)


def test_they_are_made_where_the_logs_time_passes_a_full_hour(log: Log, tmp_path: Path) -> None:
    kept = tmp_path / "hourly"
    result = replay(log, tmp_path, "--snapshots", kept, "--snapshot-every", "1h")
    assert result["snapshots"] == [*HOURLY] and result["last_rank"] == log.last_rank
    for name in HOURLY:
        assert rows_in(kept / name) == int(name[17:-3])
        assert stat.S_IMODE((kept / name).stat().st_mode) == 0o444
    again = replay(log, tmp_path, "--snapshots", kept, "--snapshot-every", "1h")
    assert (again["snapshots"], again["transactions"]) == ([], 0)


def test_in_several_runs_as_in_one_and_only_so_many_are_kept(log: Log, tmp_path: Path) -> None:
    kept, options = tmp_path / "some", ("--snapshot-every", "1h", "--snapshot-keep", 2)
    for stop in (3, 4, 6, 9):
        replay(log, tmp_path, "--snapshots", kept, *options, "--stop-gtid", f"{log.cluster_uuid}:{stop}")
    assert names(kept) == [*HOURLY[-2:]]
    result = replay(log, tmp_path, "--snapshots", kept, "--snapshot-keep", 2)
    assert (result["snapshots"], result["snapshots_removed"]) == (["20260921T150001Z-9.db"], [HOURLY[-2]])
    assert names(kept) == [HOURLY[-1], "20260921T150001Z-9.db"]


def test_a_kill_leaves_whole_snapshots_only(log: Log, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    command = ["replay", "--merged", log.directory, "--to", f"duckdb://{tmp_path / 'kept.db'}"]
    command += ["--snapshots", kept, "--snapshot-every", "1h"]
    for point in ("snapshot-copied:kill:2", "snapshot-whole:kill:2", "snapshot-made:kill"):
        done = forked_command(command, point)
        assert done.returncode == -signal.SIGKILL, done.stderr
        seen = [name for name in names(kept) if not name.startswith(".")]
        assert [rows_in(kept / name) for name in seen] == [int(name[17:-3]) for name in seen]
        at = ["--at-tso", f"{log.cluster_uuid}:{log.last_rank}", "--base", kept, "-o", "jsonl"]
        shown = command_line(["table-at", "shop.t", "--merged", log.directory, *at])
        assert len(shown.stdout.splitlines()) == log.last_rank - 2
    replay(log, tmp_path, "--snapshots", kept, "--snapshot-every", "1h")
    assert names(kept) == [*HOURLY]


def test_the_file_stays_locked_while_snapshots_are_made(log: Log, tmp_path: Path) -> None:
    """A process loses its locks of a file when it closes any descriptor of it, so it may not copy the file itself."""
    file = tmp_path / "kept.db"
    opened = f"import duckdb; duckdb.connect({str(file)!r})"
    with DuckdbTarget(file, log.cluster_uuid) as target:
        snapshots = Snapshots(SnapshotFolder(tmp_path / "kept"))
        load_with_snapshots(log, target, history_of(log.directory), ReplayOptions(), snapshots)
        refused = subprocess.run([sys.executable, "-c", opened], capture_output=True, text=True, check=False)
    assert refused.returncode and "lock" in refused.stderr


def test_in_an_object_store(log: Log, tmp_path: Path, s3: Any) -> None:
    place = s3.uri("snapshots")
    replay(log, tmp_path, "--snapshots", place, "--snapshot-every", "1h", "--snapshot-keep", 3)
    assert sorted(s3.objects("snapshots/")) == [*HOURLY[-3:]]
    (tmp_path / "seen.db").write_bytes(s3.objects("snapshots/")[HOURLY[1]])
    assert rows_in(tmp_path / "seen.db") == 4
    for rank in (3, 5, 9):
        at = ["--at-tso", f"{log.cluster_uuid}:{rank}", "--base", place, "-o", "json"]
        made = check("table-at", command_line(["table-at", "shop.t", "--merged", log.directory, *at]).stdout)
        assert (made["base_rank"], made["rows"]) == ({3: 4, 5: 5, 9: 7}[rank], rank - 2)


def test_what_cannot_be_done_says_why(log: Log, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for options, code, message in (
        (["--snapshot-every", "1h"], "config", "go with --snapshots"),
        (["--snapshots", tmp_path / "s", "--snapshot-every", "soon"], "config", "is not a duration"),
        (["--snapshots", tmp_path / "s", "--snapshot-every", "1ms"], "config", "less than a second"),
        (["--snapshots", tmp_path / "file"], "io", "no directory"),
    ):
        error = replay(log, tmp_path, *options)["error"]
        assert (error["code"], message in error["message"]) == (code, True), error
    with DuckdbTarget(tmp_path / "other.db", "00000000-0000-0000-0000-000000000001") as other:
        snapshots = Snapshots(SnapshotFolder(tmp_path / "others"))
        other.start_at(1, other.catalog, lambda *name: True)
    (tmp_path / "others").mkdir()
    (tmp_path / "other.db").rename(tmp_path / "others" / HOURLY[0])
    assert snapshots.place.names() == [HOURLY[0]]
    error = replay(log, tmp_path, "--snapshots", tmp_path / "others")["error"]
    assert error["code"] == "config" and "of cluster 00000000-" in error["message"]
