"""Changes as files of tables: -o csv, -o parquet."""

import io
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from binlog_merge.ask.formats.json_lines import time_text
from binlog_merge.ask.values import plain_of
from binlog_merge.log.log import Log
from binlog_merge.log.question import Selection
from binlog_merge.log.read import batches


class _Pieces(io.RawIOBase):
    """A file that keeps what is written until it is taken."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._at = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._parts.append(bytes(data))
        self._at += len(self._parts[-1])
        return len(self._parts[-1])

    def tell(self) -> int:
        return self._at

    def take(self) -> bytes:
        """Return what was written since the last call."""
        parts, self._parts = self._parts, []
        return b"".join(parts)


def parquet_pieces(log: Log, selection: Selection) -> Iterator[bytes]:
    """Yield a Parquet file, a row group for each batch."""
    sink = _Pieces()
    with pq.ParquetWriter(pa.PythonFile(sink, "w"), selection.schema, compression="zstd") as writer:
        for batch in batches(log, selection):
            writer.write_batch(batch)
            yield sink.take()
    yield sink.take()


def csv_pieces(log: Log, selection: Selection) -> Iterator[bytes]:
    """Yield a CSV file with a header; `before` and `after` are a column for each of theirs (before.id).

    NULL is nothing, and an empty text is "". Lists of absent columns are joined by commas.
    """
    schema = pa.schema([pa.field(name, _csv_type(kind)) for name, kind in _flat(selection.schema)])
    sink = _Pieces()
    with pyarrow.csv.CSVWriter(pa.PythonFile(sink, "w"), schema) as writer:
        for batch in batches(log, selection):
            arrays = [_csv_array(array) for array in _flattened(batch)]
            writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))
            yield sink.take()
    yield sink.take()


def _flat(schema: Any) -> Iterator[tuple[str, Any]]:
    for field in schema:
        if pa.types.is_struct(field.type):
            yield from ((f"{field.name}.{child.name}", child.type) for child in field.type)
        else:
            yield field.name, field.type


def _flattened(batch: Any) -> Iterator[Any]:
    for array in batch.columns:
        # Not `field`: a child knows nothing of the rows that are not there.
        yield from array.flatten() if pa.types.is_struct(array.type) else (array,)


def _csv_type(kind: Any) -> Any:
    return kind if pa.types.is_integer(kind) else pa.string()


def _csv_array(array: Any) -> Any:
    if array.type.equals(_csv_type(array.type)):
        return array
    if pa.types.is_list(array.type) and pa.types.is_string(array.type.value_type):
        return pa.array([None if v is None else ",".join(v) for v in array.to_pylist()], pa.string())
    if pa.types.is_timestamp(array.type):
        return pa.array([None if v is None else time_text(v) for v in array.to_pylist()], pa.string())
    plain = plain_of(array.type)
    return pa.array([None if v is None else str(plain(v)) for v in array.to_pylist()], pa.string())
