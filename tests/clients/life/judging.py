"""What a reader has told, against what servers hold."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from tests.clients.life.readers import Change
from tests.clients.life.story import ADDED, ADDED_DEFAULT

PASSED: Final = "passed"
COMPARED: Final = ("id", "customer", "total", "state", ADDED, "body", "orders_id", "amount")
"""Columns whose values each reader shows in a way that can be compared with the nodes'; all are, with the control's."""


def rows_wrong(changes: Sequence[Change], tables: Mapping[str, Any]) -> str:
    """Return whether the rows that changes leave are those that the shards hold."""
    made: dict[str, dict[int, Any]] = {as_named_first(table): {} for table in tables}
    for change in changes:
        rows = made.setdefault(as_named_first(change.table), {})
        if change.before is not None and rows.pop(int(change.before["id"]), None) is None:
            return f"failed: {change} of a row that is not there"
        if change.after is not None:
            rows[int(change.after["id"])] = plain(change.after)
    for table, held in tables.items():
        wanted = {key: plain(row) for key, row in held.items()}
        if (mine := made[as_named_first(table)]) != wanted:
            odd = [key for key in {**mine, **wanted} if mine.get(key) != wanted.get(key)][:3]
            return f"failed: {table}: {[(key, mine.get(key), wanted.get(key)) for key in odd]}"
    return PASSED


def as_named_first(table: str) -> str:
    """Return the name that a table had before it was renamed."""
    return {"shop.remarks": "shop.notes"}.get(table, table)


def plain(row: Mapping[str, Any], columns: Sequence[str] = COMPARED) -> dict[str, str]:
    """Return those values of a row that all readers show alike, alike."""
    found = {name: str(row[name]) for name in columns if row.get(name) is not None}
    if "customer" in found:  # some take an unsigned integer for a signed one
        found["customer"] = str(int(found["customer"]) % (1 << 32))
    if "total" in found:
        found["total"] = f"{Decimal(found['total']):.2f}"
        found.setdefault(ADDED, ADDED_DEFAULT)
    return found
