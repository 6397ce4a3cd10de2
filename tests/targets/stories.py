"""Random stories of a server whose tables change their names, places and partitions while rows come and go.

What a statement names is drawn from few names, and may not be there, be a view, or be tied by a key: what the server
refuses is not told. The rest stands in its binlog, and every target must come to what the server has.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass

import pymysql

from tests.mysql_server import MySqlServer

_SCHEMAS = ("a", "b")
_TABLES = ("t", "u", "x", "y", "p", "q")
_VIEWS = ("v", "w")
_COLUMNS_OF = "(id INT NOT NULL PRIMARY KEY, c INT, d VARCHAR(20))"
_COLUMNS = ("c", "d", "e")
_TYPES = ("INT", "INT NOT NULL DEFAULT 7", "VARCHAR(9) DEFAULT 'new'", "BIGINT", "DECIMAL(8,2) DEFAULT 1.5")
_RANGES = "PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20), " \
    "PARTITION p2 VALUES LESS THAN (MAXVALUE))"  # fmt: skip
_LISTS = "PARTITION BY LIST (id % 3) (PARTITION p0 VALUES IN (0), PARTITION p1 VALUES IN (1, NULL), " \
    "PARTITION p2 VALUES IN (2))"  # fmt: skip
_HASHES = "PARTITION BY HASH (id) PARTITIONS 3"
_REFUSED = (pymysql.err.OperationalError, pymysql.err.ProgrammingError, pymysql.err.IntegrityError,
            pymysql.err.InternalError, pymysql.err.DataError, pymysql.err.NotSupportedError)  # fmt: skip


@dataclass(frozen=True)
class Names:
    """What a server has: names to draw from, some of them not there."""

    r: random.Random
    tables: tuple[str, ...]
    partitioned: tuple[str, ...]
    views: tuple[str, ...]

    @classmethod
    def of(cls, server: MySqlServer, r: random.Random) -> "Names":
        """Look at a server."""
        found = server.query(
            "SELECT CONCAT(table_schema, '.', table_name), table_type, create_options LIKE '%partitioned%' "
            "FROM information_schema.tables WHERE table_schema IN ('a', 'b') ORDER BY 1"
        )
        tables = tuple(name for name, kind, _ in found if kind == "BASE TABLE")
        parts = tuple(name for name, kind, partitioned in found if kind == "BASE TABLE" and partitioned)
        return cls(r, tables, parts, tuple(name for name, kind, _ in found if kind == "VIEW"))

    def any(self, names: tuple[str, ...] = _TABLES) -> str:
        """Return a name that may be there, or not."""
        name = self.r.choice(names)
        return name if self.r.random() < 0.3 else f"{self.r.choice(_SCHEMAS)}.{name}"

    def there(self, names: tuple[str, ...] | None = None) -> str:
        """Return a table that is there, most times."""
        names = self.tables if names is None else names
        return self.r.choice(names) if names and self.r.random() < 0.9 else self.any()

    def new(self, names: tuple[str, ...] = _TABLES) -> str:
        """Return a name that is free, most times."""
        free = [f"{s}.{n}" for s in _SCHEMAS for n in names if f"{s}.{n}" not in (*self.tables, *self.views)]
        return self.r.choice(free) if free and self.r.random() < 0.9 else self.any()


def tell(server: MySqlServer, seed: int, length: int, merged: bool = True) -> list[str]:
    """Let a server go through a story, as the whole of its binlog; return what it carried out.

    Unless it is `merged` CREATE TABLE … SELECT is left out, of which servers and merges log different things.
    """
    r = random.Random(seed)
    server.drop_databases()
    server.execute("RESET BINARY LOGS AND GTIDS")
    told: list[str] = []
    session = server.connect()
    try:
        with session.cursor() as cursor:
            for statement in _beginning():
                cursor.execute(statement)
                told.append(statement)
            for _ in range(length):
                for statement in _chapter(Names.of(server, r)):
                    if " SELECT " in statement and statement.startswith("CREATE TABLE") and not merged:
                        continue
                    try:
                        cursor.execute(statement)
                    except _REFUSED as error:
                        if error.args[0] in (2006, 2013):
                            raise
                    else:
                        told.append(statement)
    finally:
        session.close()
    return told


def _beginning() -> Iterator[str]:
    for schema in _SCHEMAS:
        yield f"CREATE DATABASE {schema}"
    for name, tail in (("a.t", ""), ("a.u", ""), ("b.t", ""), ("a.p", _RANGES), ("b.q", _HASHES)):
        yield f"CREATE TABLE {name} {_COLUMNS_OF} {tail}"
        yield f"INSERT INTO {name} VALUES (1, 1, '{name}'), (2, 2, '{name}'), (15, 3, '{name}'), (30, 4, '{name}')"
    yield "USE a"


def _chapter(names: Names) -> Iterator[str]:
    r = names.r
    if r.random() < 0.5:
        yield from _ddl(names).split(";")
    elif r.random() < 0.5:
        yield _rows(names)
    else:
        yield "BEGIN"
        yield from (_rows(names) for _ in range(r.randint(1, 4)))
        yield r.choice(("COMMIT", "COMMIT", "ROLLBACK"))


def _rows(names: Names) -> str:
    r = names.r
    table, k, j = names.there((*names.tables, *names.tables, *names.views)), r.randint(1, 40), r.randint(1, 40)
    return r.choice(
        (
            f"INSERT INTO {table} (id, c) VALUES ({k}, {j})",
            f"INSERT INTO {table} (id) VALUES ({k}), ({k + 1}), ({k + 2})",
            f"INSERT IGNORE INTO {table} (id) VALUES ({k}), ({j}), ({k + j})",
            f"REPLACE INTO {table} (id, d) VALUES ({k}, 'r{j}')",
            f"UPDATE {table} SET c = c + {j} WHERE id < {k}",
            f"UPDATE {table} SET id = id + 40 WHERE id = {k}",
            f"UPDATE {table} SET d = CONCAT('u', id) WHERE id > {k}",
            f"DELETE FROM {table} WHERE id % 7 = {k % 7}",
            f"DELETE FROM {table} WHERE id = {k}",
            f"INSERT IGNORE INTO {table} (id) SELECT id + {j} FROM {names.there()}",
        )
    )


def _ddl(names: Names) -> str:
    r = names.r
    one, two, three, new = names.there(), names.there(), names.there(), names.new()
    parts, view, free_view = names.there(names.partitioned), names.there(names.views), names.new(_VIEWS)
    column, other, kind = r.choice(_COLUMNS), r.choice(_COLUMNS), r.choice(_TYPES)
    part, exists = r.choice(("p0", "p1", "p2", "p0, p1", "ALL")), r.choice(("", "IF EXISTS "))
    schema = r.choice(_SCHEMAS)
    return r.choice(
        (
            # New tables.
            f"CREATE TABLE {new} {_COLUMNS_OF} {r.choice(('', '', _RANGES, _LISTS, _HASHES))}",
            f"CREATE TABLE {new} (id INT PRIMARY KEY AUTO_INCREMENT, c INT, d VARCHAR(20)) AUTO_INCREMENT = 50",
            f"CREATE TABLE IF NOT EXISTS {one} (id INT, c INT)",
            f"CREATE TABLE {new} LIKE {two}",
            f"CREATE TABLE {new} LIKE {two}",
            f"CREATE TABLE IF NOT EXISTS {one} LIKE {two}",
            f"CREATE TABLE {new} AS SELECT * FROM {two}",
            f"CREATE TABLE {new} (PRIMARY KEY (id)) SELECT id, c FROM {two}",
            f"CREATE TABLE {new} (id INT PRIMARY KEY, c INT, FOREIGN KEY (c) REFERENCES {two} (id) ON DELETE SET NULL)",
            f"CREATE TEMPORARY TABLE {one} (id INT PRIMARY KEY, c INT)",
            f"CREATE TEMPORARY TABLE {one} LIKE {two}",
            # Other names and places.
            f"RENAME TABLE {one} TO {new}",
            f"RENAME TABLE {one} TO {new}",
            f"RENAME TABLE {one} TO {schema}.tmp, {two} TO {one}, {schema}.tmp TO {two}",
            f"RENAME TABLE {one} TO {schema}.tmp, {two} TO {one}, {schema}.tmp TO {two}",
            f"RENAME TABLE {one} TO {new}, {three} TO {one}",
            f"RENAME TABLE {one} TO {new}, {new} TO {names.new()}",
            f"ALTER TABLE {one} RENAME TO {new}",
            f"ALTER TABLE {one} ADD COLUMN {column}{r.randint(1, 3)} {kind}, RENAME TO {new}",
            f"ALTER TABLE {one} RENAME COLUMN {column} TO {other}, RENAME {new}",
            f"RENAME TABLE {view} TO {free_view}",
            # Rows that go, or change their table, unsaid.
            f"TRUNCATE TABLE {one}",
            f"TRUNCATE {one}",
            f"ALTER TABLE {parts} TRUNCATE PARTITION {part}",
            f"ALTER TABLE {parts} DROP PARTITION {part}",
            f"ALTER TABLE {parts} EXCHANGE PARTITION {part} WITH TABLE {two}",
            f"ALTER TABLE {parts} EXCHANGE PARTITION {part} WITH TABLE {two}",
            f"ALTER TABLE {parts} EXCHANGE PARTITION {part} WITH TABLE {two} WITHOUT VALIDATION",
            f"CREATE TABLE {new} LIKE {parts};ALTER TABLE {new} REMOVE PARTITIONING;INSERT INTO {new} (id) VALUES (3);"
            f"ALTER TABLE {parts} EXCHANGE PARTITION {part[:2]} WITH TABLE {new}",
            f"CREATE TABLE {new} LIKE {parts};ALTER TABLE {new} REMOVE PARTITIONING;INSERT INTO {new} (id) VALUES (16);"
            f"ALTER TABLE {parts} EXCHANGE PARTITION {part[:2]} WITH TABLE {new} WITHOUT VALIDATION",
            f"ALTER TABLE {parts} REMOVE PARTITIONING",
            f"ALTER TABLE {one} {r.choice((_RANGES, _LISTS, _HASHES))}",
            f"ALTER TABLE {parts} COALESCE PARTITION 1",
            f"ALTER TABLE {parts} REORGANIZE PARTITION p0, p1 INTO (PARTITION p0 VALUES LESS THAN (20))",
            f"ALTER TABLE {parts} REBUILD PARTITION {part}",
            f"DROP TABLE {exists}{one}",
            f"DROP TABLE {exists}{one}, {two}",
            # Other columns.
            f"ALTER TABLE {one} ADD COLUMN {column}{r.randint(1, 3)} {kind} {r.choice(('', 'FIRST', 'AFTER id'))}",
            f"ALTER TABLE {one} DROP COLUMN {column}",
            f"ALTER TABLE {one} RENAME COLUMN {column} TO {other}",
            f"ALTER TABLE {one} RENAME COLUMN {column} TO {other}, RENAME COLUMN {other} TO {column}",
            f"ALTER TABLE {one} MODIFY {column} {kind}",
            f"ALTER TABLE {one} DROP PRIMARY KEY",
            f"ALTER TABLE {one} ADD PRIMARY KEY (id)",
            f"CREATE INDEX i ON {one} ({column})",
            # Views.
            f"CREATE OR REPLACE VIEW {names.any(_VIEWS)} AS SELECT id, c, d FROM {one}",
            f"CREATE VIEW {free_view} AS SELECT * FROM {one} WHERE id > 5 WITH CHECK OPTION",
            f"ALTER VIEW {view} AS SELECT id, {column} FROM {one}",
            f"DROP VIEW {exists}{view}",
            f"CREATE VIEW {new} AS SELECT 1 AS id",
            # Databases.
            f"USE {schema}",
            f"USE {schema}",
            f"ALTER DATABASE {schema} CHARACTER SET {r.choice(('utf8mb4', 'latin1'))}",
            *(() if r.random() < 0.7 else (f"DROP DATABASE {schema};CREATE DATABASE {schema};USE {schema}",)),
        )
    )
