"""A line for each change, for people: -o text.

2026-09-21T14:13:21.011000Z  …5555:6  binlog.000001:5292  update  id=12 price: 71946.82 -> 71950.00
"""

from collections.abc import Iterator
from typing import Any

from binlog_merge.ask.formats.json_lines import facts_of
from binlog_merge.ask.values import image_rows, shown_of
from binlog_merge.log.log import Log
from binlog_merge.log.question import Selection
from binlog_merge.log.read import batches


def pieces(log: Log, selection: Selection) -> Iterator[bytes]:
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
