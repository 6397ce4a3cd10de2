"""The rows of a table of a merged log, as an Arrow reader."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, Literal

import pyarrow as pa
import pyarrow.compute as pc

from binlog_merge.ask.formats import image_rows, plain_of
from binlog_merge.errors import ConfigError
from binlog_merge.files.log_folder import LogFolder
from binlog_merge.files.manifest import OutputFile
from binlog_merge.files.remote_log import opened_log
from binlog_merge.json_values import json_text
from binlog_merge.log.log import Log
from binlog_merge.log.question import AnySelection, ManySelection, Moment, Question, select_any, zero_dates_of
from binlog_merge.log.read import batches, read, read_file
from binlog_merge.log.table_changes import TableChanges, schema_of


def changes(
    merged: str | Path | LogFolder,
    table: str | tuple[str, str] | None = None,
    *,
    start: Moment = None,
    stop: Moment = None,
    where: str | None = None,
    op: str | Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    as_of: str | int | None = None,
    temporal: Literal["typed", "text"] = "typed",
    zero_dates: str = "stop",
    time_zone: str = "UTC",
    fields: Sequence[str] | None = None,
) -> Any:
    """Return the changes of a table's rows, in commit order, as a `pyarrow.RecordBatchReader`.

    The reader has the columns of `log.table_changes`: op, commit_tso, commit_time, gtid, order_key, file, position,
    row, before, after, before_absent, after_absent; `fields` chooses some of them. It reads the log while it is read,
    in batches of a few megabytes, up to what was published when it was made. Iterate over it, or give it to DuckDB
    (`duckdb.from_arrow(reader)`), Polars (`pl.from_arrow(reader.read_all())`) or pandas (`reader.read_pandas()`).

    `merged` is the output of a merge, in a folder or an object store; `table` a name like shop.orders. Without a table,
    or with several (`shop.*`, or names with commas), the reader has the columns schema and table as well, and before
    and after are JSON text (`any_batches`); where, columns, as_of and temporal are of one table.

    `start` and `stop` are places in the log as `log.place` reads them: a GTID (both ends are included), a TSO, an
    order key, a time, or file:position (from the start on, before the stop). `op` is one or more of insert, update,
    delete.

    `where` is a condition of MySQL's SQL on the table's columns, with MySQL's meaning; a row is returned if its values
    before or after satisfy it. TIMESTAMP columns are compared in `time_zone`, in which `start` and `stop` without a
    zone are read, too. A column that a version of the table does not have is NULL in it.

    `columns` are the table's columns that `before` and `after` have; default: all. Their types are those of the table's
    versions in the range, merged by name (`log.columns`); with `as_of`, a TSO or an order key, those of the version
    at that time. `temporal="text"` shows dates and times as MySQL's text, which has every value: without it a date
    that no calendar has, like 0000-00-00, is an error, or what `zero_dates` says: `null`, `text` (columns of dates are
    text), `stop`, or a rule for some columns: `born=null,at=text`.

    Raises ConfigError, UnknownTable, OutsideLog and ManifestError, and while it is read what a damaged log does.
    """
    if temporal not in ("typed", "text"):
        raise ConfigError(f"temporal is typed or text, not {temporal!r}")
    question = Question(
        table, start, stop, where, op, columns, as_of, time_zone, fields, temporal == "text",
        zero_dates_of("zero_dates", zero_dates),
    )  # fmt: skip
    stack = ExitStack()
    with stack:
        log = Log(merged if isinstance(merged, LogFolder) else stack.enter_context(opened_log(merged)))
        selection = select_any(log, question)
        return pa.RecordBatchReader.from_batches(selection.schema, _read(stack.pop_all(), log, selection))


def _read(stack: ExitStack, log: Log, selection: AnySelection) -> Iterator[Any]:
    with stack:
        yield from any_batches(log, selection)


_PLACE: Final = ("position", "row")


def any_batches(log: Log, selection: AnySelection) -> Iterator[Any]:
    """Yield the changes of a table, or of many, as record batches in the order of the log. Raises as `read` does."""
    if isinstance(selection, ManySelection):
        return _in_order(read(log, selection), selection.schema)
    return batches(log, selection)


def file_batches(log: Log, selection: AnySelection, file: OutputFile, position: int | None = None) -> Iterator[Any]:
    """Yield those of one file; `position` is where the first of its transactions begins, if known."""
    parts = read_file(log, selection, file, position)
    if isinstance(selection, ManySelection):
        return _in_order(parts, selection.schema)
    return (changes.batch(selection.schema) for part in parts for changes in part)


def _in_order(parts: Iterable[Sequence[TableChanges]], schema: Any) -> Iterator[Any]:
    """Yield the rows of each part as they stand in the log."""
    for part in parts:
        found = []
        for changes in part:
            assert changes.form is not None
            batch = changes.batch(schema_of(changes.form.shape, changes.form.fields))
            found.append((batch, _with_texts(batch, schema, changes)))
        if len(found) == 1:
            yield found[0][1]
        elif found:
            places = pa.Table.from_batches([batch.select(list(_PLACE)) for batch, _ in found])
            order = pc.sort_indices(places, sort_keys=[(name, "ascending") for name in _PLACE])
            whole = pa.Table.from_batches([batch for _, batch in found]).take(order)
            yield whole.combine_chunks().to_batches()[0]


def _with_texts(batch: Any, schema: Any, changes: TableChanges) -> Any:
    """Return the rows of a table with the columns that are asked for."""
    witness = changes.changes.table
    names = {"schema": witness.schema, "table": witness.table}
    arrays = []
    for one in schema:
        if one.name in names:
            arrays.append(pa.repeat(pa.scalar(names[one.name], pa.string()), len(batch)))
        elif one.name in ("before", "after"):
            rows = image_rows(batch.column(one.name), plain_of)
            arrays.append(pa.array([None if row is None else json_text(row) for row in rows], one.type))
        else:
            arrays.append(batch.column(one.name))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
