"""Three shards as applications have them: keys that collide, global ones, a copy on each, a table that only one has.

They have old rows, an ALTER goes over them one by one, and a tool writes in statement format into a schema of its own.
"""

import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import duckdb
import pytest

from binlog_merge.bootstrap.published import unpublished
from binlog_merge.bootstrap.values import End
from binlog_merge.cli import main as cli
from binlog_merge.log.log import Log
from tests.binlog_server.running import caught_up, replica_of, serving
from tests.bootstrap.running import Running, kept_beside, until
from tools.mysql_server import MySqlServer

pytestmark = pytest.mark.mysql

CONFIG = """version: 1
name: app
nodes:
  - {{source-id: shard-1, server: "mysql://root@localhost/?socket={0}"}}
  - {{source-id: shard-2, server: "mysql://root@localhost/?socket={1}"}}
  - {{source-id: shard-3, server: "mysql://root@localhost/?socket={2}"}}
shard-mode: pessimistic
base: {{store: base.duckdb}}
ignore-schemas: [percona]
output: {{dir: merged}}
"""

SCHEMA = """CREATE DATABASE app; CREATE DATABASE percona;
CREATE TABLE app.orders (id INT AUTO_INCREMENT PRIMARY KEY, mail VARCHAR(40) UNIQUE, amount DECIMAL(8,2) NOT NULL);
CREATE TABLE app.payments (id BIGINT PRIMARY KEY, amount DECIMAL(8,2) NOT NULL);
CREATE TABLE app.countries (code CHAR(2) PRIMARY KEY, name VARCHAR(40) NOT NULL,
  changed TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6));
CREATE TABLE percona.checksums (tbl VARCHAR(64) PRIMARY KEY, cnt INT, crc BIGINT);
INSERT INTO app.orders (mail, amount) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60)
  SELECT CONCAT('m', i), i / 100 FROM n;
INSERT INTO app.countries (code, name) VALUES ('DE', 'Deutschland'), ('FR', 'France'), ('PL', 'Polska');
"""

CHECKSUM = """SET SESSION binlog_format = 'STATEMENT';
REPLACE INTO percona.checksums SELECT 'orders', COUNT(*), SUM(CRC32(CONCAT(id, amount))) FROM app.orders;"""

COLUMNS = {
    "orders": "id, mail, amount, note, c_shard",
    "payments": "id, amount",
    "countries": "code, name",
    "audit": "id, said",
}


class Application:
    """Writes to all shards until it is stopped."""

    def __init__(self, servers: list[MySqlServer]) -> None:
        self._servers, self._stop = servers, threading.Event()
        self._thread = threading.Thread(target=self._write)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _write(self) -> None:
        number = 0
        while not self._stop.wait(0.1):
            number += 1
            for shard, server in enumerate(self._servers, 1):
                server.execute(
                    f"INSERT INTO app.orders (mail, amount) VALUES ('n{number}', 1); "
                    f"UPDATE app.orders SET amount = amount + 1 WHERE id = {number % 50 + 1}; "
                    f"DELETE FROM app.orders WHERE id = {number} AND id % 5 = 0; "
                    f"INSERT INTO app.payments VALUES ({shard}000000 + {number}, 2)"
                )
            self._servers[0].execute(f"INSERT INTO app.audit VALUES ({number}, 'n{number}')")
            if number % 4 == 0:
                for server in self._servers:
                    server.execute(f"UPDATE app.countries SET name = 'n{number}' WHERE code = 'PL'")


def test_three_shards(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the configuration that `schema import --nodes` proposes; a replica follows what is served."""
    with ExitStack() as stack:
        servers = [stack.enter_context(MySqlServer(tmp_path / f"s{i}", 100 + i)) for i in (1, 2, 3)]
        target = stack.enter_context(MySqlServer(tmp_path / "target", 301))
        for server in servers:
            server.execute(SCHEMA)
        servers[0].execute(
            "CREATE TABLE app.audit (id INT PRIMARY KEY, said VARCHAR(40)); INSERT INTO app.audit VALUES (0, 'old')"
        )
        for shard, server in enumerate(servers, 1):
            server.execute(
                f"INSERT INTO app.payments SELECT {shard}000000 - id, amount FROM app.orders; FLUSH BINARY LOGS"
            )
            server.execute(f"PURGE BINARY LOGS TO '{server.query('SHOW BINARY LOGS')[-1][0]}'")
        (tmp_path / "cluster.yaml").write_text(CONFIG.format(*(server.socket for server in servers)))
        (tmp_path / "merged").mkdir()
        config = f"--config={tmp_path / 'cluster.yaml'}"
        assert cli.run(["capture", config, "--until-now"]) == 0
        _import_as_proposed(tmp_path, capsys)
        running, copy = Running(tmp_path), f"duckdb://{tmp_path}/copy.db"
        with kept_beside(tmp_path):
            application = Application(servers)
            try:
                until(lambda: (tmp_path / "merged" / "schema.duckdb").exists())
                assert running.bootstrap(copy) is not None
                copied = running.bootstrap(f"mysql://root@localhost/?socket={target.socket}")
                assert copied is not None
                uuid, _, number = str(copied["gtid"]).rpartition(":")
                target.execute(f"DROP DATABASE binlog_merge; SET GLOBAL gtid_purged = '+{uuid}:1-{number}'")
                source = stack.enter_context(serving(tmp_path / "merged"))
                stack.enter_context(replica_of(target, source, "SOURCE_AUTO_POSITION=1, SOURCE_SSL=0"))
                for server in servers:
                    server.execute(
                        "ALTER TABLE app.orders ADD COLUMN note VARCHAR(20) NOT NULL DEFAULT '-', ADD KEY (amount)"
                    )
                    server.execute(CHECKSUM)
            finally:
                application.stop()
            _drained(servers, tmp_path / "merged")
        assert cli.run(["replay", "--merged", str(tmp_path / "merged"), "--to", copy]) == 0
        caught_up(target, tmp_path / "merged")
        assert cli.run(["verify", str(tmp_path / "merged")]) == 0
        wanted = _wanted(servers)
        assert len(wanted["orders"]) > 180
        with duckdb.connect(str(tmp_path / "copy.db"), read_only=True) as file:
            for table, columns in COLUMNS.items():
                asked = f"SELECT {columns} FROM app.{table}"
                assert sorted(file.execute(asked).fetchall()) == sorted(target.query(asked)) == wanted[table], table


def _import_as_proposed(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Import the base: it is refused, and stdout has what the configuration is to say, to the letter."""
    config, store = home / "cluster.yaml", home / "base.duckdb"
    words = ["schema", "import", "--nodes", f"--config={config}", f"--store={store}"]
    capsys.readouterr()
    assert cli.run(words) == 59
    assert not store.exists()
    proposed = capsys.readouterr().out
    config.write_text(config.read_text() + proposed)
    assert cli.run(words) == 0
    said = capsys.readouterr()
    assert not said.err and "proposed" not in said.out


def _wanted(servers: list[MySqlServer]) -> dict[str, list[tuple[Any, ...]]]:
    """Return what the target is to hold, by table."""
    orders = [
        (*row, f"shard-{shard}")
        for shard, server in enumerate(servers, 1)
        for row in server.query("SELECT id, mail, amount, note FROM app.orders")
    ]
    payments = [row for server in servers for row in server.query("SELECT id, amount FROM app.payments")]
    one = {name: servers[0].query(f"SELECT {COLUMNS[name]} FROM app.{name}") for name in ("countries", "audit")}
    return {name: sorted(rows) for name, rows in {"orders": orders, "payments": payments, **one}.items()}


def _drained(servers: list[MySqlServer], merged: Path) -> None:
    """Wait until all that the shards have committed is merged."""
    ends = {}
    for shard, server in enumerate(servers, 1):
        file, position, *_ = server.query("SHOW BINARY LOG STATUS")[0]
        ends[f"shard-{shard}"] = End(str(file), int(position))
    until(lambda: not unpublished(Log(merged).state, ends))
