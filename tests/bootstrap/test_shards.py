"""Plain MySQL without markers and without a global clock: shards with a column that their route fills in, and keys."""

import threading
from pathlib import Path

import duckdb
import pytest

from binlog_merge.cli import main as cli
from tests.bootstrap.running import Running, kept_beside, until
from tools.mysql_server import MySqlServer

pytestmark = pytest.mark.mysql

CONFIG = """version: 1
name: shards
nodes:
  - {{source-id: a, server: "mysql://root@localhost/?socket={0}"}}
  - {{source-id: b, server: "mysql://root@localhost/?socket={1}"}}
routes:
  - schema-pattern: shop
    table-pattern: orders_*
    target-schema: shop
    target-table: orders
    extract-table: {{table-regexp: "orders_(.*)", target-column: shard}}
shard-mode: pessimistic
base: {{store: base.duckdb}}
output: {{dir: merged}}
"""


@pytest.mark.extended  # test_three_shards has shards without markers, a column from their route, and load
def test_shards_without_markers(tmp_path: Path) -> None:
    with MySqlServer(tmp_path / "a", 101) as one, MySqlServer(tmp_path / "b", 102) as two:
        for number, server in enumerate((one, two)):
            server.execute(
                f"CREATE DATABASE shop; CREATE TABLE shop.orders_{number} (id INT PRIMARY KEY, amount INT NOT NULL, "
                f"CHECK (amount >= 0)); INSERT INTO shop.orders_{number} WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL "
                f"SELECT i + 1 FROM n WHERE i < 500) SELECT 2 * i + {number}, i FROM n; FLUSH BINARY LOGS"
            )
            server.execute(f"PURGE BINARY LOGS TO '{server.query('SHOW BINARY LOGS')[-1][0]}'")
        (tmp_path / "cluster.yaml").write_text(CONFIG.format(one.socket, two.socket))
        (tmp_path / "merged").mkdir()
        words = ["capture", f"--config={tmp_path / 'cluster.yaml'}", "--until-now"]
        assert cli.run(words) == 0
        words = ["schema", "import", "--nodes", *words[1:2], f"--store={tmp_path / 'base.duckdb'}"]
        assert cli.run(words) == 0
        stop = threading.Event()

        def change() -> None:
            amount = 0
            while not stop.wait(0.05):
                amount += 1
                for number, server in enumerate((one, two)):
                    server.execute(f"UPDATE shop.orders_{number} SET amount = {amount} WHERE id % 7 = {amount % 7}")
                    server.execute(f"REPLACE INTO shop.orders_{number} VALUES ({2 * (amount % 900) + number}, 0)")

        thread = threading.Thread(target=change)
        with kept_beside(tmp_path):
            thread.start()
            try:
                until(lambda: (tmp_path / "merged" / "schema.duckdb").exists())
                running = Running(tmp_path)
                assert running.bootstrap(f"duckdb://{tmp_path}/during.db", rows=50) is not None
            finally:
                stop.set()
                thread.join()
            assert running.bootstrap(f"duckdb://{tmp_path}/after.db", rows=50) is not None
        wanted = sorted((*row, str(n)) for n, s in enumerate((one, two)) for row in s.query(f"TABLE shop.orders_{n}"))
        assert cli.run(["replay", f"--from={tmp_path / 'merged'}", f"--to=duckdb://{tmp_path}/during.db"]) == 0
        for name in ("during.db", "after.db"):
            with duckdb.connect(str(tmp_path / name), read_only=True) as file:
                assert sorted(file.execute("SELECT id, amount, shard FROM shop.orders").fetchall()) == wanted, name


def test_unique_and_foreign_keys_are_there_in_the_end(tmp_path: Path) -> None:
    with MySqlServer(tmp_path / "a", 101) as node, MySqlServer(tmp_path / "target", 301, binlog=False) as target:
        node.execute(
            "CREATE DATABASE shop; CREATE TABLE shop.parent (id INT PRIMARY KEY, code VARCHAR(9) NOT NULL UNIQUE); "
            "CREATE TABLE shop.child (id INT PRIMARY KEY, parent VARCHAR(9) NOT NULL, uniq INT, "
            "UNIQUE KEY uniq (uniq), CONSTRAINT its_parent FOREIGN KEY (parent) REFERENCES parent (code)); "
            "INSERT INTO shop.parent VALUES (1, 'one'), (2, 'two'), (3, 'three'); "
            "INSERT INTO shop.child VALUES (1, 'one', 1), (2, 'two', 2), (3, 'two', 3), (4, 'one', NULL)"
        )
        server = f'[{{source-id: a, server: "mysql://root@localhost/?socket={node.socket}"}}]'
        text = f"version: 1\nname: keys\nnodes: {server}\nshard-mode: pessimistic\noutput: {{dir: merged}}\n"
        (tmp_path / "cluster.yaml").write_text(text)
        (tmp_path / "merged").mkdir()
        running, to = Running(tmp_path), f"mysql://root@localhost/?socket={target.socket}"
        with kept_beside(tmp_path):
            until(lambda: (tmp_path / "merged" / "schema.duckdb").exists())
            assert running.bootstrap(to, "bootstrap-committed:kill:2", rows=2) is None
            node.execute(
                "BEGIN; UPDATE shop.child SET uniq = NULL WHERE id = 1; UPDATE shop.child SET uniq = 1 WHERE id = 3; "
                "COMMIT; ALTER TABLE shop.child ADD COLUMN note INT, ADD UNIQUE KEY notes (note, uniq); "
                "INSERT INTO shop.parent VALUES (4, 'four'); INSERT INTO shop.child VALUES (9, 'four', 9, 9)"
            )
            result = running.bootstrap(to, rows=2)
        assert result is not None and result["copied_again"] == ["shop.child"]
        for table in ("parent", "child"):
            for question in (f"SELECT * FROM shop.{table} ORDER BY id", f"SHOW CREATE TABLE shop.{table}"):
                assert target.query(question) == node.query(question)
