"""What has changed in a table between two moments, row by row: the first values before, and the last values after.

A row is told by its primary key, else by a unique key without NULL. An update of the key is a row that went and another
that came. A row that is as it was in the end has not changed. Without a key rows are counted: a row that came oftener
than it went was inserted so many times, or the other way round. The log alone says all of it; no base is needed. What
an image does not hold (binlog_row_image MINIMAL, NOBLOB) is not known, which is not NULL. A statement that takes rows
away or brings some (TRUNCATE, DROP, RENAME) leaves none of them in the log, so that it stops the reader.
"""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, Final

import duckdb
import pyarrow as pa

from binlog_merge.errors import ConfigError
from binlog_merge.log.log import Log
from binlog_merge.log.segments import StatementAt, segments
from binlog_merge.log.versions import TableVersions
from binlog_merge.tables.types import for_duckdb, quoted
from binlog_merge.time_travel.selection import touched_by
from binlog_merge.time_travel.statements import key_of
from snapshot_store.ddl.effects import keeps_rows, keeps_values
from snapshot_store.model import Table

FIELDS: Final = ("before", "after", "before_absent", "after_absent")


def check_rows_kept(binlog: Log, table: TableVersions, first: int, last: int) -> list[str]:
    """Return the DDL on a table in transactions `first` to `last` that may change values of rows that are not shown.

    Raises ConfigError for a statement that may take rows away or bring some.
    """
    passed = []
    for piece in segments(binlog, first, last):
        if not isinstance(piece, StatementAt) or not touched_by(piece, [table]):
            continue
        text, ddl = piece.statement.line, piece.statement.ddl
        if not keeps_rows(ddl.result):
            raise ConfigError(
                f"a statement that may take rows of {table.schema}.{table.name} away, or bring some, is between the "
                f"two moments: {text[:300]}",
                file=piece.begin.file,
                position=piece.begin.position,
                order_key=piece.statement.key,
                remedy="give two moments on one side of it, or show the table at each of the two with --at-tso",
            )
        if not keeps_values(ddl.result):
            passed.append(f"{piece.begin.gtid}: {text}")
    return passed


def net_changes(reader: Any, table: Table) -> Iterator[Any]:
    """Yield record batches of the rows that differ, by key; `reader` has the changes (`FIELDS`) in order.

    They have `change`, which is inserted, updated or deleted, and the fields of the first image and of the last one.
    Raises ConfigError for a table without a key whose images are not whole, and what the reader raises.
    """
    key = key_of(table)
    connection = duckdb.connect()
    connection.execute("SET preserve_insertion_order = true")
    connection.register("changes", _for_duckdb(reader))
    connection.execute("CREATE TEMP SEQUENCE numbers")
    connection.execute("CREATE TEMP TABLE numbered AS SELECT nextval('numbers') AS n, * FROM changes")
    if key is None:
        _check_whole(connection, table)
        yield from connection.sql(_counted(_floats(reader, "after"))).to_arrow_reader(10_000)
        return
    names = [table.columns[number].name for number in key]
    yield from connection.sql(_by_key(names, _floats(reader, "before"))).to_arrow_reader(10_000)


def _floats(reader: Any, side: str) -> list[str]:
    """Return the columns of the images that are FLOAT or DOUBLE, of which DuckDB takes 0.0 and -0.0 for one."""
    return [field.name for field in reader.schema.field(side).type if pa.types.is_floating(field.type)]


def _for_duckdb(reader: Any) -> Any:
    """Return a reader whose images have nothing that DuckDB does not know: decimals of more than 38 digits are text."""
    batches = (_readable(batch) for batch in reader)
    first = next(batches, None)
    if first is None:
        return _readable(pa.RecordBatch.from_pylist([], reader.schema))
    return pa.RecordBatchReader.from_batches(first.schema, chain((first,), batches))


def _readable(batch: Any) -> Any:
    columns = []
    for column in batch.columns:
        if pa.types.is_struct(column.type):
            fields = [for_duckdb(field) for field in column.flatten()]
            names = [field.name for field in column.type]
            column = pa.StructArray.from_arrays(fields, names, mask=column.is_null())
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, batch.schema.names)


def _check_whole(connection: Any, table: Table) -> None:
    lacking = "len(coalesce(before_absent, [])) + len(coalesce(after_absent, [])) > 0"
    if connection.execute(f"SELECT 1 FROM numbered WHERE {lacking} LIMIT 1").fetchall():
        raise ConfigError(
            f"{table.schema}.{table.name} has no key by which its rows are told apart, and the log not its whole rows",
            remedy="`binlog-merge changes` prints every change of them",
        )


def _counted(floats: Sequence[str]) -> str:
    """Return the query for how often each row came oftener than it went, or the other way round."""
    apart = "".join(f", image.{quoted(name)}::VARCHAR" for name in floats)
    return f"""
    WITH steps AS (
        SELECT n, before AS image, -1 AS sign, before_absent AS absent FROM numbered WHERE before IS NOT NULL
        UNION ALL
        SELECT n, after, 1, after_absent FROM numbered WHERE after IS NOT NULL
    ), net AS (
        SELECT image, min(n) AS n, sum(sign)::BIGINT AS times, any_value(absent) AS absent
        FROM steps GROUP BY image{apart} HAVING sum(sign) <> 0
    )
    SELECT CASE WHEN times > 0 THEN 'inserted' ELSE 'deleted' END AS change,
        CASE WHEN times < 0 THEN image END AS before, CASE WHEN times > 0 THEN image END AS after,
        CASE WHEN times < 0 THEN absent END AS before_absent, CASE WHEN times > 0 THEN absent END AS after_absent
    FROM net, range(abs(times)) ORDER BY n
"""


def _by_key(names: Sequence[str], floats: Sequence[str]) -> str:
    """Return the query for the net change of each key."""
    before, after = (", ".join(f"{side}.{quoted(name)}" for name in names) for side in ("before", "after"))
    keys, kept = (", ".join(f"{of}k{i}" for i in range(len(names))) for of in ("", "e."))
    named_before = ", ".join(f"before.{quoted(name)} AS k{i}" for i, name in enumerate(names))
    named_after = ", ".join(f"after.{quoted(name)} AS k{i}" for i, name in enumerate(names))
    same = f"before IS NOT NULL AND after IS NOT NULL AND ({before}) IS NOT DISTINCT FROM ({after})"
    both = ", ".join(FIELDS)
    differs = " OR ".join(
        ["before IS DISTINCT FROM after", "before_absent IS DISTINCT FROM after_absent"]
        + [f"before.{quoted(n)}::VARCHAR IS DISTINCT FROM after.{quoted(n)}::VARCHAR" for n in floats]
    )
    return f"""
        WITH steps AS (
            SELECT 2 * n AS n, {named_before}, {both} FROM numbered WHERE {same}
            UNION ALL
            SELECT 2 * n, {named_before}, before, NULL, before_absent, NULL FROM numbered
            WHERE before IS NOT NULL AND NOT ({same})
            UNION ALL
            SELECT 2 * n + 1, {named_after}, NULL, after, NULL, after_absent FROM numbered
            WHERE after IS NOT NULL AND NOT ({same})
        ), ends AS (
            SELECT {keys}, min(n) AS low, max(n) AS high FROM steps GROUP BY {keys}
        ), net AS ( -- not first(before ORDER BY n), which makes 0.0 of -0.0
            SELECT {kept}, a.before, b.after, a.before_absent, b.after_absent
            FROM ends e JOIN steps a ON a.n = e.low JOIN steps b ON b.n = e.high
        )
        SELECT CASE WHEN before IS NULL THEN 'inserted' WHEN after IS NULL THEN 'deleted' ELSE 'updated' END AS change,
            {both}
        FROM net WHERE {differs} ORDER BY {keys}
    """
