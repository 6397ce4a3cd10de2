"""A cluster of three shards that an application uses while a story is told: what runs where, and what rows come.

Shards hold the same tables; the application gives each row to one of them. Statements that a shard refuses are none of
the story: it is told by what is there.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any, Final

import pymysql

from snapshot_store.mysql.sql.names import quote_name
from tests.merge_e2e.shards.stage import Name, Route, Session

NODES: Final = ("n1", "n2", "n3")
_TEXTS: Final = ("plain", "it's", 'say "so"', "back\\slash", "naïve café", "日本語", "🙂", "", " padded ", "per%cent_")


@dataclass(frozen=True)
class Column:
    """A column as information_schema has it; `refers` is the table and column of a foreign key."""

    name: str
    kind: str
    definition: str
    length: int
    null: bool
    counts: bool
    keyed: bool
    refers: tuple[str, str] | None


@dataclass
class Cluster:
    """The shards' sessions, and the statements in turn, each with its node.

    `sharded` are the tables that get rows, `routes` and `sections` what the configuration must say. `late` is what a
    shard runs only when somebody has decided that nobody waits for it.
    """

    seed: int
    sessions: dict[str, Session]
    rng: random.Random
    steps: list[tuple[str, str]] = field(default_factory=list)
    sharded: list[str] = field(default_factory=list)
    routes: list[Route] = field(default_factory=list)
    sections: dict[str, Any] = field(default_factory=dict)
    late: list[tuple[str, str]] = field(default_factory=list)
    _number: int = 0
    _columns: dict[tuple[str, str], list[Column]] = field(default_factory=dict)

    @property
    def db(self) -> str:
        """Return the application's database."""
        return f"app{self.seed}"

    def on(self, node: str, sql: str) -> bool:
        """Run a statement on a shard, and remember it if it was taken."""
        try:
            self.sessions[node].run(sql)
        except pymysql.err.MySQLError:
            return False
        self.steps.append((node, sql))
        return True

    def use(self, database: str) -> None:
        """Change the database of all sessions."""
        for node in NODES:
            assert self.on(node, f"USE {quote_name(database)}")

    def roll(self, *statements: str) -> bool:
        """Run a migration on one shard after the other, with the application's work between; whole, or statement by
        statement. Returns whether the shards took it.
        """
        nodes = self.rng.sample(NODES, 3)
        turns = [(node, sql) for node in nodes for sql in statements]
        if self.rng.random() < 0.5:
            turns = [(node, sql) for sql in statements for node in nodes]
        for number, (node, sql) in enumerate(turns):
            taken = self.on(node, sql)
            if not taken and not number:
                return False
            assert taken, f"{node} does not take what another shard has taken: {sql}"
            self.changed()
            self.work(self.rng.randint(0, 2))
        return True

    def alike(self, sql: str) -> None:
        """Run a statement on all shards, the first one first."""
        for node in NODES:
            assert self.on(node, sql), f"{node}: {sql}"
            self.work(self.rng.randint(0, 1))

    def make(self, *statements: str) -> None:
        """Create what the application begins with. Each statement must do."""
        for sql in statements:
            assert self.roll(sql), sql

    def changed(self) -> None:
        """Forget what columns there were."""
        self._columns.clear()

    def number(self) -> int:
        """Return a number that no row has."""
        self._number += 1
        return self._number

    def work(self, times: int) -> None:
        """Let the application write: mostly rows of its own, now and then several in a transaction."""
        for _ in range(times):
            node = self.rng.choice(NODES)
            if self.rng.random() < 0.3:
                self.sessions[node].run("BEGIN")
                for _ in range(self.rng.randint(1, 3)):
                    self._write(node)
                if self.rng.random() < 0.5:
                    self.on(node, "SAVEPOINT s")
                    self._write(node)
                    self.on(node, "ROLLBACK TO SAVEPOINT s")
                self.sessions[node].run("COMMIT" if self.rng.random() < 0.9 else "ROLLBACK")
            else:
                self._write(node)

    def _write(self, node: str) -> bool:
        if not self.sharded:
            return False
        table = self.rng.choice(self.sharded)
        match self.rng.randint(0, 5):
            case 0:
                return self.on(node, f"DELETE FROM {quote_name(table)} ORDER BY 1 LIMIT 1")
            case 1 | 2:
                return self._update(node, table)
            case _:
                return self.insert(node, table)

    def insert(self, node: str, table: str) -> bool:
        """Insert a row with a value of its own in every column."""
        columns = [c for c in self.columns(node, table) if not c.counts]
        if any(c.refers is not None and not c.null for c in columns) and self.rng.random() < 0.5:
            for column in columns:
                if column.refers is not None and not column.null:
                    self.insert(node, column.refers[0])
        chosen = [c for c in columns if c.keyed or not c.null or self.rng.random() < 0.8]
        values = ", ".join(self._value(node, column) for column in chosen)
        names = ", ".join(quote_name(column.name) for column in chosen)
        verb = self.rng.choice(("INSERT INTO", "INSERT INTO", "INSERT IGNORE INTO", "REPLACE INTO"))
        return self.on(node, f"{verb} {quote_name(table)} ({names}) VALUES ({values})")

    def _update(self, node: str, table: str) -> bool:
        columns = [c for c in self.columns(node, table) if not c.keyed and not c.counts]
        if not columns:
            return False
        column = self.rng.choice(columns)
        return self.on(
            node, f"UPDATE {quote_name(table)} SET {quote_name(column.name)} = {self._value(node, column)} "
            f"ORDER BY 1 LIMIT {self.rng.randint(1, 3)}"
        )  # fmt: skip

    def columns(self, node: str, table: str) -> list[Column]:
        """Return the columns of a shard's table that can be written to."""
        if (node, table) not in self._columns:
            self._columns[node, table] = list(self._asked(node, table))
        return self._columns[node, table]

    def _asked(self, node: str, table: str) -> Iterator[Column]:
        where = f"table_schema = '{self.db}' AND table_name = '{table}'"
        ask = self.sessions[node].ask
        refers = {
            str(name): (str(other), str(column))
            for name, other, column in ask(
                "SELECT column_name, referenced_table_name, referenced_column_name FROM "
                f"information_schema.key_column_usage WHERE {where} AND referenced_table_name IS NOT NULL"
            )
        }
        keyed = {str(name) for (name,) in ask(
            f"SELECT column_name FROM information_schema.statistics WHERE {where} AND non_unique = 0"
        )}  # fmt: skip
        for name, kind, definition, length, null, extra in ask(
            "SELECT column_name, data_type, column_type, COALESCE(character_maximum_length, 0), is_nullable, extra "
            f"FROM information_schema.columns WHERE {where} ORDER BY ordinal_position"
        ):
            if "GENERATED" not in str(extra).replace("DEFAULT_GENERATED", ""):
                counts = "auto_increment" in str(extra)
                yield Column(
                    str(name), str(kind), str(definition), int(length), null == "YES", counts, str(name) in keyed,
                    refers.get(str(name)),
                )  # fmt: skip

    def _value(self, node: str, column: Column) -> str:
        if column.refers is not None:
            table, other = column.refers
            found = self.sessions[node].ask(f"SELECT {quote_name(other)} FROM {quote_name(table)}")
            return repr(self.rng.choice(found)[0]) if found else "NULL"
        if column.null and not column.keyed and self.rng.random() < 0.15:
            return "NULL"
        number, rng = self.number(), self.rng
        match column.kind:
            case "int" | "bigint" | "mediumint":
                return str(number)
            case "tinyint" | "smallint":
                return str(number if column.keyed else number % 100)
            case "decimal":
                return f"{number % 100}.25"
            case "float" | "double":
                return str(number / 8)
            case "date":
                return f"'{date(2020, 1, 1) + timedelta(number % 3000)}'"
            case "datetime" | "timestamp":
                return f"'{date(2020, 1, 1) + timedelta(number % 3000)} 10:11:12'"
            case "time":
                return f"'{number % 800}:01:02'"
            case "year":
                return str(2000 + number % 100)
            case "enum":
                return rng.choice(column.definition[5:-1].split(","))
            case "set":
                return (
                    "'" + ",".join(v.strip("'") for v in column.definition[4:-1].split(",") if rng.random() < 0.5) + "'"
                )
            case "json":
                return f"""'{{"n": {number}, "tags": ["a", null, {number / 4}], "deep": {{"x": "{number}"}}}}'"""
            case "bit":
                return f"b'{number % 2}'"
            case "point" | "geometry":
                return f"ST_GeomFromText('POINT({number % 90} {number % 80})')"
            case "binary" | "varbinary" | "tinyblob" | "blob" | "mediumblob" | "longblob":
                return f"0x{number:08x}"[: 2 + 2 * min(4, column.length or 4)]
            case _:
                text = str(number) if column.keyed else rng.choice(_TEXTS) + str(number)
                return "'" + text[: column.length or 99].replace("\\", "\\\\").replace("'", "''") + "'"


def logical(cluster: Cluster, node: str, name: Name) -> Name:
    """Return the logical table that a shard's table belongs to."""
    return next((route.target for route in cluster.routes if route.takes(*name, node)), name)
