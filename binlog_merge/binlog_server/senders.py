"""Processes that send the log, so that neither statements nor other readers hold a reader up.

A client logs in at the server's own process, which keeps what it needs to show and to end it; when it asks for the log,
its socket goes to a sender, which tells how far it is. A sender that dies takes its readers with it, and they come
again. Sockets with TLS stay: what encrypts them cannot be handed over.
"""

import contextlib
import itertools
import os
import signal
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection as Pipe
from multiprocessing.connection import wait
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any, Final

from binlog_merge.binlog_server.feed import DumpOptions, Feed, Told
from binlog_merge.binlog_server.log import PublishedLog
from binlog_merge.binlog_server.readers import Reader
from binlog_merge.binlog_server.settings import Memory, take_descriptors
from binlog_merge.binlog_server.stream import warm
from binlog_merge.binlog_server.wire import Broken, Gone, State, Wire
from binlog_merge.errors import MergeError
from binlog_merge.files.manifest import MANIFEST_NAME
from binlog_merge.files.watch import FolderWatch

_SOCKET: Final = b"!"
"""What is sent with a socket: nothing goes without a byte."""
_POLL: Final = 0.2
_TOLD_EVERY: Final = 0.2
_END_TIMEOUT: Final = 5.0


@dataclass(frozen=True, slots=True)
class _Job:
    number: int
    directory: Path
    state: State
    options: DumpOptions
    reader: Reader


class _Task:
    """A job as the server sees it."""

    def __init__(self, told: Told) -> None:
        self.told = told
        self.ended = Event()


class Senders:
    """So many processes, started when they are needed first. For any thread."""

    def __init__(self, count: int) -> None:
        self._lock = Lock()
        self._senders: list[_Sender | None] = [None] * count

    def __bool__(self) -> bool:
        return bool(self._senders)

    def send(self, wire: Wire, directory: Path, options: DumpOptions, reader: Reader, told: Told) -> bool:
        """Let a sender do what Feed.run does; return False, with nothing done, if the wire has to stay."""
        state = wire.state() if self._senders else None
        if state is None:
            return False
        with self._lock:
            senders = [one if one is not None and one.alive else _Sender() for one in self._senders]
            self._senders = list(senders)
        sender = min(senders, key=lambda one: one.load)
        sender.send(wire, directory, state, options, reader, told)
        return True

    def close(self) -> None:
        """End the processes."""
        with self._lock:
            senders, self._senders = self._senders, []
        for sender in senders:
            if sender is not None:
                sender.close()


class _Sender:
    """One process, and the thread that hears what it says."""

    def __init__(self) -> None:
        context = get_context("spawn")
        self._pipe, other = context.Pipe()
        self._sockets = _channel(self._pipe)
        self._process = context.Process(target=work, args=(other,), daemon=True, name="sender")
        self._process.start()
        other.close()
        self._numbers = itertools.count()
        self._lock = Lock()
        self._tasks: dict[int, _Task] = {}
        self.alive = True
        Thread(target=self._hear, daemon=True, name="sender").start()

    @property
    def load(self) -> int:
        """Return how many readers it has."""
        return len(self._tasks)

    def send(self, wire: Wire, directory: Path, state: State, options: DumpOptions, reader: Reader, told: Told) -> None:
        """Return when the dump has ended."""
        task = _Task(told)
        with self._lock:
            number = next(self._numbers)
            self._tasks[number] = task
            try:
                self._pipe.send(_Job(number, directory, state, options, reader))
                socket.send_fds(self._sockets, [_SOCKET], [wire.fileno()])
            except OSError:  # the process has died; or it would wait for a socket for ever, and serve nobody
                self._process.terminate()
        while not task.ended.wait(_POLL):
            if not self.alive:
                told.report(f"{reader.peer}: left, the process that sent to it has died")
                return

    def close(self) -> None:
        self._process.terminate()
        self._process.join(_END_TIMEOUT)

    def _hear(self) -> None:
        with contextlib.suppress(EOFError, OSError):
            while True:
                number, told = self._pipe.recv()
                task = self._tasks[number]
                if isinstance(told, Reader):
                    task.told.moved(told)
                elif told is not None:
                    task.told.report(told)
                else:
                    del self._tasks[number]
                    task.ended.set()
        self.alive = False
        self._pipe.close()
        self._sockets.close()
        self._process.join(_END_TIMEOUT)


# In the sender's process


def work(pipe: "Pipe[Any, Any]") -> None:
    """Send to the readers that come by the pipe, each in a thread, until the other end is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which ends this process
    take_descriptors()
    warm()
    sockets = _channel(pipe)
    logs: dict[Path, PublishedLog] = {}
    watches: dict[Path, FolderWatch] = {}
    tell, memory = _Telling(pipe), Memory()
    with contextlib.suppress(EOFError, OSError, MergeError):  # the server meets the same, and says so
        while True:
            telling = [watch.fileno() for watch in watches.values() if watch.tells]
            if pipe in wait([pipe, *telling], _POLL):
                job = pipe.recv()
                said, found, *_ = socket.recv_fds(sockets, len(_SOCKET), 1)
                if not said:
                    break
                if not found:  # the system has closed it
                    tell(job.number, f"{job.reader.peer}: left, no file descriptor is free: see ulimit -n")
                    tell(job.number, None)
                    continue
                wire = Wire(socket.socket(fileno=found[0]), job.state)
                try:
                    log = logs.get(job.directory) or PublishedLog(job.directory)
                except MergeError as error:
                    wire.close()
                    tell(job.number, f"{job.reader.peer}: left, {error.message}")
                    tell(job.number, None)
                    continue
                if job.directory not in logs:
                    logs[job.directory] = log
                    watches[job.directory] = FolderWatch([job.directory], MANIFEST_NAME)
                log.refresh()
                Thread(target=_send, args=(job, wire, log, tell, memory), daemon=True).start()
            for directory, log in logs.items():
                watches[directory].take()
                log.refresh()
            memory.give_back()
    os._exit(0)  # threads are still sending


def _channel(pipe: "Pipe[Any, Any]") -> socket.socket:
    """Return a pipe as what sockets go through, made at once: later there may be no descriptor for it."""
    return socket.fromfd(pipe.fileno(), socket.AF_UNIX, socket.SOCK_STREAM)


class _Telling:
    """Tells the server where each reader is, a few times a second, lines, and None at its end; for any thread."""

    def __init__(self, pipe: "Pipe[Any, Any]") -> None:
        self._pipe = pipe
        self._lock = Lock()

    def __call__(self, number: int, told: Reader | str | None) -> None:
        with self._lock, contextlib.suppress(OSError):
            self._pipe.send((number, told))

    def of(self, number: int) -> Told:
        """Return who is told about a reader."""
        last: Sequence[Any] = (0.0, False, "")

        def moved(reader: Reader) -> None:
            nonlocal last
            now = time.monotonic()
            if now - last[0] >= _TOLD_EVERY or (reader.waiting, reader.acknowledged) != tuple(last[1:]):
                last = now, reader.waiting, reader.acknowledged
                self(number, reader)

        return Told(moved, lambda line: self(number, line))


def _send(job: _Job, wire: Wire, log: PublishedLog, tell: _Telling, memory: Memory) -> None:
    try:
        Feed(wire, log, job.options, job.reader, tell.of(job.number)).run()
    except (OSError, Gone, Broken):
        pass
    except Exception as error:  # a fault of ours ends one client, not the others
        tell(job.number, f"{job.reader.peer}: internal error: {type(error).__name__}: {error}")
    finally:
        wire.close()
        tell(job.number, None)
        memory.left()
