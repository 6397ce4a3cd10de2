"""A change log in Parquet: every row of the merged binlog once, with what it was and what it became."""

import json
import signal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest

import binlog_merge
from binlog_merge.binlog.arrow import rows_to_batch
from binlog_merge.binlog.rows import split_rows
from binlog_merge.cli.main import run
from binlog_merge.errors import ConfigError, ConversionFailed, IoError, ReplayStopped, TargetBusy
from binlog_merge.filters.filter import ColumnSelector, Filter, FilterSettings
from binlog_merge.log.log import Log
from binlog_merge.log.reader import OrderedBy, Rows
from binlog_merge.log.replay_options import ReplayOptions, ReplayResult
from binlog_merge.targets.parquet import ParquetTarget, capture
from binlog_merge.targets.server.run import dry_run
from tests.forked import forked_command
from tests.merge_e2e.cases import case_named
from tests.merge_e2e.local import merge

ROOT = Path(__file__).resolve().parents[3]


def merged(name: str, folder: Path) -> Log:
    merge(case_named(name) / "cluster.yaml", folder)
    return Log(folder)


@pytest.fixture(scope="module")
def binlog(tmp_path_factory: pytest.TempPathFactory) -> Log:
    return merged("three-nodes-online-ddl", tmp_path_factory.mktemp("merged"))


def written(binlog: Log, folder: Path, part_bytes: int = 32 << 20, **options: Any) -> ReplayResult:
    chosen = options.get("filter")
    columns = (lambda schema, table: None) if chosen is None else chosen.columns
    target = ParquetTarget(folder, binlog.cluster_uuid, False, columns, part_bytes)
    with target:
        return capture(binlog, target, ReplayOptions(**options))


def changes(folder: Path, table: str = "shop/orders") -> list[dict[str, Any]]:
    """Return the records of a table, in order."""
    files = sorted((folder / table).glob("*.parquet"))
    return [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]


def rank(record: dict[str, Any]) -> int:
    return int(record["gtid"].rpartition(":")[2])


def told(binlog: Log) -> list[dict[str, Any]]:
    """Return before and after of every row, as the binlog alone says."""
    found = []
    for item in binlog.items():
        if isinstance(item, OrderedBy):
            key = item.key
        if isinstance(item, Rows):
            for row in split_rows(item.event, item.table):
                sides = [None if side is None else rows_to_batch([side], item.table).to_pylist()[0] for side in row]
                found.append({"order_key": key.text(), "before": sides[0], "after": sides[1]})
    return found


def test_every_row_is_there_once_in_order(binlog: Log, tmp_path: Path) -> None:
    result = written(binlog, tmp_path)
    records = changes(tmp_path)
    assert [{name: r[name] for name in ("order_key", "before", "after")} for r in records] == told(binlog)
    assert {(r["op"], r["before"] is None, r["after"] is None) for r in records} == {
        ("insert", True, False),
        ("update", False, False),
        ("delete", False, True),
    }
    assert [rank(r) for r in records] == sorted(map(rank, records))
    assert result.transactions == 210
    assert result.selector.applied == dry_run(binlog, ReplayOptions()).selector.applied
    assert [r["statement"].split()[3] for r in changes(tmp_path, "_statements")] == ["ADD", "MODIFY"]
    assert written(binlog, tmp_path).transactions == 0 and len(changes(tmp_path)) == len(records)


def test_small_parts_and_ranges_come_to_the_same(binlog: Log, tmp_path: Path) -> None:
    written(binlog, tmp_path / "whole")
    for last in (1, 60, 90, 91, 200):
        written(binlog, tmp_path / "parts", 3000, last_rank=last)
    written(binlog, tmp_path / "parts", 3000)
    assert changes(tmp_path / "parts") == changes(tmp_path / "whole")
    assert len(list((tmp_path / "parts/shop/orders").glob("*.parquet"))) > 10
    with pytest.raises(ConfigError, match="a replay goes on at 211, not at 5"):
        written(binlog, tmp_path / "parts", first_rank=5)


def test_shapes_change_with_the_table(binlog: Log, tmp_path: Path) -> None:
    written(binlog, tmp_path)
    with_note = {"note" in r["after"] for r in changes(tmp_path) if r["op"] == "insert" and rank(r) > 91}
    without = {"note" in r["after"] for r in changes(tmp_path) if r["op"] == "insert" and rank(r) < 91}
    assert (with_note, without) == ({True}, {False})
    counted = duckdb.sql(
        f"SELECT count(*), sum(after.price) FROM read_parquet('{tmp_path}/shop/orders/*.parquet', union_by_name=true) "
        "WHERE op = 'insert'"
    ).fetchall()
    prices = [r["after"]["price"] for r in changes(tmp_path) if r["op"] == "insert"]
    assert counted == [(len(prices), sum(prices))]


@pytest.mark.parametrize("place", ["parquet-renamed", "parquet-committed"])
def test_killed_it_goes_on_without_a_seam(place: str, binlog: Log, tmp_path: Path) -> None:
    written(binlog, tmp_path / "whole")
    written(binlog, tmp_path / "killed", last_rank=100)
    command = ["replay", "--from", binlog.directory, "--to", f"parquet://{tmp_path / 'killed'}"]
    for _ in range(2):
        killed = forked_command(command, f"{place}:kill")
        assert killed.returncode == -signal.SIGKILL, killed.stderr
    written(binlog, tmp_path / "killed")
    assert changes(tmp_path / "killed") == changes(tmp_path / "whole")
    assert changes(tmp_path / "killed", "_statements") == changes(tmp_path / "whole", "_statements")


def test_another_output_is_refused(binlog: Log, tmp_path: Path) -> None:
    written(binlog, tmp_path, last_rank=100)
    path = tmp_path / "position.json"
    position = json.loads(path.read_text())
    path.write_text(json.dumps(position | {"order_key": "7" * 54}))
    with pytest.raises(ReplayStopped, match=r"(?s)transaction 100 has the order key 7.*another output"):
        written(binlog, tmp_path)
    # A change log that was begun before the position said the key is gone on with.
    path.write_text(json.dumps({name: value for name, value in position.items() if name != "order_key"}))
    assert written(binlog, tmp_path).last_rank == 210
    assert json.loads(path.read_text())["order_key"] == binlog.state.files[-1].last_key


def test_columns_are_chosen(binlog: Log, tmp_path: Path) -> None:
    chosen = Filter(FilterSettings(column_selectors=[ColumnSelector(["shop.*"], ["id", "pri*"])]))
    written(binlog, tmp_path, filter=chosen)
    assert {tuple(r["after"]) for r in changes(tmp_path) if r["after"]} == {("id", "price")}


@pytest.mark.parametrize("name", ["metadata-minimal", "row-image-minimal", "strange-names"])
def test_other_ways_to_write_rows(name: str, tmp_path: Path) -> None:
    binlog = merged(name, tmp_path / "merged")
    result = written(binlog, tmp_path / "log")
    files = list((tmp_path / "log").glob("*/*/*.parquet"))
    assert sum(pq.ParquetFile(file).metadata.num_rows for file in files) == sum(result.selector.applied.values()) > 0
    names = {field.name for file in files for field in pq.read_schema(file).field("after").type}
    assert not any(name.startswith("@") for name in names)


def held(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record with the columns alone of which the log has a value; a file has no others of its table."""
    sides = {side: record.pop(f"{side}_absent") or () for side in ("before", "after")}
    images = {
        side: record[side] and {name: value for name, value in record[side].items() if name not in absent}
        for side, absent in sides.items()
    }
    return record | images


@pytest.mark.parametrize("name", ["partial-json", "row-image-minimal", "row-image-noblob", "all-types", "gtid-off"])
def test_records_are_those_of_changes(name: str, tmp_path: Path) -> None:
    """What an image does not hold is absent, as is a document that the log does not have; neither is NULL."""
    binlog = merged(name, tmp_path / "merged")
    target = ParquetTarget(tmp_path / "log", binlog.cluster_uuid, temporal_text=True)
    with target:
        capture(binlog, target, ReplayOptions())
    absent = 0
    for folder in (tmp_path / "log").glob("[!_]*/*"):
        table, records = (folder.parent.name, folder.name), changes(folder.parent, folder.name)
        absent += sum(1 for record in records if record["after_absent"])
        told = binlog_merge.changes(binlog.directory, table, temporal="text")
        assert pq.read_schema(next(folder.glob("*.parquet"))).names == told.schema.names
        assert list(map(held, records)) == list(map(held, told.read_all().to_pylist()))
    assert absent or name in ("row-image-noblob", "all-types", "gtid-off")


def test_a_change_log_with_other_columns_is_not_gone_on_with(binlog: Log, tmp_path: Path) -> None:
    written(binlog, tmp_path, last_rank=100)
    path = tmp_path / "position.json"
    position = json.loads(path.read_text())
    path.write_text(json.dumps({name: value for name, value in position.items() if name != "columns"}))
    before = sorted(file.name for file in tmp_path.rglob("*.parquet"))
    with pytest.raises(ConfigError, match="begun by an earlier version") as caught:
        written(binlog, tmp_path)
    assert "name a new directory" in (caught.value.remedy or "")
    assert sorted(file.name for file in tmp_path.rglob("*.parquet")) == before


def test_dates_that_arrow_has_no_place_for(tmp_path: Path) -> None:
    binlog = merged("all-types", tmp_path / "merged")
    with pytest.raises(ConversionFailed, match="is a date that no calendar has"):
        written(binlog, tmp_path / "typed")
    assert (
        run(["replay", "--from", str(binlog.directory), "--to", f"parquet://{tmp_path / 'text'}", "--temporal", "text"])
        == 0
    )
    files = (tmp_path / "text").glob("*/*/*.parquet")
    rows = sum(pq.ParquetFile(file).metadata.num_rows for file in files)
    assert rows == sum(dry_run(binlog, ReplayOptions()).selector.applied.values())
    assert run(["replay", "--from", str(binlog.directory), "--to", f"parquet://{tmp_path / 'text'}"]) == 2


def test_a_ddl_that_may_be_of_an_ignored_tso_is_no_guess(binlog: Log) -> None:
    def planned(*tsos: int) -> ReplayResult:
        return dry_run(binlog, ReplayOptions(filter=Filter(FilterSettings(ignore_commit_tso=frozenset(tsos)))))

    keys = [item.key.commit_tso for item in binlog.items() if isinstance(item, OrderedBy)]
    assert sum(planned(keys[100]).selector.filtered.values()) > 0
    with pytest.raises(ReplayStopped, match="may be this DDL's"):
        planned(7507804165234491392)


def test_two_at_once_are_refused(binlog: Log, tmp_path: Path) -> None:
    with ParquetTarget(tmp_path, binlog.cluster_uuid), pytest.raises(TargetBusy):
        written(binlog, tmp_path)


def test_a_directory_of_something_else_is_left_alone(binlog: Log, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is a merge's output"):
        written(binlog, binlog.directory)
    (tmp_path / "position.json").write_text(json.dumps({"rank": 3, "cluster_uuid": "other", "temporal": "typed"}))
    with pytest.raises(ConfigError, match="a change log of cluster other"):
        written(binlog, tmp_path)
    (tmp_path / "position.json").write_text("{}")
    with pytest.raises(IoError, match="the position of the change log is damaged: cluster_uuid"):
        written(binlog, tmp_path)
    (tmp_path / "position.json").unlink()
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/c.parquet").touch()
    with pytest.raises(ConfigError, match="Parquet files and no position"):
        written(binlog, tmp_path)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--to", "parquet://"], "is no directory"),
        (["--to", "parquet://host/x"], "is no directory"),
        ([], "give --to URL, or --dry-run"),
        (["--dry-run", "--start-gtid", "x"], "is no GTID"),
        (["--dry-run", "--start-gtid", "00000000-0000-0000-0000-000000000001:4"], "is another cluster"),
        (["--dry-run", "--start-gtid", "9", "--stop-gtid", "8"], "before it begins"),
        (["--dry-run", "--start-gtid", "9", "--start-tso", "8"], "say the same"),
        (["--dry-run", "--filter", "nowhere.toml"], "cannot read the filter"),
        (["--to", "mysql://"], "is no server"),
    ],
)
def test_wrong_arguments(binlog: Log, capsys: pytest.CaptureFixture[str], arguments: list[str], reason: str) -> None:
    assert run(["replay", "--from", str(binlog.directory), *arguments]) == 2
    assert reason in capsys.readouterr().err


def test_ranges_by_tso(binlog: Log, capsys: pytest.CaptureFixture[str]) -> None:
    def ranks(*options: str) -> tuple[int, int]:
        assert run(["replay", "--from", str(binlog.directory), "--dry-run", "-o", "json", *options]) == 0
        answer = json.loads(capsys.readouterr().out)
        return answer["first_rank"], answer["last_rank"]

    marker = "7507804165234491392"
    assert ranks("--stop-tso", marker) == (1, 90)
    assert ranks("--start-tso", marker) == (91, 210)
    keys = {}
    rank = 0
    for item in binlog.items():
        rank += type(item).__name__ == "Begin"
        if isinstance(item, OrderedBy):
            keys.setdefault(item.key.commit_tso, rank)
    for tso in list(keys)[5:200:23]:
        assert ranks("--start-tso", str(tso))[0] == keys[tso]
        assert ranks("--stop-tso", str(tso))[1] == keys[tso] - 1
    assert ranks("--start-tso", str(max(keys) + 1)) in ((210, 210), (211, 210))
