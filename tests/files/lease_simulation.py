"""Contenders for a lease, simulated: with clocks of their own, a store that loses requests and answers, and faults.

Time is that of the simulation. Each contender is the product's own state machine; what it asks for is carried out at
some moment, or never, and answered at some later one, or never.
"""

import heapq
import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from binlog_merge.files.lease import (
    ABSENT,
    Answer,
    Found,
    Holding,
    Lease,
    Look,
    Lost,
    NoAnswer,
    Refused,
    Request,
    Same,
    State,
    Terms,
    Waiting,
    Written,
    after,
    giving,
    outdoing,
    request,
)

SECONDS = 10.0
ANSWER = SECONDS / 4
"""How long a contender waits for an answer."""


@dataclass
class Clock:
    """A clock that is fast or slow, and may stand still."""

    rate: float
    offset: float
    stood: float = 0.0
    stands_since: float | None = None

    def at(self, now: float) -> float:
        stood = self.stood + (0.0 if self.stands_since is None else now - self.stands_since)
        return self.offset + (now - stood) * self.rate

    def stop(self, now: float) -> None:
        self.stands_since = now

    def go_on(self, now: float) -> None:
        if self.stands_since is not None:
            self.stood += now - self.stands_since
            self.stands_since = None


@dataclass(frozen=True)
class Record:
    """A record of the manifest: when it was accepted, of which epoch and whom."""

    at: float
    epoch: int
    holder: str


@dataclass
class Actor:
    """A process: its clock, its state, and what it knows of the manifest once it has claimed it."""

    name: str
    clock: Clock
    terms: Terms
    state: State = field(default_factory=Waiting)
    alive: bool = True
    stopped: bool = False
    cut: bool = False
    asked: int = 0
    known: int | None = None
    writes: bool = False
    held_back: list[Callable[[], None]] = field(default_factory=list)


class Simulation:
    """Runs contenders for a time, with faults of a seed until `quiet`; `stands`: clocks may stand still, too."""

    def __init__(self, seed: int, stands: bool = False, actors: int = 3) -> None:
        self.random = random.Random(seed)
        self.stands = stands
        self.now = 0.0
        self.lease: tuple[bytes, str] | None = None
        self.records: list[Record] = []
        self.down = False
        self.actors: list[Actor] = []
        self.loss = self.random.choice((0.0, 0.02, 0.2))
        self.slow = self.random.choice((0.02, 0.2, 1.0))
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count(1)
        for _ in range(actors):
            self.start(self.random.random() < 0.3 and bool(self.actors))

    def start(self, patient: bool = False) -> Actor:
        name = f"p{next(self._numbers)}"
        clock = Clock(self.random.uniform(0.91, 1.09), self.random.uniform(0, 1e6))
        actor = Actor(name, clock, Terms(name, SECONDS, patient))
        self.actors.append(actor)
        self._next(actor)
        return actor

    def run(self, until: float) -> None:
        while self._events and self._events[0][0] <= until:
            self.now, _, event = heapq.heappop(self._events)
            event()
            self.check()
        self.now = until

    def at(self, delay: float, event: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now + max(0.0, delay), next(self._numbers), event))

    @property
    def epoch(self) -> int:
        """Return the epoch that was claimed last."""
        return self.records[-1].epoch if self.records else 0

    def first_after(self, moment: float, but: str = "") -> float:
        """Return when the first record after a moment was accepted, of another than one; never: infinity."""
        found = (record.at for record in self.records if record.at > moment and record.holder != but)
        return next(found, float("inf"))

    def writers(self) -> list[Actor]:
        """Return who may write by its own clock."""
        return [a for a in self.actors if a.alive and isinstance(a.state, Holding) and a.state.may_write(self.clock(a))]

    def clock(self, actor: Actor) -> float:
        return actor.clock.at(self.now)

    def check(self) -> None:
        """Check that no two may write at a time, unless clocks have stood still."""
        if not self.stands:
            assert len(self.writers()) <= 1, [a.name for a in self.writers()]

    def fault(self) -> None:
        """Let something break, and mend it after a while."""
        alive = [actor for actor in self.actors if actor.alive]
        if not alive:
            return
        actor = self.random.choice(alive)
        lasts = self.random.choice((0.5, 3.0, 12.0, 40.0)) * self.random.uniform(0.5, 1.5)
        kinds = ["kill", "stop", "cut", "down", "want", "give"] + ["stand", "remove"] * self.stands
        match self.random.choice(kinds):
            case "kill":
                actor.alive = False
                self.at(lasts, lambda: self.start() and None)
            case "stop" | "stand" as kind:
                if actor.stopped:
                    return
                actor.stopped = True
                if kind == "stand":
                    actor.clock.stop(self.now)
                self.at(lasts, lambda: self._go_on(actor))
            case "cut":
                actor.cut = True
                self.at(lasts, lambda: setattr(actor, "cut", False))
            case "down":
                self.down = True
                self.at(lasts, lambda: setattr(self, "down", False))
            case "remove":
                self.lease = None
            case "want":
                self._want(self.random.choice(self.actors).name)
            case "give":
                self._when_going(actor, lambda: self._give(actor))

    def mend(self) -> None:
        """End all faults; somebody who does not wait for others is there."""
        self.down, self.loss, self.slow = False, 0.0, 0.02
        for actor in self.actors:
            actor.cut = False
            self._go_on(actor)
        self.start()

    def _go_on(self, actor: Actor) -> None:
        if actor.stopped:
            actor.stopped = False
            actor.clock.go_on(self.now)
            held_back, actor.held_back = actor.held_back, []
            for event in held_back:
                self.at(0, lambda event=event: self._when_going(actor, event))  # type: ignore[misc]

    def _when_going(self, actor: Actor, event: Callable[[], None]) -> None:
        """Do what a process does when it is not stopped, not at all if it is dead."""
        if not actor.alive:
            return
        if actor.stopped:
            actor.held_back.append(event)
            return
        event()

    def _want(self, name: str) -> None:
        """Ask for a handover, as `takeover` does."""
        if self.lease is not None:
            self._put(replace(Lease.decode(self.lease[0]), wanted_by=name))

    def _give(self, actor: Actor) -> None:
        if isinstance(actor.state, Holding):
            actor.state = giving(actor.state)
            actor.known = None
            self._next(actor)

    def _put(self, lease: Lease) -> str:
        tag = f"t{next(self._numbers)}"
        self.lease = lease.encode(), tag
        return tag

    def _carry_out(self, asked: Request) -> Answer:
        """Do what the store does with a request."""
        found = None if self.lease is None else self.lease
        if isinstance(asked, Look):
            if found is None:
                return Found(None, ABSENT)
            return Same() if asked.tag == found[1] else Found(Lease.decode(found[0]), found[1])
        if asked.tag != (ABSENT if found is None else found[1]):
            return Refused()
        return Written(self._put(asked.lease))

    def _next(self, actor: Actor) -> None:
        """Plan an actor's next request; an earlier plan counts no longer."""
        if isinstance(actor.state, Lost):
            actor.alive = False  # it ends, and is started again as another
            self.at(self.random.uniform(0.5, 3), lambda: self.start() and None)
            return
        actor.asked += 1
        number = actor.asked
        when, asked = request(actor.state, actor.terms)
        wait = (when - self.clock(actor)) / actor.clock.rate

        def begin() -> None:
            if actor.asked != number:
                return
            self._ask(actor, asked, number)

        self.at(max(wait, 0.001), lambda: self._when_going(actor, begin))

    def _ask(self, actor: Actor, asked: Request, number: int) -> None:
        began = self.clock(actor)
        answer: list[Answer] = []

        def arrive() -> None:
            if not (self.down or actor.cut) and self.random.random() >= self.loss:
                answer.append(self._carry_out(asked))
                if not (self.down or actor.cut) and self.random.random() >= self.loss:
                    self.at(self.random.expovariate(1 / self.slow), lambda: self._when_going(actor, take))

        def take(given: Answer | None = None) -> None:
            if actor.asked == number:
                found = given or answer[0]
                assert not isinstance(actor.state, Lost)
                actor.state = after(actor.state, asked, began, found, self.clock(actor), actor.terms)
                self._write(actor)
                self._next(actor)

        late = self.random.random() < self.loss / 4
        self.at(self.random.expovariate(1 / self.slow) + (ANSWER * 2 if late else 0), arrive)
        self.at(ANSWER / actor.clock.rate, lambda: self._when_going(actor, lambda: take(NoAnswer())))

    def _write(self, actor: Actor) -> None:
        """Publish something if the lease allows it: first a claim, then records; each arrives some time later.

        One is accepted if the manifest is as its writer knows it.
        """
        holding = actor.state
        if not isinstance(holding, Holding):
            actor.known = None
        if actor.writes or not isinstance(holding, Holding) or not holding.may_write(self.clock(actor)):
            return
        epoch = holding.lease.epoch
        if actor.known is None and self.epoch >= epoch:  # of a lease that was removed
            actor.state = outdoing(holding, self.epoch)
            return
        known = len(self.records) if actor.known is None else actor.known
        actor.writes = True

        def arrive() -> None:
            actor.writes, actor.known = False, None
            if len(self.records) == known:
                assert epoch >= self.epoch, "something of an earlier epoch after a claim"
                self.records.append(Record(self.now, epoch, actor.name))
                actor.known = known + 1

        self.at(self.random.expovariate(1 / self.slow), arrive)
