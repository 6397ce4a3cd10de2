"""Replays that are killed: in a child of this process, which has everything loaded, so that a kill costs little."""

import gc
import os
import random
import signal
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from binlog_merge.errors import MergeError
from binlog_merge.files.failpoint import VARIABLE
from binlog_merge.log.log import Log
from binlog_merge.log.replay_options import ReplayOptions
from binlog_merge.targets.server.mysql import MysqlTarget
from binlog_merge.targets.server.run import replay
from snapshot_store.server import ServerAddress
from tests.mysql_server import MySqlServer

KILLED = -signal.SIGKILL
PLACES = (
    "replay-taken-over",
    "replay-before-commit",
    "replay-committed",
    "replay-intended",
    "replay-ddl-done",
    "replay-step-done",
)
"""Where a replay can be killed to the point."""


class Process:
    """Work in a process of its own. Kill it, or wait for what becomes of it."""

    def __init__(self, work: Callable[[], object], failpoint: str = "") -> None:
        self.pid = os.fork()
        if self.pid == 0:
            gc.freeze()  # objects of the parent may belong to native threads that are not here: collecting them crashes
            status = 1
            try:
                os.environ[VARIABLE] = failpoint
                work()
                status = 0
            except MergeError as error:
                status = error.exit_code
                traceback.print_exc()
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)

    def kill(self) -> None:
        """Kill it, by SIGKILL."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def ended(self, seconds: float = 300) -> int:
        """Return how it ended: its exit code, or the negative number of the signal that killed it."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.005)
        self.kill()
        os.waitpid(self.pid, 0)
        raise TimeoutError(f"it did not end within {seconds} s")

    def killed_after(self, seconds: float) -> int:
        """Kill it so much later, and return how it ended."""
        time.sleep(seconds)
        self.kill()
        return self.ended()


class Child(Process):
    """A replay into a server."""

    def __init__(self, server: MySqlServer, binlog: Log, failpoint: str = "", **options: Any) -> None:
        target = MysqlTarget(ServerAddress(socket=server.socket), binlog.cluster_uuid)
        super().__init__(lambda: replay(binlog, target, ReplayOptions(**options)), failpoint)


def kill_in_pairs(start: Callable[[str], Process], r: random.Random, pairs: int) -> int:
    """Kill what `start` starts, and at once what goes on behind it, so many times or until it is through.

    At random moments, and at random failpoints, `PLACES`. Return how many kills fell into the work: whatever ends
    otherwise than killed, or well, fails.
    """
    kills = 0
    for _ in range(pairs):
        for _ in range(2):
            at = f"{r.choice(PLACES)}:kill:{r.choice((1, 1, 2, 3))}" if r.random() < 0.4 else ""
            how = start(at).killed_after(r.random() * 0.5)
            if how == 0:
                return kills
            assert how == KILLED, f"{kills} kills before it ended with {how}"
            kills += 1
    return kills
