"""Groups: transactions that share a commit, and the order in which groups may proceed.

With commit order kept, there is one open group at a time, a slice of the log. Without, there is one for each session,
and a transaction joins the group that it conflicts with. If it conflicts with other groups, too, it names them and is
applied after they are committed. Those are sealed by then, and a sealed group takes no more transactions, so groups
never wait for each other in a circle.
"""

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field

from binlog_merge.log.rank_set import RankSet
from binlog_merge.targets.server.keys import TableName
from binlog_merge.targets.server.transactions import Transaction


@dataclass(eq=False, slots=True)
class Group:
    """Transactions that share a commit; `number` is assigned when the group is sealed, in the order of commits."""

    transactions: list[tuple[Transaction, frozenset["Group"]]] = field(default_factory=list)
    tables: set[TableName] = field(default_factory=set)
    size: int = 0
    number: int = 0

    @property
    def ranks(self) -> RankSet:
        """Return the ranks of its transactions."""
        return RankSet.of(transaction.rank for transaction, _ in self.transactions)


class Stopped(Exception):  # noqa: N818
    """This group must give up: the replay ends, or a group before it has failed."""


class Yielded(Exception):  # noqa: N818
    """A group before this one needs locks that this one holds."""


class Turns:
    """Decides which groups may proceed. Thread-safe; a wait ends early, with an exception, if it has become useless."""

    def __init__(self, keep_order: bool) -> None:
        self.keep_order = keep_order
        self._changed = threading.Condition()
        self._done: set[int] = set()
        self._low = 0
        self._favoured: int | None = None
        self._failed: int | None = None
        self._stopped = False

    def after(self, groups: Iterable[Group], me: Group) -> None:
        """Wait until these groups are committed. Raises Stopped and Yielded."""
        for group in groups:
            self._wait(me, group.number)

    def are_done(self, groups: Iterable[Group]) -> bool:
        """Return whether these groups are committed."""
        with self._changed:
            return all(self._is_done(group.number) for group in groups)

    def commit(self, me: Group) -> None:
        """Wait for this group's turn to commit: with `keep_order`, until all groups before it are committed.

        Raises Stopped and Yielded.
        """
        with self._changed:
            while self.keep_order and self._low < me.number - 1:
                self._check(me)
                self._changed.wait()
            self._check(me)

    def done(self, me: Group) -> None:
        """Record that a group is committed."""
        with self._changed:
            self._done.add(me.number)
            while self._low + 1 in self._done:
                self._low += 1
                self._done.discard(self._low)
            if self._favoured == me.number:
                self._favoured = None
            self._changed.notify_all()

    def favour(self, me: Group) -> None:
        """Make all groups after this one release their locks."""
        with self._changed:
            self._favoured = me.number if self._favoured is None else min(self._favoured, me.number)
            self._changed.notify_all()

    def give_way(self, me: Group) -> None:
        """Wait, holding no locks, until no group before this one is favoured. Raises Stopped."""
        with self._changed:
            while self._favoured is not None and self._favoured < me.number:
                self._check(me, yields=False)
                self._changed.wait()
            self._check(me, yields=False)

    def fail(self, number: int) -> None:
        """Record that a group has failed: no group after it proceeds."""
        with self._changed:
            self._failed = number if self._failed is None else min(self._failed, number)
            if self._favoured is not None and self._favoured >= self._failed:
                self._favoured = None
            self._changed.notify_all()

    def stop(self) -> None:
        """Make all groups stop."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def _wait(self, me: Group, number: int) -> None:
        with self._changed:
            while not self._is_done(number):
                self._check(me)
                self._changed.wait()

    def _is_done(self, number: int) -> bool:
        return number <= self._low or number in self._done

    def _check(self, me: Group, yields: bool = True) -> None:
        if self._stopped or (self._failed is not None and me.number > self._failed):
            raise Stopped
        if yields and self._favoured is not None and self._favoured < me.number:
            raise Yielded
