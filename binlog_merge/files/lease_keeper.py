"""Waits for the lease of an output and keeps it, in a thread of its own: the requests that `files.lease` decides on.

    with LeaseKeeper(…) as keeper:
        while keeper.leads(stop):          waits
            …                              writes, and calls keeper.check before anything becomes visible
            keeper.release()

`ending` is set when what is written should come to its end: at a request to hand over, and when the lease is lost.
"""

import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Condition, Event, Thread
from types import TracebackType
from typing import Any, Final, Protocol, Self

from binlog_merge.config.uri import is_uri
from binlog_merge.errors import MergeError
from binlog_merge.files.lease import (
    ABSENT,
    LEASE_NAME,
    STANDBY_FOLDER,
    Answer,
    Found,
    Holding,
    Lease,
    Look,
    Lost,
    NoAnswer,
    Put,
    Refused,
    Request,
    Same,
    State,
    Terms,
    Waiting,
    Written,
    after,
    check_may_write,
    giving,
    handing_over,
    offering,
    outdoing,
    request,
)
from binlog_merge.files.lease_offer import GiveUp, Lacks, Offer, considered
from binlog_merge.files.objects import FolderObjects, Objects, Version
from binlog_merge.files.objects import Found as Object
from binlog_merge.heartbeat import HEARTBEAT, Role
from binlog_merge.json_values import utc_text

_POLL: Final = 0.2
_ANSWERS_EVERY: Final = 0.5
"""Seconds between two looks at what is lacking, while the lease is offered to this process."""
_FRESH: Final = 3.0
"""For how many times the lease's time after it was written the note of one who waits counts."""


class LeaseObjects(Protocol):
    """The objects of a store that a lease needs: see `files.objects.Objects`."""

    def changed(self, name: str, tag: str | None = None) -> Version | None:
        """Return an object unless it still has this tag. Raises FileNotFoundError if there is none."""

    def create(self, name: str, data: bytes) -> str | None:
        """Write an object that is not there yet; return its tag, or None."""

    def replace(self, name: str, data: bytes, tag: str) -> str | None:
        """Write an object that still has this tag; return its new one, or None."""

    def overwrite(self, name: str, data: bytes) -> Any:
        """Write an object, whether it is there or not."""

    def delete(self, names: list[str]) -> None:
        """Remove objects that may be there."""

    def place(self, name: str = "") -> str:
        """Return where an object is, for people."""

    def below(self, folder: str = "") -> dict[str, Object]:
        """Return the objects in a folder and below it, by name."""

    def written_at(self, name: str) -> float:
        """Return when an object was written, by the store's clock; 0.0 if there is none."""


def boot_clock() -> float:
    """Return the seconds since this machine was started: unlike others, it goes on while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def lease_objects(place: str, seconds: float) -> LeaseObjects:
    """Return the objects of an output for a lease of so many seconds: their requests take a quarter of that at most."""
    return Objects(place, timedelta(seconds=seconds / 4)) if is_uri(place) else FolderObjects(Path(place))


def waiting(objects: LeaseObjects, lease: Lease) -> tuple[str, ...]:
    """Return who waits for a lease, by name: by the store's clock, notes are not old. Raises MergeError."""
    notes = objects.below(STANDBY_FOLDER)
    now = max([found.at for found in notes.values()], default=0.0)
    now = max(now, objects.written_at(LEASE_NAME))
    fresh = (name for name, found in notes.items() if now - found.at <= lease.seconds * _FRESH)
    return tuple(sorted(name.rpartition("/")[2].removesuffix(".json") for name in fresh))


@dataclass(frozen=True, slots=True)
class Change:
    """What has happened to a lease: a line for people, an event for machines; `role` is None where that stays."""

    text: str
    event: str
    role: Role | None = None
    wrong: bool = False


class LeaseKeeper:
    """The lease of an output, as one process sees it. `status` gives what is published with each renewal.

    `lacks` says what of all that a merge needs is lacking on this host now, if it leads, or waits: see
    `files.lease_offer`. It contends for the lease from a call of `leads` until one of `release`.

    `on_change` gets what happens, from the keeper's thread.
    """

    def __init__(
        self,
        objects: LeaseObjects,
        terms: Terms,
        status: Callable[[], Mapping[str, Any]] = dict,
        on_change: Callable[[Change], None] = lambda _: None,
        clock: Callable[[], float] = boot_clock,
        lacks: Callable[[bool], Lacks] = lambda leads: frozenset(),
    ) -> None:
        self.terms, self._lacks = terms, lacks
        self.ending = Event()
        self._objects, self._status, self._on_change, self._clock = objects, status, on_change, clock
        self._state: State = Waiting()
        self._changed = Condition()
        self._closed = self._contends = False
        self._failure: MergeError | None = None
        self._answered = self._lapsed = self._takes = False
        self._noted: float | None = None
        self._lacking: Lacks | None = None
        self._looked = 0.0
        self._offer, self._considered = Offer(), 0.0
        self._asked = 0
        self._since = ""
        self._thread = Thread(target=self._work, name="lease", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join(self.terms.seconds)
        self._withdraw()

    @property
    def state(self) -> State:
        """Return the state now."""
        return self._state

    @property
    def epoch(self) -> int:
        """Return the epoch of the lease that is held; 0 if none is."""
        state = self._state
        return state.lease.epoch if isinstance(state, Holding) else 0

    def leads(self, stop: Event, meanwhile: Callable[[], None] | None = None) -> bool:
        """Wait until the lease is held, and may be written under; return False if `stop` is set before.

        `meanwhile` is called once if another holds it. Signs of life are given. Raises LeaseLost, and what is wrong
        with a store that has never answered.
        """
        self.ending.clear()
        with self._changed:
            self._contends = not stop.is_set()
            self._changed.notify_all()
        while not stop.is_set():
            with self._changed:
                state = self._state
                if isinstance(state, Lost):
                    check_may_write(state, self._clock(), self._place())
                if isinstance(state, Holding) and state.may_write(self._clock()):
                    return True
                if self._failure is not None and not (self._answered and self._failure.may_pass):
                    raise self._failure
                if self._answered:
                    HEARTBEAT.works()
                waits = isinstance(state, Waiting) and state.lease is not None and not state.lease.released
                if meanwhile is None or not waits:
                    self._changed.wait(_POLL)
                    continue
            meanwhile()
            meanwhile = None
        return False

    def check(self) -> None:
        """Raise LeaseLost, LeaseLapsed or OutputBusy if nothing may be written now."""
        check_may_write(self._state, self._clock(), self._place())

    def outdo(self, epoch: int, stop: Event) -> None:
        """Have a greater epoch than one that a manifest has. Raises as `leads` does."""
        with self._changed:
            if isinstance(self._state, Holding) and self._state.lease.epoch <= epoch:
                self._state = outdoing(self._state, epoch)
                self._changed.notify_all()
        self.leads(stop)

    def release(self) -> None:
        """Release the lease if it is held, or about to be; give up when it has lapsed: who waits then takes it all the
        same.
        """
        with self._changed:
            self._contends = False
            deadline = self._clock() + self.terms.seconds
            while self._takes and self._clock() < deadline and self._thread.is_alive():
                self._changed.wait(_POLL)
            if not isinstance(self._state, Holding):
                return
            self._state = giving(self._state)
            self._changed.notify_all()
            while isinstance(self._state, Holding) and self._clock() < deadline and self._thread.is_alive():
                self._changed.wait(_POLL)

    def _work(self) -> None:
        while True:
            with self._changed:
                state = self._state
                if self._closed or isinstance(state, Lost):
                    return
                if isinstance(state, Waiting) and not self._contends:
                    self._changed.wait()
                    continue
                when, asked = request(state, self.terms)
                if (wait := when - self._clock()) > 0:
                    self._tell_lapse(state)
                    self._changed.wait(min(wait, _POLL))
                    continue
                self._takes = isinstance(asked, Put) and isinstance(state, Waiting)
            began = self._clock()
            answer = self._ask(asked, state)
            with self._changed:
                before, self._takes = self._state, False
                if isinstance(before, Lost):
                    return
                self._state = after(before, asked, began, answer, self._clock(), self.terms)
                self._changed.notify_all()
            self._tell(before, self._state)
            if isinstance(self._state, Waiting) and self._contends:
                self._note_waiting(self._state)
            if isinstance(self._state, Holding):
                self._consider(self._state)
            else:
                self._offer = Offer()

    def _ask(self, asked: Request, state: State) -> Answer:
        try:
            answer = self._look(asked) if isinstance(asked, Look) else self._put(asked, state)
        except MergeError as error:
            self._failure = error
            return NoAnswer()
        self._failure, self._answered = None, True
        return answer

    def _look(self, asked: Look) -> Answer:
        try:
            found = self._objects.changed(LEASE_NAME, asked.tag)
        except FileNotFoundError:
            return Found(None, ABSENT)
        return Same() if found is None else Found(Lease.decode(found.data, self._place()), found.tag)

    def _put(self, asked: Put, state: State) -> Answer:
        if isinstance(state, Waiting) or not self._since:
            self._since = utc_text(datetime.now(UTC))
        data = replace(asked.lease, since=self._since, status=self._status()).encode()
        if asked.tag == ABSENT:
            tag = self._objects.create(LEASE_NAME, data)
        else:
            tag = self._objects.replace(LEASE_NAME, data, asked.tag)
        return Refused() if tag is None else Written(tag)

    def _place(self) -> str:
        return self._objects.place(LEASE_NAME)

    def _tell_lapse(self, state: State) -> None:
        lapsed = isinstance(state, Holding) and state.renewed is not None and not state.giving
        lapsed = lapsed and not state.may_write(self._clock())  # type: ignore[union-attr]
        if lapsed and not self._lapsed:
            why = f": {self._failure.message}" if self._failure is not None else ""
            text = f"the lease could not be renewed in time{why}; nothing is written until it is"
            self._on_change(Change(text, "lease lapsed", wrong=True))
        self._lapsed = lapsed

    def _tell(self, before: State, now: State) -> None:
        """Say what has become of the lease, and set `ending`."""
        match before, now:
            case Waiting(), Holding(lease):
                self._withdraw()
                self._on_change(Change(f"leads, with epoch {lease.epoch}", "leads", Role.LEADS))
            case Holding(), Lost(lease):
                self.ending.set()
                text = f"leads no longer: {lease.holder} has taken over, with epoch {lease.epoch}"
                self._on_change(Change(text, "lease lost", Role.FOLLOWS, wrong=True))
            case Holding(), Waiting():
                self.ending.set()
                self._on_change(Change("has released the lease", "lease released", Role.FOLLOWS))
            case Holding(first), Holding(lease) if lease.wanted_by not in (first.wanted_by, lease.holder, None):
                self.ending.set()
                self._on_change(Change(f"hands over to {lease.wanted_by}", "hands over"))
            case Waiting(), Waiting(lease=Lease() as lease) if self._is_asked(now) and not self._is_asked(before):
                offered = lease.wanted_by != self.terms.name
                text = f"may lead next: {lease.holder} lacks something" if offered else "is to lead next"
                self._on_change(Change(text, "may lead" if offered else "is to lead", Role.PREPARES))
            case Waiting(), Waiting(lease=Lease() as lease) if self._is_asked(before) and not self._is_asked(now):
                self._on_change(Change(f"waits: {lease.holder} leads, with epoch {lease.epoch}", "waits", Role.FOLLOWS))
            case Waiting(lease=None), Waiting(lease=Lease() as lease):
                self._on_change(Change(f"waits: {lease.holder} leads, with epoch {lease.epoch}", "waits", Role.FOLLOWS))
            case Waiting(tag=None, tried=None), Waiting(tag=str()):
                self._on_change(Change("waits: nobody has led yet", "waits", Role.FOLLOWS))

    def _is_asked(self, state: State) -> bool:
        return state.lease is not None and self.terms.name in (state.lease.wanted_by, state.lease.offered_to)

    def _note_waiting(self, state: Waiting) -> None:
        """Keep the note of one who waits. It is for people, for `takeover` and for a holder that asks, so it may fail.

        Who is asked says what it lacks.
        """
        now, before = self._clock(), self._lacking
        if state.lease is None or state.lease.offered_to != self.terms.name:
            self._lacking = None
        elif before is None or now - self._looked >= _ANSWERS_EVERY:
            self._lacking, self._looked = self._lacks(False), now
        if self._noted is not None and now - self._noted < self.terms.seconds and self._lacking == before:
            return
        self._noted = now
        holder = None if state.lease is None else state.lease.holder
        note = {"name": self.terms.name, "at": utc_text(datetime.now(UTC)), "behind": holder}
        lacks: dict[str, Any] = {}
        if self._lacking is not None and state.lease is not None:
            lacks = {"lacks": sorted(self._lacking), "asked": [state.lease.epoch, state.lease.serial]}
        with suppress(MergeError):
            self._objects.overwrite(self._note_name(), json.dumps(note | lacks).encode() + b"\n")

    def _consider(self, state: Holding) -> None:
        """Offer the lease to one that waits while this host lacks something, or give it up: see `files.lease_offer`.

        Once after each renewal: then there is time until the next.
        """
        after, offer = self.terms.give_up_after, self._offer
        if not after or state.renewed is None or state.renewed == self._considered or self.ending.is_set():
            return
        self._considered = state.renewed
        lacks, now = self._lacks(True), self._clock()
        try:
            names = waiting(self._objects, state.lease) if lacks and offer.is_due(now, after) else ()
            answer = self._answer(offer.to, state.lease.epoch) if lacks and offer.to is not None else None
        except MergeError:
            return  # it is asked after the next renewal
        found = considered(offer, lacks, answer, tuple(n for n in names if n != self.terms.name), now, after)
        if offer.to is None:
            self._asked = state.lease.serial
        with self._changed:
            if not isinstance(self._state, Holding) or self._state.giving:
                return
            gives_up = isinstance(found, GiveUp)
            self._state = handing_over(self._state, found.to) if gives_up else offering(self._state, found.to)  # type: ignore[arg-type]
            self._offer = Offer() if isinstance(found, GiveUp) else found
        self._tell_offer(offer, found, lacks, answer)

    def _answer(self, name: str, epoch: int) -> Lacks | None:
        """Return what one that waits has said that it lacks since it was asked; None if nothing. Raises MergeError."""
        try:
            found = self._objects.changed(_note_of(name))
        except FileNotFoundError:
            return None
        return None if found is None else _lacks_in(found.data, epoch, self._asked)

    def _tell_offer(self, before: Offer, now: Offer | GiveUp, lacks: Lacks, answer: Lacks | None) -> None:
        """Say who is asked, who is to lead, or that nobody else is better off; set `ending` where somebody is."""
        here = ", ".join(sorted(lacks))
        match now:
            case GiveUp(to):
                self.ending.set()
                self._on_change(Change(f"hands over to {to}: {here} is lacking here, and not there", "hands over"))
            case Offer(to=str() as to) if before.to is None:
                for_long = f"{self._clock() - (now.since or 0):.0f} s"
                text = f"{here} is lacking here for {for_long}: asks {to} whether it has that"
                self._on_change(Change(text, "asks", wrong=True))
            case Offer(to=None) if before.to is not None and lacks:
                said = "has not answered" if answer is None else f"lacks {', '.join(sorted(answer))}"
                text = f"{here} is lacking here, and {before.to} {said}: it leads on, and asks again later"
                self._on_change(Change(text, "asked in vain", wrong=True))

    def _withdraw(self) -> None:
        """Remove the note of one who waits."""
        if self._noted is not None:
            self._noted = None
            with suppress(MergeError):
                self._objects.delete([self._note_name()])

    def _note_name(self) -> str:
        return _note_of(self.terms.name)


def _note_of(name: str) -> str:
    return f"{STANDBY_FOLDER}/{name}.json"


def _lacks_in(note: bytes, epoch: int, serial: int) -> Lacks | None:
    """Return what one who waits says that it lacks, asked by a lease that was written after one with this serial; None
    if it does not say.
    """
    try:
        values = json.loads(note)
        said, (of, at) = values["lacks"], values["asked"]
        return frozenset(map(str, said)) if of == epoch and at > serial else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
