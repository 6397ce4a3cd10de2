"""Targets of a bootstrap where something else comes between its steps."""

import resource
from pathlib import Path

import duckdb
import pytest

from binlog_merge.bootstrap.duckdb_file import DuckdbFile
from binlog_merge.bootstrap.values import COPYING, EXACT, Chunk, Progress, Reading, Record, Shard, Stage, Texts
from binlog_merge.errors import ConfigError, ManifestError
from binlog_merge.log.log import Log
from snapshot_store.ddl import parse_dump
from tests.binlog_server.merged import merged

CLUSTER = "6d5b1a5e-0000-4000-8000-000000000000"
CATALOG = parse_dump("CREATE DATABASE s; USE s; CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR(40));")
NAMES = (("s", "t"),)
DONE = Stage(EXACT, 1, 7, (), {})


def _begun(target: DuckdbFile) -> None:
    assert target.stage() is None
    target.begin(Stage(COPYING, 1, 7, NAMES, {}), CATALOG, Log(merged("two-nodes")), NAMES)
    _fill(target, range(10))


def _fill(target: DuckdbFile, keys: range) -> None:
    table = CATALOG.table("s", "t")
    found: list[Texts] = [(str(i), f"{hash((i, 1)):020d}{hash((i, 2)):020d}"[:40], str(i)) for i in keys]
    chunk = Chunk(Shard("dn", "s", "t"), Reading(table, table.columns, (0,)), found, found[-1][2:], True)
    assert target.insert(chunk, Progress(chunk.last, True, len(found)), replace=False) == []


def test_a_file_that_came_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "bank.duckdb"
    with DuckdbFile(path, CLUSTER) as target:
        _begun(target)
        path.write_bytes(b"somebody's")
        with pytest.raises(ConfigError, match=r"exists"):
            target.finish(DONE)
    assert path.read_bytes() == b"somebody's"
    with DuckdbFile(path, CLUSTER) as target, pytest.raises(ConfigError, match=r"exists"):
        target.stage()
    path.unlink()
    with DuckdbFile(path, CLUSTER) as target:
        assert target.stage() == DONE
        target.finish(DONE)
    assert _count(path) == 10


def test_a_file_gets_its_name_only_when_all_of_it_is_in_it(tmp_path: Path) -> None:
    """A disk that is full as DuckDB closes the file leaves rows in its write-ahead log, which is not renamed."""
    path = tmp_path / "bank.duckdb"
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    with DuckdbFile(path, CLUSTER) as target:
        _begun(target)
        _fill(target, range(10, 60_000))
        target._target.connection.execute("CHECKPOINT")
        _fill(target, range(60_000, 70_000))
        most = path.with_name(f"{path.name}.bootstrap").stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, limit[1]))
        try:
            with pytest.raises(duckdb.Error):
                target.finish(DONE)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert not path.exists()
    with DuckdbFile(path, CLUSTER) as target:
        assert target.stage() == DONE
        target.finish(DONE)
    assert _count(path) == 70_000


def _count(path: Path) -> int:
    with duckdb.connect(str(path)) as connection:
        ((count,),) = connection.execute("SELECT count(*) FROM s.t").fetchall()
    return int(count)


@pytest.mark.parametrize("damaged", ["{", "[]", '{"phase": "asleep"}', "[" * 100_000])
def test_a_record_that_is_damaged_is_named(damaged: str) -> None:
    def ask(sql: str, values: object) -> list[tuple[object, ...]]:
        return [(damaged,)] if "SELECT stage" in sql else [("dn", "shop", "t", damaged, False, 3)]

    record = Record(lambda *_: None, ask, "binlog_merge", "c", "VARCHAR", "VARCHAR")
    for read, table in ((record.stage, "binlog_merge.bootstrap"), (record.progress, "binlog_merge.bootstrap_shard")):
        if damaged == "[]" and read == record.progress:
            continue  # no key at all
        with pytest.raises(ManifestError, match=f"in {table}, is damaged") as caught:
            read()
        assert "begin the bootstrap anew" in (caught.value.remedy or "")
