"""Joins rows into INSERT statements of a bounded length."""

from collections.abc import Iterable, Iterator
from typing import Final

_STATEMENT_BYTES: Final = 1 << 20


def inserts(head: str, rows: Iterable[str]) -> Iterator[bytes]:
    """Yield statements of `head` (INSERT INTO … VALUES) and rows in parentheses, about a mebibyte each."""
    joined: list[str] = []
    size = 0
    for row in rows:
        joined.append(row)
        size += len(row)
        if size > _STATEMENT_BYTES:
            yield (head + ", ".join(joined)).encode()
            joined, size = [], 0
    if joined:
        yield (head + ", ".join(joined)).encode()
