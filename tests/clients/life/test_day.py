"""A day in some minutes, all readers at once on one `serve`: each tells what the nodes have logged, and no more.

Readers are killed and started again, `serve` is killed, old files are purged, `run` is started again. What comes of it
is written down for docs/reference/tested.md.
"""

import contextlib
import json
import os
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import pytest
from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.row_event import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent

from benchmarks.endurance import judged
from tests.clients.life.day import HOURS, Day
from tests.clients.life.judging import COMPARED, PASSED, as_named_first, plain, rows_wrong
from tests.clients.life.kinds import KINDS, version_of
from tests.clients.life.programs.mysql_replication import changes_of
from tests.clients.life.readers import Change, Kind, Program, Reader, Replayed, Replica
from tests.clients.life.sides import Shards
from tests.clients.life.story import EXTRA, FIRST_ROWS, SHARDS
from tests.mysql_server import ROOT, MySqlServer
from tests.patience import Patience

pytestmark = [pytest.mark.clients, pytest.mark.mysql, pytest.mark.mariadb]
RESULT: Final = ROOT / "build" / "day.json"
MINUTES: Final = float(os.environ.get("CLIENTS_MINUTES", "20"))
SERVE_IS_KILLED: Final = (6, 9, 11)
"""In the first half of the day: its memory is judged from the last of these hours on."""
KEPT, PURGED = 5, 10
EACH: Final = 2.0
"""Seconds between two looks at the memory, and at who has ended."""
ALL: Final = (*KINDS, Kind("replay --to kafka://", "Kafka 4.3.1", Replayed))
SAME_LIBRARY: Final = "mysql-replication"
"""What reads the nodes, too: its values can be compared as they are."""


@dataclass
class Attached:
    """The readers of a day: those that end because `serve` is killed are started again, as a supervisor does."""

    side: Shards
    readers: Sequence[Reader]
    started: Counter[str] = field(default_factory=Counter)
    """How often each has been started again."""
    memory: list[float] = field(default_factory=list)
    """What `serve` has resident, in MiB, since it was last killed."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _end: threading.Event = field(default_factory=threading.Event)

    @contextlib.contextmanager
    def looked_after(self) -> Iterator[None]:
        """Start what ends, and look at the memory, for as long as the context lasts."""
        thread = threading.Thread(target=self._look_after, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._end.set()
            thread.join()

    def in_hour(self, hour: int) -> None:
        """Do what happens in an hour of the day."""
        reader = self.readers[hour % len(self.readers)]
        print(time.strftime("%X"), hour, reader.kind.name, f"{self.side.memory() >> 20} MiB", flush=True)
        with self._lock:
            reader.kill()
            time.sleep(1)
            if hour in SERVE_IS_KILLED:
                self.side.restart()
                self.memory.clear()
            reader.start()
        if hour == KEPT:
            self.side.keep_from_here()
        if hour == PURGED:
            self.side.purge()

    def _look_after(self) -> None:
        while not self._end.wait(EACH):
            with self._lock:
                self.memory.append(self.side.memory() / (1 << 20))
                for reader in self.readers:
                    if isinstance(reader, Program) and not reader.running():
                        print(time.strftime("%X"), "ended:", reader.kind.name, reader.said()[-300:], flush=True)
                        self.started[reader.kind.name] += 1
                        reader.start()


def has_all(attached: Attached, wanted: set[int]) -> dict[str, str]:
    """Wait until all have told of marks; return of those who do not what they said."""
    wrong = {}
    for reader in attached.readers:
        patience = Patience(180)
        while not wanted <= reader.marks():
            if not patience.lasts():
                wrong[reader.kind.name] = f"failed: it does not get there: {reader.said()}"
                break
            time.sleep(2)
    return wrong


def logged(server: MySqlServer) -> list[Change]:
    """Return what a node's own binlogs tell of the shop."""
    reader = BinLogStreamReader(
        {"unix_socket": server.socket, "user": "root", "password": ""},
        server_id=7900,
        log_file="binlog.000001",
        log_pos=4,
        resume_stream=True,
        only_schemas=["shop"],
        only_events=[WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent],
    )
    with contextlib.closing(reader):
        return [Change(**change) for event in reader for change in changes_of(event)]


def by_table(changes: Iterable[Change], exact: bool = False) -> dict[tuple[int, str], list[Change]]:
    """Return the changes of each shard and table in their order, rows of a snapshot left out.

    Across tables a shard's order may change: rows of one table wait for the DDL of another shard. What moves a row to
    another key counts as two changes: some tell it so.
    """
    found: dict[tuple[int, str], list[Change]] = defaultdict(list)
    for change in changes:
        if change.op != "r":
            table = as_named_first(change.table)
            for each in _of_one_key(change):
                found[each.id % SHARDS, table].append(_alike(each, table, exact))
    return found


def _of_one_key(change: Change) -> list[Change]:
    before, after = change.before, change.after
    if before is None or after is None or int(before["id"]) == int(after["id"]):
        return [change]
    return [replace(change, op="d", after=None), replace(change, op="c", before=None)]


def _alike(change: Change, table: str, exact: bool) -> Change:
    before, after = (
        image and (dict(image) if exact else plain(image, (*COMPARED, EXTRA)))
        for image in (change.before, change.after)
    )
    return Change(change.op, table, before, after)


def told_wrong(reader: Program, nodes: Sequence[Change]) -> str:
    """Return whether a reader has told what the nodes have logged, and nothing else."""
    exact = reader.kind.name == SAME_LIBRARY
    mine, wanted = by_table(reader.changes(), exact), by_table(nodes, exact)
    if reader.kind.snapshot:
        for (shard, table), changes in wanted.items():
            if table in ("shop.orders", "shop.notes"):
                wanted[shard, table] = changes[FIRST_ROWS:]
    for place in {**wanted, **mine}:
        one, other = mine.get(place, []), wanted.get(place, [])
        for number, (a, b) in enumerate(zip(one, other, strict=False)):
            if a != b:
                return f"failed: {place}, change {number}: {a} is told, {b} is logged"
        if len(one) != len(other):
            return f"failed: {place}: {len(one)} changes are told, {len(other)} are logged"
    return PASSED


def served_wrong(side: Shards, tables: Mapping[str, Mapping[int, Any]]) -> str:
    """Return whether `serve --tables` answers with the rows that the nodes hold."""
    for table, rows in tables.items():
        names = [name for (name, *_) in side.query(f"SHOW COLUMNS FROM {table}")]
        found = [dict(zip(names, row, strict=True)) for row in side.query(f"SELECT * FROM {table}")]
        if {row["id"]: row for row in found} != rows or len(found) != len(rows):
            return f"failed: {table}: other rows than the shards"
    return PASSED


def judge(attached: Attached, unfinished: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return of each reader whether its events and its rows are those of the nodes."""
    story = attached.side.story
    tables = story.tables()
    nodes = [change for server in story.servers for change in logged(server)]
    found = {}
    for reader in attached.readers:
        name = reader.kind.name
        if name in unfinished:
            told = {"rows": unfinished[name]}
        elif isinstance(reader, Program):
            told = {"events": told_wrong(reader, nodes), "rows": rows_wrong(reader.changes(), tables)}
        else:
            assert isinstance(reader, Replica)
            told = {"rows": PASSED if reader.tables() == tables else "failed: other rows than the shards"}
        found[name] = {"version": version_of(reader.kind), **told}
        print(name, told, flush=True)
    found["serve --tables"] = {"version": "", "rows": served_wrong(attached.side, tables)}
    return found


def test_a_day(tmp_path: Path) -> None:
    """All readers at once: each is judged by its events and by its rows, and `serve` by its memory."""
    with contextlib.ExitStack() as stack:
        side = stack.enter_context(Shards.started(tmp_path))
        readers = [kind.make(kind, side, tmp_path / f"reader-{number}") for number, kind in enumerate(kinds())]
        for reader in readers:
            stack.callback(reader.end)
            reader.start()
        patience = Patience(300)
        for reader in readers:
            while not reader.has_begun():
                assert patience.lasts(), (reader.kind.name, reader.said())
                time.sleep(1)
        attached, day = Attached(side, readers), Day(side.story, MINUTES)
        with attached.looked_after():
            day.play(attached.in_hour)
            memory = judged(attached.memory)
            for writer in side.story.writers:
                writer.mark(0)
            unfinished = has_all(attached, set(range(SHARDS)))
        found = judge(attached, unfinished)
        told = {
            "date": time.strftime("%Y-%m-%d"),
            "minutes": MINUTES,
            "transactions": day.transactions,
            "ddl": day.statements,
            "serve, MiB": memory,
            "started again": HOURS + sum(attached.started.values()),
            "readers": found,
        }
        print(json.dumps(told, indent=1, ensure_ascii=False), dict(attached.started), flush=True)
        RESULT.write_text(json.dumps(told, indent=1, ensure_ascii=False))
    wrong = {name: each for name, each in found.items() if "failed" in repr(each.values())}
    assert not wrong
    assert memory["flat"], memory
    often = {name: times for name, times in attached.started.items() if times > len(SERVE_IS_KILLED)}
    assert not often, "they end though nobody has killed what they read"


def kinds() -> list[Kind]:
    """Return the readers of the day: all, or those that LIFE_READERS names parts of."""
    chosen = os.environ.get("LIFE_READERS")
    return [kind for kind in ALL if chosen is None or any(part in kind.name for part in chosen.split(","))]
