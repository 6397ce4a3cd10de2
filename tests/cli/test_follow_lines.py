"""The lines of `merge --stop-never` about DDL that waits: when it begins, for whom it waits, and that it ends."""

from pathlib import Path

import pytest

from binlog_merge.cli import main
from binlog_merge.cli.follow import Report
from binlog_merge.cli.output import OutputFormat
from tests.merge_e2e.cases import case_named, copy_case
from tests.merge_e2e.local import merge

WAITS = "waits for dn-2/shop_2/orders_3: ALTER TABLE `shop`.`orders` RENAME COLUMN customer TO client"


def test_ddl_that_waits_is_told_when_it_begins_and_ends(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = copy_case(case_named("shards-pessimistic"), tmp_path / "case"), tmp_path / "out"
    report = Report(out, OutputFormat.text)
    report.merged(merge(path, out))
    assert capsys.readouterr().err.splitlines() == [f"binlog-merge: {WAITS}"]
    report.merged(merge(path, out))
    assert "waits" not in capsys.readouterr().err
    assert (
        main.run(["ddl", "resolve", "shop.orders", "--as-if-done", "dn-2/shop_2/orders_3", "--merged", str(out)]) == 0
    )
    capsys.readouterr()
    report.merged(merge(path, out))
    assert WAITS.replace("waits for dn-2/shop_2/orders_3", "binlog-merge: waits no longer") in capsys.readouterr().err
