"""Rows events too big to hold are walked as those that are held, wherever their pieces end."""

import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from binlog_merge.binlog.kernels.row_lengths import rows_fit
from binlog_merge.binlog.table_map import row_steps
from binlog_merge.files.source import open_source
from binlog_merge.pipeline.gather import giant_rows
from tests.binlog.test_row_lengths import KINDS, rows_body, some_table
from tests.effort import effort


@given(st.integers(0, 1 << 32))
@settings(max_examples=effort(200, 400), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_it_says_what_the_kernel_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    rng = random.Random(seed)
    table, kind = some_table(rng), rng.choice(KINDS)
    body = bytearray(rows_body(table, kind, rng))
    if rng.random() < 0.5:
        body[rng.randrange(len(body))] = rng.choice([0, 1, 0xFF, rng.randrange(256)])
    if rng.random() < 0.2:
        body = body[: rng.randrange(len(body))]
    monkeypatch.setattr(giant_rows, "PIECE", rng.choice([1, 10, 100, 1000]))
    path, steps = tmp_path / "event", np.array(row_steps(table), np.int64)
    path.write_bytes(bytes(19) + body + b"\xff" * 9)
    held = np.frombuffer(body + b"\xff" * 9, np.uint8).copy()
    with open_source(str(path)) as source:
        found = giant_rows.GiantRows(source, 19, 19 + len(body), kind, steps, 0).fit()
    assert found == bool(rows_fit(held, 0, len(body), kind, steps, 0))
