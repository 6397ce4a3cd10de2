"""Random histories of two shards with keys in common, and a replica that applies their merged log with many workers."""

import random
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.mysql_server import MySqlServer

TABLES = """
CREATE TABLE d.parents (id INT PRIMARY KEY, code VARCHAR(20), note VARCHAR(20) CHARACTER SET latin1, v INT,
    UNIQUE (code), UNIQUE (note));
CREATE TABLE d.children (id INT PRIMARY KEY, parent INT, code VARCHAR(20), v INT,
    FOREIGN KEY (parent) REFERENCES d.parents (id) ON DELETE CASCADE ON UPDATE CASCADE,
    FOREIGN KEY (code) REFERENCES d.parents (code) ON DELETE SET NULL ON UPDATE CASCADE);
CREATE TABLE d.tokens (name VARCHAR(30) COLLATE utf8mb4_general_ci PRIMARY KEY, holder INT, n DECIMAL(9, 2) UNIQUE);
CREATE TABLE d.keyless (a INT, b VARCHAR(10));
CREATE TABLE d.computed (id INT PRIMARY KEY, x INT, y INT AS (x % 7) STORED, UNIQUE (y, x), UNIQUE ((x + 1)))
"""
NAMES = ("parents", "children", "tokens", "keyless", "computed")
TOKENS = ("alpha", "Beta", "Ärger", "日本", "ß", "x y ")


class Histories:
    """Runs random transactions on shards, each on one of them."""

    def __init__(self, shards: Sequence[MySqlServer], seed: int) -> None:
        self.shards, self.chance = shards, random.Random(seed)
        self.holders = dict.fromkeys(TOKENS, 0)
        self.altered = 0

    def begin(self) -> None:
        """Make the tables, and give all tokens to the first shard."""
        for shard in self.shards:
            shard.execute("CREATE DATABASE d; " + TABLES)
        rows = ", ".join(f"('{name}', 0, {n})" for n, name in enumerate(TOKENS))
        self.shards[0].execute(f"INSERT INTO d.tokens VALUES {rows}")

    def run(self, length: int) -> None:
        """Run so many transactions."""
        for _ in range(length):
            if self.chance.random() < 0.02:
                self._alter()
            elif self.chance.random() < 0.15:
                self._move_token()
            else:
                shard = self.chance.randrange(len(self.shards))
                image = self.chance.choice(["FULL", "FULL", "MINIMAL", "NOBLOB"])
                changes = [self._change(shard) for _ in range(self.chance.choice([1, 1, 2, 3]))]
                statements = [f"SET binlog_row_image = {image}", "BEGIN", *changes, "COMMIT"]
                self.shards[shard].execute("; ".join(statements))

    def _alter(self) -> None:
        self.altered += 1
        table = self.chance.choice(["parents", "tokens", "children"])
        for text in (f"ADD COLUMN c{self.altered} INT", f"DROP COLUMN c{self.altered}"):
            for shard in self.shards:
                shard.execute(f"ALTER TABLE d.{table} {text}")

    def _move_token(self) -> None:
        """Take a name from one shard and give it to another: rows of two shards with one key, one after the other."""
        name = self.chance.choice(TOKENS)
        old, new = self.holders[name], self.chance.randrange(len(self.shards))
        image = self.chance.choice(["FULL", "MINIMAL"])
        number = TOKENS.index(name)
        self.shards[old].execute(f"SET binlog_row_image = {image}; DELETE FROM d.tokens WHERE name = '{name}'")
        written = self.chance.choice([name, name.upper() if name != "ß" else name, name.rstrip()])
        self.shards[new].execute(f"INSERT INTO d.tokens VALUES ('{written}', {new}, {number}.00)")
        self.holders[name] = new

    def _change(self, shard: int) -> str:
        chance = self.chance
        one, other = (2 * chance.randrange(8) + shard for _ in range(2))
        text = chance.choice(["a", "b", "C", "é", "NULL"])
        code = "NULL" if text == "NULL" else f"'{text}{shard}'"
        if chance.random() < 0.15:  # into another row, whose key it takes
            return f"UPDATE IGNORE d.parents SET id = {other}, code = {code} WHERE id = {one}"
        return chance.choice(
            [
                f"INSERT IGNORE INTO d.parents VALUES ({one}, {code}, CONCAT('n', {one}), 1)",
                f"INSERT IGNORE INTO d.parents (id, v) VALUES ({one}, 2)",
                f"UPDATE d.parents SET v = v + 1 WHERE id = {one}",
                f"UPDATE IGNORE d.parents SET code = {code} WHERE id = {one}",
                f"DELETE FROM d.parents WHERE id = {one}",
                f"INSERT IGNORE INTO d.children VALUES ({other}, {one}, {code}, 1)",
                f"INSERT IGNORE INTO d.children VALUES ({other}, {one}, NULL, 1)",
                f"UPDATE IGNORE d.children SET parent = {one} WHERE id = {other}",
                f"UPDATE d.children SET v = v + 1 WHERE parent = {one}",
                f"DELETE FROM d.children WHERE id = {other}",
                f"INSERT INTO d.keyless VALUES ({one}, 'k')",
                f"UPDATE d.keyless SET b = CONCAT(LEFT(b, 8), 'x') WHERE a = {one}",
                f"DELETE FROM d.keyless WHERE a = {one} LIMIT 1",
                f"INSERT IGNORE INTO d.computed (id, x) VALUES ({one}, {2 * chance.randrange(20) + shard})",
                f"UPDATE IGNORE d.computed SET x = {2 * chance.randrange(20) + shard} WHERE id = {one}",
                f"DELETE FROM d.computed WHERE id = {one}",
            ]
        )


def rows_of(servers: Sequence[MySqlServer]) -> dict[str, list[str]]:
    """Return the rows of all tables on some servers together, in order."""
    columns = {"parents": "id, code, note, v", "children": "id, parent, code, v", "tokens": "name, holder, n"}
    found = {}
    for name in NAMES:
        asked = f"SELECT {columns.get(name, '*')} FROM d.{name}"
        found[name] = sorted(str(row) for server in servers for row in server.query(asked))
    return found


@contextmanager
def replica(path: Path, files: Sequence[Path], *options: str) -> Iterator[MySqlServer]:
    """Yield a server that has applied the files of a merged log, as relay logs, with eight workers."""
    with relaying(path, files, "--log-replica-updates=OFF", "--replica-parallel-workers=8", *options) as server:
        begin_to_apply(server)
        wait_until_applied(server)
        yield server


def begin_to_apply(server: MySqlServer) -> None:
    """Let a server apply the relay logs that it has."""
    server.execute(
        "CHANGE REPLICATION SOURCE TO SOURCE_HOST = 'none', RELAY_LOG_FILE = 'relay.000001', RELAY_LOG_POS = 4; "
        "START REPLICA SQL_THREAD"
    )


@contextmanager
def relaying(path: Path, files: Sequence[Path], *options: str) -> Iterator[MySqlServer]:
    """Yield a server that has the files of a merged log as relay logs, and has not begun to apply them."""
    settings = ("--relay-log=relay", "--relay-log-recovery=OFF", "--skip-replica-start=ON")
    server = MySqlServer(path, server_id=99, options=(*settings, *options))
    with server:
        server.stop()
        names = [f"relay.{number:06d}" for number in range(1, len(files) + 1)]
        for name, file in zip(names, files, strict=True):
            shutil.copy(file, server.data / name)
        (server.data / "relay.index").write_text("".join(f"./{name}\n" for name in names))
        server.start()
        yield server


def wait_until_applied(server: MySqlServer) -> None:
    """Wait until a replica has applied its relay logs; raises AssertionError with what stops it."""
    while True:
        (status,) = _status(server)
        assert status["Replica_SQL_Running"] == "Yes", status["Last_SQL_Error"]
        if "has read all relay log" in str(status["Replica_SQL_Running_State"]):
            return
        time.sleep(0.05)


def _status(server: MySqlServer) -> list[dict[str, object]]:
    connection = server.connect()
    try:
        with connection.cursor() as cursor:
            cursor.execute("SHOW REPLICA STATUS")
            names = [column[0] for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    finally:
        connection.close()
