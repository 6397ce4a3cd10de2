"""A distributed transaction of which one branch changes a table of `ignore-transactions` is left out on all nodes."""

from pathlib import Path

import pytest

from binlog_merge.config.merge_config import MergeConfig
from tests.merge_e2e.cases import case_named, copy_case, max_size
from tests.merge_e2e.editing import Log
from tests.merge_e2e.local import HeldRunner, LocalRunner, merge, written

_ROWS_QUERY, _ROWS = 29, (30, 31, 32)


def _rows(out: Path) -> dict[bytes, list[int]]:
    """Return the types of the rows events of each transaction, by the text that has its order key."""
    found: dict[bytes, list[int]] = {}
    for data in written(out).values():
        rows: list[int] = []
        for event in Log.load(data).events:
            if event.type == _ROWS_QUERY:
                at = data.index(b"CTS::", event.at)
                rows = found.setdefault(data[at : at + 59], [])
            elif event.type in _ROWS:
                rows.append(event.type)
    return found


@pytest.mark.parametrize("runner", [LocalRunner, HeldRunner])
def test_it_is_left_out_with_all_its_branches(runner: type[LocalRunner], tmp_path: Path) -> None:
    path = copy_case(case_named("three-nodes-online-ddl"), tmp_path / "case", max_size(1 << 20))
    config = MergeConfig.load(path)
    merge(config, tmp_path / "whole")
    ignoring = config.model_copy(update={"ignore_transactions": ("shop_000000.orders_0",)})
    result = merge(ignoring, tmp_path / "out", runner=runner(), partitions=3)
    whole, found = _rows(tmp_path / "whole"), _rows(tmp_path / "out")
    assert found and found.items() <= whole.items()
    assert result.ignored["transactions"] == len(whole) - len(found) > 0
