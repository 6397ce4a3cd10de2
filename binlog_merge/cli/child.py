"""A supervised process: its start, its lines, its end.

It is the leader of a session of its own, so that Ctrl-C on the terminal does not reach it, and dies when this process
dies. Whatever happens to it is told by callbacks, from threads of its own.
"""

import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

from binlog_merge import heartbeat
from binlog_merge.cli import bound
from binlog_merge.heartbeat import Role

_LONGEST_LINE: Final = 1 << 16
_LAST_LINES_SECONDS: Final = 2.0
_MANY_SIGNS: Final = 4096
_POLL_MILLIS: Final = 1000


@dataclass(frozen=True, slots=True)
class Component:
    """A command to keep running; `command` begins with the path of its program."""

    name: str
    command: tuple[str, ...]
    descriptors: tuple[int, ...] = ()
    """Open files of this process that the command gets under the same numbers."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """What the command has in its environment beside what this process has."""
    says_who_leads: bool = False
    """It gives signs of this machine's role."""
    waits_for_lead: bool = False
    """It works while this machine leads, or prepares to; until then it waits, loaded, at a gate."""


OnLine = Callable[[str, str], None]
"""Takes the component's name and a line, without its end."""


class Child:
    """One process of a component. To be made by the main thread: the process dies with the thread that started it.

    `on_line` is called for each line on its stdout and stderr; `on_end` when it has ended, with the exit code or minus
    the signal's number. An exception of `on_line` goes to `on_failure`.
    """

    def __init__(
        self,
        component: Component,
        on_line: OnLine,
        on_end: Callable[["Child", int], None],
        on_failure: Callable[[Exception], None],
        on_role: Callable[["Child", Role], None] = lambda child, role: None,
    ) -> None:
        self.component = component
        self._on_role = on_role
        self._gate: int | None = None
        self._role: Role | None = None  # what it says first is told: the one before it may have said another
        self._on_line = on_line
        self._on_end = on_end
        self._on_failure = on_failure
        self._started = self._heard = time.monotonic()
        self._beats, beats = os.pipe()
        self.worked = self._watched = self._closed = False
        self._listening = threading.Lock()
        passed, environment = [beats, *component.descriptors], dict(component.environment)
        if component.waits_for_lead:
            behind, self._gate = os.pipe()
            passed.append(behind)
            environment[heartbeat.GATE] = str(behind)
        try:
            os.set_blocking(self._beats, False)
            self._process = subprocess.Popen(
                [sys.executable, "-I", str(Path(bound.__file__)), str(os.getpid()), *component.command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                pass_fds=passed,
                env={**os.environ, "PYTHONUNBUFFERED": "1", **environment, heartbeat.VARIABLE: str(beats)},
            )
        except BaseException:
            os.close(self._beats)
            if self._gate is not None:
                os.close(self._gate)
            raise
        finally:
            os.close(beats)
            if component.waits_for_lead:
                os.close(behind)
        streams = (self._process.stdout, self._process.stderr)
        self._readers = [self._thread(self._read, stream) for stream in streams if stream is not None]
        self._thread(self._await_end)
        if component.says_who_leads:
            self._thread(self._await_signs)

    @property
    def waits(self) -> bool:
        """Return whether it waits at the gate."""
        return self._gate is not None

    def open_gate(self) -> None:
        """Let the process begin with its work."""
        gate, self._gate = self._gate, None
        if gate is not None:
            with suppress(OSError):
                os.write(gate, b"!")
            os.close(gate)

    @property
    def pid(self) -> int:
        """Return the process id, which is also that of its group."""
        return self._process.pid

    @property
    def lived(self) -> float:
        """Return the seconds since the start."""
        return time.monotonic() - self._started

    def listen(self) -> float:
        """Take in the signs of life (`heartbeat`), and return for how many seconds none has come.

        0 for a process that has never given one: it is still starting, for which kernels may be compiled, or gives
        none. `worked` is whether it has said that it works.
        """
        with self._listening, suppress(OSError):  # nothing more has come, or the pipe is closed
            while not self._closed and (signs := os.read(self._beats, _MANY_SIGNS)):
                self.worked = self.worked or heartbeat.WORKS in signs
                self._watched, self._heard = True, time.monotonic()
                for sign in signs:
                    self._take_role(bytes((sign,)))
        return time.monotonic() - self._heard if self._watched else 0.0

    def _take_role(self, sign: bytes) -> None:
        with suppress(ValueError):  # a sign of life
            before, self._role = self._role, Role(sign)
            if self._role is not before:
                self._on_role(self, self._role)

    def _await_signs(self) -> None:
        """Take signs in as they come, until the process has ended."""
        poll = select.poll()
        poll.register(self._beats, select.POLLIN)
        while not self._closed:
            if any(event & select.POLLHUP for _, event in poll.poll(_POLL_MILLIS)):
                return
            self.listen()

    def ask_to_end(self) -> None:
        """Send SIGTERM to the process, not to those that it has started itself: it ends them."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        """Kill the process and its group."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    def close(self) -> None:
        """Kill what an ended process has left in its group, and take leave of it."""
        self.kill()  # the id is still its own: it is not reaped before the next line
        self._process.wait()
        for reader in self._readers:  # a process outside the group may have the pipe for ever
            reader.join(_LAST_LINES_SECONDS)
        with self._listening:
            self._closed = True
            os.close(self._beats)
            if self._gate is not None:
                os.close(self._gate)

    def _thread(self, target: Callable[..., None], *arguments: object) -> threading.Thread:
        thread = threading.Thread(target=target, args=arguments, name=self.component.name, daemon=True)
        thread.start()
        return thread

    def _read(self, stream: IO[bytes]) -> None:
        try:
            with stream:
                while line := stream.readline(_LONGEST_LINE):
                    self._on_line(self.component.name, line.decode("utf-8", "backslashreplace").rstrip("\r\n"))
        except Exception as error:  # a thread's exception would be printed and forgotten
            self._on_failure(error)

    def _await_end(self) -> None:
        end = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        assert end is not None
        self._on_end(self, end.si_status if end.si_code == os.CLD_EXITED else -end.si_status)
