"""A day of the shop in some minutes: a DDL each hour, little load at night and much by day, jobs, an hour of rest.

Nothing of it depends on how fast the machine is but how many transactions there are.
"""

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from tests.clients.life.story import ADDED, ADDED_DEFAULT, EXTRA, Story, Writer

HOURS: Final = 24
_RATES: Final = (2, 1, 1, 1, 0, 1, 2, 3, 4, 5, 6, 6, 5, 5, 6, 6, 5, 5, 6, 8, 8, 6, 4, 3)
"""How many transactions a shard has each second at most, by the hour."""
_TABLES: Final = ("orders", "notes", "items")
_KEPT: Final = 200
"""How many rows of each table and shard a purge leaves."""
_MANY: Final = 1000
_FIRST: Final = (
    f"ALTER TABLE shop.orders ADD COLUMN {ADDED} VARCHAR(10) NOT NULL DEFAULT '{ADDED_DEFAULT}' AFTER state",
    "CREATE TABLE shop.items (id BIGINT PRIMARY KEY, orders_id BIGINT, amount INT)",
)


class Day:
    """A day on the servers of a story, from its first hour to its last."""

    def __init__(self, story: Story, minutes: float) -> None:
        self.statements = 0
        self._story = story
        self._hour = minutes * 60 / HOURS
        self._locks = [threading.Lock() for _ in story.writers]
        self._failed: list[BaseException] = []
        self._begun = 0.0

    @property
    def transactions(self) -> int:
        """Return how many have been committed."""
        return sum(writer.done for writer in self._story.writers)

    def play(self, during: Callable[[int], None]) -> None:
        """Let all shards be written to for the day; `during` runs in the middle of each hour, with its number."""
        for statement in _FIRST:
            for writer in self._story.writers:
                self._execute(writer, statement)
        for writer in self._story.writers:
            writer.altered = True
        self._begun = time.monotonic()
        threads = [threading.Thread(target=self._work, args=(writer,), daemon=True) for writer in self._story.writers]
        for thread in threads:
            thread.start()
        for hour in range(HOURS):
            self._until(hour + 0.1)
            self._alter(hour)
            self._until(hour + 0.5)
            during(hour)
            # What takes long makes the hour longer: a reader that has just come again is not told of two DDL at once.
            self._begun += max(0.0, time.monotonic() - self._at(hour + 0.6))
        for thread in threads:
            thread.join()
        if self._failed:
            raise self._failed[0]

    def _at(self, hour: float) -> float:
        return self._begun + hour * self._hour

    def _until(self, hour: float) -> None:
        while (left := self._at(hour) - time.monotonic()) > 0 and not self._failed:
            time.sleep(min(left, 1))

    def _work(self, writer: Writer) -> None:
        try:
            with contextlib.closing(writer.server.connect("shop")) as session:
                for hour in range(HOURS):
                    self._work_an_hour(writer, session, hour)
        except BaseException as error:  # a thread's exception would be printed and forgotten
            self._failed.append(error)

    def _work_an_hour(self, writer: Writer, session: Any, hour: int) -> None:
        if rate := _RATES[hour]:
            with self._locks[writer.shard]:
                self._job(writer, session, hour)
            while time.monotonic() < self._at(hour + 1) and not self._failed:
                with self._locks[writer.shard]:
                    writer.commit(session, _TABLES)
                time.sleep(1 / rate)
        self._until(hour + 1)

    def _job(self, writer: Writer, session: Any, hour: int) -> None:
        """Do what an application does now and then: purge old rows, change all rows, write many."""
        match hour % 6:
            case 1:
                writer.insert_many(session, "items", _MANY)
            case 3:
                writer.change_all(session)
            case _:
                for table in _TABLES:
                    writer.purge(session, table, _KEPT)

    def _alter(self, hour: int) -> None:
        """Run the DDL of an hour on one shard after the other, while all are written to."""
        for writer in self._story.writers:
            match hour % 6:
                case 0:
                    self._execute(writer, f"ALTER TABLE shop.orders ADD COLUMN {EXTRA} INT DEFAULT {hour} AFTER state")
                    writer.extra = True
                case 1:
                    self._execute(writer, "ALTER TABLE shop.items ADD INDEX by_orders (orders_id)")
                case 2:
                    new = "notes" if writer.notes == "remarks" else "remarks"
                    with self._locks[writer.shard]:  # else its next statement would be of a table that is not there
                        self._execute(writer, f"RENAME TABLE shop.{writer.notes} TO shop.{new}")
                        writer.notes = new
                case 3:
                    self._execute(writer, f"ALTER TABLE shop.orders MODIFY {EXTRA} BIGINT DEFAULT {hour}")
                case 4:
                    table = f"shop.kept_{hour}"
                    self._execute(writer, f"CREATE TABLE {table} (id BIGINT PRIMARY KEY, body VARCHAR(20))")
                    writer.server.execute(f"INSERT INTO {table} VALUES ({writer.shard}, 'ü {hour}')")
                    self._execute(writer, "ALTER TABLE shop.items DROP INDEX by_orders")
                case _:
                    with self._locks[writer.shard]:
                        writer.extra = False
                    self._execute(writer, f"ALTER TABLE shop.orders DROP COLUMN {EXTRA}")
            time.sleep(0.2)

    def _execute(self, writer: Writer, statement: str) -> None:
        writer.server.execute(statement)
        self.statements += 1
