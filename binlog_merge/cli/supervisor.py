"""Keeps components running until one cannot go on, or until it is asked to stop; then ends them all.

All decisions are made in the thread that calls `run`. It sleeps until something happens.

`decide` says what to do when a process has ended. A process whose exit code says that somebody must first correct
something is not started again. Every other end is an accident: the process is started again after a pause, which
doubles with each accident that follows at once. What was told to a component that has worked was right, and it is told
the same again: that it calls that wrong now is an accident too (its address is in use for a moment, a file is away).
"""

import math
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any, Final

from binlog_merge.cli.child import Child, Component, OnLine
from binlog_merge.errors import EXIT_CODES, FINAL_EXITS, ConfigError, InternalError, IoError
from binlog_merge.heartbeat import Role


@dataclass(frozen=True, slots=True)
class Policy:
    """When to start a process again. Pauses and `settled` in seconds.

    A process that has lived for `settled` has no accidents behind it. After `most_internal` internal errors in a row
    (exit code 70) the next start would end the same way. One that has given signs of life, and gives none for
    `silence`, is killed; after each accident in a row it may be silent for twice as long. None: for ever.
    """

    first_pause: float = 1.0
    longest_pause: float = 60.0
    settled: float = 60.0
    most_internal: int = 5
    silence: float | None = None

    def may_be_silent(self, accidents: "Accidents") -> float:
        """Return for how many seconds a process with these accidents behind it may give no sign of life."""
        return math.inf if self.silence is None else self.silence * 2.0 ** min(accidents.all, 10)


@dataclass(frozen=True, slots=True)
class Accidents:
    """How often a process has ended in a row without having settled, and how often of these with an internal error."""

    all: int = 0
    internal: int = 0


@dataclass(frozen=True, slots=True)
class Restart:
    """Start the process again after `pause` seconds; `accidents` count this end."""

    pause: float
    accidents: Accidents


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Stop the other processes, and end with `code`."""

    code: int


def decide(code: int, lived: float, accidents: Accidents, policy: Policy, worked: bool = False) -> Restart | GiveUp:
    """Return what follows the end of a process that nobody had asked to end.

    `code` is its exit code, or minus the number of the signal that killed it; `lived` in seconds; `accidents` those
    before this end; `worked`: the component has worked, this process or one before it.
    """
    if code in FINAL_EXITS and not (worked and code == ConfigError.exit_code):
        return GiveUp(code)
    before = Accidents() if lived >= policy.settled else accidents
    internal = before.internal + 1 if code == InternalError.exit_code else 0
    if internal >= policy.most_internal:
        return GiveUp(code)
    pause = min(policy.first_pause * 2.0 ** min(before.all, 30), policy.longest_pause)
    return Restart(pause, Accidents(before.all + 1, internal))


_NAMES = {row.exit_code: row.code for row in EXIT_CODES}


def end_text(code: int) -> str:
    """Return how a process ended, for people: `exit code 26 (ddl-not-understood)`, `signal 9 (SIGKILL)`."""
    if code < 0:
        try:
            return f"signal {-code} ({signal.Signals(-code).name})"
        except ValueError:  # a real-time signal
            return f"signal {-code}"
    return f"exit code {code} ({_NAMES[code]})" if code in _NAMES else f"exit code {code}"


_LONGEST_WAIT: Final = 3600.0
_LOOKS: Final = 4.0
"""Looks for signs of life in the time in which one must come: so late by at most a quarter is a process killed."""


@dataclass(frozen=True, slots=True)
class Notice:
    """What the supervisor did or saw: a line for people, an event and its values for machines."""

    text: str
    event: str
    values: dict[str, Any]
    wrong: bool = False


@dataclass(frozen=True, slots=True)
class _Ended:
    child: Child
    code: int


@dataclass(frozen=True, slots=True)
class _Told:
    child: Child
    role: Role


@dataclass(frozen=True, slots=True)
class _StopAsked:
    code: int


@dataclass(frozen=True, slots=True)
class _Failed:
    error: Exception


_Event = _Ended | _Told | _StopAsked | _Failed


@dataclass(slots=True)
class _State:
    """A component's state. `child`: None if it does not run; `due`: when to start it again.

    `worked`: one of its processes has. `ended` is its last process: what that has started itself, a JVM for one, may
    still be tidying up.
    """

    component: Component
    starts: int = 0
    child: Child | None = None
    ended: Child | None = None
    due: float | None = None
    worked: bool = False
    last: str = ""
    accidents: Accidents = field(default_factory=Accidents)
    sent_back: float | None = None
    """When it was asked to end since this machine does not lead any more: another process then waits at the gate."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How a component is: whether it runs, and works; its starts; its ends in a row without having settled, and how it
    ended last.
    """

    name: str
    up: bool
    works: bool
    starts: int
    accidents: int
    last: str


def _standing(state: _State, policy: Policy) -> Standing:
    child = state.child
    if child is not None:
        child.listen()
    settled = child is not None and child.worked and child.lived >= policy.settled
    accidents = 0 if settled else state.accidents.all
    works = child is not None and child.worked
    return Standing(state.component.name, child is not None, works, state.starts, accidents, state.last)


class Supervisor:
    """Runs components. To be used by the main thread; only `stop` may be called from elsewhere.

    `on_line` gets each line that a component prints, from other threads, and `on_notice` what the supervisor does.
    `grace` is how many seconds the components have to end.
    """

    def __init__(
        self,
        components: Sequence[Component],
        on_line: OnLine,
        on_notice: Callable[[Notice], None],
        grace: float,
        policy: Policy | None = None,
    ) -> None:
        self._states = {component.name: _State(component) for component in components}
        self._on_line = on_line
        self._on_notice = on_notice
        self._grace = grace
        self._policy = policy or Policy()
        self._failure: Exception | None = None
        self._role = Role.FOLLOWS
        # A signal handler may put while the same thread gets, which the other queues do not allow.
        self._events: SimpleQueue[_Event] = SimpleQueue()

    def stop(self, code: int) -> None:
        """Ask `run` to end; asked again, it kills what has not ended. `code`: see `run`.

        A signal handler may call it.
        """
        self._events.put(_StopAsked(code))

    def run(self) -> int:
        """Run the components until all have ended for good, and return the exit code.

        It is that of the component which no restart can help. After `stop` it is 0 if all have ended within `grace`
        seconds, else the code given to `stop`. Raises what `on_line` and `on_notice` raise.
        """
        asked: int | None = None
        final = 0
        ended_well = False
        try:
            for state in self._states.values():
                self._start(state)
            asked, final = self._watch()
        finally:
            ended_well = self._end_all()
            for state in self._states.values():
                _close_ended(state)
        if self._failure is not None:
            raise self._failure
        return final if asked is None else 0 if ended_well else asked

    def starts(self) -> dict[str, int]:
        """Return how often each component was started, by name."""
        return {name: state.starts for name, state in self._states.items()}

    def standing(self) -> tuple["Standing", ...]:
        """Return how the components are now. Any thread may ask."""
        return tuple(_standing(state, self._policy) for state in list(self._states.values()))

    def leads(self) -> bool | None:
        """Return whether this machine leads; None if there is nobody to lead. Any thread may ask."""
        return (
            self._role is Role.LEADS if any(s.component.says_who_leads for s in list(self._states.values())) else None
        )

    def _watch(self) -> tuple[int | None, int]:
        """Return the code of `stop`, None if nobody asked; and the exit code of the component that cannot go on."""
        while True:
            event = self._next(self._until_due())
            match event:
                case _Failed(error):
                    raise error
                case _StopAsked(code):
                    self._say("stopping", "stopping")
                    return code, 0
                case _Told(child, role):
                    if self._states[child.component.name].child is child:
                        self._take_role(role)
                case _Ended(child, code):
                    lived = child.lived
                    self._took_leave(child)
                    if self._states[child.component.name].sent_back is not None:
                        self._start(self._states[child.component.name])
                    elif self._after_end(self._states[child.component.name], code, lived):
                        return None, code
                case None:
                    self._start_due()
                    self._kill_silent()

    def _after_end(self, state: _State, code: int, lived: float) -> bool:
        """Plan a component's next start. Returns whether there is none."""
        name = state.component.name
        values = {"of": name, "code": code, "lived": round(lived, 3)}
        state.last = end_text(code)
        ended = f"{name} ended after {lived:.1f} s with {state.last}"
        match decide(code, lived, state.accidents, self._policy, state.worked):
            case GiveUp():
                self._say(f"{ended}, and no restart can help: stopping", "gave up", wrong=True, **values)
                return True
            case Restart(pause, accidents):
                state.accidents, state.due = accidents, time.monotonic() + pause
                text = f"{ended}; it is started again in {pause:g} s"
                self._say(text, "ended", wrong=True, pause=pause, accidents=accidents.all, **values)
        return False

    def _take_role(self, role: Role) -> None:
        """Let those work who work while this machine leads, or end them: others then wait in their places."""
        self._role, works = role, role is not Role.FOLLOWS
        now = "leads" if role is Role.LEADS else "is to lead"
        for state in self._states.values():
            child = state.child
            if child is None or not state.component.waits_for_lead:
                continue
            name = state.component.name
            if works and child.waits and state.sent_back is None:
                child.open_gate()
                self._say(f"this run {now}: {name} begins", "begins", of=name)
            elif not works and not child.waits and state.sent_back is None:
                self._say(f"this run leads no longer: {name} is stopped", "sent back", of=name)
                state.sent_back = time.monotonic()
                child.ask_to_end()

    def _start(self, state: _State) -> None:
        name = state.component.name
        state.due = state.sent_back = None
        _close_ended(state)
        try:
            state.child = Child(state.component, self._on_line, self._took_end, self._took_failure, self._took_role)
            if self._role is not Role.FOLLOWS:
                state.child.open_gate()
        except OSError as error:  # no memory, or too many processes
            self._say(f"{name} cannot be started: {error}", "not started", wrong=True, of=name, error=str(error))
            self._after_end(state, IoError.exit_code, 0)
            return
        state.starts += 1
        self._say(f"{name} is process {state.child.pid}", "started", of=name, pid=state.child.pid)

    def _start_due(self) -> None:
        for state in self._states.values():
            if state.due is not None and state.due <= time.monotonic():
                self._start(state)

    def _kill_silent(self) -> None:
        """Kill the processes that have given no sign of life for too long; what follows is as after any other end."""
        for state in self._states.values():
            if (child := state.child) is not None and child.listen() > self._policy.may_be_silent(state.accidents):
                name, silent = state.component.name, child.listen()
                text = f"{name} has given no sign of life for {silent:.0f} s: it hangs, and is killed"
                self._say(text, "hung", wrong=True, of=name, pid=child.pid, seconds=round(silent, 1))
                child.kill()
            if state.child is not None and state.sent_back is not None and self._grace_is_over(state.sent_back):
                state.child.kill()

    def _grace_is_over(self, since: float) -> bool:
        return time.monotonic() - since > self._grace

    def _until_due(self) -> float:
        """Return the seconds until the next start, or until signs of life are next listened for."""
        now = time.monotonic()
        looks = _LONGEST_WAIT if self._policy.silence is None else self._policy.silence / _LOOKS
        if any(state.sent_back is not None for state in self._states.values()):
            looks = min(looks, max(0.1, self._grace / _LOOKS))
        return min([looks, *(max(0.0, s.due - now) for s in self._states.values() if s.due is not None)])

    def _end_all(self) -> bool:
        """End all components. Returns whether all ended before they were killed."""
        for child in self._running():
            child.ask_to_end()
        if self._await_ends(self._grace):
            return True
        names = ", ".join(child.component.name for child in self._running())
        self._say(f"killed, as not ended in time: {names}", "killed", wrong=True, of=names)
        for child in self._running():
            child.kill()
        while not self._await_ends(_LONGEST_WAIT):
            pass
        return False

    def _await_ends(self, seconds: float) -> bool:
        """Wait until no component runs. Returns whether that is so; False after `seconds`, or when asked to stop."""
        deadline = time.monotonic() + seconds
        while self._running():
            match self._next(max(0.0, deadline - time.monotonic())):
                case _Ended(child):
                    self._took_leave(child)
                case _Failed(error):
                    self._failure = error
                case _Told():
                    pass
                case _StopAsked() | None:
                    return False
        return True

    def _running(self) -> list[Child]:
        return [state.child for state in self._states.values() if state.child is not None]

    def _took_leave(self, child: Child) -> None:
        state = self._states[child.component.name]
        child.listen()
        state.worked = state.worked or child.worked
        state.child, state.ended = None, child

    def _next(self, timeout: float) -> _Event | None:
        try:
            return self._events.get(timeout=timeout)
        except Empty:
            return None

    def _took_end(self, child: Child, code: int) -> None:
        self._events.put(_Ended(child, code))

    def _took_role(self, child: Child, role: Role) -> None:
        self._events.put(_Told(child, role))

    def _took_failure(self, error: Exception) -> None:
        self._events.put(_Failed(error))

    def _say(self, text: str, event: str, wrong: bool = False, **values: Any) -> None:
        try:
            self._on_notice(Notice(text, event, values, wrong))
        except Exception as error:  # the components are ended all the same
            self._took_failure(error)


def _close_ended(state: _State) -> None:
    """Kill what a component's last process has left behind: it would stand in the way of the next."""
    if state.ended is not None:
        state.ended.close()
        state.ended = None
