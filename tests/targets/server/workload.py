"""A busy source: random transactions on tables whose rows collide in every way that keys allow, and DDL in between.

The log is what a real server writes; what that server has at the end is what every replay must come to.
"""

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

from binlog_merge.binlog.events import Gtid, RowsQuery, parse_event, walk
from binlog_merge.files.manifest import Header, Manifest, OutputFile, Publish
from binlog_merge.log.log import Log
from binlog_merge.log.reader import order_key
from tests.mysql_server import MySqlServer

TABLES = """
CREATE TABLE team (id INT PRIMARY KEY, code VARCHAR(20) COLLATE utf8mb4_0900_ai_ci UNIQUE);
CREATE TABLE user (id INT PRIMARY KEY, mail VARCHAR(40) COLLATE utf8mb4_general_ci, n INT, team INT,
  UNIQUE (mail), UNIQUE (n), FOREIGN KEY (team) REFERENCES team (id));
CREATE TABLE item (id INT PRIMARY KEY, owner INT, price DECIMAL(8,2), FOREIGN KEY (owner) REFERENCES user (id)
  ON DELETE CASCADE);
CREATE TABLE note (id INT PRIMARY KEY, item INT, FOREIGN KEY (item) REFERENCES item (id) ON DELETE SET NULL);
CREATE TABLE keyless (a INT, b VARCHAR(10));
CREATE TABLE pair (a INT, b VARBINARY(8), v INT, PRIMARY KEY (a, b));
CREATE TABLE word (w VARCHAR(12) COLLATE utf8mb4_0900_ai_ci PRIMARY KEY, n INT);
CREATE TABLE loose (u INT UNIQUE, v INT);
CREATE TABLE lone (id INT PRIMARY KEY, v INT);
"""

WORDS = ["straße", "strasse", "STRASSE", "a", "A", "á", "b ", "b", "c\u200b", "c", "zebra", "Zebra"]


def write_log(server: MySqlServer, folder: Path, seed: int, count: int, ddl: float = 0.03) -> tuple[Log, str]:
    """Let a server work, and return its log with the statements that make the tables it began with.

    `ddl` is the share of DDL. The server keeps what it came to, in the database `w`.
    """
    server.drop_databases()
    base = f"CREATE DATABASE w; USE w; {TABLES}"
    server.execute(base)
    server.execute("RESET BINARY LOGS AND GTIDS")
    session = server.connect("w")
    try:
        with session.cursor() as cursor:
            for number, transaction in enumerate(_work(random.Random(seed), count, ddl), 1):
                for statement in transaction:
                    try:
                        # What a merge writes behind BEGIN: the order key. The server logs it with the text of its rows.
                        cursor.execute(f"# CTS::{number:019d}{'0' * 35}\n{statement}")
                    except Exception as error:  # a collision of its own making: the statement is undone, no more
                        if error.args[0] not in (1062, 1451, 1452, 1060, 1061, 1091, 1050, 1051):
                            raise
    finally:
        session.close()
    return as_output(server, folder), base


def as_output(server: MySqlServer, folder: Path) -> Log:
    """Publish a server's own binlog, from its beginning, as if a merge had written it: what it says is the same."""
    server.execute("FLUSH BINARY LOGS")
    file = server.binlog_files()[0]
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(file, folder / "binlog.000001")
    cluster, _, ranks = str(server.query("SELECT @@gtid_executed")[0][0]).partition(":")
    last, size, key = int(ranks.rpartition("-")[2]), file.stat().st_size, _last_key(file)
    header = Header(cluster, "w", {"n": 1}, "9.7.4", "", {})
    published = OutputFile("binlog.000001", size, True, key, key, 1, last, size, last, last)
    manifest = Manifest.load(folder)
    manifest.append(header)
    manifest.append(Publish(1, (published,), key, None, last, {}, {}))
    return Log(folder)


def _last_key(file: Path) -> str:
    """Return the order key of a file's last transaction, zeros where it does not say one."""
    key = None
    for event in walk(file.read_bytes()):
        value = parse_event(event)
        if isinstance(value, Gtid):
            key = None
        elif isinstance(value, RowsQuery):
            key = key or order_key(value)
    return "0" * 54 if key is None else key.text()


def _work(r: random.Random, count: int, ddl: float) -> Iterator[list[str]]:
    for i in range(count):
        if r.random() < ddl:
            yield [_ddl(r, i)]
        elif r.random() < 0.2:
            yield [_row(r)]
        else:
            yield ["BEGIN", *(_row(r) for _ in range(r.randint(1, 6))), "COMMIT"]


def _ddl(r: random.Random, i: int) -> str:
    return r.choice(
        (
            f"ALTER TABLE lone ADD COLUMN c{i} INT DEFAULT {i}",
            f"ALTER TABLE pair ADD COLUMN c{i} VARCHAR(9) DEFAULT 'x', ADD INDEX (v)",
            "ALTER TABLE item MODIFY price DECIMAL(10,2)",
            f"ALTER TABLE keyless ADD COLUMN k{i} INT NOT NULL DEFAULT 3 FIRST",
            "TRUNCATE TABLE loose",
            f"CREATE TABLE more{i} (id INT PRIMARY KEY, v INT)",
            f"RENAME TABLE lone TO lone_{i}, lone_{i} TO lone",
            "ALTER TABLE word MODIFY n BIGINT",
            f"CREATE INDEX i{i} ON user (team, n)",
        )
    )


def _row(r: random.Random) -> str:
    k, j = r.randint(1, 30), r.randint(1, 30)
    word, other = r.choice(WORDS), r.choice(WORDS)
    return r.choice(
        (
            f"INSERT INTO team VALUES ({k}, '{word}')",
            f"DELETE FROM team WHERE id = {k}",
            f"UPDATE team SET id = {j} WHERE id = {k}",
            f"INSERT INTO user VALUES ({k}, '{word}{r.randint(1, 4)}', {r.choice((j, 'NULL'))}, NULL)",
            f"UPDATE user SET mail = '{other}{r.randint(1, 4)}' WHERE id = {k}",
            f"UPDATE user SET n = {j} WHERE id = {k}",
            f"UPDATE user SET team = (SELECT MAX(id) FROM team) WHERE id = {k}",
            f"DELETE FROM user WHERE id = {k}",
            f"INSERT INTO item SELECT {j}, id, {k}.5 FROM user WHERE id = {k}",
            f"UPDATE item SET price = price + 1, id = {j} WHERE id = {k}",
            f"INSERT INTO note SELECT {j}, id FROM item WHERE id = {k}",
            f"DELETE FROM item WHERE id = {k}",
            "INSERT INTO keyless (a, b) VALUES (1, 'x'), (1, 'x'), (2, NULL)",
            "DELETE FROM keyless LIMIT 1",
            f"UPDATE keyless SET a = a + {j} LIMIT 2",
            f"INSERT INTO pair (a, b, v) VALUES ({k % 4}, X'{j:02x}00', {j}) ON DUPLICATE KEY UPDATE v = v + 1",
            f"DELETE FROM pair WHERE a = {k % 4} AND v < {j}",
            f"INSERT INTO word (w, n) VALUES ('{word}', {j}) ON DUPLICATE KEY UPDATE n = n + 1",
            f"UPDATE word SET w = '{other}' WHERE w = '{word}'",
            f"DELETE FROM word WHERE w = '{word}'",
            f"INSERT INTO loose (u, v) VALUES ({r.choice((k, 'NULL'))}, {j})",
            f"UPDATE loose SET u = {j} WHERE u = {k}",
            f"DELETE FROM loose WHERE v = {j} OR u = {k}",
            f"INSERT INTO lone (id, v) VALUES ({k}, {j}) ON DUPLICATE KEY UPDATE v = v + {j}",
            f"DELETE FROM lone WHERE id = {k}",
        )
    )
