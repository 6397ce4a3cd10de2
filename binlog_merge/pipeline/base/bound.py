"""The bound of a run: the key below which its input is understood, and the error that stops it there."""

from dataclasses import dataclass

from binlog_merge.errors import MergeError
from snapshot_store.tso import OrderKey

GREATEST_KEY = OrderKey((1 << 63) - 1, (1 << 63) - 1, (1 << 62), 1 << 30)


@dataclass(frozen=True, slots=True)
class Bound:
    """A key below which everything is understood, and the error that stops the run there, if any.

    `tables` are the tables that the statement at the key names, if a statement was not understood. Of several bounds
    the lowest wins: `min` finds it, and among bounds with equal keys takes the first.
    """

    key: OrderKey = GREATEST_KEY
    error: MergeError | None = None
    tables: tuple[tuple[str, str], ...] = ()

    def __lt__(self, other: "Bound") -> bool:
        return self.key < other.key

    @classmethod
    def of(cls, error: MergeError | None) -> "Bound":
        """Return the bound at an error's order key; no bound if there is no error, or it has no key."""
        return cls() if error is None or error.order_key is None else cls(OrderKey.parse(error.order_key), error)

    @classmethod
    def at(cls, key: OrderKey | None, error: MergeError | None, tables: tuple[tuple[str, str], ...] = ()) -> "Bound":
        """Return the bound at a key; no bound if the key is None."""
        return cls() if key is None else cls(key, error, tables)


NO_BOUND = Bound()
"""The whole input is understood."""
