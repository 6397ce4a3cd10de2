"""The lease of an output as one sees it who does not contend for it: `status`, and who asks for a handover."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from binlog_merge.errors import ConfigError, ObjectStoreUnreachable, OutputBusy
from binlog_merge.files.lease import LEASE_NAME, Lease
from binlog_merge.files.lease_keeper import LeaseObjects, boot_clock, waiting

_LATE: Final = 1.5
"""After how many times the lease's time without a renewal nobody leads: the next one should have taken over."""
_STANDBYS_EVERY: Final = 5.0
_ATTEMPTS: Final = 20
_POLL: Final = 0.1


@dataclass(frozen=True, slots=True)
class Seen:
    """A lease, for how many seconds it has not been renewed, and who waits for it."""

    lease: Lease
    age: float
    standbys: tuple[str, ...]

    @property
    def held(self) -> bool:
        """Return whether somebody leads."""
        return not self.lease.released and self.age < self.lease.seconds * _LATE


class LeaseWatch:
    """Looks at a lease again and again. For one thread. Its age is taken from two clocks at the first look alone."""

    def __init__(self, objects: LeaseObjects, clock: Callable[[], float] = boot_clock) -> None:
        self._objects, self._clock = objects, clock
        self._tag: str | None = None
        self._lease: Lease | None = None
        self._renewed = 0.0
        self._standbys: tuple[str, ...] = ()
        self._listed: float | None = None

    def look(self) -> Seen | None:
        """Return what is to be seen now, None if there is no lease. Raises MergeError."""
        began = self._clock()
        try:
            found = self._objects.changed(LEASE_NAME, self._tag)
        except FileNotFoundError:
            self._tag = self._lease = None
            return None
        if found is not None:
            lease = Lease.decode(found.data, self._objects.place(LEASE_NAME))
            if self._lease is None:
                self._renewed = began - max(0.0, time.time() - found.at)
            elif lease.sign != self._lease.sign:
                self._renewed = began
            self._tag, self._lease = found.tag, lease
        assert self._lease is not None
        if self._listed is None or began - self._listed >= _STANDBYS_EVERY:
            self._standbys, self._listed = waiting(self._objects, self._lease), began
        return Seen(self._lease, max(0.0, began - self._renewed), self._standbys)


def check_nobody_leads(objects: LeaseObjects) -> None:
    """Raise OutputBusy if somebody keeps the lease of an output: it renews it within its time, for which this waits.

    To be called when the manifest has been read: who takes the lease after that changes it before anything else.
    """
    since, known = boot_clock(), _held(objects)
    while known is not None and boot_clock() - since < known.seconds:
        time.sleep(_POLL)
        now = _held(objects)
        if now is not None and now.sign != known.sign:
            raise OutputBusy(
                f"{now.holder} leads, with epoch {now.epoch}: it merges into this output",
                file=objects.place(LEASE_NAME),
                remedy="it merges what the nodes have, as they write; to merge by hand, stop it, and those that wait",
            )
        known = now


def _held(objects: LeaseObjects) -> Lease | None:
    """Return the lease if it is not released, None also if there is none."""
    try:
        found = objects.changed(LEASE_NAME)
    except FileNotFoundError:
        return None
    lease = None if found is None else Lease.decode(found.data, objects.place(LEASE_NAME))
    return lease if lease is not None and not lease.released else None


@dataclass(frozen=True, slots=True)
class Handover:
    """Who led, and who leads now, with which epoch, after how many seconds."""

    before: str
    holder: str
    epoch: int
    seconds: float


def hand_over(objects: LeaseObjects, to: str | None, patience: float) -> Handover:
    """Ask the holder of a lease to hand over, and wait until it has.

    `to` is who is to lead: a name, or what one begins with; None: the one that waits, or the first of them. Raises
    ConfigError if there is no lease, OutputBusy if nobody waits for it, or it takes longer than `patience` seconds.
    """
    began = boot_clock()
    asked: tuple[Lease, str] | None = None
    while asked is None or boot_clock() - began < patience:
        try:
            if asked is None:
                asked = _ask(objects, to)
            lease, _ = _read(objects)
        except ObjectStoreUnreachable:
            if boot_clock() - began > patience:
                raise
        else:
            if lease.holder != asked[0].holder and not lease.released:
                return Handover(asked[0].holder, lease.holder, lease.epoch, boot_clock() - began)
        time.sleep(_POLL)
    before, wanted = asked
    raise OutputBusy(
        f"{before.holder} was asked to hand over to {wanted}, and has not within {patience:.0f} s",
        file=objects.place(LEASE_NAME),
        remedy="its log says what it is at: a round that is under way comes to its end first; it still may",
    )


def _ask(objects: LeaseObjects, to: str | None) -> tuple[Lease, str]:
    """Write into a lease who is to lead; return it as it was, and who that is. Raises as `hand_over` does."""
    for _ in range(_ATTEMPTS):
        lease, tag = _read(objects)
        wanted = _chosen(waiting(objects, lease), lease, to)
        if objects.replace(LEASE_NAME, replace(lease, wanted_by=wanted).encode(), tag) is not None:
            return lease, wanted
    raise OutputBusy("the lease changes all the time", file=objects.place(LEASE_NAME), remedy="try it again")


def _read(objects: LeaseObjects) -> tuple[Lease, str]:
    try:
        found = objects.changed(LEASE_NAME)
    except FileNotFoundError:
        found = None
    if found is None:
        raise ConfigError(
            "nobody has a lease of this output",
            file=objects.place(LEASE_NAME),
            remedy="`run` and `merge --stop-never` take one: by default where the merged log is in an object store, "
            "else with `ha: {lease: 10s}` in the configuration",
        )
    return Lease.decode(found.data, objects.place(LEASE_NAME)), found.tag


def _chosen(names: tuple[str, ...], lease: Lease, to: str | None) -> str:
    others = [name for name in names if name != lease.holder]
    if found := [name for name in others if to is None or name.startswith(to)]:
        return found[0]
    who = f"{to} does not wait" if to is not None else "nobody waits"
    waits = f"; {', '.join(others)} does" if others else ""
    raise OutputBusy(
        f"{who} for the lease that {lease.holder} holds{waits}",
        remedy="start `run` with the same configuration on another host, and ask again; `status` says who waits",
    )
