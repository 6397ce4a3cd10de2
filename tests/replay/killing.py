"""Replays that are killed: in a child of this process, which has everything loaded, so that a kill costs little."""

import os
import signal
import time
from typing import Any

from binlog_merge.files.failpoint import VARIABLE
from binlog_merge.replay.mysql import MysqlTarget
from binlog_merge.replay.reader import MergedBinlog
from binlog_merge.replay.run import replay
from binlog_merge.replay.walk import ReplayOptions
from snapshot_store.server import ServerAddress
from tests.mysql_server import MySqlServer


class Child:
    """A replay in a process of its own. Kill it, or wait for what becomes of it."""

    def __init__(self, server: MySqlServer, binlog: MergedBinlog, failpoint: str = "", **options: Any) -> None:
        socket = server.socket
        self.pid = os.fork()
        if self.pid == 0:
            status = 1
            try:
                os.environ[VARIABLE] = failpoint
                replay(binlog, MysqlTarget(ServerAddress(socket=socket), binlog.cluster_uuid), ReplayOptions(**options))
                status = 0
            finally:
                os._exit(status)

    def kill(self) -> None:
        """Kill it, by SIGKILL."""
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
        raise TimeoutError(f"the replay did not end within {seconds} s")
