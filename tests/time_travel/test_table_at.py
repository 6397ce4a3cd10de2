"""The bank as it was at random TSOs, against the simulator, which knows every row at every key."""

import csv
import io
import json
import random
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import duckdb
import pytest

from binlog_merge.cli import main
from binlog_merge.log.log import Log
from binlog_merge.log.place import Place
from tests.effort import effort, seed_of_search
from tests.merge_e2e.local import merge
from tests.mysql_server import MySqlServer
from tests.polardbx.simulate import knobs_of, simulate
from tests.polardbx.transactions import ACCOUNTS, BALANCE
from tests.polardbx.truth import by_key, logical_row
from tests.targets.as_merged import run_session
from tests.time_travel.changing import written
from tests.time_travel.one_server import merged_of

Captured = pytest.CaptureFixture[str]
Rows = dict[int, dict[str, Any]]
BANK = "bank.account"


@dataclass(frozen=True)
class Bank:
    """A merged log, and its accounts behind each commit TSO."""

    out: Path
    states: dict[int, Rows]

    def at(self, tso: int) -> Rows:
        """Return the accounts as a reader sees them at a TSO."""
        return self.states[max(known for known in self.states if known <= tso)]

    def rank_at(self, tso: int) -> int:
        """Return the number of the last transaction at a TSO or before."""
        return Log(self.out).through(Place.at_tso("--at", tso))

    def moments(self, rng: random.Random, count: int) -> list[int]:
        """Return TSOs at which the bank was there: those of transactions, and some between."""
        known = sorted(self.states)[1:]
        return [max(known[0], min(known[-1], rng.choice(known) + rng.choice((0, 0, -1, 1)))) for _ in range(count)]


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Bank:
    folder = tmp_path_factory.mktemp("bank")
    for seed in range(seed_of_search(), 1 << 33):
        # Whole images: rows are carried back, too.
        knobs = replace(knobs_of(random.Random(seed)), steps=300, ddl=12, images=("FULL",), first=seed)
        simulation = simulate(seed, folder / f"case-{seed}", knobs)
        states, now = {0: {}}, dict[int, dict[str, Any]]()
        for key, effects in by_key(simulation.world):
            for name, _, before, after in map(logical_row, effects):
                if name != BANK:
                    continue
                number = (before or after or {})["id"]
                if after is None:
                    del now[number]
                else:
                    now[number] = {**now.get(number, {}), **after}
            states[key[0]] = {number: dict(row) for number, row in now.items()}
        if len(states) > 40 and sum(bool(state) for state in states.values()) > 30:
            print("seed", seed)
            merge(simulation.cluster_yaml, folder / "out")
            return Bank(folder / "out", states)
    raise AssertionError


def shown(capsys: Captured, *arguments: str) -> Rows:
    code = main.run(["table-at", BANK, *arguments, "-o", "jsonl"])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    return {row["id"]: row for row in map(json.loads, captured.out.splitlines())}


def same(rows: Rows, wanted: Rows) -> None:
    """Compare rows; columns come and go, and the simulator's rows have those with which they were written."""
    assert rows.keys() == wanted.keys()
    for number, row in rows.items():
        assert row["balance"] == wanted[number]["balance"]
        held = row.keys() & wanted[number].keys()
        assert {name: _text(row[name]) for name in held} == {name: _text(wanted[number][name]) for name in held}


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def test_the_bank_at_random_tsos_is_the_simulators(bank: Bank, tmp_path: Path, capsys: Captured) -> None:
    rng = random.Random(len(bank.states))
    binlog, snapshots = Log(bank.out), tmp_path / "snapshots"
    ranks = sorted(rng.sample(range(1, binlog.last_rank), 4))
    for rank in ranks:
        stop = ["--stop-gtid", f"{binlog.cluster_uuid}:{rank}", "--snapshots", str(snapshots)]
        assert main.run(["replay", "--merged", str(bank.out), "--to", f"duckdb://{tmp_path / 'kept.db'}", *stop]) == 0
    backwards = 0
    for tso in bank.moments(rng, effort(8, 50)):
        arguments = ["table-at", BANK, "--merged", str(bank.out), "--at-tso", str(tso), "-o", "json", "--base"]
        capsys.readouterr()
        if (code := main.run([*arguments, str(snapshots)])) != 0:
            refused = json.loads(capsys.readouterr().out)["error"]
            assert code == 60 and "cannot be carried back" in refused["message"], refused
            assert bank.rank_at(tso) < ranks[0]  # else there is one to carry on
            backwards += 1
            assert main.run([*arguments, "empty"]) == 0
        made = json.loads(capsys.readouterr().out)
        rows = {row["id"]: row for row in made["values"]}
        same(rows, bank.at(tso))
        assert not rows or sum(row["balance"] for row in rows.values()) == ACCOUNTS * BALANCE
        assert made["in_doubt"] == []
        backwards += made["base_rank"] > made["rank"] or bool(made["notes"])
    assert backwards  # or it was tried: there may be DDL everywhere


def test_what_changed_between_two_moments(bank: Bank, capsys: Captured) -> None:
    rng = random.Random(len(bank.states) + 1)
    for _ in range(effort(2, 20)):
        first, last = sorted(bank.moments(rng, 2))
        between = ["--merged", str(bank.out), "--from-tso", str(first), "--to-tso", str(last)]
        assert main.run(["table-at", BANK, *between, "-o", "jsonl"]) == 0
        found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        before, after = bank.at(first), bank.at(last)
        numbers = {number for number in {*before, *after} if before.get(number) != after.get(number)}
        assert [(row["before"] or row["after"])["id"] for row in found] == sorted(numbers)
        for row in found:
            number = (row["before"] or row["after"])["id"]
            assert row["change"] == ("updated" if number in before else "inserted")
            assert row["after"]["balance"] == after[number]["balance"]
            assert row["before"] is None or row["before"]["balance"] == before[number]["balance"]


@pytest.mark.mysql
def test_what_the_rows_of_a_log_do_not_say_is_no_change(
    mysql_server: MySqlServer, tmp_path: Path, capsys: Captured
) -> None:
    log = written(
        mysql_server,
        tmp_path / "log",
        "INSERT INTO t VALUES (1, 1, 'a'); SET binlog_row_image = MINIMAL; UPDATE t SET v = 3; UPDATE t SET w = NULL;"
        "ALTER TABLE t ADD COLUMN x INT; DELETE FROM t; TRUNCATE TABLE t; INSERT INTO t VALUES (2, 2, 'b', 2);",
        "CREATE TABLE t (id INT PRIMARY KEY, v INT, w CHAR(4));",
    )

    def between(first: int, last: int) -> tuple[int, str, str]:
        places = ["--from-tso", f"{log.cluster_uuid}:{first}", "--to-tso", f"{log.cluster_uuid}:{last}"]
        code = main.run(["table-at", "shop.t", "--merged", str(log.directory), *places, "-o", "jsonl"])
        return code, *capsys.readouterr()

    code, out, _ = between(1, 3)
    assert (code, json.loads(out)) == (0, {"change": "updated", "before": {"id": 1}, "after": {"id": 1, "w": None}})
    code, out, error = between(2, 5)
    assert (code, json.loads(out)) == (0, {"change": "deleted", "before": {"id": 1}, "after": None})
    assert "ADD COLUMN x" in error
    code, out, error = between(5, 7)
    assert code == 2 and "TRUNCATE TABLE t" in error and '"error": null' not in out


@pytest.mark.mysql
@pytest.mark.parametrize("key", ["", ", PRIMARY KEY (id)"])
def test_zeros_with_a_sign_and_bytes(key: str, mysql_server: MySqlServer, tmp_path: Path, capsys: Captured) -> None:
    """0.0 and -0.0 are two values, and bytes are shown as changes show them."""
    statements = (
        f"CREATE TABLE t (id INT, f DOUBLE, b VARBINARY(4), g FLOAT{key});\n"
        "INSERT INTO t VALUES (1, 0e0, 'ab', 1.5), (2, -0e0, '', 2);\n"
        "UPDATE t SET f = -0e0 WHERE id = 1;\nUPDATE t SET f = 0e0 WHERE id = 2"
    )
    run_session(mysql_server, statements, "shop")
    log = merged_of(mysql_server, tmp_path)

    def lines(*places: str) -> list[dict[str, Any]]:
        assert main.run(["table-at", "shop.t", "--merged", str(log.directory), *places, "-o", "jsonl"]) == 0
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    uuid = log.cluster_uuid
    rows = lines("--at-tso", f"{uuid}:{log.last_rank}")
    assert sorted((row["id"], repr(row["f"]), row["b"]) for row in rows) == [(1, "-0.0", "0x6162"), (2, "0.0", "0x")]
    changed = lines("--from-tso", f"{uuid}:{log.last_rank - 2}", "--to-tso", f"{uuid}:{log.last_rank}")
    gone, here = ([row[side] for row in changed if row[side]] for side in ("before", "after"))
    assert sorted((row["id"], repr(row["f"])) for row in gone) == [(1, "0.0"), (2, "-0.0")]
    assert sorted((row["id"], repr(row["f"])) for row in here) == [(1, "-0.0"), (2, "0.0")]


@pytest.mark.mysql
def test_it_goes_into_files_and_to_a_server(
    bank: Bank, tmp_path: Path, capsys: Captured, mysql_server: MySqlServer
) -> None:
    tso = sorted(bank.states)[-1]
    at = ["table-at", BANK, "--merged", str(bank.out), "--at-tso", str(tso), "--base", "empty"]
    url = f"mysql://root@localhost/?socket={mysql_server.socket}"
    for to in (str(tmp_path / "then.db"), str(tmp_path / "then.parquet"), url):
        assert main.run([*at, "--to", to]) == 0
        assert main.run([*at, "--to", to]) == 2
    wanted = sorted((row["id"], row["balance"]) for row in bank.at(tso).values())
    columns = "SELECT id, balance FROM"
    with duckdb.connect(str(tmp_path / "then.db"), read_only=True) as file:
        assert sorted(file.execute(f"{columns} {BANK}").fetchall()) == wanted
    assert sorted(duckdb.sql(f"{columns} '{tmp_path / 'then.parquet'}'").fetchall()) == wanted
    assert sorted(mysql_server.query(f"{columns} {BANK}")) == wanted
    capsys.readouterr()
    assert main.run([*at, "-o", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert sorted(int(row["balance"]) for row in rows) == sorted(row[1] for row in wanted)


@pytest.mark.mysql
def test_parquet_has_times_as_they_are(mysql_server: MySqlServer, tmp_path: Path) -> None:
    """Its own intervals are not negative, and have no microseconds."""
    run_session(mysql_server, "CREATE TABLE t (x TIME(6));\nINSERT INTO t VALUES ('-838:59:58.000001');", "d")
    log, to = merged_of(mysql_server, tmp_path), tmp_path / "then.parquet"
    line = ["table-at", "d.t", "--merged", str(log.directory), "--at", f"{log.cluster_uuid}:{log.last_rank}"]
    assert main.run([*line, "--to", str(to)]) == 0
    assert duckdb.sql(f"SELECT x FROM '{to}'").fetchall() == [("-838:59:58.000001",)]


def test_what_cannot_be_shown_says_why(bank: Bank, tmp_path: Path, capsys: Captured) -> None:
    tso, merged = str(sorted(bank.states)[-1]), ["--merged", str(bank.out)]
    for arguments, code, message in (
        ([BANK, *merged, "--at-tso", tso], 2, "had before the log are not known"),
        ([BANK, *merged], 2, "give --at-tso"),
        ([BANK, *merged, "--at-tso", tso, "--from-tso", tso], 2, "give --at-tso"),
        ([BANK, *merged, "--from-tso", tso], 2, "goes with --to-tso"),
        (["bank.none", *merged, "--at-tso", tso, "--base", "empty"], 33, "there was no table bank.none then"),
        ([BANK, *merged, "--at-tso", "1", "--base", "empty"], 45, "is before the log"),
        ([BANK, *merged, "--at-tso", str((1 << 63) - 1), "--base", "empty"], 45, "is after the end of the log"),
        ([BANK, *merged, "--at-tso", tso, "--base", str(tmp_path / "none.sql")], 31, "No such file"),
        ([BANK, *merged, "--at-tso", tso, "--base", "empty", "--to", "x.xls"], 2, "is no target"),
    ):
        assert main.run(["table-at", *arguments]) == code, arguments
        captured = capsys.readouterr()
        assert message in captured.err and not captured.out
