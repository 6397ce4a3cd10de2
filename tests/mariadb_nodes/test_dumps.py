"""MariaDB nodes whose binlogs begin behind their CREATE TABLEs: a dump of their tables, translated, is the base."""

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from binlog_merge.cli import main as cli
from tests.mariadb_nodes.stories import contents
from tests.mariadb_nodes.test_uses import _OPTIONS, _configured, _translated
from tests.mariadb_server import MariaDbServer
from tests.merge_e2e.local import merge, written
from tests.mysql_server import MySqlServer, mysqlbinlog
from tools.mariadb_server import PREFIX

pytestmark = [pytest.mark.mariadb, pytest.mark.mysql]
_CUSTOMERS = """CREATE TABLE shop.customers (
  id UUID NOT NULL DEFAULT UUID() PRIMARY KEY, name VARCHAR(40) NOT NULL DEFAULT 'nobody' COMMENT 'a; comment',
  address INET6 DEFAULT '::1', doc JSON, made TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  total DECIMAL(10,2) AS (price * 2) STORED, price DECIMAL(9,2) CHECK (price >= 0), note TEXT COMPRESSED,
  day DATE DEFAULT curdate(), KEY rank (name) IGNORED
) ENGINE=InnoDB PAGE_CHECKSUM=1"""
_ORDERS = """CREATE TABLE shop.orders (
  id INT AUTO_INCREMENT PRIMARY KEY, customer UUID, CONSTRAINT of_customer FOREIGN KEY (customer)
  REFERENCES shop.customers (id) ON DELETE CASCADE
)"""


@pytest.fixture
def node(tmp_path: Path) -> Iterator[MariaDbServer]:
    with ExitStack() as stack:
        server = MariaDbServer(tmp_path / "n1", 101, _OPTIONS)
        server.path.mkdir()
        yield stack.enter_context(server)


def _dumped(server: MariaDbServer, *options: str) -> str:
    ((socket,),) = server.query("SELECT @@socket")
    command = [PREFIX / "root/usr/bin/mariadb-dump", "--no-defaults", f"--socket={socket}", "--user=root"]
    return subprocess.run([*command, "--no-data", *options], capture_output=True, check=True, text=True).stdout


def test_a_dump_is_the_base(node: MariaDbServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    node.query("CREATE DATABASE shop")
    node.query(_CUSTOMERS)
    node.query(_ORDERS)
    node.query("CREATE TRIGGER shop.t BEFORE INSERT ON shop.orders FOR EACH ROW BEGIN SET @x = 1; SET @y = 2; END")
    dump = tmp_path / "dump.sql"
    dump.write_text(_dumped(node, "--databases", "shop"))
    node.query("RESET MASTER")
    for number in range(3):
        node.query(f"INSERT INTO shop.customers (name, price) VALUES ('name {number}', {number})")
    node.query("INSERT INTO shop.orders (customer) SELECT id FROM shop.customers")
    node.query("ALTER TABLE shop.customers ADD COLUMN IF NOT EXISTS more INT DEFAULT 5, DROP COLUMN IF EXISTS gone")
    node.query("UPDATE shop.customers SET more = 6, name = 'other' WHERE price = 1")
    assert cli.run(["from-mariadb", "--dump", str(dump)]) == 0
    base = tmp_path / "base.sql"
    base.write_text(capsys.readouterr().out)
    files = _translated([node], tmp_path / "made")
    path = _configured(
        tmp_path, files, base={"physical": {"n1": str(base)}}, **{"commit-tso": {"carrier": "gtid-time"}}
    )
    result = merge(path, tmp_path / "out")
    assert result.warnings == ()
    with MySqlServer(tmp_path / "target", 200) as target:
        target.apply(base.read_bytes())
        target.apply(mysqlbinlog([tmp_path / "out" / name for name in written(tmp_path / "out")]))
        for table, columns in (
            ("customers", "BIN_TO_UUID(id), name, INET6_NTOA(address), CAST(total AS CHAR), more"),
            ("orders", "id, BIN_TO_UUID(customer)"),
        ):
            own = columns.replace("BIN_TO_UUID", "").replace("INET6_NTOA", "")
            expected = sorted(node.query(f"SELECT {own} FROM shop.{table}"), key=repr)
            assert sorted(target.query(f"SELECT {columns} FROM shop.{table}"), key=repr) == expected
    assert contents(node, "shop", "customers")[1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--dump", "DUMP"], "its first lines do not name the server version of a MariaDB"),
        (["--dump", "DUMP", "--to", "x"], "--dump takes one FILE alone, and prints"),
        (["--dump", "DUMP", "DUMP"], "--dump takes one FILE alone, and prints"),
        (["DUMP"], "--to is missing"),
        (["--dump", "nowhere.sql"], "cannot be read"),
    ],
)
def test_what_is_wrong_is_said(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dump = tmp_path / "dump.sql"
    dump.write_text("-- MySQL dump 10.13\n-- Server version\t9.7.4\nCREATE TABLE t (id INT);\n")
    assert cli.run(["from-mariadb", *(str(dump) if one == "DUMP" else one for one in arguments)]) in (2, 29, 31)
    assert said in capsys.readouterr().err
