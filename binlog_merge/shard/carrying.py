"""Taking the events of a logical table one by one, in either way of coordination."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Protocol

from binlog_merge.shard.ledger import Stopped
from binlog_merge.shard.values import Event, Outcome, Start
from snapshot_store.tso import OrderKey


class Run(Protocol):
    """A way of coordination, on its way."""

    @property
    def quiet(self) -> bool:
        """Tell whether nothing is under way."""

    def take(self, event: Event) -> None:
        """Take an event. Raises Stopped."""

    def start(self) -> Start:
        """Return where coordination can go on from here, if it is quiet."""

    def outcome(self) -> Outcome:
        """Return what the events so far come to."""


def carry_out(run: Run, events: Iterable[Event]) -> Outcome:
    """Return what events come to, up to the first that stops it."""
    quiet: tuple[OrderKey, Start] | None = None
    last: OrderKey | None = None
    for event in events:
        if last is not None and event.key != last and run.quiet:
            quiet = (last, run.start())
        last = event.key
        try:
            run.take(event)
        except Stopped as stopped:
            return replace(run.outcome(), stop=stopped.stop, quiet=quiet)
    if last is not None and run.quiet:
        quiet = (last, run.start())
    return replace(run.outcome(), quiet=quiet)
