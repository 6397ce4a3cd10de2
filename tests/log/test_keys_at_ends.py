"""A log whose order keys stand at the ends of transactions (`output.cts: end`) has the tables that any other has."""

from pathlib import Path
from typing import Any

import pytest

import binlog_merge
from binlog_merge.log.log import Log
from binlog_merge.log.versions import key_at
from tests.effort import keeping
from tests.merge_e2e.cases import case_named, copy_case
from tests.merge_e2e.local import merge

OF_KEYS = ["commit_tso", "order_key", "file", "position"]


@pytest.mark.parametrize("name", keeping(["ddl-by-markers"], ["reshape-strings", "ddl-by-markers"]))
def test_a_range_has_the_columns_that_its_transactions_see(name: str, tmp_path: Path) -> None:
    logs = {}
    for cts in ("begin", "end"):
        path = copy_case(case_named(name), tmp_path / cts, lambda values: values["output"].update({"cts": cts}))  # noqa: B023
        merge(path, tmp_path / cts / "out")
        logs[cts] = Log(tmp_path / cts / "out")
    last, uuid = logs["begin"].last_rank, logs["begin"].cluster_uuid
    every = binlog_merge.changes(logs["begin"].directory).read_all().to_pylist()

    def part(cts: str, table: str, first: int, end: int) -> Any:
        ends = {"start": f"{uuid}:{first}", "stop": f"{uuid}:{end}"}
        return binlog_merge.changes(logs[cts].directory, table, **ends).read_all().drop_columns(OF_KEYS)

    shapes = set()
    for table in sorted({f"{row['schema']}.{row['table']}" for row in every}):
        for first, end in ((1, last), (2, 5), (last // 3, 2 * last // 3), (last - 3, last), (last // 2, last // 2)):
            expected = part("begin", table, first, end)
            assert part("end", table, first, end).equals(expected), (table, first, end)
            shapes.add((table, str(expected.schema.field("after").type)))
    assert len(shapes) > len({table for table, _ in shapes}), "no table has other columns in a part of the log"
    assert [key_at(logs["end"], rank) for rank in range(last + 2)] == [
        key_at(logs["begin"], rank) for rank in range(last + 2)
    ]
