"""Two real MariaDB shards, translated and merged: the rows on a MySQL 9.7 are those of the shards."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from binlog_merge.mariadb_nodes.folder import FolderTranslation
from tests.effort import effort
from tests.mariadb_nodes.stories import NODES, Story, configuration, contents, tables_of
from tests.mariadb_server import MariaDbServer
from tests.merge_e2e.local import merge, written
from tests.mysql_server import MySqlServer, mysqlbinlog

pytestmark = [pytest.mark.mariadb, pytest.mark.mysql]
_OPTIONS = (
    ("--log-bin=mysql-bin", "--binlog-format=ROW", "--character-set-server=utf8mb4"),
    (
        "--log-bin=mysql-bin", "--binlog-format=ROW", "--log-bin-compress=1", "--log-bin-compress-min-len=10",
        "--binlog-row-metadata=FULL", "--binlog-checksum=NONE", "--binlog-annotate-row-events=OFF",
        "--gtid-domain-id=9", "--max-binlog-size=8192", "--character-set-server=utf8mb4",
    ),
)  # fmt: skip


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, MariaDbServer]]:
    folder = tmp_path_factory.mktemp("maria")
    servers = {node: MariaDbServer(folder / node, 101 + number, _OPTIONS[number]) for number, node in enumerate(NODES)}
    try:
        for server in servers.values():
            server.path.mkdir()
            server.start()
        yield servers
    finally:
        for server in servers.values():
            server.stop()


def _play(seed: int, steps: int, nodes: dict[str, MariaDbServer], folder: Path) -> Path:
    for server in nodes.values():
        for schema in {schema for schema, _ in tables_of(server)} | {"shop_1", "shop_2", "own_1", "own_2"}:
            server.query(f"DROP DATABASE IF EXISTS {schema}")
        server.query("RESET MASTER")
    story = Story(seed, nodes)
    story.begin()
    story.play(steps)
    story.end()
    for node, server in nodes.items():
        FolderTranslation([str(server.data)], folder / node, lambda text: None).advance()
    return configuration(folder)


def _compare(nodes: dict[str, MariaDbServer], target: MySqlServer) -> int:
    count = 0
    shards: dict[str, list[tuple[str | None, ...]]] = {}
    for server in nodes.values():
        for schema, table in tables_of(server):
            columns, rows = contents(server, schema, table)
            if table == "orders":
                shards.setdefault(",".join(columns), []).extend(rows)
                continue
            assert contents(target, schema, table) == (columns, rows), f"{schema}.{table}"
            count += len(rows)
    for names, rows in shards.items():
        columns, merged = contents(target, "shop", "orders")
        assert (",".join(columns), merged) == (names, sorted(rows, key=repr))
        count += len(rows)
    return count


def _tell(seed: int, steps: int, nodes: dict[str, MariaDbServer], target: MySqlServer, folder: Path) -> None:
    path = _play(seed, steps, nodes, folder)
    merge(path, folder / "out")
    target.drop_databases()
    target.execute("RESET BINARY LOGS AND GTIDS")
    target.apply(mysqlbinlog([folder / "out" / name for name in written(folder / "out")]))
    assert _compare(nodes, target) > steps


def test_a_story_of_two_shards(nodes: dict[str, MariaDbServer], mysql_server: MySqlServer, tmp_path: Path) -> None:
    _tell(1, 60, nodes, mysql_server, tmp_path)


@pytest.mark.extended
@pytest.mark.parametrize("seed", range(2, 2 + effort(6, 40)))
def test_stories_of_two_shards(
    seed: int, nodes: dict[str, MariaDbServer], mysql_server: MySqlServer, tmp_path: Path
) -> None:
    _tell(seed, 150, nodes, mysql_server, tmp_path)
