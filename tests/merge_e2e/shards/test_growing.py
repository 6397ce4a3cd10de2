"""A cluster that grows, on real servers: as `how-to/grow.md` says it, a new shard, a shard split, an output moved."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.merge_e2e.local import merge, written
from tests.mysql_server import MySqlServer
from tests.node_capture.capturing import capture_now, cluster, url_of
from tools.mysql_server import mysqlbinlog

pytestmark = pytest.mark.mysql


@pytest.fixture(scope="module")
def _four(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[MySqlServer]]:
    folder = tmp_path_factory.mktemp("growing")
    with (
        MySqlServer(folder / "1", 1) as one,
        MySqlServer(folder / "2", 2) as two,
        MySqlServer(folder / "3", 3) as three,
        MySqlServer(folder / "target", 9) as target,
    ):
        yield [one, two, three, target]


TABLE = "CREATE DATABASE shop; CREATE TABLE shop.orders (id INT PRIMARY KEY, v VARCHAR(20))"


class Story:
    """A log of two shards that has begun, and a target that follows it by hand."""

    def __init__(self, servers: list[MySqlServer], folder: Path) -> None:
        *self.shards, self.target = servers
        self.folder = folder
        self.nodes = 2
        self.more: dict[str, Any] = {}
        for server in servers:
            server.drop_databases()
            server.execute("RESET BINARY LOGS AND GTIDS")
        for number, shard in enumerate(self.shards[:2], 1):
            shard.execute(f"{TABLE}; INSERT INTO shop.orders VALUES ({number}, 'a'), ({number + 10}, 'a')")
        self.merge()

    def merge(self, **starts: str) -> list[str]:
        """Capture and merge what is final; return the warnings."""
        urls: dict[str, str | list[str]] = {f"shard-{n + 1}": url_of(self.shards[n]) for n in range(self.nodes)}
        clock = {"carrier": "gtid-time", "max-step-back": 0}
        config = cluster(self.folder, urls, **{"commit-tso": clock}, **self.more)
        capture_now(config, start_files={f"shard-{n[-1]}": file for n, file in starts.items()})
        return [str(text) for text in merge(config, self.folder / "out", end_of_input=False).warnings]

    def rows(self) -> list[tuple[Any, ...]]:
        """Apply the log to the target and return its rows."""
        self.target.drop_databases()
        self.target.execute("RESET BINARY LOGS AND GTIDS")
        self.target.apply(mysqlbinlog(sorted((self.folder / "out").glob("binlog.0*"))))
        return sorted(self.target.query("SELECT * FROM shop.orders"))

    def of_shards(self, where: str = "TRUE") -> list[tuple[Any, ...]]:
        return sorted(
            row
            for shard in self.shards[: self.nodes]
            for row in shard.query(f"SELECT * FROM shop.orders WHERE {where}")
        )


@pytest.fixture
def story(_four: list[MySqlServer], tmp_path: Path) -> Story:
    return Story(_four, tmp_path)


def test_a_shard_that_begins_empty(story: Story) -> None:
    """A script has made its tables; from then on DDL waits for it, too."""
    third = story.shards[2]
    third.execute(f"{TABLE}; INSERT INTO shop.orders VALUES (3, 'new')")
    story.nodes = 3
    assert story.merge() == []
    for shard in story.shards[:2]:
        shard.execute(
            "ALTER TABLE shop.orders ADD COLUMN w INT; INSERT INTO shop.orders VALUES (@@server_id + 20, 'b', 1)"
        )
    story.merge()
    assert story.rows() == [(1, "a"), (2, "a"), (3, "new"), (11, "a"), (12, "a")]
    third.execute("ALTER TABLE shop.orders ADD COLUMN w INT; UPDATE shop.orders SET w = 5")
    assert story.merge() == []
    assert story.rows() == story.of_shards()


def test_a_shard_that_takes_over_rows(story: Story) -> None:
    """Rows go to it before it is captured, and from the old shard without its binlog: no reader sees a move."""
    first, _, third = story.shards
    # 1. The new server has the table and the rows, and begins its binlogs after that.
    third.execute(f"{TABLE}; INSERT INTO shop.orders VALUES (11, 'a')")
    third.execute("FLUSH BINARY LOGS")
    # 2. What moves is written on the new server from now on.
    third.execute("UPDATE shop.orders SET v = 'moved' WHERE id = 11; INSERT INTO shop.orders VALUES (13, 'new')")
    # 3. The old rows go without a trace in the log.
    first.execute("SET SESSION sql_log_bin = 0; DELETE FROM shop.orders WHERE id = 11")
    story.nodes = 3
    dump = story.folder / "shard-3.sql"
    dump.write_text(f"{TABLE};".replace("CREATE DATABASE shop;", "CREATE DATABASE shop; USE shop;"))
    story.more = {"base": {"physical": {"shard-3": str(dump)}}}
    assert story.merge(shard3="binlog.000002") == []
    assert story.rows() == story.of_shards()
    for shard in story.shards:
        shard.execute(
            "ALTER TABLE shop.orders ADD COLUMN w INT; INSERT INTO shop.orders VALUES (@@server_id + 20, 'b', 1)"
        )
    assert story.merge() == []
    assert story.rows() == story.of_shards()


def test_an_output_that_moves(story: Story) -> None:
    """Configuration, captured files and output are copied to another place, and go on there with the same bytes."""
    there = story.folder.with_name("there")
    shutil.copytree(story.folder, there)
    for shard in story.shards[:2]:
        shard.execute(
            "ALTER TABLE shop.orders ADD COLUMN w INT; INSERT INTO shop.orders VALUES (@@server_id + 20, 'b', 1)"
        )
    story.merge()
    shutil.rmtree(there / "captured")
    shutil.copytree(story.folder / "captured", there / "captured")
    merge(there / "cluster.yaml", there / "out", end_of_input=False)
    assert written(there / "out") == written(story.folder / "out")
    assert story.rows() == story.of_shards()
