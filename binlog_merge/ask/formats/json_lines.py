"""A JSON object for each change: -o jsonl."""

from collections.abc import Iterator
from typing import Any, Final

from binlog_merge.ask.selection import Selection
from binlog_merge.ask.values import image_rows, plain_of
from binlog_merge.json_values import json_text

_VERSION: Final = 1
"""That of `cli.output`."""


def records(selection: Selection) -> Iterator[dict[str, Any]]:
    """Yield each change as plain values; TSOs and order keys are texts."""
    schema, table = selection.asked.versions.schema, selection.asked.versions.name
    for batch in selection.batches():
        facts = [name for name in batch.schema.names if name not in ("before", "after")]
        rows = batch.select(facts).to_pylist()
        sides = [image_rows(batch.column(name), plain_of) for name in ("before", "after")]
        for row, before, after in zip(rows, *sides, strict=True):
            tso = row["commit_tso"]
            yield {
                "schema": schema,
                "table": table,
                **row,
                "commit_tso": None if tso is None else str(tso),
                "commit_time": time_text(row["commit_time"]),
                "before": before,
                "after": after,
            }


def time_text(moment: Any) -> str:
    """Return a time in RFC 3339, with Z."""
    return str(moment.isoformat(timespec="microseconds")).replace("+00:00", "Z")


def pieces(selection: Selection) -> Iterator[bytes]:
    """Yield a line for each change."""
    for record in records(selection):
        yield json_text({"schema_version": _VERSION, **record}).encode() + b"\n"


def document_pieces(selection: Selection) -> Iterator[bytes]:
    """Yield one object with all changes, once all are read: an error leaves nothing behind."""
    found = list(records(selection))
    document = {"schema_version": _VERSION, "error": None, "table": selection.name, "changes": found}
    yield json_text(document).encode() + b"\n"
