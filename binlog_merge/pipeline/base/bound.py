"""How far a run understands its input, and what stops it there."""

from dataclasses import dataclass

from binlog_merge.errors import MergeError
from snapshot_store.tso import OrderKey

GREATEST_KEY = OrderKey((1 << 63) - 1, (1 << 63) - 1, (1 << 62), 1 << 30)


@dataclass(frozen=True, slots=True)
class Bound:
    """A key below which everything is understood, and the error that stops the run at it, if one does. `tables` are
    those that the statement at the key names, where it is a statement that is not understood.

    Of several bounds the one with the least key holds: `min` finds it, the first of those with one key.
    """

    key: OrderKey = GREATEST_KEY
    error: MergeError | None = None
    tables: tuple[tuple[str, str], ...] = ()

    def __lt__(self, other: "Bound") -> bool:
        return self.key < other.key

    @classmethod
    def of(cls, error: MergeError | None) -> "Bound":
        """Return the bound that an error sets at its order key; none where there is no error, or no key."""
        return cls() if error is None or error.order_key is None else cls(OrderKey.parse(error.order_key), error)

    @classmethod
    def at(cls, key: OrderKey | None, error: MergeError | None, tables: tuple[tuple[str, str], ...] = ()) -> "Bound":
        """Return the bound at a key; none where the key is None."""
        return cls() if key is None else cls(key, error, tables)


NO_BOUND = Bound()
"""Everything is understood, to the end of the input."""
