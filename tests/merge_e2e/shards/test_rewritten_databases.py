"""A replica with replicate-rewrite-db has DDL and rows in the database that it gives them, as one of the node has.

MySQL puts another name in place of a statement's default database, and of the database of rows; it does not look into
a statement's text. So what comes out must not say a database that the node's text does not say.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from tests.binlog_server.running import PASSWORD, USER, Source, caught_up, executes, replica_of, serving
from tests.effort import keeping
from tests.merge_e2e.local import merge, written
from tests.merge_e2e.shards.stage import Route, Stage, databases
from tests.merge_e2e.test_ddl_session import held
from tests.mysql_server import MySqlServer, mysqlbinlog
from tests.node_capture.capturing import ALONE
from tests.node_capture.pairs import free_port

pytestmark = pytest.mark.mysql

STORY = """
CREATE TABLE parent (id INT PRIMARY KEY, v VARCHAR(9))
INSERT INTO parent VALUES (1, 'a'), (2, 'b')
CREATE TABLE t (id INT PRIMARY KEY, p INT, CHECK (id > 0), FOREIGN KEY (p) REFERENCES parent (id))
INSERT INTO t VALUES (1, 1), (2, NULL)
ALTER TABLE t ADD c INT DEFAULT 5, ADD d VARCHAR(64) DEFAULT 'shop.t'
CREATE INDEX i ON t (p, c)
ALTER TABLE other.o ADD c INT
CREATE TABLE u LIKE t
INSERT INTO u (id) VALUES (7)
CREATE TABLE l LIKE other.o
CREATE TABLE s SELECT id, v FROM parent
CREATE TABLE r (id INT PRIMARY KEY, o INT, FOREIGN KEY (o) REFERENCES other.o (id))
RENAME TABLE u TO w, s TO u
ALTER TABLE w RENAME TO x, DROP c
INSERT INTO x (id) VALUES (8)
TRUNCATE TABLE u
INSERT INTO u VALUES (9, 'z')
CREATE TABLE y (id INT PRIMARY KEY) PARTITION BY HASH (id) PARTITIONS 2
DROP TABLE y, l
UPDATE t SET c = c + 1
"""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MySqlServer]:
    """A node of which a server can be the replica."""
    with MySqlServer(tmp_path_factory.mktemp("node"), server_id=203, port=free_port()) as server:
        server.execute(
            f"SET sql_log_bin = 0; CREATE USER {USER}@'%' IDENTIFIED WITH caching_sha2_password BY '{PASSWORD}';"
            f"GRANT REPLICATION SLAVE ON *.* TO {USER}@'%'"
        )
        yield server


class Target:
    """A server that is a replica with replicate-rewrite-db."""

    def __init__(self, server: MySqlServer) -> None:
        self.server = server

    @contextmanager
    def rewriting(self, source: Source, *pairs: tuple[str, str]) -> Iterator[None]:
        """Make it an empty replica that has the databases to which others are rewritten."""
        self.server.drop_databases()
        self.server.execute("RESET BINARY LOGS AND GTIDS")
        self.server.execute("; ".join(["SET sql_log_bin = 0", *(f"CREATE DATABASE {new}" for _, new in pairs)]))
        self._filter(", ".join(f"({old}, {new})" for old, new in pairs))
        try:
            place = "SOURCE_AUTO_POSITION=1, SOURCE_SSL=0, GET_SOURCE_PUBLIC_KEY=1"
            with replica_of(self.server, source, place):
                yield
        finally:
            self._filter("")

    def _filter(self, pairs: str) -> None:
        self.server.execute(f"CHANGE REPLICATION FILTER REPLICATE_REWRITE_DB = ({pairs})")


def test_it_is_as_a_replica_of_the_node(node: MySqlServer, mysql_server: MySqlServer, tmp_path: Path) -> None:
    """The replicas rewrite `shop`, whose statements do not say it; `other`, which one of them says, is as it is."""
    node.execute("CREATE DATABASE shop; CREATE DATABASE other")
    node.execute("CREATE TABLE o (id INT PRIMARY KEY)", "other")
    node.execute(";".join(STORY.strip().splitlines()), "shop")
    ((executed,),) = node.query("SELECT @@gtid_executed")
    node.execute("FLUSH BINARY LOGS")
    nodes = [{"source-id": "dn-1", "files": [f"{node.data}/binlog.*"]}]
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump({"version": 1, "name": "one", "nodes": nodes, **ALONE}))
    out = tmp_path / "out"
    merge(tmp_path / "cluster.yaml", out)
    target = Target(mysql_server)
    with target.rewriting(node, ("shop", "moved")):  # type: ignore[arg-type]
        executes(mysql_server, str(executed))
        plain = held(mysql_server)
    assert {"shop", "`moved`.`x`", "`other`.`o`"} <= plain.keys()
    with serving(out) as source, target.rewriting(source, ("shop", "moved")):
        caught_up(mysql_server, out)
        assert held(mysql_server) == plain
    mysql_server.drop_databases()
    mysql_server.execute("CREATE DATABASE moved")
    files = [out / name for name in written(out)]
    mysql_server.apply(mysqlbinlog(files, "--rewrite-db=shop->moved", "--skip-gtids"))
    assert held(mysql_server) == plain


ROUTES = (
    Route("app_*", "t_?", ("shop", "t")),
    Route("app_*", "parent_?", ("shop", "parent")),
    Route("app_*", "log_?", ("logs", "log")),
    Route("app_*", "*", ("base", "")),
)
SHARDS = """
CREATE DATABASE app_{n}
USE app_{n}
CREATE TABLE parent_{n} (id INT PRIMARY KEY, v VARCHAR(9))
CREATE TABLE t_{n} (id INT PRIMARY KEY, p INT, CHECK (id > 0), FOREIGN KEY (p) REFERENCES parent_{n} (id))
CREATE TABLE log_{n} (id INT PRIMARY KEY)
CREATE TABLE kept_{n} (id INT PRIMARY KEY)
INSERT INTO parent_{n} VALUES ({n}, 'a')
INSERT INTO t_{n} VALUES ({n}, {n})
ALTER TABLE t_{n} ADD c INT NOT NULL, ADD KEY k (c)
ALTER TABLE log_{n} ADD c INT
CREATE INDEX i ON kept_{n} (id)
INSERT INTO t_{n} VALUES (1{n}, NULL, 3)
INSERT INTO log_{n} VALUES ({n}, 4)
ALTER TABLE t_{n} DROP FOREIGN KEY t_{n}_ibfk_1, MODIFY p BIGINT
TRUNCATE TABLE log_{n}
ALTER TABLE kept_{n} RENAME TO held_{n}
INSERT INTO held_{n} VALUES ({n})
DROP TABLE parent_{n}
"""
REWRITTEN = (("shop", "moved"), ("logs", "elsewhere"), ("base", "rest"))


@pytest.mark.parametrize("mode", keeping(["pessimistic"], ["pessimistic", "optimistic"]))
def test_shards_and_routes(stage: Stage, mode: str) -> None:
    """What the replica has is what a target has that takes all as it comes, under the other databases."""
    stage.clear()
    with stage.scene(mode, ROUTES) as (sessions, found):
        for sql in SHARDS.strip().splitlines():
            for number, session in enumerate(sessions.values(), start=1):
                session.run(sql.format(n=number))
    routes = [{key: value for key, value in route.section().items() if value not in ("*", "")} for route in ROUTES]
    path = stage.configuration(mode, found, mode, sections={"routes": routes})
    out = path.parent / "out"
    merge(path, out)
    stage.carry_out(out)
    new = dict(REWRITTEN)
    expected = {_under(name, new): value for name, value in held(stage.target).items() if name.startswith("`")}
    assert {"`moved`.`t`", "`elsewhere`.`log`", "`rest`.`held_1`", "`rest`.`held_2`"} == expected.keys()
    with serving(out) as source, Target(stage.target).rewriting(source, *REWRITTEN):
        caught_up(stage.target, out)
        replica = held(stage.target)
    assert {name: value for name, value in replica.items() if name.startswith("`")} == expected
    assert set(new) <= set(databases(stage.target)), "databases are made under their own names"


def _under(name: str, new: dict[str, str]) -> str:
    schema, _, table = name.replace("`", "").partition(".")
    return f"`{new[schema]}`.`{table}`"
