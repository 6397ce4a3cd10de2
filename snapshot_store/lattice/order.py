"""How orders of parts become the order of a whole: all one way, or none.

A whole is at most another when each of its parts is. So one part that accepts less and another that accepts more make
two wholes that cannot be compared, and so does one pair of parts that cannot be.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from snapshot_store.errors import SnapshotStoreError

Verdict = int | str
"""-1, 0 or 1, as the first accepts less than, the same as, or more than the second; or why none of these holds."""


class Incomparable(SnapshotStoreError):  # noqa: N818 (the name says what happened)
    """Two tables of which neither accepts all rows of the other, or which no table can take the place of.

    `part` names the column, index or table option; `reason` begins with the words DM uses for the same finding.
    """

    def __init__(self, part: str, reason: str) -> None:
        super().__init__(f"{part}: {reason}")
        self.part = part
        self.reason = reason

    def __reduce__(self) -> tuple[type["Incomparable"], tuple[str, str]]:
        return (type(self), (self.part, self.reason))


class Finding(NamedTuple):
    """What comparing one aspect of one part came to."""

    part: str
    aspect: str
    verdict: Verdict

    @property
    def sign(self) -> int:
        """Return the verdict. Raises Incomparable if there is none."""
        if isinstance(self.verdict, str):
            raise Incomparable(self.part, f"{self.aspect}: {self.verdict}" if self.aspect else self.verdict)
        return self.verdict

    def __str__(self) -> str:
        return f"{self.part} ({self.aspect})" if self.aspect else self.part


def combine(findings: Iterable[Finding]) -> int:
    """Return the one sign that all findings but the zeros have. Raises Incomparable at the first that breaks this."""
    decisive: Finding | None = None
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
    """Return the order of two numbers."""
    return (a > b) - (a < b)


def same(a: Any, b: Any) -> Verdict:
    """Compare values of which none is more than another."""
    return 0 if a == b else f"distinct singletons ({a} vs {b})"
