"""Changes as bytes for people and programs: a function for each format, from a selection to pieces of its text.

Values are written by their Arrow types: as plain Python values, as text, and as SQL.
"""

import io
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from binlog_merge.json_values import json_text
from binlog_merge.log.log import Log
from binlog_merge.log.question import Selection
from binlog_merge.log.read import batches
from snapshot_store.mysql.sql.names import quote_string

_VERSION: Final = 1
"""That of `cli.output`."""


def records(log: Log, selection: Selection) -> Iterator[dict[str, Any]]:
    """Yield each change as plain values; TSOs and order keys are texts."""
    schema, table = selection.name
    for batch in batches(log, selection):
        rows = facts_of(batch)
        sides = [image_rows(batch.column(name), plain_of) for name in ("before", "after")]
        for row, before, after in zip(rows, *sides, strict=True):
            tso = row["commit_tso"]
            yield {
                "schema": schema,
                "table": table,
                **row,
                "commit_tso": None if tso is None else str(tso),
                "before": before,
                "after": after,
            }


def facts_of(batch: Any) -> list[dict[str, Any]]:
    """Return what changes have beside their images; times are texts.

    Arrow imports pandas to make a time with a zone a value of Python, which takes longer than a small question.
    """
    facts = batch.drop_columns(["before", "after"])
    place = facts.schema.get_field_index("commit_time")
    times = facts.column(place).cast(pa.timestamp("us"))
    rows: list[dict[str, Any]] = facts.set_column(place, "commit_time", times).to_pylist()
    for row in rows:
        row["commit_time"] = f"{row['commit_time'].isoformat(timespec='microseconds')}Z"
    return rows


def time_text(moment: Any) -> str:
    """Return a time in RFC 3339, with Z."""
    return str(moment.isoformat(timespec="microseconds")).replace("+00:00", "Z")


def json_pieces(log: Log, selection: Selection) -> Iterator[bytes]:
    """Yield a line for each change."""
    for record in records(log, selection):
        yield json_text({"schema_version": _VERSION, **record}).encode() + b"\n"


def document_pieces(log: Log, selection: Selection) -> Iterator[bytes]:
    """Yield one object with all changes, once all are read: an error leaves nothing behind."""
    found = list(records(log, selection))
    document = {"schema_version": _VERSION, "error": None, "table": ".".join(selection.name), "changes": found}
    yield json_text(document).encode() + b"\n"


def text_pieces(log: Log, selection: Selection) -> Iterator[bytes]:
    """Yield a line for each change: what a row has, and of an update what it had."""
    for batch in batches(log, selection):
        rows = facts_of(batch)
        sides = [image_rows(batch.column(name), shown_of) for name in ("before", "after")]
        for row, before, after in zip(rows, *sides, strict=True):
            place = f"{row['commit_time']}  {row['gtid'] or 'ANONYMOUS'}  {row['file']}:{row['position']}"
            values = values_text(before, after, row["before_absent"] or (), row["after_absent"] or ())
            yield f"{place}  {row['op']:<6}  {values}\n".encode("utf-8", "backslashreplace")


def values_text(before: Any, after: Any, lacks_before: Any = (), lacks_after: Any = ()) -> str:
    """Return the values of a row, `a -> b` where an update changed one, without columns of which nothing is known."""
    parts = []
    for name in after or before or {}:
        old = None if before is None or name in lacks_before else _shown(before[name])
        new = None if after is None or name in lacks_after else _shown(after[name])
        if old is not None and new is not None and old != new:
            parts.append(f"{name}: {old} -> {new}")
        elif old is not None or new is not None:
            known = new if new is not None else old
            parts.append(f"{name}={known}")
    return " ".join(part.replace("\n", "\\n") for part in parts)


def _shown(text: Any) -> str:
    return "NULL" if text is None else str(text)


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


Plain = Callable[[Any], Any]
_LONGEST: Final = 60


def float_text(value: float, single: bool) -> str:
    """Return the shortest text that is this number again, of a FLOAT (`single`) or a DOUBLE."""
    return str(np.float32(value)) if single else repr(value)


def plain_of(kind: Any) -> Plain:
    """Return a function from a column's values to what JSON has.

    Decimals and bytes (0x…) become strings, integers stay numbers of all their digits, a vector is a list.
    """
    if pa.types.is_decimal(kind):
        return lambda value: format(value, "f")
    if pa.types.is_binary(kind):
        return lambda value: "0x" + value.hex()
    if pa.types.is_float32(kind):
        return lambda value: float(float_text(value, True))
    if pa.types.is_list(kind):
        return lambda value: [float(float_text(item, True)) for item in value]
    if pa.types.is_temporal(kind):
        return str
    return lambda value: value


def literal_of(kind: Any) -> Callable[[Any], str]:
    """Return a function from a column's values to literals of MySQL's SQL; dates and times are text there."""
    if pa.types.is_binary(kind):
        return lambda value: f"0x{value.hex()}" if value else "''"
    if pa.types.is_decimal(kind):
        return lambda value: format(value, "f")
    if pa.types.is_floating(kind):
        single = pa.types.is_float32(kind)
        return lambda value: float_text(value, single)
    if pa.types.is_integer(kind):
        return str
    if pa.types.is_list(kind):
        return lambda value: "0x" + np.array(value, "<f4").tobytes().hex()
    return lambda value: quote_string(str(value))


def shown_of(kind: Any) -> Callable[[Any], str]:
    """Return a function from a column's values to short texts for people."""
    literal = literal_of(kind)
    if pa.types.is_list(kind):
        literal = str

    def shown(value: Any) -> str:
        text = literal(value)
        return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"

    return shown


def image_rows(column: Any, convert: Callable[[Any], Callable[[Any], Any]]) -> Iterator[dict[str, Any] | None]:
    """Yield each row of `before` or `after` by name, its values converted; NULL is None, and so is no row."""
    names = [field.name for field in column.type]
    there = column.is_valid().to_pylist()
    values = []
    for number, field in enumerate(column.type):
        change = convert(field.type)
        values.append([None if v is None else change(v) for v in column.field(number).to_pylist()])
    for number, row in enumerate(zip(*values, strict=True)):
        yield dict(zip(names, row, strict=True)) if there[number] else None
