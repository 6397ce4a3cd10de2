"""What happens to the shop in one life: rows that are there before, a load on each shard, and DDL under way.

What each shard's writer does depends on the seed alone, so that the same life can be played on shards and on one
server: the changes of a shard's ids come in one order, whoever tells them. Only rows that a DDL fills with its default
depend on the moment; nobody writes that default.
"""

import contextlib
import json
import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tools.mysql_server import MySqlServer

SHARDS: Final = 3
PHASES: Final = ("stream", "ddl", "restart", "serve restart", "purge", "failover")
"""What is looked at, one after the other; a mark of each shard in `shop.marks` ends a phase."""
ADDED: Final = "channel"
ADDED_DEFAULT: Final = "web"
EXTRA: Final = "extra"
"""A column that comes and goes in a day."""
FIRST_ROWS: Final = 30
STATEMENTS: Final = 100
"""How many transactions each writer commits in a half of a phase."""
_PAUSE: Final = 0.01
TABLES: Final = """
CREATE DATABASE shop;
CREATE TABLE shop.orders (id BIGINT PRIMARY KEY, customer INT UNSIGNED, total DECIMAL(12, 2), state VARCHAR(30),
  placed DATETIME(3), kind ENUM('a', 'b', 'ç'), flags SET('x', 'y', 'z'), doc JSON, pic VARBINARY(20), ratio DOUBLE,
  note TEXT);
CREATE TABLE shop.notes (id BIGINT PRIMARY KEY, body VARCHAR(100));
CREATE TABLE shop.marks (id INT PRIMARY KEY);
"""
DDL: Final = (
    f"ALTER TABLE shop.orders ADD COLUMN {ADDED} VARCHAR(10) NOT NULL DEFAULT '{ADDED_DEFAULT}' AFTER state",
    "CREATE TABLE shop.items (id BIGINT PRIMARY KEY, orders_id BIGINT, amount INT)",
    "RENAME TABLE shop.notes TO shop.remarks",
)


@dataclass
class Writer:
    """The only one who writes ids of a shard."""

    shard: int
    server: MySqlServer
    notes: str = "notes"
    altered: bool = False
    extra: bool = False
    done: int = 0
    ids: dict[str, list[int]] = field(default_factory=lambda: {"orders": [], "notes": [], "items": []})

    def __post_init__(self) -> None:
        self._rng = random.Random(1000 + self.shard)
        self._next = self.shard + SHARDS

    def fill(self) -> None:
        """Write the rows that are there before anybody reads."""
        with contextlib.closing(self.server.connect("shop")) as session:
            for _ in range(FIRST_ROWS):
                _run(session, self._insert("orders"), self._insert("notes"))

    def work(self, tables: Sequence[str]) -> None:
        """Commit transactions of one statement or of several."""
        with contextlib.closing(self.server.connect("shop")) as session:
            for _ in range(STATEMENTS):
                self.commit(session, tables)
                time.sleep(_PAUSE)

    def commit(self, session: Any, tables: Sequence[str]) -> None:
        """Commit a transaction of one statement or of several."""
        count = self._rng.choice((1, 1, 1, 3))
        _run(session, *(self._change(self._rng.choice(tables)) for _ in range(count)))
        self.done += 1

    def insert_many(self, session: Any, table: str, count: int) -> None:
        """Write many rows in one transaction."""
        _run(session, *(self._insert(table) for _ in range(count)))
        self.done += 1

    def change_all(self, session: Any) -> None:
        """Change all rows of a table in one transaction."""
        _run(session, "UPDATE orders SET total = total + 1, ratio = -ratio")
        self.done += 1

    def purge(self, session: Any, table: str, kept: int) -> None:
        """Delete all but the newest rows of a table in one transaction."""
        old, self.ids[table] = self.ids[table][:-kept], self.ids[table][-kept:]
        if old:
            _run(session, f"DELETE FROM {self._name(table)} WHERE id IN ({', '.join(map(str, old))})")
            self.done += 1

    def mark(self, phase: int) -> None:
        """Say that all of a phase is written."""
        self.server.execute(f"INSERT INTO shop.marks VALUES ({phase * SHARDS + self.shard})")

    def _change(self, table: str) -> str:
        ids = self.ids[table]
        what = self._rng.random()
        if what < 0.4 or len(ids) < 5:
            return self._insert(table)
        name = self._name(table)
        found = self._rng.choice(ids)
        if what < 0.55:
            ids.remove(found)
            return f"DELETE FROM {name} WHERE id = {found}"
        if what < 0.65:
            ids[ids.index(found)] = self._new_id()
            return f"UPDATE {name} SET id = {self._next - SHARDS} WHERE id = {found}"
        values = self._values(table)
        column = self._rng.choice(sorted(values))
        return f"UPDATE {name} SET {column} = {values[column]} WHERE id = {found}"

    def _insert(self, table: str) -> str:
        found = self._new_id()
        self.ids[table].append(found)
        name = self._name(table)
        values = {"id": str(found), **self._values(table)}
        return f"INSERT INTO {name} ({', '.join(values)}) VALUES ({', '.join(values.values())})"

    def _name(self, table: str) -> str:
        return self.notes if table == "notes" else table

    def _new_id(self) -> int:
        self._next += SHARDS
        return self._next - SHARDS

    def _values(self, table: str) -> dict[str, str]:
        rng = self._rng
        if table == "notes":
            return {"body": f"'{rng.choice(('straße', '日本', 'plain'))} {rng.randrange(1 << 30)}'"}
        if table == "items":
            return {"orders_id": str(rng.randrange(1000)), "amount": str(rng.randrange(1 << 30))}
        doc = json.dumps({"n": rng.randrange(1 << 30), "tags": ["a", "ü"], "deep": {"x": None}}, ensure_ascii=False)
        found = {
            "customer": str(rng.randrange(3_000_000_000, 1 << 32)),
            "total": f"{rng.randrange(-10_000_000, 10_000_000) / 100:.2f}",
            "state": f"'{rng.choice(('new', 'paid', 'geprüft', '発送', '😀'))} {rng.randrange(1 << 30)}'",
            "placed": f"'2026-{rng.randrange(1, 13):02}-{rng.randrange(1, 29):02} 12:34:56.{rng.randrange(1000):03}'",
            "kind": rng.choice(("'a'", "'b'", "'ç'", "NULL")),
            "flags": rng.choice(("'x'", "'x,z'", "''")),
            "doc": f"'{doc}'",
            "pic": f"X'{rng.randbytes(rng.randrange(1, 20)).hex()}00'",
            "ratio": repr(rng.randrange(1 << 20) / 8),
            "note": rng.choice((f"'{'long ' * 60}{rng.randrange(1 << 30)}'", "NULL")),
        }
        if self.altered:
            found[ADDED] = f"'{rng.choice(('app', 'shop'))}'"
        if self.extra:
            found[EXTRA] = str(rng.randrange(1 << 30))
        return found


class Story:
    """One life on servers: one for each shard, or one for all. Phases are played in their order."""

    def __init__(self, servers: Sequence[MySqlServer]) -> None:
        self.servers = servers
        self.writers = [Writer(shard, servers[shard % len(servers)]) for shard in range(SHARDS)]

    def begin(self) -> None:
        """Create the tables, and write the rows that are there before."""
        for server in self.servers:
            server.execute(TABLES)
        self._all(lambda writer: writer.fill())

    def play(self, phase: str, during: Callable[[], None]) -> None:
        """Let all shards be written to; `during` runs in the middle of that."""
        if phase == "ddl":
            self._load(("orders",), self._ddl)
            for writer in self.writers:
                writer.notes, writer.altered = "remarks", True
        tables = ("orders", "notes", "items") if PHASES.index(phase) > 0 else ("orders", "notes")
        self._load(tables, during)
        self._all(lambda writer: writer.mark(PHASES.index(phase)))

    def tables(self) -> dict[str, dict[int, dict[str, Any]]]:
        """Return the rows that the servers hold, by table and id."""
        found: dict[str, dict[int, dict[str, Any]]] = {}
        for server in self.servers:
            for (table,) in server.query("SHOW TABLES FROM shop"):
                names = [name for (name, *_) in server.query(f"SHOW COLUMNS FROM shop.{table}")]
                rows = (dict(zip(names, row, strict=True)) for row in server.query(f"SELECT * FROM shop.{table}"))
                found.setdefault(f"shop.{table}", {}).update({row["id"]: row for row in rows})
        return found

    def _ddl(self) -> None:
        """Run each statement on one shard after the other, while all are written to."""
        for statement in DDL:
            for server in self.servers:
                server.execute(statement)
                time.sleep(0.1)

    def _load(self, tables: Sequence[str], during: Callable[[], None]) -> None:
        middle = [writer.done + STATEMENTS // 3 for writer in self.writers]
        failed: list[BaseException] = []

        def work(writer: Writer) -> None:
            try:
                writer.work(tables)
            except BaseException as error:  # a thread's exception would be printed and forgotten
                failed.append(error)

        threads = [threading.Thread(target=work, args=(writer,), daemon=True) for writer in self.writers]
        for thread in threads:
            thread.start()
        while any(writer.done < at for writer, at in zip(self.writers, middle, strict=True)) and not failed:
            time.sleep(_PAUSE)
        during()
        for thread in threads:
            thread.join()
        if failed:
            raise failed[0]

    def _all(self, act: Callable[[Writer], None]) -> None:
        for writer in self.writers:
            act(writer)


def _run(session: Any, *statements: str) -> None:
    text = statements[0] if len(statements) == 1 else f"BEGIN; {'; '.join(statements)}; COMMIT"
    with session.cursor() as cursor:
        cursor.execute(text)
        while cursor.nextset():
            pass
