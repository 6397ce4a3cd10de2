"""A MODIFY in the range is passed over where the new column has each old value, and stops it everywhere else."""

from pathlib import Path
from uuid import uuid4

import pytest

from binlog_merge.log.log import Log
from binlog_merge.time_travel.passable_ddl import Written, after_ddl
from snapshot_store.ddl import DdlSession, ParsedDdl, apply_ddl
from snapshot_store.ddl.public import parse_table
from snapshot_store.model import Catalog, Schema
from tests.merge_e2e.cases import case_named
from tests.merge_e2e.local import merge
from tests.merge_e2e.local import written as merged_files
from tests.merge_e2e.tables import begin_as
from tests.mysql_server import MySqlServer, mysqlbinlog
from tests.time_travel.changing import written
from tests.time_travel.test_flashback import Captured, flashback

WIDER = (
    ("INT", "BIGINT", "-2147483648", "9223372036854775807"),
    ("TINYINT UNSIGNED", "SMALLINT", "255", "-32768"),
    ("VARCHAR(5)", "VARCHAR(300)", "'ab  '", "REPEAT('é', 300)"),
    ("CHAR(3) CHARACTER SET gbk", "CHAR(9) CHARACTER SET gbk", "'订单'", "'订单订单'"),
    ("VARCHAR(9) COLLATE utf8mb4_bin", "MEDIUMTEXT COLLATE utf8mb4_bin", "'B '", "'a longer text'"),
    ("TINYBLOB", "LONGBLOB", "x'00ff'", "REPEAT('b', 300)"),
    ("VARBINARY(4)", "VARBINARY(40)", "x'0061'", "'a longer one'"),
    ("ENUM('a','b')", "ENUM('a','b','c')", "'b'", "'c'"),
    ("SET('x','y')", "SET('x','y','z')", "'x,y'", "'x,z'"),
    ("DECIMAL(6,2)", "DECIMAL(12,4)", "-9999.99", "12345678.0001"),
    ("DATETIME", "DATETIME(6)", "'2024-02-29 01:02:03'", "'2024-02-29 01:02:03.000001'"),
    ("TIME(1)", "TIME(3)", "'-838:59:58.5'", "'00:00:00.001'"),
    ("TIMESTAMP NULL", "TIMESTAMP(3) NULL", "'2024-02-29 01:02:03'", "'2024-02-29 01:02:03.004'"),
    ("JSON NOT NULL", "JSON NULL DEFAULT NULL", """'{"a": 1}'""", "NULL"),
    ("DOUBLE", "DOUBLE DEFAULT 1.5 COMMENT 'new'", "0.1", "1e300"),
)
OLD = ", ".join(f"c{i} {old}" for i, (old, *_) in enumerate(WIDER))
MODIFY = ", ".join(f"MODIFY c{i} {new}" for i, (_, new, *_) in enumerate(WIDER))


def _row(number: int, side: int) -> str:
    """Return a row with the first value of each column (2), or the one that only the new type has (3)."""
    return f"({number}, {', '.join(pair[side] for pair in WIDER)})"


@pytest.mark.mysql
@pytest.mark.parametrize("key", ["id INT", "id INT PRIMARY KEY"])
def test_rows_from_before_it_are_undone(mysql_server: MySqlServer, tmp_path: Path, capsys: Captured, key: str) -> None:
    log = written(
        mysql_server,
        tmp_path / "log",
        f"DELETE FROM orders WHERE id = 1; INSERT INTO orders VALUES {_row(3, 2)};"
        f"UPDATE orders SET c0 = 5, c2 = 'z', c9 = 1 WHERE id = 2; ALTER TABLE orders {MODIFY}, MODIFY id BIGINT FIRST;"
        f"INSERT INTO orders VALUES {_row(4, 3)}; UPDATE orders SET c0 = 1 << 40, c7 = 'c', c9 = 0.0001;",
        f"CREATE TABLE orders ({key}, {OLD}); INSERT INTO orders VALUES {_row(1, 2)}, {_row(2, 2)};"
        f"CREATE TABLE as_it_was LIKE orders; INSERT INTO as_it_was SELECT * FROM orders;"
        f"ALTER TABLE as_it_was {MODIFY}, MODIFY id BIGINT FIRST;",
    )
    assert flashback(log, 1, 6) == 60
    assert "--across-ddl passes over this one" in capsys.readouterr().err
    assert flashback(log, 1, 6, "--across-ddl", "-o", "binlog", "--to", str(tmp_path / "undo")) == 60
    assert "-o sql with --across-ddl passes over this one" in capsys.readouterr().err
    assert flashback(log, 1, 6, "--across-ddl") == 0
    undo = capsys.readouterr().out
    address = f"mysql://root@localhost/?socket={mysql_server.socket}"
    assert flashback(log, 1, 6, "--across-ddl", "--check", address) == 0
    mysql_server.apply(undo.encode())
    tables = [mysql_server.query(f"SELECT * FROM shop.{name} ORDER BY id") for name in ("orders", "as_it_was")]
    assert tables[0] == tables[1] and len(tables[0]) == 2


@pytest.mark.mysql
def test_row_images_fit_while_cells_keep_their_form(
    mysql_server: MySqlServer, tmp_path: Path, capsys: Captured
) -> None:
    log = written(
        mysql_server,
        tmp_path / "log",
        "DELETE FROM orders; ALTER TABLE orders MODIFY kind ENUM('a','b','c') NULL DEFAULT 'c';"
        "INSERT INTO orders VALUES (2, 'c'), (3, NULL);",
        "CREATE TABLE orders (id INT PRIMARY KEY, kind ENUM('a','b') NOT NULL); INSERT INTO orders VALUES (1, 'b');",
    )
    options = ["-o", "binlog", "--to", str(tmp_path / "undo"), "--gtids", str(uuid4())]
    assert flashback(log, 1, 3, "--across-ddl", *options) == 0
    mysql_server.apply(mysqlbinlog([tmp_path / "undo"]))
    assert mysql_server.query("SELECT * FROM shop.orders") == [(1, "b")]


REFUSED = (
    ("BIGINT", "INT"), ("INT UNSIGNED", "INT"), ("INT", "BIGINT UNSIGNED"), ("INT", "DECIMAL(20)"), ("INT", "CHAR(20)"),
    ("VARCHAR(9)", "VARCHAR(8)"), ("VARCHAR(9)", "VARCHAR(9) CHARACTER SET latin1"), ("VARCHAR(9)", "TINYTEXT"),
    ("VARCHAR(9)", "VARCHAR(9) COLLATE utf8mb4_bin"), ("TEXT", "BLOB"), ("VARCHAR(9)", "BLOB"), ("TEXT", "VARCHAR(99)"),
    ("BINARY(3)", "BINARY(4)"), ("ENUM('a','b')", "ENUM('b','a')"), ("ENUM('a','b')", "ENUM('a')"),
    ("ENUM('a')", "ENUM('a','')"), ("DECIMAL(6,2)", "DECIMAL(6,3)"), ("DECIMAL(6,2)", "DECIMAL(8,1)"),
    ("DECIMAL(6,2)", "DECIMAL(8,2) UNSIGNED"), ("FLOAT", "DOUBLE"), ("DATETIME(3)", "DATETIME"), ("DATE", "DATETIME"),
    ("INT", "INT NOT NULL"), ("INT", "INT AS (1)"), ("INT NOT NULL", "INT NOT NULL AUTO_INCREMENT"),
    ("TIMESTAMP NULL", "TIMESTAMP NULL ON UPDATE NOW()"), ("INT UNSIGNED", "INT ZEROFILL"), ("POINT", "POINT SRID 0"),
    ("DECIMAL(6,2) UNIQUE", "DECIMAL(8,3)"), ("DATETIME UNIQUE", "DATETIME(3)"), ("INT NOT NULL UNIQUE", "INT NULL"),
)  # fmt: skip


@pytest.mark.parametrize(("old", "new"), REFUSED)
def test_what_old_values_would_not_be_the_same_in(old: str, new: str) -> None:
    table = parse_table(f"CREATE TABLE t (id INT PRIMARY KEY, c {old})", schema="shop")

    def after(definition: str) -> object:
        sql = f"ALTER TABLE t MODIFY c {definition}"
        assert apply_ddl(Catalog().with_schema(Schema("shop")).with_table(table), sql, "shop").kind == "ALTER TABLE"
        return after_ddl(ParsedDdl.of(sql, DdlSession()), frozenset([table]), Written.NAMED)

    assert after(old.removesuffix(" UNIQUE")) is not None
    assert after(new) is None


def test_each_definition_that_rows_had_counts_and_so_does_what_is_not_known() -> None:
    def after(sql: str, *before: str | None) -> object:
        tables = frozenset(None if b is None else parse_table(f"CREATE TABLE t ({b})", schema="shop") for b in before)
        return after_ddl(ParsedDdl.of(f"ALTER TABLE t {sql}", DdlSession()), tables, Written.NAMED)

    assert after("MODIFY c BIGINT", "c INT", "c BIGINT") == {parse_table("CREATE TABLE t (c BIGINT)", schema="shop")}
    assert after("MODIFY c INT", "c INT", "c BIGINT") is None
    assert after("MODIFY c BIGINT", "c INT", None) is None
    assert after("MODIFY c BIGINT") is None
    assert after("CHANGE c d BIGINT", "c INT") is None
    assert after("ADD d INT", None) == {None}
    assert after("ADD d TIMESTAMP NULL ON UPDATE NOW()", "c INT") is None


@pytest.mark.mysql
def test_a_merged_log_says_what_the_columns_were(mysql_server: MySqlServer, tmp_path: Path, capsys: Captured) -> None:
    """Its second DDL on shop.orders makes two columns wider, its first one adds a column."""
    case = case_named("three-nodes-online-ddl")
    merge(case / "cluster.yaml", tmp_path / "log")
    begin_as(case, mysql_server)
    columns = "id, customer, quantity, price, state, placed_at"
    before = mysql_server.query(f"SELECT {columns} FROM shop.orders ORDER BY id")
    mysql_server.apply(mysqlbinlog([tmp_path / "log" / name for name in merged_files(tmp_path / "log")]))
    after = mysql_server.query(f"SELECT {columns} FROM shop.orders ORDER BY id")
    log = Log(tmp_path / "log")
    assert flashback(log, 1, log.last_rank, "--across-ddl") == 0
    out, error = capsys.readouterr()
    assert "passed over" in error and "MODIFY COLUMN quantity BIGINT" in error
    mysql_server.apply(out.encode())
    assert mysql_server.query(f"SELECT {columns} FROM shop.orders ORDER BY id") == before != after
