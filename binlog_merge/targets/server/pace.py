"""The pace of a replay: the most transactions a second, and when a replay that follows the log has caught up."""

import time
from typing import Final

from binlog_merge.errors import ConfigError
from binlog_merge.log.log import Log
from binlog_merge.log.replay_options import ReplayOptions
from binlog_merge.targets.server.transactions import Transaction

_CATCH_UP_SECONDS: Final = 1.0
_LOOK_SECONDS: Final = 0.5


class Pace:
    """Decides when each transaction may begin, and whether a replay at the end of the log waits for more."""

    def __init__(self, options: ReplayOptions) -> None:
        self._options = options
        self._next = 0.0
        self._commit_us = 0

    def due(self, transaction: Transaction) -> float:
        """Return when (monotonic clock) a transaction may begin. Time lost in a short stall is made up for."""
        self._commit_us = transaction.begin.commit_us
        if self._options.rate is None:
            return 0.0
        due = max(self._next, time.monotonic() - _CATCH_UP_SECONDS) if self._next else time.monotonic()
        self._next = due + 1 / self._options.rate
        return due

    def follows(self, binlog: Log, last_rank: int) -> bool:
        """Return whether there is more to apply; with `until_lag`, wait for it until the replay has caught up."""
        wanted, end = self._options.until_lag, self._options.last_rank
        if wanted is None or (end is not None and last_rank >= end):
            return False
        while True:
            if self._commit_us == 0 and binlog.last_rank > 0:
                raise ConfigError("--until-lag: the merged binlog does not say when transactions committed")
            if self._commit_us and time.time() - self._commit_us / 1e6 <= wanted:
                return False
            time.sleep(_LOOK_SECONDS)
            binlog.refresh()
            if binlog.last_rank > last_rank:
                return True
