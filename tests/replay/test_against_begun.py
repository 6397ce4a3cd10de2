"""A server compared with a log that does not begin with it: judged where the log tells, and never called different."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from binlog_merge.cli.main import app
from binlog_merge.replay.against import Comparison, compare_with_server
from binlog_merge.replay.compare import TableComparison
from binlog_merge.replay.reader import MergedBinlog
from snapshot_store.server import ServerAddress
from tests.mysql_server import MySqlServer
from tests.replay.workload import as_output

pytestmark = pytest.mark.mysql

BEFORE = """CREATE DATABASE s; USE s; CREATE TABLE grows (id INT PRIMARY KEY, v INT);
CREATE TABLE changes LIKE grows; CREATE TABLE loose (v INT);
INSERT INTO grows VALUES (1, 1), (2, 2); INSERT INTO changes VALUES (1, 1);
INSERT INTO loose VALUES (1), (1), (2)"""
GROWS = "INSERT INTO s.grows VALUES (3, 3), (4, 4); INSERT INTO s.loose VALUES (1), (3)"
MADE = """CREATE DATABASE m; CREATE TABLE m.t (id INT PRIMARY KEY, v INT); INSERT INTO m.t VALUES (1, 1);
UPDATE m.t SET v = 2"""


def compared(server: MySqlServer, folder: Path, work: str) -> tuple[Comparison, dict[str, TableComparison]]:
    server.execute(BEFORE)
    server.execute("RESET BINARY LOGS AND GTIDS")
    server.execute(work)
    binlog = as_output(server, folder)
    found = compare_with_server(binlog, ServerAddress(socket=server.socket), rank=binlog.last_rank)
    return found, {table.name.removeprefix("s."): table for table in found.tables}


def test_rows_that_the_log_does_not_name_are_no_difference(mysql_server: MySqlServer, tmp_path: Path) -> None:
    found, tables = compared(mysql_server, tmp_path, GROWS)
    assert found.same and [(tables[name].left[0], tables[name].unnamed) for name in ("grows", "loose")] == [
        (2, 2),
        (2, 3),
    ]
    # What the log does name must be as it says.
    mysql_server.execute("UPDATE s.grows SET v = 5 WHERE id = 3; DELETE FROM s.loose WHERE v = 3")
    wrong = compare_with_server(MergedBinlog(tmp_path), ServerAddress(socket=mysql_server.socket), rank=2)
    assert not wrong.same and {table.name for table in wrong.tables if not table.same} == {"s.grows", "s.loose"}
    assert any(row.columns == {"v": ("3", "5")} for table in wrong.tables for row in table.rows)


def test_tables_that_cannot_be_judged_are_told(mysql_server: MySqlServer, tmp_path: Path) -> None:
    found, tables = compared(mysql_server, tmp_path, f"{MADE}; UPDATE s.changes SET v = 9; {GROWS}")
    assert found.same and tables["m.t"].same and tables["changes"].unjudged and tables["grows"].unjudged
    to = f"mysql://root@localhost/?socket={mysql_server.socket}"
    told = CliRunner().invoke(app, ["verify", "--from", str(tmp_path), "--against", to, "--stop-gtid", "7"])
    assert told.exit_code == 0 and "where it can be judged; 3 of 4 tables cannot" in told.output
    assert "s.changes  cannot be judged" in told.output
    mysql_server.execute("UPDATE m.t SET v = 3")
    told = CliRunner().invoke(app, ["verify", "--from", str(tmp_path), "--against", to, "--stop-gtid", "7"])
    assert told.exit_code == 1 and "v is 3, should be 2" in told.output


def test_where_nothing_can_be_judged_nothing_is_the_same(mysql_server: MySqlServer, tmp_path: Path) -> None:
    found, tables = compared(mysql_server, tmp_path, "UPDATE s.changes SET v = 9")
    assert not found.same and [table.unjudged for table in tables.values()] == [True]
