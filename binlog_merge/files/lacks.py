"""What of all that a merge needs is lacking on this host: see `files.lease_offer`."""

import time
from pathlib import Path

from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.errors import IoError, ManifestError
from binlog_merge.files.disk import room_at
from binlog_merge.files.lease_offer import DISK, Lacks
from binlog_merge.files.state_notes import CAPTURE_NOTE, CONNECTED, FULL, STALE_SECONDS, read_state_note


def lacks(config: MergeConfig, folder: Path, captures: bool, leads: bool) -> Lacks:
    """Return which nodes are not connected to a capture of this host, and whether its disk is full.

    `folder` is where the merge works. A node without a note is captured by other means where this host `leads`, and
    where no capture is to run beside the merge as soon as it leads (`captures`): then some of its files are there.
    """
    folders = config.captured_folders()
    states = {node: _state(place) for node, place in folders.items()}
    found = {node for node, state in states.items() if not _has(folders[node], state, captures, leads)}
    disks = [room_at(place) for place in (folder, *folders.values())]
    if FULL in states.values() or any(disk is not None and disk.is_too_little for disk in disks):
        found.add(DISK)
    return frozenset(found)


def _has(folder: Path, state: str | None, captures: bool, leads: bool) -> bool:
    """Return whether what a node writes comes here, by what its note says, if there is one."""
    if state is not None:
        return state == CONNECTED
    return leads or (not captures and folder.is_dir() and any(folder.iterdir()))


def _state(folder: Path) -> str | None:
    """Return the state of a node's capture; None if there is no note, "" for one that says nothing any more."""
    try:
        note = read_state_note(folder / CAPTURE_NOTE)
    except (IoError, ManifestError):
        return ""
    if note is None:
        return None
    return str(note.get("state")) if time.time() - note["at"] <= STALE_SECONDS else ""
