"""Whether there is a merged log, and whether it has all that a node had committed up to a place in its binlog."""

import re
import time
from collections.abc import Callable, Mapping
from typing import Final

from binlog_merge.binlog.constants import BINLOG_MAGIC
from binlog_merge.bootstrap.values import End
from binlog_merge.errors import NotYet
from binlog_merge.files.log_folder import LogFolder, NothingWritten
from binlog_merge.files.manifest import ManifestState, NodeState
from binlog_merge.log.log import Log

_LOOK_SECONDS: Final = 0.2
_NUMBER: Final = re.compile(r"(\d+)$")


def awaited(folder: LogFolder, seconds: float, report: Callable[[str], None]) -> Log:
    """Return the log in a folder, as soon as a merge has written there: it may only just have been started.

    `report` gets a line if there is a wait. Raises NotYet if it takes too long.
    """
    end, said = time.monotonic() + seconds, False
    while True:
        try:
            return Log(folder)
        except NothingWritten:
            if time.monotonic() > end:
                raise NotYet(f"no merge has written to {folder}") from None
        if not said:
            report(f"no merge has written to {folder} yet: waiting for the first that does")
        said = True
        time.sleep(_LOOK_SECONDS)


def missing(state: ManifestState, ends: Mapping[str, End]) -> dict[str, End | None]:
    """Return, for each node of which not all is published up to its end, up to where it is; None: nothing is known.

    All transactions that the node committed before such an end are in the log then, none is held back.
    """
    nodes = {} if state.last is None else state.last.nodes
    found: dict[str, End | None] = {}
    for node, end in ends.items():
        known = nodes.get(node)
        place = None if known is None else published_to(known)
        if place is None or not _reaches(place, end):
            found[node] = place
    return found


def published_to(state: NodeState) -> End:
    """Return the place up to which everything that a node committed is published: the next run goes on there."""
    checkpoint = state.checkpoint
    resume = checkpoint.get("resume") or {"file": checkpoint["file"]}
    return End(str(resume["file"]), int(resume.get("position", len(BINLOG_MAGIC))))


def _reaches(place: End, end: End) -> bool:
    folder, _, name = place.file.rpartition("/")
    other, _, wanted = end.file.rpartition("/")
    if folder != other:
        return False  # of another server: which one is there now is asked elsewhere
    return (_number(name), place.position) >= (_number(wanted), end.position)


def _number(name: str) -> int:
    found = _NUMBER.search(name)
    return int(found[1]) if found else 0
