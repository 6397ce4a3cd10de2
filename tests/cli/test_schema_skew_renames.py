"""`schema skew` while a rename is under way: one shard has the new name of a column, the target and others the old."""

from pathlib import Path

import pytest

from binlog_merge.cli import main
from tests.merge_e2e.local import merge

CLUSTER = Path(__file__).resolve().parents[2] / "fixtures" / "shards-pessimistic" / "cluster.yaml"
Captured = pytest.CaptureFixture[str]


def shown(capsys: Captured, *words: str) -> str:
    assert main.run(["schema", "skew", *words]) == 0
    return capsys.readouterr().out


def test_a_rename_under_way_is_a_rename(tmp_path: Path, capsys: Captured) -> None:
    merge(CLUSTER, tmp_path / "out")
    text = shown(capsys, "shop.orders", "--merged", str(tmp_path / "out"), "-o", "sql")
    assert text.count("RENAME COLUMN `client` TO `customer`") == 2 and "DROP COLUMN" not in text and "ADD" not in text
    assert "client" in shown(capsys, "shop.orders", "--merged", str(tmp_path / "out"))
