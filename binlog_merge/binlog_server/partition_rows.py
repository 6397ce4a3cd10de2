"""information_schema.PARTITIONS, from definitions: a row a partition or subpartition, one of NULLs for other tables."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from binlog_merge.binlog_server.definitions import Definitions
from binlog_merge.binlog_server.recorded import Row, listed_tables

if TYPE_CHECKING:
    from snapshot_store.partitioning import Partitioning, Tuples

_COMMENT: Final = re.compile(r"\bCOMMENT\s*=?\s*'((?:[^'\\]|\\.|'')*)'", re.IGNORECASE | re.DOTALL)


def partitions(definitions: Definitions) -> Iterator[Row]:
    """Yield the rows of PARTITIONS."""
    for schema, name in listed_tables():
        yield "def", schema, name, *(None,) * 10, *_TAIL
    for table in definitions.known():
        head = ("def", table.schema, table.name)
        if not table.partitioning:
            yield *head, *(None,) * 10, *_TAIL
            continue
        for row in _rows(table.partitioning):
            yield *head, *row


_TAIL: Final[Row] = (*(None,) * 10, "", "", None)


def _rows(how: "Partitioning") -> Iterator[Row]:
    method = f"{'LINEAR ' if how.linear else ''}{how.method}"
    first = len(how.columns) if not how.subs or how.sub else len(how.columns) - 1
    listed = ",".join(f"`{name}`" for name in how.columns[:first])
    by = (listed or None) if how.method.endswith(("COLUMNS", "KEY")) else how.expression
    for number, (name, _, values) in enumerate(how.parts, 1):
        told = _description(how.method, values)
        if not how.subs:
            yield name, None, number, None, "0", method, None, by, None, told, *_tail(how, name)
            continue
        sub = f"{'LINEAR ' if how.linear_sub else ''}{'HASH' if how.sub else 'KEY'}"
        for place in range(how.subs):
            at = (number - 1) * how.subs + place
            inner = how.subpartitions[at] if how.subpartitions else f"{name}sp{place}"
            expression = how.sub or ",".join(f"`{column}`" for column in how.columns[first:])
            yield name, inner, number, place + 1, "0", method, sub, by, expression, told, *_tail(how, inner)


def _tail(how: "Partitioning", name: str) -> Row:
    found = _COMMENT.search(dict(how.said).get(name, ""))
    comment = "" if found is None else found[1].replace("''", "'")
    return *(None,) * 10, comment, "default", None


def _description(method: str, values: "Tuples") -> str | None:
    if not values:
        return None
    if method.startswith("RANGE"):
        return ",".join(map(_plain, values[0]))
    many = len(values[0]) > 1
    return ",".join(f"({','.join(map(_plain, row))})" if many else _plain(row[0]) for row in values)


def _plain(value: str) -> str:
    """Return a value without the name of its character set."""
    return re.sub(r"^_\w+(?=')", "", value)
