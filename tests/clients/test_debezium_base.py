"""Debezium's snapshots of a cluster that was there before its log, of which then the first files are purged.

The log begins with base schemas, and rows that no event of it has: a bootstrap has brought these into the file of
`serve --tables`. Rows and events are compared with the nodes' servers, on which transfers go on.

A snapshot beside the stream is asked for by a row of a table of the cluster. Debezium reads what a signal by file or
Kafka asks for in a thread of its own, beside the one that streams (DBZ-8674, in 3.6): the first chunk has rows as they
were before changes that it has already given.
"""

import contextlib
import json
import time
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from binlog_merge.files.manifest import Manifest
from tests.bootstrap.running import PAST, RunningBank, running
from tests.clients.rows import told
from tests.clients.served import Served, served, until
from tests.clients.slow_answers import SlowAnswers, slow_answers
from tests.clients.test_debezium import Debezium, debezium
from tests.clients.test_debezium import pytestmark as pytestmark
from tests.merge_e2e.local import written
from tests.soak.sturdy_bank import TABLES
from tools.demo_live.bank import ACCOUNTS, NODES
from tools.demo_live.load import Load

KEYS = {"accounts": ("id",), "ledger": ("transfer", "account")}
COLUMNS = {"accounts": ("id", "balance", "transfer"), "ledger": ("transfer", "account", "amount")}
"""Those that tables have in the beginning and in the end, in their order."""
SIGNALS = "(id VARCHAR(42) PRIMARY KEY, type VARCHAR(32) NOT NULL, data VARCHAR(2048))"
"""The columns of the table that asks for snapshots."""
SNAPSHOT = {"data-collections": ["bank.accounts", "bank.ledger"], "type": "INCREMENTAL"}
BEFORE = (ACCOUNTS + PAST) * len(NODES)
"""Rows that are there when the log begins."""
Row = dict[str, Any]


@dataclass
class Held:
    """The tables that whoever applies a connector's records has; each change must fit what came before it."""

    rows: dict[str, dict[tuple[Any, ...], Row]] = field(default_factory=lambda: {table: {} for table in KEYS})
    read: int = 0
    events: Counter[str] = field(default_factory=Counter)

    partial: bool = False

    @classmethod
    def by(cls, found: Debezium, partial: bool = False) -> "Held":
        """Return what the records make. `partial`: without a snapshot at first, so rows change that are not held."""
        held = cls(partial=partial)
        for record in found.changes():
            if record["source"]["table"] in KEYS:
                held.take(record)
        return held

    def take(self, record: dict[str, Any]) -> None:
        """Apply a record; a row that is read takes the place of one that is there."""
        table, op, before, after = record["source"]["table"], record["op"], record["before"], record["after"]
        rows = self.rows[table]
        if op in ("u", "d"):
            known = rows.pop(_key(table, before), before if self.partial else None)
            assert known is not None, "a row changes that is not there"
            # Not the column that comes and goes: a node that has dropped it already has lost its values.
            assert _values(table, known) == _values(table, before), "a change does not follow what came before it"
            self.events["UPDATE" if op == "u" else "DELETE"] += 1
        if op in ("c", "u", "r"):
            assert op == "r" or _key(table, after) not in rows, "a row comes twice"
            rows[_key(table, after)] = after
            self.events["INSERT"] += op == "c"
        self.read += op == "r"

    def tables(self) -> dict[str, list[tuple[Any, ...]]]:
        """Return the rows in the nodes' form."""
        return {t: sorted(_values(t, row) for row in rows.values()) for t, rows in self.rows.items()}


def _key(table: str, row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in KEYS[table])


def _values(table: str, row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in COLUMNS[table])


def read_by(found: Debezium, wanted: dict[str, Any], partial: bool = False) -> int:
    """Wait until a connector's records make the nodes' rows; return how many came by snapshots."""
    with contextlib.suppress(AssertionError):
        until(lambda: Held.by(found, partial).tables() == wanted)
    held = Held.by(found, partial)
    for table, rows in held.tables().items():
        assert set(rows) == set(wanted[table]), (table, len(rows), len(wanted[table]))
    return held.read


@contextlib.contextmanager
def transfers(bank: RunningBank, number: int) -> Iterator[None]:
    """Let money be transferred meanwhile; at the end all of it is in the log."""
    load = Load(bank.bank, 10)
    load._begun = number * 1_000_000  # no transfer is twice in the ledger
    load.start()
    try:
        yield
    finally:
        load.stop()
    assert load.error is None, repr(load.error)
    bank.drained()


def purge(bank: RunningBank) -> None:
    """Take away the log's first files, as its owner may; what was there is read by nobody any more."""
    files = [file.name for file in Manifest.load(bank.merged).state.files]
    for name in files[:-1]:
        (bank.merged / name).unlink(missing_ok=True)
    assert len(files) > 1 and files[0] not in written(bank.merged)


def count(bank: RunningBank) -> int:
    return sum(map(len, held_by_nodes(bank).values()))


def held_by_nodes(bank: RunningBank) -> dict[str, Any]:
    return {table: bank.rows(table) for table in KEYS}


def end_of(source: Served) -> tuple[str, int]:
    file, position, *_ = source.query("SHOW BINARY LOG STATUS")[0]
    return str(file), int(position)


def test_what_was_there_before_the_log_and_what_was_purged(tmp_path: Path) -> None:
    with running(tmp_path, tables=(*TABLES, "signals")) as bank, bank.beating():
        with transfers(bank, 1):
            assert bank.bootstrap(f"duckdb://{tmp_path}/bank.db", rows=500) is not None
        with served(bank.merged, tmp_path, f"--tables={tmp_path}/bank.db") as source:

            def connector(
                name: str, mode: str, *more: str, of: Served | SlowAnswers = source
            ) -> AbstractContextManager[Debezium]:
                return debezium(of, tmp_path / name, mode, f"database.server.id={zlib.crc32(name.encode())}", *more)

            with connector("initial", "initial") as initial, connector("needed", "when_needed") as needed:
                with transfers(bank, 2):
                    for found in (initial, needed):
                        until(lambda: Held.by(found).read >= BEFORE, found.said)  # noqa: B023
                    bank.bank.alter(0.2)
                read, needed_read = (read_by(found, held_by_nodes(bank)) for found in (initial, needed))
            begun = end_of(source)
            with transfers(bank, 3):
                until(lambda: end_of(source)[0] > begun[0])
            purge(bank)
            with connector("initial", "initial") as found:
                # What it has not got is purged: it finds that out by what the server says, and ends.
                until(lambda: "no longer available on the server" in found.said(), found.said)
            assert Held.by(found).read == read
            begun = end_of(source)
            with connector("needed", "when_needed") as needed, connector("late", "initial") as late:
                again = read_by(needed, held_by_nodes(bank)) - needed_read
                assert again == read_by(late, held_by_nodes(bank)) == count(bank) > BEFORE
                with transfers(bank, 4):
                    time.sleep(3)
                assert read_by(late, held_by_nodes(bank)) == again
                assert read_by(needed, held_by_nodes(bank)) == again + needed_read
            files = [bank.merged / name for name in written(bank.merged) if name >= begun[0]]
            assert Held.by(late).events == told(files, f"--start-position={begun[1]}")
            bank.bank.create("signals", SIGNALS)
            bank.drained()
            more = ["read.only=true", "signal.data.collection=bank.signals", "incremental.snapshot.chunk.size=150"]
            more += ["connect.keep.alive.interval.ms=10000"]
            with (
                slow_answers(source.port, b"FROM `bank`.`accounts`", 2) as slow,
                connector("added", "no_data", *more, of=slow) as added,
            ):
                with transfers(bank, 5):
                    until(lambda: Held.by(added, partial=True).events["INSERT"] > 0, added.said)
                    asked = f"INSERT INTO bank_0.signals_0 VALUES ('1', 'execute-snapshot', '{json.dumps(SNAPSHOT)}')"
                    bank.bank.servers[0].execute(asked)
                    until(lambda: Held.by(added, partial=True).read > BEFORE - ACCOUNTS, added.said)
                read_by(added, held_by_nodes(bank), partial=True)
                assert slow.times > 2
        bank.check()
