import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from binlog_merge.log.checkpoint import Checkpoint
from binlog_merge.log.ranks import RankSet
from binlog_merge.targets.server.ledger import Ledger
from binlog_merge.targets.server.transactions import Transaction

PUBLISH_SECONDS: Final = 1.0


class Books:
    """Collects committed ranks and writes them to the ledger from time to time.

    `published` is called with all ranks that the ledger has, which sessions need not record any more. `places` are
    those at the ends of the intervals of `applied`: one of them may become the position.
    """

    def __init__(
        self, ledger: Ledger, applied: RankSet, places: Mapping[int, Checkpoint], published: Callable[[RankSet], None]
    ) -> None:
        self._ledger = ledger
        self._applied = applied
        self._places = dict(places)
        self._published = published
        self._fresh: list[int] = []
        self._last = time.monotonic()

    @property
    def unpublished(self) -> bool:
        """Return whether ranks have been committed that the ledger does not have."""
        return bool(self._fresh)

    def note(self, done: Sequence[Transaction]) -> None:
        """Add committed transactions."""
        for transaction in done:
            key = None if transaction.key is None else transaction.key.text()
            self._fresh.append(transaction.rank)
            self._places[transaction.rank] = Checkpoint(transaction.rank, transaction.gtid, key)

    def publish_if_due(self) -> None:
        """Write to the ledger, if the last time is long enough ago."""
        if self._fresh and time.monotonic() - self._last > PUBLISH_SECONDS:
            self.publish()

    def publish(self) -> None:
        """Write all committed ranks to the ledger."""
        if not self._fresh:
            return
        self._applied |= RankSet.of(self._fresh)
        self._fresh.clear()
        self._ledger.publish(self._applied, self._places[self._applied.low])
        self._published(self._applied)
        # Only the last rank before a gap can become the position.
        ends = {last for _, last in self._applied.intervals}
        self._places = {rank: place for rank, place in self._places.items() if rank in ends or rank == 0}
        self._last = time.monotonic()
