"""Product order: two tables compare as their columns and indexes do, if these all compare the same way.

A table is less than or equal to another if each of its parts is. If one part accepts less and another accepts more, or
if two parts cannot be compared, the tables cannot be compared either.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from snapshot_store.errors import SnapshotStoreError

Ordering = int | str
"""-1, 0 or 1 if the first accepts less than, the same as, or more than the second; otherwise the reason, as text."""


class Incomparable(SnapshotStoreError):  # noqa: N818 (the name says what happened)
    """Two tables of which neither accepts all rows of the other, or that have no join.

    `part` names the column, index or table option; `reason` begins with DM's wording for the same case.
    """

    def __init__(self, part: str, reason: str) -> None:
        super().__init__(f"{part}: {reason}")
        self.part = part
        self.reason = reason

    def __reduce__(self) -> tuple[type["Incomparable"], tuple[str, str]]:
        return (type(self), (self.part, self.reason))


class Comparison(NamedTuple):
    """The result of comparing one aspect of a column, an index or the table's options."""

    part: str
    aspect: str
    verdict: Ordering

    @property
    def sign(self) -> int:
        """Return -1, 0 or 1. Raises Incomparable if the verdict is a reason instead."""
        if isinstance(self.verdict, str):
            raise Incomparable(self.part, f"{self.aspect}: {self.verdict}" if self.aspect else self.verdict)
        return self.verdict

    def __str__(self) -> str:
        return f"{self.part} ({self.aspect})" if self.aspect else self.part


def combine(findings: Iterable[Comparison]) -> int:
    """Return the common sign of all findings, ignoring zeros. Raises Incomparable at the first that contradicts it."""
    decisive: Comparison | None = None
    for finding in findings:
        sign = finding.sign
        if sign == 0:
            continue
        if decisive is None:
            decisive = finding
        elif decisive.sign != sign:
            less, more = (finding, decisive) if sign < 0 else (decisive, finding)
            raise Incomparable(finding.part, f"combining contradicting orders ({less} accepts less, {more} more)")
    return 0 if decisive is None else decisive.sign


def sign_of(a: int, b: int) -> int:
    """Compare two numbers: -1, 0 or 1."""
    return (a > b) - (a < b)


def same(a: Any, b: Any) -> Ordering:
    """Compare unordered values: equal or incomparable."""
    return 0 if a == b else f"distinct singletons ({a} vs {b})"
