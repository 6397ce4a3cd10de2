"""Which server of a node is captured: the one that was, as long as it may be; else another that has all of its log.

A server takes over if it may be written to, has gtid_mode=ON, and has executed everything that was captured. A server
that was left is not taken back by itself when it returns: the one that took over may be written to.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from binlog_merge.binlog.gtid_set import GtidSet
from binlog_merge.errors import Purged
from binlog_merge.node_capture.source import SourceFacts
from snapshot_store.server import ServerAddress

_MOST_TEXT: Final = 2000
_WAITS: Final = "it may take over if the server that was captured does not come back soon"


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen of a server: facts, or the text of why there are none."""

    address: ServerAddress
    facts: SourceFacts | None
    text: str = ""


@dataclass(frozen=True, slots=True)
class Choice:
    """The server to capture, None if there is none now; `reasons` say what is wrong with each of the others."""

    look: Look | None
    reasons: tuple[str, ...] = ()


def choose(
    looks: Sequence[Look], server_uuid: str | None, captured: Callable[[], GtidSet], lost: bool = True
) -> Choice:
    """Return which server is captured; `server_uuid` is the one that was until now, None if none was.

    `captured` returns the GTIDs that a server needs; it is asked only if another server may take over. Unless the one
    captured until now is `lost` for long enough, another takes over only if it answers, and is read-only.
    """
    known = next((look for look in looks if look.facts is not None and look.facts.server_uuid == server_uuid), None)
    if known is not None and known.facts is not None and not known.facts.read_only:
        return Choice(known)
    may = known is not None or server_uuid is None or lost
    reasons = []
    for look in looks:
        if look.facts is None:
            reasons.append(f"{look.address}: {look.text}")
        elif look.facts.server_uuid != server_uuid:
            reason = unsuitable(look.facts, captured) if may else _WAITS
            if reason is None:
                return Choice(look)
            reasons.append(f"{look.address}: {reason}")
    return Choice(known, tuple(reasons))


def unsuitable(facts: SourceFacts, captured: Callable[[], GtidSet], may_be_read_only: bool = False) -> str | None:
    """Return why a server cannot take over, None if it can."""
    if facts.read_only and not may_be_read_only:
        return "it is read-only"
    if facts.gtid_mode != "ON":
        return f"its gtid_mode is {facts.gtid_mode}; a node fails over by GTIDs: set it to ON on all its servers"
    lacking = captured().minus(facts.gtid_executed)
    if lacking:
        return (
            f"it lacks what was captured, {shown(lacking)}: bring that to it, from the server that was left or with "
            "`mysqlbinlog --include-gtids=… CAPTURED_FILE | mysql`; or capture into a new directory, and begin a new "
            "output with it"
        )
    return None


def shown(gtids: GtidSet) -> str:
    """Return a GTID set as text for people, cut where it would be endless."""
    text = str(gtids)
    return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}… ({gtids.count} in all)"


def first_file(files: Sequence[str], previous_of: Callable[[str], GtidSet], captured: GtidSet) -> str:
    """Return the file from which on a server's log has all that was not captured. Raises Purged if it was purged.

    It is the one before the last whose PREVIOUS_GTIDS were captured: a file may hold a transaction that was committing
    while the next one was begun, so that the next one's PREVIOUS_GTIDS lack it (seen on 9.7).
    """
    lacking = GtidSet()
    for index in reversed(range(len(files))):
        lacking = previous_of(files[index]).minus(captured)
        if not lacking:
            return files[max(0, index - 1)]
    raise Purged(
        f"the server has purged what was not captured, {shown(lacking)}: its first file is {files[0]}",
        file=files[0],
        remedy="capture into a new directory, and begin a new output with it; let the node's servers keep their "
        "binlogs longer (binlog_expire_logs_seconds)",
    )
