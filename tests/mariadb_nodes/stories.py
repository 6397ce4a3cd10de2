"""Random histories of two MariaDB shards, with all types and migrations; what comes out is put on a MySQL 9.7.

The shards are `shop_1.orders` and `shop_2.orders`; each node has databases of its own besides.
"""

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pymysql
import yaml

from tests.mariadb_server import MariaDbServer
from tests.mysql_server import MySqlServer

NODES = ("shard-1", "shard-2")
COLUMNS = (
    "a TINYINT", "a SMALLINT UNSIGNED", "a MEDIUMINT", "a INT UNSIGNED", "a BIGINT UNSIGNED", "a DECIMAL(20,5)",
    "a DOUBLE", "a BIT(11)", "a YEAR", "a DATE", "a TIME(4)", "a DATETIME(6)", "a TIMESTAMP(3) NULL",
    "a CHAR(9) CHARACTER SET latin1", "a VARCHAR(300)", "a VARCHAR(40) CHARACTER SET utf8mb3", "a BINARY(6)",
    "a VARBINARY(300)", "a TEXT", "a MEDIUMBLOB", "a JSON", "a ENUM('x','y','z')", "a SET('p','q','r')", "a GEOMETRY",
    "a VARCHAR(250) COMPRESSED", "a VARCHAR(400) COMPRESSED", "a TEXT COMPRESSED", "a BLOB COMPRESSED",
    "a VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin", "a INT DEFAULT 7", "a DATE DEFAULT curdate()",
    "a INT INVISIBLE DEFAULT 5", "a INET6 DEFAULT '::ffff:1.2.3.4'", "a UUID",
    "a UUID DEFAULT '11111111-2222-1333-8444-555555555555'",
    "a VARCHAR(20) COLLATE utf8mb4_unicode_520_ci", "a TEXT DEFAULT 'none'",
)  # fmt: skip
_VALUES = {
    "TINYINT": ("-128", "127", "0"), "SMALLINT": ("0", "65535"), "MEDIUMINT": ("-8388608", "5"),
    "INT": ("0", "7"), "BIGINT": ("18446744073709551615", "1"), "DECIMAL(20,5)": ("-1234567.12345", "0.00001"),
    "DOUBLE": ("1.5", "-2.25"), "BIT(11)": ("b'10101010101'", "b'1'"), "YEAR": ("1999", "2070"),
    "DATE": ("'2024-02-29'", "'1000-01-01'"), "TIME(4)": ("'-100:11:12.3456'", "'23:59:59.9999'"),
    "DATETIME(6)": ("'2024-02-29 12:13:14.123456'",), "TIMESTAMP(3)": ("'2024-02-29 12:13:14.123'", "NULL"),
    "CHAR(9)": ("'abc'", "'äöü'", "''"), "VARCHAR": ("'abc'", "repeat('x ', 10)", "''", "'ä'"),
    "BINARY(6)": ("x'00ff'", "'abcdef'"), "VARBINARY(300)": ("x'00ff'", "repeat('b', 290)"),
    "TEXT": ("repeat('words ', 500)", "'t'", "''"), "MEDIUMBLOB": ("repeat(x'00fe', 700)", "''"),
    "BLOB": ("repeat(x'00fe', 700)", "''"), "JSON": ("""'{"a": [1, "é"]}'""", "'3'"),
    "ENUM('x','y','z')": ("'y'", "'z'"),
    "SET('p','q','r')": ("'p,r'", "''"), "GEOMETRY": ("ST_GeomFromText('POINT(1 2)')", "NULL"),
    "INET6": ("'2001:db8::1'", "'::'", "'::ffff:1.2.3.4'"),
    "UUID": ("uuid()", "'a1b2c3d4-e5f6-4789-9abc-def012345678'", "'018f3f3e-1c2d-7aaa-bbbb-ccccddddee00'"),
}  # fmt: skip


def values_of(column: str) -> Sequence[str]:
    """Return literals for a column."""
    _, kind, *_ = column.split()
    return (*(_VALUES.get(kind) or _VALUES[kind.partition("(")[0]]), "NULL")


class Story:
    """A history of two nodes: `play` does a number of things, all from one seed."""

    def __init__(self, seed: int, nodes: dict[str, MariaDbServer]) -> None:
        self.random = random.Random(seed)
        self.connections = {name: server.connect() for name, server in nodes.items()}
        self.columns: dict[str, dict[str, list[str]]] = {name: {} for name in nodes}
        self.orders = ["v INT"]
        self.rows = 0

    def run(self, node: str, *statements: str) -> None:
        """Run statements on a node."""
        with self.connections[node].cursor() as cursor:
            for sql in statements:
                cursor.execute(sql)

    def begin(self) -> None:
        """Make the databases and the shards."""
        for number, node in enumerate(self.connections, 1):
            self.run(node, f"CREATE DATABASE shop_{number}", f"CREATE DATABASE own_{number}")
            self.run(node, f"CREATE TABLE shop_{number}.orders (id INT PRIMARY KEY, v INT)")

    def play(self, steps: int) -> None:
        """Do a number of things."""
        for _ in range(steps):
            usual = (*[self._rows] * 6, *[self._orders] * 6)
            rare = (self._table, self._alter, self._migrate, self._xa, self._other, self._copy, self._if, self._again)
            self.random.choice((*usual, *rare))()

    def end(self) -> None:
        """Leave the nodes."""
        for connection in self.connections.values():
            connection.close()

    def _node(self) -> tuple[int, str]:
        number = self.random.randrange(len(self.connections))
        return number + 1, list(self.connections)[number]

    def _table(self) -> None:
        number, node = self._node()
        tables = self.columns[node]
        self.rows += 1
        name = f"own_{number}.t{self.rows}"
        chosen = self.random.sample(COLUMNS, self.random.randint(1, 8))
        columns = [f"c{i}{column[1:]}" for i, column in enumerate(chosen)]
        verb = self.random.choice(("CREATE TABLE", "CREATE OR REPLACE TABLE"))
        tails = ("", " ENGINE=InnoDB", " CHARACTER SET utf8mb4", " ROW_FORMAT=DYNAMIC", " ENGINE=Aria")
        tail = self.random.choice(tails)
        self.run(node, f"{verb} {name} (id INT PRIMARY KEY, {', '.join(columns)}){tail}")
        tables[name] = columns
        self._fill(node, name)

    def _fill(self, node: str, name: str) -> None:
        columns = self.columns[node][name]
        for _ in range(self.random.randint(1, 4)):
            self.rows += 1
            values = ", ".join(self.random.choice(values_of(column)) for column in columns)
            names = ", ".join(column.split()[0] for column in columns)
            self.run(node, f"INSERT INTO {name} (id, {names}) VALUES ({self.rows}, {values})")

    def _rows(self) -> None:
        _, node = self._node()
        if not self.columns[node]:
            return
        name = self.random.choice(list(self.columns[node]))
        self._fill(node, name)
        column = self.random.choice(self.columns[node][name])
        value = self.random.choice(values_of(column))
        self.run(node, "BEGIN", f"UPDATE {name} SET {column.split()[0]} = {value} ORDER BY id DESC LIMIT 2")
        if self.random.random() < 0.3:
            self.run(node, f"DELETE FROM {name} ORDER BY id LIMIT 1")
        self.run(node, self.random.choice(("COMMIT", "COMMIT", "ROLLBACK")))

    def _orders(self) -> None:
        number, node = self._node()
        self.rows += 1
        sql = f"INSERT INTO shop_{number}.orders (id, v) VALUES ({self.rows}, {self.rows}), ({-self.rows}, NULL)"
        self.run(node, sql, f"UPDATE shop_{number}.orders SET v = v + 1 WHERE id > {self.rows - 3}")

    def _alter(self) -> None:
        _, node = self._node()
        if not self.columns[node]:
            return
        name = self.random.choice(list(self.columns[node]))
        columns = self.columns[node][name]
        if self.random.random() < 0.4 and len(columns) > 1:
            gone = columns.pop(self.random.randrange(len(columns)))
            self.run(node, f"ALTER TABLE {name} DROP COLUMN {gone.split()[0]}")
            return
        self.rows += 1
        column = f"n{self.rows}{self.random.choice(COLUMNS)[1:]}"
        verb = self.random.choice(("ALTER TABLE", "ALTER TABLE", "ALTER ONLINE TABLE", "/*M!100000 ALTER */ TABLE"))
        try:
            self.run(node, f"{verb} {name} ADD COLUMN {column}")
        except pymysql.err.OperationalError:  # not every table can be altered online
            self.run(node, f"ALTER TABLE {name} ADD COLUMN {column}")
        columns.append(column)

    def _other(self) -> None:
        number, node = self._node()
        tables = self.columns[node]
        if not tables:
            return
        name = self.random.choice(list(tables))
        self.rows += 1
        what = self.random.randrange(6)
        if what == 0:
            self.run(node, f"TRUNCATE TABLE {name}")
        elif what == 1:
            self.run(node, f"RENAME TABLE {name} TO {name}_{self.rows}")
            tables[f"{name}_{self.rows}"] = tables.pop(name)
        elif what == 2 and len(tables) > 1:
            self.run(node, f"DROP TABLE {name}")
            del tables[name]
        elif what == 3:
            self.run(node, f"CREATE OR REPLACE VIEW own_{number}.v AS SELECT id FROM {name}")
            self.run(node, f"DROP VIEW own_{number}.v")
        elif what == 4:
            self.run(node, f"SET STATEMENT lock_wait_timeout=9 FOR ALTER TABLE {name} COMMENT 'c'")
        else:
            rows = f"INSERT INTO shop_{number}.orders (id) VALUES"
            self.run(node, "BEGIN", f"{rows} ({self.rows})", "SAVEPOINT s", f"{rows} (-{self.rows})")
            self.run(node, "ROLLBACK TO SAVEPOINT s", "COMMIT")

    def _copy(self) -> None:
        number, node = self._node()
        self.rows += 1
        name = f"own_{number}.copy{self.rows}"
        verb = self.random.choice(("CREATE TABLE", "CREATE OR REPLACE TABLE"))
        self.run(node, f"{verb} {name} (id INT PRIMARY KEY) SELECT id, v FROM shop_{number}.orders WHERE id < 50")

    def _migrate(self) -> None:
        self.rows += 1
        for number, node in enumerate(self.connections, 1):
            self.run(node, f"ALTER TABLE shop_{number}.orders ADD COLUMN m{self.rows} VARCHAR(9) DEFAULT 'm'")

    def _again(self) -> None:
        """Migrate the shards as a tool does that may be started again: what is done already is done once more."""
        self.rows += 1
        column, goes = f"m{self.rows}", self.random.random() < 0.5
        for number, node in enumerate(self.connections, 1):
            table = f"shop_{number}.orders"
            for _ in range(self.random.randint(1, 2)):
                self.run(
                    node,
                    f"ALTER TABLE {table} ADD COLUMN IF NOT EXISTS {column} INT DEFAULT 3, DROP COLUMN IF EXISTS gone",
                    f"CREATE INDEX IF NOT EXISTS {column} ON {table} ({column})",
                )
            self.run(node, f"CREATE OR REPLACE INDEX {column} ON {table} ({column}, id) COMMENT 'again'")
            if goes:
                self.run(node, f"ALTER TABLE {table} DROP INDEX IF EXISTS {column}, DROP INDEX IF EXISTS gone")
                self.run(node, f"DROP INDEX IF EXISTS {column} ON {table}")

    def _if(self) -> None:
        """Change a table by what it may have or not."""
        _, node = self._node()
        tables = self.columns[node]
        if not tables:
            return
        name = self.random.choice(list(tables))
        columns, chosen = tables[name], self.random.choice
        self.rows += 1
        new, one = f"i{self.rows}", chosen(columns).split()[0]
        what = self.random.randrange(7)
        if what == 0:
            both = chosen((f"({one} INT, {new} INT DEFAULT 4)", f"{new} INT DEFAULT 4 FIRST", f"({new} INT DEFAULT 4)"))
            self.run(node, f"ALTER TABLE {name} ADD COLUMN IF NOT EXISTS {both}, ADD IF NOT EXISTS {one} DATE")
            columns.append(f"{new} INT")
        elif what == 1 and len(columns) > 1:
            self.run(node, *[f"ALTER TABLE {name} DROP COLUMN IF EXISTS {one}, DROP COLUMN IF EXISTS {new}"] * 2)
            tables[name] = [column for column in columns if column.split()[0] != one]
        elif what == 2:
            key = chosen((f"ADD INDEX IF NOT EXISTS {new} (id)", f"ADD UNIQUE KEY IF NOT EXISTS {new} (id)"))
            self.run(node, *[f"ALTER TABLE {name} {key}"] * 2, f"ALTER TABLE {name} DROP KEY IF EXISTS {new}")
        elif what == 3:
            moved = f"MODIFY COLUMN IF EXISTS id BIGINT, CHANGE COLUMN IF EXISTS {new} x INT"
            self.run(
                node, f"ALTER TABLE IF EXISTS {name} {moved}", f"ALTER TABLE {name} ALTER IF EXISTS {new} DROP DEFAULT"
            )
        elif what == 4:
            self.run(node, f"ALTER TABLE IF EXISTS {name}_none ADD COLUMN a INT")
            self.run(node, f"RENAME TABLE IF EXISTS {name}_none TO {name}_other, {name} TO {name}_{self.rows}")
            tables[f"{name}_{self.rows}"] = tables.pop(name)
        elif what == 5:
            checked = f"ADD CONSTRAINT IF NOT EXISTS {new} CHECK (id < 1000000)"
            gone = f"ALTER TABLE {name} DROP CONSTRAINT IF EXISTS {new}"
            self.run(node, f"ALTER TABLE {name} {checked}", f"ALTER TABLE {name} {checked}", gone, gone)
        else:
            self.run(node, f"ALTER TABLE {name} RENAME COLUMN IF EXISTS {new} TO y, COMMENT 'i'")

    def _xa(self) -> None:
        number, node = self._node()
        self.rows += 1
        sql = f"INSERT INTO shop_{number}.orders (id) VALUES ({self.rows})"
        end = self.random.choice(("XA COMMIT", "XA COMMIT", "XA ROLLBACK"))
        xid = f"'g{self.rows}','b'"
        self.run(node, f"XA START {xid}", sql, f"XA END {xid}", f"XA PREPARE {xid}", f"{end} {xid}")


def configuration(folder: Path, **sections: Any) -> Path:
    """Write the configuration of the translated nodes in a folder; returns its path."""
    document: dict[str, Any] = {
        "version": 1,
        "name": "shards",
        "nodes": [{"source-id": node, "files": [f"{node}/mysql-bin.*"]} for node in NODES],
        "routes": [
            {
                "schema-pattern": "shop_*", "table-pattern": "orders", "target-schema": "shop",
                "target-table": "orders",
            }
        ],
        "commit-tso": {"carrier": "gtid-time"},
        "shard-mode": "pessimistic",
        **sections,
    }  # fmt: skip
    path = folder / "cluster.yaml"
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    return path


def contents(
    server: MariaDbServer | MySqlServer, schema: str, table: str
) -> tuple[list[str], list[tuple[str | None, ...]]]:
    """Return the names of a table's columns, and its rows in order, each value as hexadecimal digits of its text."""
    columns = [
        (str(name), str(kind))
        for name, kind in server.query(
            "SELECT column_name, data_type FROM information_schema.columns "
            f"WHERE table_schema = '{schema}' AND table_name = '{table}' ORDER BY ordinal_position"
        )
    ]
    asked = ", ".join(_shown(*column) for column in columns)
    return [name for name, _ in columns], sorted(server.query(f"SELECT {asked} FROM {schema}.{table}"), key=repr)


def _shown(name: str, kind: str) -> str:
    if kind.startswith("inet"):
        return f"HEX(INET6_ATON(`{name}`))"
    if kind == "uuid":
        return f"HEX(CAST(`{name}` AS BINARY(16)))"
    raw = "binary" in kind or "blob" in kind or kind in ("bit", "geometry", "vector")
    return f"HEX(`{name}`)" if raw else f"HEX(CONVERT(CAST(`{name}` AS CHAR) USING utf8mb4))"


def tables_of(server: MariaDbServer | MySqlServer) -> Iterator[tuple[str, str]]:
    """Yield the tables of a server, but for its own."""
    for schema, table in server.query("SELECT table_schema, table_name FROM information_schema.tables"):
        if str(schema) not in ("mysql", "sys", "information_schema", "performance_schema"):
            yield str(schema), str(table)
