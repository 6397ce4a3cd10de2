"""Rows of a result: how much of them is there at once."""

import tracemalloc
from typing import Any

import pyarrow as pa

from binlog_merge.binlog.constants import ColumnType
from binlog_merge.binlog_server.tables.compiled import Compiled
from binlog_merge.binlog_server.tables.fields import Form, Results
from binlog_merge.binlog_server.tables.values import Output
from binlog_merge.binlog_server.tables.view import Rows
from binlog_merge.protocol.fields import Field

LENGTH, COUNT = 1 << 20, 100


def test_packets_are_made_of_few_long_rows_at_a_time() -> None:
    values = pa.array([bytes([i]) * LENGTH for i in range(COUNT)], pa.binary())
    reader: Any = [pa.record_batch({"b": values})]
    output = Output(Field("b", ColumnType.BLOB, 63, 0, LENGTH), Form.BYTES)
    tracemalloc.start()
    try:
        rows = Rows(reader, Compiled("", (output,)), Results(None), False, lambda: None)
        found = [(len(packet), packet[-1]) for packet in rows]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found == [(LENGTH + 4, i) for i in range(COUNT)]
    assert peak < 30 << 20
