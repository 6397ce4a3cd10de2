"""Consistent views while the log grows: their positions, locks, reads behind what was published, DDL on the way."""

import contextlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pymysql
import pytest

from binlog_merge.binlog.constants import EVENT_HEADER_LEN, EventType
from binlog_merge.binlog.gtid import Gtid
from binlog_merge.binlog.gtid_set import GtidSet
from binlog_merge.binlog_server.log import PublishedLog
from binlog_merge.binlog_server.tables import keeper
from binlog_merge.binlog_server.tables.keeper import Tables
from binlog_merge.errors import ConfigError, TargetBusy
from binlog_merge.files.manifest import Manifest
from binlog_merge.filters.filter import Filter, FilterSettings
from binlog_merge.log.log import Log
from binlog_merge.log.reader import Begin, End, OrderedBy
from binlog_merge.log.replay_options import ReplayOptions, history_of
from binlog_merge.tables.load import load
from binlog_merge.tables.target import DuckdbTarget
from tests.binlog_server.merged import merged
from tests.binlog_server.running import Running, from_position, serving, without
from tests.mysql_server import ROOT

CASE = "three-nodes-online-ddl"
ONE_FILE: Any = {"max-size": 1 << 24}
DDL = 91


class Growing:
    """An output that is published transaction by transaction, and the file of its tables."""

    def __init__(self, folder: Path) -> None:
        self.whole = Log(merged(CASE, **ONE_FILE))
        (self._file,) = self.whole.state.files
        self._ends: dict[int, int] = {}
        self._keys: dict[int, str] = {}
        rank = 0
        for item in self.whole.items():
            if isinstance(item, Begin):
                rank = item.rank
            elif isinstance(item, End):
                self._ends[rank] = item.position
            elif isinstance(item, OrderedBy):
                self._keys[rank] = item.key.text()
        self.out, self.file = Path(shutil.copytree(self.whole.directory, folder / "out")), folder / "shop.db"
        (self.out / "manifest.jsonl").unlink()
        assert self.whole.state.header is not None
        Manifest.load(self.out).append(self.whole.state.header)

    def publish(self, rank: int) -> None:
        """Publish up to a transaction."""
        manifest, last = Manifest.load(self.out), self.whole.state.last
        assert last is not None
        key = self._keys[rank]
        file = replace(self._file, size=self._ends[rank], closed=False, last_key=key, last_rank=rank, sha256=None)
        manifest.append(replace(last, run=manifest.state.run + 1, files=(file,), last_key=key, rank=rank))

    def replay(self, rank: int, **options: Any) -> None:
        """Fill the file up to a transaction."""
        binlog = Log(self.out)
        with DuckdbTarget(self.file, binlog.cluster_uuid) as target:
            load(binlog, target, history_of(self.out), ReplayOptions(last_rank=rank, **options))


@pytest.fixture
def growing(tmp_path: Path) -> Growing:
    found = Growing(tmp_path)
    found.publish(50)
    found.replay(1)
    return found


@contextlib.contextmanager
def session(running: Running) -> Iterator[Any]:
    """Yield a function that returns the rows of a statement, all in one session."""
    with contextlib.closing(running.connect()) as connection, connection.cursor() as cursor:

        def ask(sql: str) -> Any:
            cursor.execute(sql)
            return cursor.fetchall()

        yield ask


ALL = "SELECT * FROM shop.orders ORDER BY id"


def at(growing: Growing, folder: Path, rank: int) -> Any:
    """Return the table's rows as of a transaction, from a file filled so far and no further."""
    other = Growing(folder)
    other.publish(rank)
    other.replay(rank)
    with serving(other.out, other.file) as running:
        return running.query(ALL)


def test_a_snapshot_stays_and_tells_its_position(growing: Growing, tmp_path: Path) -> None:
    (tmp_path / "at").mkdir()
    with serving(growing.out, growing.file) as running, session(running) as one, session(running) as two:
        one("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        before, status = one(ALL), one("SHOW BINARY LOG STATUS")
        assert before == tuple(at(growing, tmp_path / "at", 50))
        growing.publish(DDL + 5)
        while running.query("SHOW BINARY LOG STATUS") == list(status):
            pass
        assert len(two(ALL)[0]) == len(before[0]) + 1, "a table has a column more by now"
        assert one(ALL) == before and one("SHOW BINARY LOG STATUS") == status
        assert one("SELECT @@GLOBAL.gtid_executed") == ((status[0][4],),)
        assert len(one("SHOW COLUMNS FROM shop.orders")) == len(before[0])
        events = running.events(from_position(status[0][0], status[0][1]))
        rest = running.events(without(GtidSet.parse_text(status[0][4])))
        assert [event for event in events if event in rest] and status[0][4].endswith(":1-50")
        one("COMMIT")
        assert one(ALL) == two(ALL)
        assert one("SHOW BINARY LOG STATUS") != status


def test_all_see_one_view_while_the_tables_are_locked(growing: Growing) -> None:
    with serving(growing.out, growing.file) as running, contextlib.ExitStack() as stack:
        main, one, two = (stack.enter_context(session(running)) for _ in range(3))
        main("FLUSH TABLES WITH READ LOCK")
        one("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        growing.publish(70)
        while running.query("SELECT @@gtid_executed")[0][0].endswith(":1-50"):
            pass
        two("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        main("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        assert main("SHOW MASTER STATUS") == one("SHOW MASTER STATUS") == two("SHOW MASTER STATUS")
        assert main(ALL) == one(ALL) == two(ALL)
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(running.query, ALL)
            main("UNLOCK TABLES")
            assert tuple(waiting.result(60)) != one(ALL), "what is read later has what was published meanwhile"
        with pytest.raises(pymysql.OperationalError, match="Lock wait timeout"):
            main("FLUSH TABLES WITH READ LOCK")
            growing.publish(80)
            while running.query("SELECT @@gtid_executed")[0][0].endswith(":1-70"):
                pass
            two("COMMIT")
            two("SET lock_wait_timeout = 1")
            two(ALL)


def test_a_lock_is_given_up_when_others_have_waited_for_long(growing: Growing, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever had it is told so with the next statement, once; the others get what was published meanwhile."""
    monkeypatch.setattr(keeper, "LONGEST_LOCK", 1.0)
    with serving(growing.out, growing.file) as running, session(running) as main:
        main("FLUSH TABLES WITH READ LOCK")
        before = running.query(ALL)
        growing.publish(70)
        while running.query("SELECT @@gtid_executed")[0][0].endswith(":1-50"):
            pass
        assert running.query(ALL) != before
        with pytest.raises(pymysql.OperationalError, match="was given up"):
            main("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        assert list(main(ALL)) == running.query(ALL)
        main("FLUSH TABLES WITH READ LOCK")
        main("UNLOCK TABLES")
        assert [line for line in running.reports if "a lock of all tables is given up" in line]


def test_a_lock_holds_up_neither_readers_of_the_log_nor_those_who_take_the_tables_as_they_are(growing: Growing) -> None:
    with serving(growing.out, growing.file) as running, contextlib.ExitStack() as stack:
        main, other = (stack.enter_context(session(running)) for _ in range(2))
        events = stack.enter_context(running.reading(from_position(flags=0)))
        main("FLUSH TABLES WITH READ LOCK")
        before = running.query(ALL)
        growing.publish(70)
        gtids = (Gtid.parse(e[EVENT_HEADER_LEN:-4]).gno for e in events if e[4] == EventType.GTID_LOG_EVENT)
        assert 70 in gtids, "the reader gets what is published meanwhile"
        other("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        assert list(other(ALL)) == before == list(main(ALL))
        main("UNLOCK TABLES")  # which is still there
        assert running.query(ALL) != before


def test_the_first_read_begins_the_view_of_a_transaction(growing: Growing) -> None:
    with serving(growing.out, growing.file) as running, session(running) as ask:
        ask("SET autocommit = 0")
        before = ask(ALL)
        growing.publish(60)
        while running.query("SELECT @@gtid_executed")[0][0].endswith(":1-50"):
            pass
        assert ask(ALL) == before
        assert ask("SHOW BINARY LOG STATUS")[0][4].endswith(":1-60"), "as a server tells it, whatever is being read"
        ask("COMMIT")
        assert ask(ALL) != before
        ask("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        ask("BEGIN")
        before = ask(ALL)
        growing.publish(70)
        while running.query("SELECT @@gtid_executed")[0][0].endswith(":1-60"):
            pass
        assert ask(ALL) != before


def test_a_reader_that_goes_away_lets_the_tables_go_on(growing: Growing) -> None:
    with serving(growing.out, growing.file) as running:
        with session(running) as ask:
            ask("LOCK TABLES shop.orders READ")
        growing.publish(60)
        assert len(running.query(ALL)) > 20


def test_one_process_has_the_file(growing: Growing) -> None:
    with serving(growing.out, growing.file):
        command = [sys.executable, "-m", "binlog_merge.cli.main", "replay", "--from", str(growing.out)]
        done = subprocess.run(
            [*command, "--to", f"duckdb://{growing.file}"], capture_output=True, cwd=ROOT, check=False
        )
        assert done.returncode == TargetBusy.exit_code and b"another process has it open" in done.stderr


def test_a_file_without_all_rows_is_refused(growing: Growing, tmp_path: Path) -> None:
    log = PublishedLog(growing.out)
    with (
        pytest.raises(ConfigError, match=r"rows of shop\.orders from before the log begins"),
        Tables(log, tmp_path / "new.db", print),
    ):
        pass
    growing.replay(10, filter=Filter(FilterSettings()))
    with pytest.raises(ConfigError, match="filled with a filter"), Tables(log, growing.file, print):
        pass


def test_what_ends_the_tables_is_told_and_the_log_goes_on(growing: Growing) -> None:
    with DuckdbTarget(growing.file, Log(growing.out).cluster_uuid) as target:
        target.connection.execute('DELETE FROM "replay target".shop.orders')
    with serving(growing.out, growing.file) as running:
        with pytest.raises(pymysql.OperationalError, match="are not kept up with the log any more"):
            running.query(ALL)
        assert any("not kept up" in line for line in running.reports)
        assert running.events(from_position())
