"""What a merged log has beside rows, as batches: its transactions, its statements, and the versions of its tables."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import numpy as np
import pyarrow as pa

from binlog_merge.binlog.kernels import log_index as x
from binlog_merge.files.manifest import OutputFile
from binlog_merge.log.index import transactions_of
from binlog_merge.log.log import Log
from binlog_merge.log.segments import DDL_COLUMNS, statement_record, statements
from binlog_merge.log.table_changes import gtid_array, order_key_array
from binlog_merge.store_errors import as_merge_errors
from snapshot_store.render_sql import type_sql
from snapshot_store.store.db import Store
from snapshot_store.tso import OrderKey, carries_time, tso_millis

_TIME: Final = pa.timestamp("us", tz="UTC")
TRANSACTION_COLUMNS: Final = pa.schema(
    [
        ("gtid", pa.string()),
        ("rank", pa.int64()),
        ("kind", pa.string()),
        ("commit_tso", pa.int64()),
        ("order_key", pa.string()),
        ("commit_time", _TIME),
        ("file", pa.string()),
        ("position", pa.int64()),
        ("bytes", pa.int64()),
    ]
)
SCHEMA_COLUMNS: Final = pa.schema(
    [
        ("schema", pa.string()),
        ("table", pa.string()),
        ("version", pa.int64()),
        ("order_key", pa.string()),
        ("commit_tso", pa.int64()),
        ("commit_time", _TIME),
        ("origin", pa.string()),
        ("statement", pa.string()),
        ("columns", pa.list_(pa.struct([("name", pa.string()), ("type", pa.string()), ("nullable", pa.bool_())]))),
    ]
)


def transaction_batches(binlog: Log, file: OutputFile) -> Iterator[Any]:
    """Yield the transactions of a file; `kind` is rows or ddl, and a DDL's order key is not in the log."""
    prefix = f"{binlog.cluster_uuid}:".encode() if binlog.with_gtids else None
    for rows in transactions_of(binlog.folder, file):
        count, numbers = len(rows), np.arange(len(rows))
        yield pa.RecordBatch.from_arrays(
            [
                gtid_array(numbers, rows, prefix),
                pa.array(rows[:, x.X_RANK]),
                pa.array(np.where(rows[:, x.X_ROWS] == 1, "rows", "ddl").tolist(), pa.string()),
                pa.array(rows[:, x.X_TSO], mask=rows[:, x.X_TSO] < 0),
                order_key_array(numbers, rows, np.empty(0, np.uint8)),
                pa.array(rows[:, x.X_COMMIT_US]).cast(_TIME),
                pa.repeat(pa.scalar(file.name, pa.string()), count),
                pa.array(rows[:, x.X_AT]),
                pa.array(rows[:, x.X_LENGTH]),
            ],
            schema=TRANSACTION_COLUMNS,
        )


def ddl_batches(binlog: Log) -> Iterator[Any]:
    """Yield the statements of a log."""
    for file in binlog.state.files:
        found = [
            statement_record(piece, piece.statement.text)
            for piece in statements(binlog, file.first_rank, file.last_rank)
        ]
        if found:
            yield pa.RecordBatch.from_pylist(found, DDL_COLUMNS)


def schema_rows(binlog: Log) -> list[dict[str, Any]]:
    """Return the versions of all logical tables, by key; without `columns` where a table ended."""
    with binlog.folder.schema_store() as (path, _):
        if not path.exists():
            return []
        with as_merge_errors(path), Store.open(path, True) as store:
            versions = [version for version in store.load_history().versions if version.node is None]
    return [
        {
            "schema": version.schema,
            "table": version.name,
            "version": version.version_id,
            "order_key": version.key.text(),
            "commit_tso": version.key.commit_tso,
            "commit_time": _time(version.key),
            "origin": version.origin,
            "statement": version.ddl,
            "columns": None
            if version.table is None
            else [{"name": c.name, "type": type_sql(c.type), "nullable": c.nullable} for c in version.table.columns],
        }
        for version in versions
    ]


def _time(key: OrderKey) -> datetime | None:
    if not carries_time(key.commit_tso):
        return None
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=tso_millis(key.commit_tso))
