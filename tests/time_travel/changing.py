"""Random changes of tables on a real server, and what undoing any stretch of them must give: the tables before."""

import random
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from binlog_merge.cli import main
from binlog_merge.log.log import Log
from binlog_merge.pipeline.coordinate.histories import base_versions
from snapshot_store.ddl import parse_dump
from snapshot_store.store.db import Store
from tests.mysql_server import MySqlServer, mysqlbinlog
from tests.targets.as_merged import as_merged

TABLES = """
CREATE TABLE shop.wide (
  id INT NOT NULL AUTO_INCREMENT, part SMALLINT UNSIGNED NOT NULL, name VARCHAR(40), note TEXT CHARACTER SET latin1,
  wide_text VARCHAR(20) CHARACTER SET utf16, ja VARCHAR(20) CHARACTER SET sjis, bytes VARBINARY(20), fixed BINARY(6),
  f FLOAT, d DOUBLE, money DECIMAL(30,10), big BIGINT UNSIGNED, bits BIT(11),
  kind ENUM('a','it''s','ü'), tags SET('x','y','z'),
  doc JSON, day DATE, at DATETIME(6), t TIME(3), y YEAR, stamp TIMESTAMP(2) NULL, place POINT,
  touched TIMESTAMP(3) NULL DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3),
  twice BIGINT AS (part * 2) STORED, half BIGINT AS (part DIV 2) VIRTUAL, secret INT INVISIBLE DEFAULT 7,
  PRIMARY KEY (id, part), KEY (twice));
CREATE TABLE shop.named (
  code VARCHAR(12) COLLATE utf8mb4_0900_ai_ci NOT NULL, value INT, extra TEXT, UNIQUE KEY (code));
CREATE TABLE shop.bare (
  a INT, b VARCHAR(10) COLLATE utf8mb4_0900_ai_ci, c CHAR(4) CHARACTER SET latin1, g CHAR(6) CHARACTER SET gbk, f FLOAT,
  doc JSON, x BLOB, y BINARY(3));
"""
NAMES = ("wide", "named", "bare")
_TEXTS = (
    "",
    "a",
    "A",
    "ä",
    "it's",
    'say "hi"',
    "back\\slash",
    "line\nend\r",
    "tab\tnul\0",
    "ctrl\x1a",
    "日本",
    "😀",
    "100%_",
)


@dataclass
class Random:
    """Random values as literals of SQL."""

    rng: random.Random

    def text(self, charset: str = "utf8mb4") -> str:
        rng = self.rng
        value = rng.choice(_TEXTS) if charset == "utf8mb4" else rng.choice(("", "plain", "it's", "b\\s"))
        if charset == "latin1":
            value = rng.choice((value, "é", "€uro", "naïve"))
        if charset in ("utf16", "sjis", "gbk"):
            value = rng.choice((value, "日本", "カナ", "表\\"))
        return "NULL" if rng.random() < 0.1 else f"CONVERT(x'{value.encode().hex()}' USING utf8mb4)"

    def of(self, *choices: str) -> str:
        return "NULL" if self.rng.random() < 0.1 else self.rng.choice(choices)

    def document(self) -> str:
        return self.of("'[1]'", """'{"k": "x"}'""", """'{"k": "X"}'""")

    def wide(self) -> dict[str, str]:
        rng = self.rng
        document = '{"a": [1, 2.5, null, "q\\\\"\'"], "b": {"c": ' + str(rng.randrange(9)) + '}, "e": 1e100}'
        return {
            "part": str(rng.randrange(60000)), "name": self.text(), "note": self.text("latin1"),
            "wide_text": self.text("utf16"), "ja": self.text("sjis"),
            "bytes": self.of("x''", "x'00ff0a27'", "x'5c'"), "fixed": self.of("x'00'", "x'616200000000'", "x'2000'"),
            "f": self.of("0.1", "-3.4e38", "1e-30", "16777217", "0"),
            "d": self.of("0.1", "1e308", "-2.5e-300", "1.0", "3"),
            "money": self.of("0.0000000001", "-99999999999999999999.0123456789", "12"),
            "big": self.of("18446744073709551615", "0"),
            "bits": self.of("b'10101010101'", "0"),
            "kind": self.of("'a'", "'it''s'", "'ü'"), "tags": self.of("''", "'x,z'"),
            "doc": self.of(f"'{document.replace(chr(39), chr(39) * 2)}'", "'3'", "'[]'"),
            "day": self.of("'2024-02-29'", "'1000-01-01'", "'0000-00-00'", "'2024-00-10'"),
            "at": self.of("'2026-11-25 16:00:00.000001'", "'9999-12-31 23:59:59.999999'", "'0000-00-00'"),
            "t": self.of("'-838:59:59.000'", "'00:00:00.5'", "'12:30'"), "y": self.of("0", "1901", "2155"),
            "stamp": self.of("'2026-11-25 16:00:00.25'", "'1970-01-01 00:00:01'", "'0000-00-00'"),
            "place": self.of("ST_GeomFromText('POINT(1 2.5)')", "ST_SRID(POINT(1, 2), 4326)"),
            "secret": self.of("1", "2"),
        }  # fmt: skip

    def statement(self) -> str:
        rng, table = self.rng, self.rng.choice(NAMES)
        what = rng.random()
        if table == "wide":
            values = self.wide()
            if what < 0.45:
                rows = [self.wide() for _ in range(rng.randrange(1, 4))]
                listed = ", ".join(f"({', '.join(row.values())})" for row in rows)
                return f"INSERT INTO wide ({', '.join(values)}) VALUES {listed}"
            if what < 0.8:
                chosen = rng.sample(sorted(values), rng.randrange(1, 5))
                sets = ", ".join(f"{name} = {values[name]}" for name in chosen)
                extra = rng.choice(("", "", ", id = id + 1000", ", doc = JSON_SET(doc, '$.a', 5)"))
                return f"UPDATE wide SET {sets}{extra} ORDER BY id DESC LIMIT {rng.randrange(1, 5)}"
            return f"DELETE FROM wide ORDER BY RAND({rng.randrange(99)}) LIMIT {rng.randrange(1, 4)}"
        if table == "named":
            code = f"'{rng.choice('abcdefgÄé')}{rng.randrange(4)}'"
            if what < 0.5:
                return f"REPLACE INTO named VALUES ({code}, {rng.randrange(99)}, {self.text()})"
            if what < 0.8:
                again = f"ON DUPLICATE KEY UPDATE value = value + 1, code = CONCAT('z', {rng.randrange(10**6)})"
                return f"INSERT INTO named VALUES ({code}, {rng.randrange(99)}, {self.text()}) {again}"
            return f"DELETE FROM named WHERE code = {code}"
        if what < 0.6:
            cells = (
                str(rng.randrange(3)), self.text(), self.of("'a'", "'é'", "''"), self.text("gbk"),
                self.of("0.1", "1e-3"), self.document(), self.of("x'00'"), self.of("x'2000'", "x'00'"),
            )  # fmt: skip
            row = f"({', '.join(cells)})"
            return f"INSERT INTO bare VALUES {row}, {row}"
        if what < 0.8:
            return f"UPDATE bare SET b = {self.text()}, a = a + 1 WHERE a = {rng.randrange(4)} LIMIT 2"
        return f"DELETE FROM bare WHERE a = {rng.randrange(4)} LIMIT 2"


@dataclass
class Changed:
    """A server, its binlog as a merged log, and the tables behind each of its transactions from `first` on."""

    server: MySqlServer
    folder: Path
    log: Log
    first: int
    states: list[Any] = field(default_factory=list)

    @property
    def last(self) -> int:
        """Return the rank of the last transaction."""
        return self.first + len(self.states) - 1

    def state(self) -> Any:
        """Return the tables' contents as a checksum of the server's own."""
        return state_of(self.server)

    def arguments(self, begin: int, end: int, *options: str) -> list[str]:
        """Return the command line that concerns the transactions behind `begin`, up to `end`."""
        own = self.log.cluster_uuid
        tables = [word for name in NAMES for word in ("--table", f"shop.{name}")]
        between = ("--start", f"{own}:{begin + 1}", "--stop", f"{own}:{end}")
        return ["flashback", str(self.log.directory), *tables, *between, *options]

    def do_again_as_changes(self, begin: int, end: int) -> None:
        """Write the changes of each table as SQL, and let the mysql client apply it."""
        own = self.log.cluster_uuid
        between = ("--start", f"{own}:{begin + 1}", "--stop", f"{own}:{end}")
        for name in NAMES:
            out = self.folder / f"changes-{random.randrange(1 << 60)}"
            line = ["changes", str(self.log.directory), "--table", f"shop.{name}", *between]
            assert main.run([*line, "-o", "sql", "--to", str(out)]) == 0
            self.server.apply(out.read_bytes())

    def run(self, begin: int, end: int, form: str, *options: str) -> None:
        """Write what undoes transactions, or does them again, and let the mysql client apply it."""
        out = self.folder / f"{form}-{random.randrange(1 << 60)}"
        gtids = ["--gtids", str(uuid.uuid4())] if form == "binlog" else []
        assert main.run([*self.arguments(begin, end, *options), "-o", form, "--to", str(out), *gtids]) == 0
        self.server.apply(out.read_bytes() if form == "sql" else mysqlbinlog([out], "--verify-binlog-checksum"))


def state_of(server: MySqlServer) -> Any:
    names = ", ".join(f"shop.{name}" for name in NAMES)
    return server.query(f"CHECKSUM TABLE {names} EXTENDED")


def changed(server: MySqlServer, folder: Path, seed: int, count: int) -> Changed:
    """Change tables at random, a few statements a transaction, and return what came of it."""
    rng = random.Random(seed)
    values = Random(rng)
    server.execute("RESET BINARY LOGS AND GTIDS")
    server.execute("CREATE DATABASE shop")
    server.apply(TABLES.encode())
    connection = server.connect("shop")
    states = [state_of(server)]
    first = 5
    with connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO', binlog_row_value_options = ''")
        while len(states) <= count:
            if rng.random() < 0.3:
                cursor.execute(f"SET SESSION binlog_row_value_options = '{rng.choice(('', 'PARTIAL_JSON'))}'")
            cursor.execute("BEGIN")
            for _ in range(rng.randrange(1, 5)):
                try:
                    cursor.execute(values.statement())
                except Exception as error:
                    if error.args[0] not in (1062, 3140, 1264):
                        raise
            cursor.execute("COMMIT")
            if (executed := _executed(cursor)) == first + len(states) - 1:
                states.append(state_of(server))
            assert executed == first + len(states) - 2
    log = as_merged(server, folder / "log")
    versions, schemas = base_versions(parse_dump(server.dump_schema("shop")), None, "dump")
    with Store.open(log.directory / "schema.duckdb") as store:
        store.append_versions(versions, schemas)
    return Changed(server, folder, Log(log.directory), first - 1, states)


def _executed(cursor: Any) -> int:
    cursor.execute("SELECT @@GLOBAL.gtid_executed")
    return int(cursor.fetchone()[0].rpartition(":")[2].rpartition("-")[2])


def written(server: MySqlServer, folder: Path, statements: str, before: str) -> Log:
    """Return statements' binlog as a merged one; `before` makes the tables, whose definitions the log's store has."""
    server.execute("CREATE DATABASE shop")
    server.apply(f"USE shop;\n{before}".encode())
    server.execute("RESET BINARY LOGS AND GTIDS")
    catalog = server.dump_schema("shop")
    server.apply(f"USE shop;\n{statements}".encode())
    log = as_merged(server, folder)
    versions, schemas = base_versions(parse_dump(catalog), None, "dump")
    with Store.open(log.directory / "schema.duckdb") as store:
        store.append_versions(versions, schemas)
    return log
