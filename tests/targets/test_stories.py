"""Tables that change names, places and partitions while rows come and go: every target comes to what the server has."""

import os
import re
from pathlib import Path

import pytest

from binlog_merge.errors import ReplayStopped
from binlog_merge.log.replay_options import ReplayOptions
from binlog_merge.targets.server.mysql import MysqlTarget
from binlog_merge.targets.server.run import replay
from snapshot_store.server import ServerAddress
from tests.mysql_server import MySqlServer
from tests.tables.test_duckdb import loaded, tables_at, tables_of
from tests.targets.server.test_replay import data
from tests.targets.server.workload import as_output
from tests.targets.stories import tell

pytestmark = pytest.mark.mysql

# What DuckDB stops at, since only the server can tell the rows.
STOPS = r"WITHOUT VALIDATION|which rows of .* are in the partition cannot be told|is not here as it was"


def plain(server: MySqlServer) -> dict[str, object]:
    """Return tables, rows and views; how far AUTO_INCREMENT has come, what was rolled back included, is in no log."""
    tables = {name: (re.sub(r" AUTO_INCREMENT=\d+", "", shown), rows) for name, (shown, rows) in data(server).items()}  # type: ignore[misc]
    views = server.query("SELECT table_schema, table_name FROM information_schema.views WHERE table_schema <> 'sys'")
    return tables | {f"view {s}.{v}": server.query(f"SHOW CREATE VIEW `{s}`.`{v}`")[0][1] for s, v in views}


def hold(server: MySqlServer, folder: Path, seed: int, length: int) -> bool:
    """Replay a story into servers and a DuckDB file; tell whether the latter took all of it."""
    told = ";\n".join(tell(server, seed, length, merged=False))
    binlog = as_output(server, folder / "merged")
    expected, typed = plain(server), tables_at(server)
    for workers, keep in ((1, True), (4, True), (4, False)):
        server.drop_databases()
        options = ReplayOptions(workers=workers, keep_order=keep, batch=3)
        replay(binlog, MysqlTarget(ServerAddress(socket=server.socket), binlog.cluster_uuid), options)
        assert plain(server) == expected, f"seed {seed}, {workers} workers:\n{told}"
    try:
        loaded(binlog, folder / "file.db")
    except ReplayStopped as error:
        assert re.search(STOPS, error.message) and "--skip" in str(error), f"seed {seed}: {error}\n{told}"
        return False
    assert tables_of(folder / "file.db") == typed, f"seed {seed}:\n{told}"
    return True


WHOLE = (4, 101)
"""Stories that DuckDB takes to their end; it stops in the other."""


# A story that all targets take: where DuckDB stops is tests/tables's.
@pytest.mark.parametrize("seed", [4, *(pytest.param(seed, marks=pytest.mark.extended) for seed in (3, 101))])
def test_stories_end_alike_everywhere(seed: int, mysql_server: MySqlServer, tmp_path: Path) -> None:
    assert hold(mysql_server, tmp_path / "story", seed, 40) == (seed in WHOLE)


@pytest.mark.soak
def test_many_stories_end_alike_everywhere(mysql_server: MySqlServer, tmp_path: Path) -> None:
    first = int(os.environ.get("SOAK_SEED", "1000"))
    whole = sum(hold(mysql_server, tmp_path / str(seed), seed, 60) for seed in range(first, first + 100))
    assert whole > 50


CASCADES = """
CREATE DATABASE a; USE a; CREATE TABLE p (id INT PRIMARY KEY);
CREATE TABLE c (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE);
CREATE TABLE n (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES p (id) ON DELETE SET NULL);
INSERT INTO p VALUES (1), (2); INSERT INTO c VALUES (1, 1), (2, 2); INSERT INTO n VALUES (1, 1);
DELETE FROM p WHERE id = 1
"""


@pytest.mark.parametrize("native", [True, False])
def test_rows_that_no_log_has_are_named(native: bool, tmp_path: Path) -> None:
    """Before MySQL 9.6 what a foreign key does to rows is InnoDB's business, and in no binlog."""
    options = ("--innodb-native-foreign-keys=ON",) if native else ()
    with MySqlServer(tmp_path / "server", 103, options) as server:
        server.execute("RESET BINARY LOGS AND GTIDS")
        server.execute(CASCADES)
        binlog, expected = as_output(server, tmp_path / "merged"), tables_at(server)
    result = loaded(binlog, tmp_path / "file.db")
    told = [text.split(" stand in no binlog")[0] for text in result.left_out]
    if native:
        assert told == [
            "a.c: rows that a server changed by ON DELETE CASCADE of a.p",
            "a.n: rows that a server changed by ON DELETE SET NULL of a.p",
        ]
    else:
        assert told == [] and tables_of(tmp_path / "file.db") == expected
