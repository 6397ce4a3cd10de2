"""A JSON object for each change: -o jsonl."""

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from binlog_merge.ask.values import image_rows, plain_of
from binlog_merge.json_values import json_text
from binlog_merge.log.log import Log
from binlog_merge.log.question import Selection
from binlog_merge.log.read import batches

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


def pieces(log: Log, selection: Selection) -> Iterator[bytes]:
    """Yield a line for each change."""
    for record in records(log, selection):
        yield json_text({"schema_version": _VERSION, **record}).encode() + b"\n"


def document_pieces(log: Log, selection: Selection) -> Iterator[bytes]:
    """Yield one object with all changes, once all are read: an error leaves nothing behind."""
    found = list(records(log, selection))
    document = {"schema_version": _VERSION, "error": None, "table": ".".join(selection.name), "changes": found}
    yield json_text(document).encode() + b"\n"
