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
    outdoing,
    request,
)
from binlog_merge.files.objects import FolderObjects, Objects, Version
from binlog_merge.files.objects import Found as Object
from binlog_merge.heartbeat import HEARTBEAT, Role
from binlog_merge.json_values import utc_text

_POLL: Final = 0.2


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


@dataclass(frozen=True, slots=True)
class Change:
    """What has happened to a lease: a line for people, an event for machines; `role` is None where that stays."""

    text: str
    event: str
    role: Role | None = None
    wrong: bool = False


class LeaseKeeper:
    """The lease of an output, as one process sees it. `status` gives what is published with each renewal.

    It contends for the lease from a call of `leads` until one of `release`.

    `on_change` gets what happens, from the keeper's thread.
    """

    def __init__(
        self,
        objects: LeaseObjects,
        terms: Terms,
        status: Callable[[], Mapping[str, Any]] = dict,
        on_change: Callable[[Change], None] = lambda _: None,
        clock: Callable[[], float] = boot_clock,
    ) -> None:
        self.terms = terms
        self.ending = Event()
        self._objects, self._status, self._on_change, self._clock = objects, status, on_change, clock
        self._state: State = Waiting()
        self._changed = Condition()
        self._closed = self._contends = False
        self._failure: MergeError | None = None
        self._answered = self._lapsed = False
        self._noted: float | None = None
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
            self._contends = True
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
        """Release the lease if it is held; give up when it has lapsed: who waits then takes it all the same."""
        with self._changed:
            self._contends = False
            if not isinstance(self._state, Holding):
                return
            self._state = giving(self._state)
            self._changed.notify_all()
            deadline = self._clock() + self.terms.seconds
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
            began = self._clock()
            answer = self._ask(asked, state)
            with self._changed:
                before = self._state
                if isinstance(before, Lost):
                    return
                self._state = after(before, asked, began, answer, self._clock(), self.terms)
                self._changed.notify_all()
            self._tell(before, self._state)
            if isinstance(self._state, Waiting) and self._contends:
                self._note_waiting(self._state)

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
            case Waiting(), Waiting() if self._is_wanted(now) and not self._is_wanted(before):
                self._on_change(Change("is to lead next", "is to lead", Role.PREPARES))
            case Waiting(), Waiting(lease=Lease() as lease) if self._is_wanted(before) and not self._is_wanted(now):
                self._on_change(Change(f"waits: {lease.holder} leads, with epoch {lease.epoch}", "waits", Role.FOLLOWS))
            case Waiting(lease=None), Waiting(lease=Lease() as lease):
                self._on_change(Change(f"waits: {lease.holder} leads, with epoch {lease.epoch}", "waits", Role.FOLLOWS))
            case Waiting(tag=None, tried=None), Waiting(tag=str()):
                self._on_change(Change("waits: nobody has led yet", "waits", Role.FOLLOWS))

    def _is_wanted(self, state: State) -> bool:
        return state.lease is not None and state.lease.wanted_by == self.terms.name

    def _note_waiting(self, state: Waiting) -> None:
        """Keep the note of one who waits. It is for people and for `takeover`, so it may fail."""
        now = self._clock()
        if self._noted is not None and now - self._noted < self.terms.seconds:
            return
        self._noted = now
        holder = None if state.lease is None else state.lease.holder
        note = {"name": self.terms.name, "at": utc_text(datetime.now(UTC)), "behind": holder}
        with suppress(MergeError):
            self._objects.overwrite(self._note_name(), json.dumps(note).encode() + b"\n")

    def _withdraw(self) -> None:
        """Remove the note of one who waits."""
        if self._noted is not None:
            self._noted = None
            with suppress(MergeError):
                self._objects.delete([self._note_name()])

    def _note_name(self) -> str:
        return f"{STANDBY_FOLDER}/{self.terms.name}.json"
