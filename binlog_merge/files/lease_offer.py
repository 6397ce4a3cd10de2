"""When a holder of the lease gives it up by itself: it lacks what a merge needs, and one that waits has it.

What a host may lack are nodes, to which its capture is not connected, and the disk, which is full. A holder that has
lacked something for a time offers the lease to one that waits. That one prepares to lead, as when it is asked to take
over: its capture connects. It says in its note what it lacks then, and the holder hands over if that is less.

    lacks something ── for `after` ──▶ offers ── the other lacks nothing ──────────────────▶ hands over
                                         │ after WITHIN: the other lacks some of the same ──▶ hands over
                                         └ it lacks the same, or does not answer ──▶ goes on, and asks again later

So where both are cut off, or a node itself is gone, nobody hands over: the lead goes to and fro for nothing. Whoever
hands over has seen that the other can, and not only that it says so: it is connected by then.
"""

from dataclasses import dataclass, replace
from typing import Final

WITHIN: Final = 30.0
"""For so many seconds an offer stands: a capture that begins connects in less."""
_LONGEST: Final = 600.0
"""At least so often somebody is asked again, in seconds, unless the holder waits longer before it asks at all."""

Lacks = frozenset[str]
"""What a host lacks: names of nodes, and DISK."""
DISK: Final = "room on its disk"


@dataclass(frozen=True, slots=True)
class Offer:
    """What a holder knows that may have to give up: since when it has lacked something, by its own clock; None: it
    does not. `to` is who is asked, `at` since when; `vain` is how often it was asked in vain, `again` when to ask next.
    """

    since: float | None = None
    to: str | None = None
    at: float = 0.0
    vain: int = 0
    again: float = 0.0

    def is_due(self, now: float, after: float) -> bool:
        """Return whether somebody is to be asked, for a holder that may lack something for so many seconds."""
        return self.to is None and self.since is not None and now - self.since >= after and now >= self.again


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The lease is to be released for somebody."""

    to: str


def considered(
    offer: Offer, lacks: Lacks, answer: Lacks | None, standbys: tuple[str, ...], now: float, after: float
) -> Offer | GiveUp:
    """Return what follows for a holder that lacks something `now`, and for how long it may before it asks: `after`.

    `answer` is what the one that is asked lacks, None if it has not said. `standbys` are who may be asked.
    """
    if not lacks:
        return Offer()
    if offer.to is not None:
        if answer is not None and not answer:
            return GiveUp(offer.to)
        if now - offer.at < WITHIN:
            return offer
        if answer is not None and answer < lacks:
            return GiveUp(offer.to)
        pause = min(after * 2.0 ** min(offer.vain, 10), max(after, _LONGEST))
        return replace(offer, to=None, vain=offer.vain + 1, again=now + pause)
    if standbys and offer.is_due(now, after):
        return replace(offer, to=standbys[offer.vain % len(standbys)], at=now)
    return offer if offer.since is not None else replace(offer, since=now)
