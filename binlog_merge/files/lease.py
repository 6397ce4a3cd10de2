"""Who writes an output: a lease beside it. This file decides; `files.lease_keeper` makes the requests.

    PREFIX/lease.json           who holds it: replaced by its holder, again and again
    PREFIX/standby/NAME.json    who waits for it

No two clocks are compared. A holder may write for the lease's time, less MARGIN, from when it began its last renewal
that succeeded, by its own clock. Who waits takes the lease when it has seen no renewal for the lease's time, by its own
clock, or when it is released. Each change replaces the object under the tag that was seen, so of two who take it one
gets it.

A clock may stop, as that of a machine which is moved does. So the lease alone proves nothing: whoever takes it writes a
Claim into the manifest, after which nothing of an earlier epoch can be published (`files.manifest`).

    state ── request ──▶ Look | Put ── the store ──▶ answer ── after ──▶ state
"""

import json
import os
import secrets
import socket
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from binlog_merge.errors import LeaseLapsed, LeaseLost, ManifestError, OutputBusy

LEASE_NAME: Final = "lease.json"
STANDBY_FOLDER: Final = "standby"
MARGIN: Final = 0.2
"""The share of a lease's time in which its holder writes no more: clocks may go apart by that much."""
LEAST_SECONDS: Final = 1.0
_RENEWALS: Final = 3
_TRIES: Final = 12
_LOOKS: Final = 10
_SLOWEST_LOOK, _QUICK_LOOK = 1.0, 0.1
_HOLDERS_LOOK: Final = 0.5
"""So often a holder looks whether it is asked to hand over, where it does not renew the lease as often."""
_VERSION: Final = 1
_OFFERED_TO: Final = "offered_to"


@dataclass(frozen=True, slots=True)
class Lease:
    """What lease.json says. `serial` goes up at each renewal; `since` is for people: the moment by the holder's clock.

    `wanted_by` is who is to take it next. `offered_to` is who is asked whether it has what the holder lacks
    (`files.lease_offer`). `status` is what the holder knows of its merge, for `status` elsewhere.
    """

    holder: str
    epoch: int
    seconds: float
    serial: int = 1
    since: str = ""
    released: bool = False
    wanted_by: str | None = None
    offered_to: str | None = None
    status: Mapping[str, Any] = field(default_factory=dict)

    @property
    def sign(self) -> tuple[str, int, int, bool]:
        """Return what is another after each renewal. A request to hand over is none."""
        return self.holder, self.epoch, self.serial, self.released

    def encode(self) -> bytes:
        """Return the bytes of lease.json."""
        values = asdict(self)
        offered_to = values.pop("offered_to")
        if offered_to is not None:  # in the status, where versions that do not know it pass over it
            values["status"] = {**self.status, _OFFERED_TO: offered_to}
        return json.dumps({"version": _VERSION, **values}, default=str).encode() + b"\n"

    @classmethod
    def decode(cls, data: bytes, place: str = LEASE_NAME) -> "Lease":
        """Return what bytes of lease.json say. Raises ManifestError."""
        try:
            values = json.loads(data)
            if values.pop("version") != _VERSION:
                raise ValueError("another version")
            offered_to = values.get("status", {}).pop(_OFFERED_TO, None)
            lease = cls(**values, offered_to=offered_to)
            if not (lease.holder and lease.epoch > 0 and LEAST_SECONDS <= lease.seconds < 1e6 and lease.serial > 0):
                raise ValueError("values that no holder writes")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ManifestError(
                f"the lease cannot be read: {error}",
                file=place,
                remedy="remove it: who waits, or writes, makes it anew",
            ) from None
        return lease


@dataclass(frozen=True, slots=True)
class Terms:
    """Who contends for a lease: a name that no other process has, and for how many seconds it is taken. A process that
    has the name of one that is gone goes on with its lease.

    `patient`: it takes over from a holder that is gone, or has released it, but does not take one that nobody had.
    `give_up_after`: for how many seconds it may lack what a merge needs before it asks others; 0: for ever.
    """

    name: str
    seconds: float
    patient: bool = False
    give_up_after: float = 0.0


@dataclass(frozen=True, slots=True)
class Look:
    """Read the lease, unless it still has a tag."""

    tag: str | None


@dataclass(frozen=True, slots=True)
class Put:
    """Write the lease if it still has a tag, or if there is none: ABSENT."""

    lease: Lease
    tag: str


@dataclass(frozen=True, slots=True)
class Same:
    """The lease still has the tag."""


@dataclass(frozen=True, slots=True)
class Found:
    """There is a lease; or, with lease None and the tag ABSENT, none."""

    lease: Lease | None
    tag: str


@dataclass(frozen=True, slots=True)
class Written:
    """The lease is written, and has this tag."""

    tag: str


@dataclass(frozen=True, slots=True)
class Refused:
    """The lease has another tag by now, so it is not written."""


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """Nothing is known: what was asked for may have been done, or may still be."""


Request = Look | Put
Answer = Same | Found | Written | Refused | NoAnswer
ABSENT: Final = ""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Who waits: the lease that it saw last, None if it saw none, and when, by its own clock, it first saw it so.

    `tag` is None if nothing is known of the lease. `looked` is when the last look that was answered began, `tried` when
    the last request did.
    """

    lease: Lease | None = None
    tag: str | None = None
    since: float = 0.0
    looked: float = 0.0
    tried: float | None = None


@dataclass(frozen=True, slots=True)
class Holding:
    """Who holds it: the lease as it is to be, and when the last renewal that succeeded began, None if none has.

    `tag` is None if it is not known whether the last request was carried out. `giving`: it is to be released.
    """

    lease: Lease
    tag: str | None
    renewed: float | None
    tried: float
    giving: bool = False

    def may_write(self, now: float) -> bool:
        """Return whether what begins now may be written."""
        if self.renewed is None or self.giving:
            return False
        return 0 <= now - self.renewed < self.lease.seconds * (1 - MARGIN)


@dataclass(frozen=True, slots=True)
class Lost:
    """Who held it, and holds it no longer: another has it."""

    lease: Lease


State = Waiting | Holding | Lost


def new_name() -> str:
    """Return a name that nobody has or had: host, process, and something random."""
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"


def request(state: Waiting | Holding, terms: Terms) -> tuple[float, Request]:
    """Return what to ask of the store, and when, by the own clock; the past means at once."""
    return _to_get(state, terms) if isinstance(state, Waiting) else _to_keep(state)


def _to_get(state: Waiting, terms: Terms) -> tuple[float, Request]:
    if state.tag is not None and _may_take(state, terms):
        epoch = 1 if state.lease is None else state.lease.epoch + 1
        return state.looked, Put(Lease(terms.name, epoch, terms.seconds), state.tag)
    look = Look(state.tag or None)
    if state.tried is None:
        return 0.0, look
    lease = state.lease
    seconds = terms.seconds if lease is None else lease.seconds
    wanted = lease is not None and terms.name in (lease.wanted_by, lease.offered_to)
    return state.tried + (_QUICK_LOOK if wanted else min(_SLOWEST_LOOK, seconds / _LOOKS)), look


def _may_take(state: Waiting, terms: Terms) -> bool:
    lease = state.lease
    if lease is None:
        return not terms.patient
    if lease.released and lease.wanted_by in (None, terms.name):
        return True
    return state.looked - state.since >= lease.seconds


def _to_keep(state: Holding) -> tuple[float, Request]:
    again = state.tried + state.lease.seconds / _TRIES
    if state.tag is None:
        return again, Look(None)
    if state.giving:
        return state.tried, Put(replace(state.lease, serial=state.lease.serial + 1, released=True), state.tag)
    due = again if state.renewed is None else max(again, state.renewed + state.lease.seconds / _RENEWALS)
    look = state.tried + _HOLDERS_LOOK
    if state.tag and look + state.lease.seconds / _TRIES <= due:  # else the look would make the renewal late
        return look, Look(state.tag)
    return due, Put(replace(state.lease, serial=state.lease.serial + 1), state.tag)


def after(state: Waiting | Holding, asked: Request, began: float, answer: Answer, now: float, terms: Terms) -> State:
    """Return the state after a request that began at `began` was answered at `now`, by the own clock."""
    if isinstance(state, Waiting):
        return _after_waiting(state, asked, began, answer, now, terms)
    return _after_holding(state, asked, began, answer, now)


def _after_waiting(
    state: Waiting, asked: Request, began: float, answer: Answer, now: float, terms: Terms
) -> Waiting | Holding:
    match answer, asked:
        case Written(tag), Put(lease):
            return Holding(lease, tag, began, began)
        case Same(), _:
            return replace(state, looked=began, tried=began)
        case Found(lease, tag), _:
            if lease is not None and lease.holder == terms.name and not lease.released:
                return Holding(lease, tag, None, began)  # taken by a request that got no answer
            if lease is None and state.lease is not None:  # removed by hand: its holder may go on for its time
                unchanged, lease = state.tag == ABSENT, replace(state.lease, released=False)
            else:
                unchanged = lease is not None and state.lease is not None and lease.sign == state.lease.sign
            return Waiting(lease, tag, state.since if unchanged else now, began, began)
    return replace(state, tag=None, tried=began)


def _after_holding(state: Holding, asked: Request, began: float, answer: Answer, now: float) -> State:
    match answer, asked:
        case Written(tag), Put(lease) if lease.released:
            return Waiting(lease, tag, now, began, began)
        case Written(tag), Put(lease):
            if lease.epoch < state.lease.epoch:  # it was to be a greater one meanwhile, which is not written yet
                known = replace(lease, epoch=state.lease.epoch)
                return replace(state, lease=known, tag=tag, tried=_at_once(state, began))
            return replace(state, lease=lease, tag=tag, renewed=began, tried=began)
        case Same(), _:
            return replace(state, tried=began)
        case Found(None, tag), _:
            return replace(state, tag=tag, tried=_at_once(state, began))  # removed by hand: it is made anew
        case Found(Lease() as lease, tag), _ if lease.holder != state.lease.holder:
            return Lost(lease)
        case Found(Lease() as lease, tag), _ if lease.released:
            return Waiting(lease, tag, now, began, began)
        case Found(Lease() as lease, tag), _:
            known = replace(lease, epoch=max(lease.epoch, state.lease.epoch))
            return replace(state, lease=known, tag=tag, tried=_at_once(state, began))
        case Refused(), _:
            return replace(state, tag=None, tried=_at_once(state, began))
    return replace(state, tag=None, tried=began)


def _at_once(state: Holding, began: float) -> float:
    """Return the time of a try after which the next one is due now."""
    return began - state.lease.seconds / _TRIES


def outdoing(state: Holding, epoch: int) -> Holding:
    """Return the state of a holder whose epoch is to be greater than one that the manifest has: that of a lease which
    was removed by hand. It may write when that is written.
    """
    lease = replace(state.lease, epoch=max(state.lease.epoch, epoch + 1))
    return replace(state, lease=lease, renewed=None, tried=_at_once(state, state.tried))


def giving(state: Holding) -> Holding:
    """Return the state of a holder that releases the lease; it may write no more."""
    return replace(state, giving=True)


def offering(state: Holding, to: str | None) -> Holding:
    """Return the state of a holder that asks somebody whether it has what is lacking, or nobody any more."""
    return replace(state, lease=replace(state.lease, offered_to=to))


def handing_over(state: Holding, to: str) -> Holding:
    """Return the state of a holder that is to release the lease for somebody."""
    return replace(state, lease=replace(state.lease, offered_to=None, wanted_by=to))


def check_may_write(state: State, now: float, place: str) -> None:
    """Raise LeaseLost if another holds the lease, LeaseLapsed if it was not renewed in time, OutputBusy if not held."""
    if isinstance(state, Lost):
        raise LeaseLost(f"{state.lease.holder} has taken over, with epoch {state.lease.epoch}", file=place)
    if isinstance(state, Waiting) or state.giving:
        raise OutputBusy("the lease is not held", file=place)
    if not state.may_write(now):
        since = "" if state.renewed is None else f" for {now - state.renewed:.0f} s"
        raise LeaseLapsed(f"the lease could not be renewed{since}", file=place)
