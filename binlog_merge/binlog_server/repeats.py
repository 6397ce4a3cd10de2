"""Readers that begin again and again at one place: they do not keep what they are sent there.

A connector whose target refuses a row, say, or a replica that loses its relay log: it stops, and is started again by
whoever looks after it. Each time it is served, and looks well.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from threading import Lock
from typing import Final

from binlog_merge.binlog_server.log import LogView
from binlog_merge.binlog_server.place import Start
from binlog_merge.binlog_server.readers import Reader, Repeated
from binlog_merge.log.ranks import RankSet

OFTEN: Final = 3
_SETTLED: Final = 600.0
"""Seconds without another beginning after which a reader is over it, or gone: nobody waits longer to start it again."""
_MOST: Final = 1000


Who = tuple[str, str, int]
At = RankSet | tuple[str, int]


class Repeats:
    """Counts at which place each reader begins, one after the other; for any thread.

    A reader is known by its user, UUID (else its address) and server id. `clock` returns seconds since 1970.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._lock = Lock()
        self._begun: dict[Who, tuple[At, Repeated]] = {}

    def begins(self, reader: Reader, start: Start, view: LogView, place: str) -> None:
        """Take a beginning; `place` is what it is called. A reader that has the whole log has kept everything."""
        address = reader.peer.rpartition(":")[0]
        who = reader.user, reader.uuid or address, reader.server_id
        at = _at(view, start)
        name = f"{reader.uuid or address}, server id {reader.server_id}, user {reader.user}"
        with self._lock:
            before, now = self._begun.pop(who, None), self._clock()
            if at is None:
                return
            if before is None or before[0] != at or now - before[1].latest > _SETTLED:
                found = Repeated(name, place, 1, now, now)
            else:
                found = replace(before[1], times=before[1].times + 1, latest=now)
            self._begun[who] = at, found
            if len(self._begun) > _MOST:
                del self._begun[next(iter(self._begun))]  # who has not come for the longest time

    def now(self) -> tuple[Repeated, ...]:
        """Return the readers that have begun often at one place, the last time not long ago."""
        with self._lock:
            found = [one for _, one in self._begun.values()]
        return tuple(one for one in found if one.times >= OFTEN and self._clock() - one.latest <= _SETTLED)


def _at(view: LogView, start: Start) -> At | None:
    """Return a place in a form that is equal for equal places; None at the end of the log."""
    if start.has is not None and not start.file:
        has = view.ranks_of(start.has)
        return has if (RankSet.upto(view.state.rank) - has).intervals else None
    at = start.file or view.name(view.first), start.position
    return at if view.size_behind(*at) else None
