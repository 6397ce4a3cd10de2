"""Compares a server's rows with what the log left of them: what has changed since would be in the way of undoing.

The last row of the range with a key says what the server should have under it. The server itself compares, exactly.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, Protocol

from binlog_merge.log.table_changes import TableChanges
from binlog_merge.time_travel.selection import Reader
from binlog_merge.time_travel.statements import Expected, expected_rows

_AT_ONCE: Final = 200


class Session(Protocol):
    """Asks a server."""

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a query and return its rows."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """A row of a server that is not as the log left it; `columns` are those that differ, if it is there at all."""

    table: str
    row: str
    reason: str
    columns: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {"table": self.table, "row": self.row, "reason": self.reason, "columns": list(self.columns)}


def expected(reader: Reader) -> dict[tuple[str, str], Expected]:
    """Return what a server should have, by table and key. Memory is that of all rows of the range.

    Rows that are in tables without a key are not judged. Raises what reading the rows does.
    """
    found: dict[tuple[str, str], Expected] = {}
    for pieces in reader.pieces():
        for chosen in sorted(pieces, key=_first_event):
            for before, after in expected_rows(chosen):
                if before is not None:
                    found[before.table, before.key] = before
                if after is not None:
                    found[after.table, after.key] = after
    return found


def _first_event(chosen: TableChanges) -> int:
    return int(chosen.events[0])


def conflicts(rows: dict[tuple[str, str], Expected], session: Session) -> Iterator[Conflict]:
    """Yield the rows that a server has otherwise. Raises what the session does."""
    waiting = iter(rows.values())
    while batch := list(islice(waiting, _AT_ONCE)):
        asked = " UNION ALL ".join(
            f"(SELECT {number} FROM {row.place} WHERE {row.whole or _exactly(row)} LIMIT 1)"
            for number, row in enumerate(batch)
        )
        there = {int(number) for (number,) in session.ask(asked)}
        for number, row in enumerate(batch):
            if (number in there) != (row.whole is not None):
                yield _conflict(row, session)


def _exactly(row: Expected) -> str:
    return " AND ".join([row.key, *(condition for _, condition in row.conditions)])


def _conflict(row: Expected, session: Session) -> Conflict:
    if row.whole is None:
        return Conflict(row.table, row.key, "the log deleted it, and it is there again")
    same = ", ".join(f"({condition})" for _, condition in row.conditions)
    found = session.ask(f"SELECT {same or 1} FROM {row.place} WHERE {row.key} LIMIT 1")
    if not found:
        return Conflict(row.table, row.key, "it is not there any more")
    differing = tuple(name for (name, _), is_same in zip(row.conditions, found[0], strict=False) if not is_same)
    return Conflict(row.table, row.key, "it has been changed since", differing)
