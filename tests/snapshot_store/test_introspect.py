"""A base from a live server: what it has, at one moment, also while others change it."""

import threading

import pytest

from snapshot_store import introspect as module
from snapshot_store.errors import UnknownSchema
from snapshot_store.introspect import ServerRefused, introspect
from snapshot_store.render_sql import make_sql, type_sql
from snapshot_store.server import ServerAddress
from tests.mysql_server import MySqlServer

TABLES = """
    CREATE DATABASE d DEFAULT CHARACTER SET latin1;
    CREATE DATABASE `o-d``d`;
    CREATE TABLE d.plain (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(20) NOT NULL DEFAULT 'a''b', j JSON,
        t TIMESTAMP(3) NULL ON UPDATE CURRENT_TIMESTAMP(3), u FLOAT UNSIGNED, g INT AS (u + 1) STORED INVISIBLE,
        e ENUM('x', 'y''z') CHARACTER SET utf8mb4, p POINT NOT NULL SRID 4326, SPATIAL KEY (p),
        KEY k ((u + 1), v(3) DESC),
        CONSTRAINT c CHECK (u > 0)) COMMENT 'it''s';
    CREATE TABLE d.parted (id INT PRIMARY KEY, c INT, KEY (c)) PARTITION BY HASH (id) PARTITIONS 4;
    CREATE TABLE d.child (id INT, CONSTRAINT f FOREIGN KEY (id) REFERENCES plain (id) ON DELETE CASCADE);
    CREATE TABLE `o-d``d`.`数据 表` (`列` VECTOR(3));
    CREATE VIEW d.seen AS SELECT id FROM d.plain
"""

COLUMNS = """
    SELECT table_schema, table_name, column_name, column_type, is_nullable, collation_name, column_comment
    FROM information_schema.columns WHERE table_schema IN ('d', 'o-d`d') AND table_name <> 'seen'
"""

pytestmark = pytest.mark.mysql


def address(server: MySqlServer, user: str = "root", password: str = "") -> ServerAddress:
    return ServerAddress.parse(f"mysql://{user}@localhost/?socket={server.socket}", password)


def test_all_tables_as_information_schema_has_them(mysql_server: MySqlServer) -> None:
    mysql_server.execute(TABLES)
    snapshot = introspect(address(mysql_server))
    assert set(snapshot.catalog.schemas) == {"d", "o-d`d"}
    assert snapshot.catalog.schemas["d"].charset == "latin1"
    ours = [
        (*place, c.name, type_sql(c.type), "YES" if c.nullable else "NO", c.type.collation, c.comment)
        for place, table in snapshot.catalog.tables.items()
        for c in table.columns
    ]
    assert sorted(ours, key=repr) == sorted(mysql_server.query(COLUMNS), key=repr)
    ((file, position, *_),) = mysql_server.query("SHOW BINARY LOG STATUS")
    assert (snapshot.file, snapshot.position) == (file, position)
    assert snapshot.version.startswith("9.")


def test_a_key_that_the_server_made_and_hides(mysql_server: MySqlServer) -> None:
    mysql_server.execute(
        "CREATE DATABASE d; SET sql_generate_invisible_primary_key = 1; CREATE TABLE d.t (v INT);"
        "SET GLOBAL show_gipk_in_create_table_and_information_schema = 0;"
        "CREATE USER not_root IDENTIFIED BY 'x'; GRANT SELECT ON d.* TO not_root"
    )
    try:
        assert "my_row_id" not in str(mysql_server.query("SHOW CREATE TABLE d.t"))
        for user in (address(mysql_server), address(mysql_server, "not_root", "x")):
            assert [c.name for c in introspect(user).catalog.table("d", "t").columns] == ["my_row_id", "v"]
    finally:
        mysql_server.execute("SET GLOBAL show_gipk_in_create_table_and_information_schema = 1; DROP USER not_root")


def test_columns_without_a_default(mysql_server: MySqlServer) -> None:
    mysql_server.execute(
        "CREATE DATABASE d; CREATE TABLE d.t (a INT, b INT, c TEXT, e TIMESTAMP NULL, f VARCHAR(9) NOT NULL, "
        "g INT AS (1)); ALTER TABLE d.t ALTER a DROP DEFAULT, ALTER e DROP DEFAULT"
    )
    table = introspect(address(mysql_server)).catalog.table("d", "t")
    without = [c.name for c in table.columns if c.default is None]
    assert without == ["a", "e", "f", "g"]
    mysql_server.execute("DROP TABLE d.t; " + "; ".join(make_sql(table)))
    assert introspect(address(mysql_server)).catalog.table("d", "t") == table


def test_some_schemas(mysql_server: MySqlServer) -> None:
    mysql_server.execute(TABLES)
    assert set(introspect(address(mysql_server), ["o-d`d"]).catalog.tables) == {("o-d`d", "数据 表")}
    with pytest.raises(UnknownSchema, match="no schema nothing"):
        introspect(address(mysql_server), ["nothing"])


@pytest.mark.parametrize("privileged", [True, False])
def test_a_pass_sees_one_moment(mysql_server: MySqlServer, privileged: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two tables swap names, each with the other's column; a pass across a swap would see one column twice."""
    monkeypatch.setattr(module, "PASSES", 200)
    mysql_server.execute("CREATE DATABASE d; CREATE TABLE d.a (x INT); CREATE TABLE d.b (y INT)")
    mysql_server.execute(
        "CREATE USER IF NOT EXISTS plain@localhost IDENTIFIED BY 'p w'; GRANT SELECT ON *.* TO plain@localhost"
    )
    stop = threading.Event()

    def swap() -> None:
        connection = mysql_server.connect("d")
        with connection.cursor() as cursor:
            while not stop.wait(0 if privileged else 0.5):
                cursor.execute("RENAME TABLE a TO c, b TO a, c TO b")
        connection.close()

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        seen = set()
        for _ in range(15 if privileged else 4):
            asked = address(mysql_server) if privileged else address(mysql_server, "plain", "p w")
            snapshot = introspect(asked)
            seen.add(tuple(t.columns[0].name for _, t in sorted(snapshot.catalog.tables.items())))
            assert bool(snapshot.file) is privileged
    finally:
        stop.set()
        thread.join()
    assert seen <= {("x", "y"), ("y", "x")}


def test_tables_that_never_stand_still_are_refused(mysql_server: MySqlServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module._Pass, "_try", lambda self, sql: False)
    reads = iter(range(100))
    monkeypatch.setattr(module._Pass, "_read", lambda self: next(reads))
    with pytest.raises(ServerRefused, match="changed during each of 5 passes"):
        introspect(address(mysql_server))


def test_a_server_that_does_not_let_us_in(mysql_server: MySqlServer) -> None:
    with pytest.raises(ServerRefused, match=r"mysql://nobody@.* cannot be reached") as caught:
        introspect(address(mysql_server, "nobody", "s3cret"))
    assert "s3cret" not in str(caught.value)
    with pytest.raises(ServerRefused, match="cannot be reached"):
        introspect(ServerAddress.parse("mysql://root@127.0.0.1:1"))


def test_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    full = ServerAddress.parse("mysql://me:p%40ss@db.example:3307")
    assert (full.host, full.port, full.user, full.password) == ("db.example", 3307, "me", "p@ss")
    assert "p@ss" not in repr(full) + str(full)
    monkeypatch.setenv("MYSQL_PWD", "from env")
    assert ServerAddress.parse("me@db").password == "from env"
    assert ServerAddress.parse("me@db", "given").password == "given"
    for bad in ("http://x", "mysql://", ""):
        with pytest.raises(ValueError, match="write mysql://"):
            ServerAddress.parse(bad)
