"""pgloader makes the same PostgreSQL database of a MySQL and of the log of that: tables, keys, comments, rows."""

import contextlib
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from binlog_merge.protocol.passwords import native_text
from tests.binlog_server.one_node import known_to, merged_from
from tests.binlog_server.running import USER
from tests.clients.conftest import client
from tests.clients.older import as_older
from tests.clients.postgres import postgres
from tests.clients.served import served
from tests.mysql_server import MySqlServer
from tests.patience import completed
from tools.demo_live.cluster import free_ports

pytestmark = [pytest.mark.clients, pytest.mark.mysql]
PASSWORD = "secret"  # pgloader takes no blank in one
TABLES = """
CREATE DATABASE sales COLLATE utf8mb4_general_ci; USE sales;
CREATE TABLE customers (
  id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, name VARCHAR(60) NOT NULL COMMENT 'as on the bill',
  born DATE, tags SET('new','big') DEFAULT 'new', seen TIMESTAMP NULL, UNIQUE KEY by_name (name)
) COMMENT='who buys';
CREATE TABLE orders (
  id BIGINT PRIMARY KEY AUTO_INCREMENT, customer INT UNSIGNED NOT NULL, total DECIMAL(12,2) NOT NULL DEFAULT 0,
  state ENUM('open','paid','it''s gone') DEFAULT 'open', made DATETIME(3) NOT NULL, notes TEXT, data JSON, raw BLOB,
  weight DOUBLE, ok TINYINT(1) DEFAULT 1, KEY by_customer (customer, made), KEY by_state (state),
  CONSTRAINT of_customer FOREIGN KEY (customer) REFERENCES customers (id) ON DELETE CASCADE,
  CONSTRAINT positive CHECK (total >= 0));
CREATE TABLE places (a INT, b VARCHAR(10), c YEAR, d TIME, PRIMARY KEY (a, b), FULLTEXT KEY words (b))
  DEFAULT CHARSET=latin1;
CREATE VIEW paid AS SELECT id FROM orders WHERE state = 'paid';
INSERT INTO customers (name, born, tags, seen) VALUES ('Zoë', '1970-01-02', 'new,big', '2026-01-02 03:04:05'),
  ('Ann O''Neil', NULL, '', NULL), ('\\\\ back\\tslash', '2000-02-29', NULL, '1999-12-31 23:59:59');
INSERT INTO orders VALUES
  (1, 1, 10.50, 'open', '2026-01-02 03:04:05.678', 'é\\n', '{"a": [1, null]}', X'00FF', 1e-7, 1),
  (2, 1, 0, 'paid', '2026-01-02 03:04:05', NULL, NULL, NULL, NULL, NULL),
  (3, 3, 9999999999.99, 'it''s gone', '2026-12-31 23:59:59.999', '', '"x"', '', -2.5, 0);
INSERT INTO places VALUES (1, 'é', 1999, '01:02:03'), (2, '', NULL, '23:00:00');
"""


@dataclass(frozen=True)
class Both:
    """A MySQL and a `serve` of its log, by their ports, as one that older clients can use, too."""

    server: MySqlServer
    folder: Path
    ports: dict[str, int] = field(default_factory=dict)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    folder = tmp_path_factory.mktemp("both")
    users = folder / "users.yaml"
    users.write_text(f"users: [{{name: {USER}, password: '{native_text(PASSWORD)}'}}]")
    (port,) = free_ports(1)
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(MySqlServer(folder / "mysql", server_id=7, port=port))
        server.execute(TABLES)
        stack.enter_context(known_to(server))
        out = merged_from(server, folder)
        ours = stack.enter_context(served(out, folder, f"--tables={folder / 'tables.db'}", f"--users={users}"))
        yield Both(server, folder, {"mysql": stack.enter_context(as_older(port)), "serve": ours.port})


def test_pgloader_makes_the_same_of_both(both: Both, tmp_path: Path) -> None:
    """Tables, keys, foreign keys, comments and rows, as pg_dump writes them.

    In the collation that PolarDB-X has by default: this pgloader stops at those of MySQL 8, 255 and its like.
    """
    dumps = {}
    with postgres(tmp_path) as target:
        for name, port in both.ports.items():
            target.run("createdb", name)
            source = f"mysql://{USER}:{PASSWORD}@127.0.0.1:{port}/sales"
            command = [client("debian", "bin", "pgloader"), source, target.url(name)]
            done = completed(command, 300, cwd=tmp_path)
            told = done.stdout + done.stderr
            assert done.returncode == 0 and not re.search("ERROR|FATAL|WARNING", told), told
            # pgloader names indexes after the number that PostgreSQL gives the table.
            dumps[name] = re.sub(r"\bidx_\d+", "idx", target.run("pg_dump", "--inserts", name)).splitlines()
    theirs, ours = (Counter(line for line in dump if "restrict" not in line) for dump in dumps.values())
    assert (ours - theirs, theirs - ours) == (Counter(), Counter())
    counts = [both.server.query(f"SELECT COUNT(*) FROM sales.{table}") for table in ("customers", "orders", "places")]
    inserts = sum(line.startswith("INSERT INTO sales.") for line in theirs.elements())
    assert inserts == sum(count for ((count,),) in counts) > 5
    for part in ("FOREIGN KEY (customer) REFERENCES sales.customers(id)", "COMMENT ON COLUMN", "CREATE INDEX"):
        assert any(part in line for line in theirs), part
