"""Rows of many tables as record batches, in the order of the log: what they were before and after, as JSON text.

The columns are `schema`, `table` and those of `log.table_changes`. `before` and `after` are the objects that
`changes -o jsonl` prints of the table: all columns that its versions in the range have, dates and times as MySQL's
text, decimals and integers beyond 2^53 as texts, bytes as 0x….
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from binlog_merge.ask.values import image_rows, plain_of
from binlog_merge.files.manifest import OutputFile
from binlog_merge.json_values import json_text
from binlog_merge.log.log import Log
from binlog_merge.log.question import AnySelection, ManySelection
from binlog_merge.log.read import batches, read, read_file
from binlog_merge.log.table_changes import TableChanges, schema_of

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
