"""The oracle against what the fixtures recorded: keys, row counts, and the final tables by replay into a real MySQL."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.mysql_server import MySqlServer, mysqlbinlog
from tests.oracle import OracleResult, merge_case

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
CASES = sorted(p.parent for p in FIXTURES.glob("*/cluster.yaml") if (p.parent / "case.py").exists())
merged = cache(merge_case)
EVERY_CASE = pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.name))


@EVERY_CASE
def test_transactions_are_those_the_case_recorded(case: Path) -> None:
    expected = _expected(case, "transactions.json")
    assert _summary(merged(case / "cluster.yaml")) == [_recorded(t) for t in expected]


@EVERY_CASE
def test_physical_ddl_gets_the_keys_the_case_recorded(case: Path) -> None:
    # Not the texts: the server logs its own for DROP TABLE.
    expected = [(ddl["key"], ddl["node"]) for ddl in _expected(case, "physical-ddl.json")]
    assert sorted(ddl[:2] for ddl in merged(case / "cluster.yaml").physical_ddl) == sorted(expected)


@pytest.mark.extended  # the merge against the oracle without the end of input: merge_e2e/test_against_oracle
@EVERY_CASE
def test_what_is_not_final_is_held(case: Path) -> None:
    drained, result = merged(case / "cluster.yaml"), merge_case(case / "cluster.yaml", end_of_input=False)
    in_doubt = {node: [bytes.fromhex(xid.split("'")[1]) for xid in xids] for node, xids in _held(case).items()}
    assert {node: sorted(gtrids) for node, gtrids in result.in_doubt.items() if gtrids} == in_doubt
    out = len(result.transactions)
    assert result.transactions == drained.transactions[:out]
    if result.watermark is not None:
        assert all(key < result.watermark for key, _, _ in result.transactions)
        assert all(key >= result.watermark for key, _, _ in drained.transactions[out:])


@pytest.mark.extended  # fixtures and oracle change seldom
@pytest.mark.mysql
@EVERY_CASE
def test_replayed_tables_are_the_cluster_s(case: Path, mysql_server: MySqlServer, tmp_path: Path) -> None:
    result = merged(case / "cluster.yaml")
    for name, data in result.files.items():
        (tmp_path / name).write_bytes(data)
    if (case / "base" / "logical.sql").exists():
        mysql_server.apply((case / "base" / "logical.sql").read_bytes())
    text = mysqlbinlog([tmp_path / name for name in result.files], "--verify-binlog-checksum")
    mysql_server.apply(text)
    tables = _expected(case, "tables.json")
    seen = {name: [list(row) for row in mysql_server.query(table["select"])] for name, table in tables.items()}
    assert {n: sorted(rows, key=repr) for n, rows in seen.items()} == {
        n: sorted(table["rows"], key=repr) for n, table in tables.items()
    }


def _expected(case: Path, name: str) -> Any:
    return json.loads((case / "expected" / name).read_text())


def _held(case: Path) -> dict[str, list[str]]:
    return {node: sorted(xids) for node, xids in _expected(case, "held.json")["in-doubt"].items()}


def _summary(result: OracleResult) -> list[tuple[str, object]]:
    """Return (key, DDL or row counts) of every transaction."""
    counts: dict[str, dict[str, dict[str, int]]] = {}
    for change in result.decoded:
        of_table = counts.setdefault(change.key, {}).setdefault(change.table, {})
        of_table[change.kind] = of_table.get(change.kind, 0) + 1
    return [(key, "ddl" if kind == "ddl" else counts[key]) for key, kind, _ in result.transactions]


def _recorded(transaction: dict[str, Any]) -> tuple[str, object]:
    return transaction["key"], "ddl" if "ddl" in transaction else transaction["rows"]
