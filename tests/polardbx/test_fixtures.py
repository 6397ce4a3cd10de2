"""PolarDB-X cases on real servers' binlogs: the article's picture, repartition, scale-out, rename; row by row."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from fixtures.polardbx import DIALECTS, FIXTURES, history, tables, transactions
from snapshot_store.store.db import Store
from snapshot_store.tso import OrderKey
from tests.effort import crossed
from tests.merge_e2e.cases import copy_case
from tests.merge_e2e.editing import QUERY, Log, assert_prefix
from tests.merge_e2e.local import merge, written
from tests.mysql_server import MySqlServer, mysqlbinlog
from tests.oracle.polardbx.merge import merge_polardbx
from tests.polardbx.apply import apply_merged, comparable, tables_of, user_tables
from tests.polardbx.read import comparable as plain
from tests.polardbx.read import read_merged
from tests.polardbx.truth import expected, final, key_text
from tests.polardbx.write import ends

every = pytest.mark.parametrize("name", sorted(DIALECTS))


@every
def test_the_folder_says_what_its_history_says(name: str) -> None:
    told, folder = history(name), FIXTURES / name
    assert json.loads((folder / "expected" / "transactions.json").read_text()) == _json(transactions(told))
    assert json.loads((folder / "expected" / "tables.json").read_text()) == _json(tables(told))
    assert {n["source-id"] for n in yaml.safe_load((folder / "cluster.yaml").read_text())["nodes"]} == set(told.numbers)


def _json(value: Any) -> Any:
    return json.loads(json.dumps(value))


@pytest.mark.mysql
@every
def test_mysqlbinlog_reads_the_nodes(name: str) -> None:
    for node in (FIXTURES / name / "nodes").iterdir():
        files = sorted(node.glob("binlog.*"))
        printed = mysqlbinlog(files, "--verify-binlog-checksum").decode(errors="replace")
        commits = [e for f in files for e in Log.load(f).events if e.type == QUERY and e.text.startswith("XA COMMIT")]
        assert printed.count("\nXA COMMIT X'") == len(commits) > 0


@pytest.mark.parametrize(("name", "partitions"), crossed(sorted(DIALECTS), [None, 1, 9]))
def test_row_by_row(name: str, partitions: int | None, tmp_path: Path) -> None:
    merge(FIXTURES / name / "cluster.yaml", tmp_path, partitions=partitions)
    wanted = [plain(entry, True) for entry in expected(history(name))]
    got = [plain(entry, True) for entry in read_merged(written(tmp_path), tmp_path)]
    for one, other in zip(got, wanted, strict=False):
        assert one.rows == other.rows and one.sql == other.sql
        assert one.key == other.key or (one.sql is not None and not one.key)
    assert len(got) == len(wanted)


@every
def test_the_oracle_s_bytes(name: str, tmp_path: Path) -> None:
    config = FIXTURES / name / "cluster.yaml"
    merge(config, tmp_path)
    assert written(tmp_path) == merge_polardbx(config).files


@pytest.mark.mysql
@every
def test_a_server_holds_the_tables(name: str, mysql_server: MySqlServer, tmp_path: Path) -> None:
    told = history(name)
    merge(FIXTURES / name / "cluster.yaml", tmp_path / "out")
    for schema in told.schemas:
        mysql_server.execute(f"CREATE DATABASE `{schema}`")
    apply_merged(mysql_server, told.base, written(tmp_path / "out"), tmp_path)
    wanted = final(told)
    assert user_tables(mysql_server) == set(wanted)
    found = tables_of(mysql_server, wanted)
    assert {n: comparable(rows) for n, rows in found.items()} == {n: comparable(r) for n, (_, r) in wanted.items()}


def test_the_article_s_picture(tmp_path: Path) -> None:
    """At TSO 192 six physical tables have the column, two have not, and the logical table is of TSO 100."""
    merge(FIXTURES / "polardbx-seed-article" / "cluster.yaml", tmp_path)
    with Store.open(tmp_path / "schema.duckdb") as store:
        known = store.load_history()
    at = OrderKey(192, 0, 0, 0)
    logical = known.at("d1", "t1", at)
    assert logical is not None and logical.key.commit_tso == 100
    assert logical.table is not None and [c.name for c in logical.table.columns] == ["id", "name"]
    have = set()
    for number in range(8):
        node = "dn-1" if number < 4 else "dn-2"
        physical = known.at(f"d1_{number:06d}", "t1", at, node)
        assert physical is not None and physical.table is not None
        if len(physical.table.columns) == 3:
            have.add(number)
    assert have == {0, 1, 2, 4, 5, 6}


def test_a_node_that_has_shown_nothing_holds_everything(tmp_path: Path) -> None:
    """Whether dn-2 joins later or is late, nobody knows yet; the others have told that there are three nodes."""
    config = copy_case(FIXTURES / "polardbx-scale-out", tmp_path / "case")
    path = config.parent / "nodes" / "dn-2" / "binlog.000001"
    data = path.read_bytes()
    path.write_bytes(data[: ends(data)[4]])
    result = merge(config, tmp_path / "out", end_of_input=False)
    assert (result.transactions, written(tmp_path / "out")) == (0, {})
    path.write_bytes(data)
    assert merge(config, tmp_path / "out").transactions == len(expected(history("polardbx-scale-out")))


def test_a_node_that_joins_is_configured_when_it_is_there(tmp_path: Path) -> None:
    """The nodes grow, the third is added to the configuration between two runs: the files end up as of one run."""
    case, told = FIXTURES / "polardbx-scale-out", history("polardbx-scale-out")
    merge(case / "cluster.yaml", tmp_path / "whole")
    whole = written(tmp_path / "whole")
    config = copy_case(case, tmp_path / "case", lambda values: values["nodes"].pop())
    first = told.effects[0].key
    for node in ("dn-1", "dn-2"):
        path = config.parent / "nodes" / node / "binlog.000001"
        log = Log.load(path)
        commits = [e.at for e in log.events if e.type == QUERY and e.text.startswith("XA COMMIT")]
        path.write_bytes(path.read_bytes()[: commits[2]])  # CdcStart and the first rows, and no more
    merge(config, tmp_path / "out", end_of_input=False)
    assert_prefix(written(tmp_path / "out"), whole)
    assert [e.key for e in read_merged(written(tmp_path / "out"), tmp_path)] == [key_text(first)]
    config = copy_case(case, tmp_path / "later")
    merge(config, tmp_path / "out")
    assert written(tmp_path / "out") == whole
