"""Tables carried on and back between snapshots, judged by a real server's checksums."""

import json
import random
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from binlog_merge.log.log import Log
from tests.command_line import command_line
from tests.effort import effort, seed_of_search
from tests.json_documents import check
from tests.mysql_server import MySqlServer
from tests.time_travel.changing import NAMES, Changed, changed, state_of
from tests.time_travel.one_server import merged_of

pytestmark = pytest.mark.mysql


@dataclass(frozen=True)
class Asked:
    """A log, and a folder with snapshots of a file that is kept up with it."""

    log: Log
    folder: Path

    def replay(self, *ranks: int) -> None:
        """Make a snapshot behind each of these transactions."""
        into = ["--to", f"duckdb://{self.folder / 'kept.db'}", "--temporal", "text"]
        for rank in ranks:
            places = ["--stop-gtid", self.gtid(rank), "--snapshots", self.snapshots]
            done = command_line(["replay", "--merged", self.log.directory, *into, *places, "-o", "json"])
            assert check("replay", done.stdout)["last_rank"] == rank

    def gtid(self, rank: int) -> str:
        return f"{self.log.cluster_uuid}:{rank}"

    @property
    def snapshots(self) -> Path:
        return self.folder / "snapshots"

    def at(self, table: str, rank: int, base: object, *options: object) -> Any:
        """Return the document of a table as it was."""
        places = ["--at-tso", self.gtid(rank), "--base", base, "--temporal", "text", "-o", "json"]
        merged = ["--merged", self.log.directory]
        return check("table-at", command_line(["table-at", f"shop.{table}", *merged, *places, *options]).stdout)

    def between(self, table: str, first: int, last: int) -> Any:
        """Return the document of what changed."""
        places = ["--from-tso", self.gtid(first), "--to-tso", self.gtid(last), "-o", "json"]
        done = command_line(["table-at", f"shop.{table}", "--merged", self.log.directory, *places])
        return check("table-at", done.stdout)


@dataclass(frozen=True)
class Story:
    """Random changes of tables with columns of every type; `first` is the rank behind which `states` begin."""

    rng: random.Random
    changes: Changed
    asked: Asked
    first: int


@pytest.fixture(scope="module")
def story(_shared_mysql_server: MySqlServer, tmp_path_factory: pytest.TempPathFactory) -> Story:
    seed, folder = seed_of_search(), tmp_path_factory.mktemp("story")
    _shared_mysql_server.drop_databases()
    changes = changed(_shared_mysql_server, folder, seed, effort(50, 200))
    log = merged_of(_shared_mysql_server, folder / "cluster")
    return Story(random.Random(seed), changes, Asked(log, folder), log.last_rank - len(changes.states) + 1)


def test_tables_of_every_type_at_random_moments_are_the_servers(story: Story) -> None:
    asked, server, rng = story.asked, story.changes.server, story.rng
    asked.replay(*sorted(rng.sample(range(story.first + 1, asked.log.last_rank), 2)))
    to = ("--to", f"mysql://root@localhost/?socket={server.socket}")
    backwards = 0
    for number in (0, *rng.sample(range(1, len(story.changes.states)), effort(3, 60))):
        for name in NAMES:
            server.execute(f"DROP TABLE shop.{name}")
            made = asked.at(name, story.first + number, asked.snapshots, *to)
            backwards += made["base_rank"] > made["rank"]
        assert state_of(server) == story.changes.states[number], number
    assert backwards


def test_what_changed_between_two_moments_is_how_the_tables_differ(story: Story) -> None:
    for _ in range(effort(1, 20)):
        first, last = sorted(story.rng.sample(range(story.first, story.asked.log.last_rank), 2))
        for name in NAMES:
            before, after = (rows(story.asked.at(name, rank, "empty")["values"]) for rank in (first, last))
            found = story.asked.between(name, first, last)["changes"]
            assert rows(one["before"] for one in found if one["before"]) == before - after
            assert rows(one["after"] for one in found if one["after"]) == after - before


def rows(values: Any) -> Counter[str]:
    return Counter(json.dumps(row) for row in values)


_STATEMENTS = """CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9), big DECIMAL(50,2))
INSERT INTO t VALUES (1, 'a', 1.5), (2, 'b', 2)
UPDATE t SET id = 3, v = 'c' WHERE id = 1
ALTER TABLE t ADD COLUMN n INT NOT NULL DEFAULT 4 AFTER id, ADD KEY (v)
UPDATE t SET n = 5, v = 'd'
ALTER TABLE t MODIFY v VARCHAR(60)
DELETE FROM t WHERE id = 2
SET binlog_row_image = MINIMAL
UPDATE t SET v = 'e'
RENAME TABLE t TO u
INSERT INTO u VALUES (9, 9, 'i', 9)
CREATE TABLE t (id INT PRIMARY KEY)
INSERT INTO t VALUES (7)
DROP TABLE t
CREATE TABLE other (id INT PRIMARY KEY)
INSERT INTO other VALUES (1)"""
"""In a database that transaction 1 makes; a SET is none."""


@pytest.fixture(scope="module")
def told(_shared_mysql_server: MySqlServer, tmp_path_factory: pytest.TempPathFactory) -> Asked:
    server, folder = _shared_mysql_server, tmp_path_factory.mktemp("told")
    server.drop_databases()
    server.execute("RESET BINARY LOGS AND GTIDS")
    server.execute("CREATE DATABASE shop")
    with server.connect("shop") as connection, connection.cursor() as cursor:
        for statement in _STATEMENTS.splitlines():
            cursor.execute(statement)
            connection.commit()
    return Asked(merged_of(server, folder / "cluster"), folder)


def test_statements_and_images_on_the_way_back(told: Asked) -> None:
    told.replay(3, 6, 8, 14)
    snapshots = {int(path.stem.split("-")[1]): path for path in told.snapshots.glob("*.db")}
    then = [[(1, "a"), (2, "b")], [(2, "b"), (3, "c")]]
    for base, rank in ((6, 3), (6, 4)):  # behind an ADD COLUMN, which is passed over
        made = told.at("t", rank, snapshots[base])
        assert [(row["id"], row["v"]) for row in made["values"]] == then[rank - 3]
        assert "n" not in made["values"][0] and "passed over" in made["notes"][0]
    for base, rank, why in (
        (8, 6, "a DDL on shop.t is in the range: ALTER TABLE `t` MODIFY v"),
        (14, 8, "the values before of an UPDATE of shop.t: v is not in its row image"),
        (14, 9, "a DDL on shop.t is in the range: RENAME TABLE"),
        (14, 13, "a DDL on shop.t is in the range: DROP TABLE"),
    ):
        error = told.at("t", rank, snapshots[base])["error"]
        assert error["code"] == "undo-refused" and why in error["message"], error
        assert "from before the moment" in error["remedy"]
    assert [row["id"] for row in told.at("u", 10, snapshots[14])["values"]] == [3]
    snapshots[8].replace(told.folder / "behind.db")
    snapshots[3].rename(told.snapshots / snapshots[8].name)
    error = told.at("t", 8, told.snapshots)["error"]
    assert error["code"] == "config" and "somebody has written to it" in error["remedy"]
    snapshots[8].rename(snapshots[3])
    (told.folder / "behind.db").rename(snapshots[8])
    made = told.at("t", 7, told.snapshots)  # the two are as near, and 8 would be behind a DELETE alone
    assert (made["base_rank"], [row["v"] for row in made["values"]]) == (6, ["d", "d"])
    snapshots[3].unlink()
    snapshots[6].unlink()
    made = told.at("t", 7, told.snapshots)
    assert (made["base_rank"], [row["v"] for row in made["values"]]) == (8, ["d", "d"])
    told.replay(16)
    made = told.at("u", 12, told.snapshots)
    assert (made["base_rank"], made["notes"]) == (14, [])


def test_a_statement_on_the_database_is_called_so(told: Asked) -> None:
    where = ["--merged", told.log.directory, "--start", told.gtid(1), "--stop", told.gtid(1)]
    done = command_line(["flashback", "--table", "shop.t", *where])
    assert done.returncode == 60
    assert "undo-refused: a statement on the database of shop.t is in the range: CREATE DATABASE `shop`" in done.stderr


def test_a_nearer_base_that_cannot_be_carried_back_is_named(told: Asked) -> None:
    folder = told.folder / "two"
    for rank in (1, 10):
        into = ["--to", f"duckdb://{told.folder / 'two.db'}", "--temporal", "text", "--snapshots", folder]
        command_line(["replay", "--merged", told.log.directory, *into, "--stop-gtid", told.gtid(rank)])
    made = told.at("t", 8, folder)
    assert (made["base_rank"], [row["v"] for row in made["values"]]) == (1, ["d"])
    assert "which is nearer" in made["notes"][0] and "row image" in made["notes"][0]


def test_a_replay_goes_on_from_a_table_as_it_was(told: Asked) -> None:
    file = told.folder / "then.db"
    assert told.at("t", 5, "empty", "--to", file)["error"] is None
    assert [row["id"] for row in told.at("t", 6, file)["values"]] == [2, 3]
    into = ["--to", f"duckdb://{file}", "--temporal", "text", "-o", "json"]
    document = check("replay", command_line(["replay", "--merged", told.log.directory, *into]).stdout)
    assert document["error"] is None and document["rows_left_out"] == {"shop.other": {"insert": 1}}
    import duckdb

    with duckdb.connect(str(file), read_only=True) as connection:
        assert connection.execute("SELECT id, n, v FROM shop.u ORDER BY 1").fetchall() == [(3, 5, "e"), (9, 9, "i")]
        tables = "SELECT table_name FROM duckdb_tables() WHERE schema_name = 'shop'"
        assert connection.execute(tables).fetchall() == [("u",)]
    assert "does not have shop.other" in told.at("other", told.log.last_rank - 1, file)["error"]["message"]
