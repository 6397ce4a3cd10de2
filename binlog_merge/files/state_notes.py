"""State notes: small JSON files with which a running command tells `status` what only it knows.

A removal reads those of the serves, too (`files.removal`): what a reader still has to get stays.

    MERGED_DIR/.status/merge.json                 the last run of a merge
    MERGED_DIR/.status/decisions.json             what operators have decided with `ddl resolve`
    MERGED_DIR/.status/archive.json               what is still to be archived, and what is in the way
    MERGED_DIR/.status/serve-HOST-ADDR-3307.json  the readers that are attached to a serve
    CAPTURED_DIR/dn-1/.capture-status.json        the connection to the node's server

No published byte depends on them: a note may be missing, or old. So they are replaced atomically, but not synced to
disk. A note that its writer would have refreshed by now is stale.
"""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from binlog_merge.errors import ManifestError, io_error
from binlog_merge.whole_files import write_whole

NOTES_FOLDER: Final = ".status"
MERGE_NOTE: Final = "merge.json"
DECISIONS_NOTE: Final = "decisions.json"
ARCHIVE_NOTE: Final = "archive.json"
SERVE_NOTES: Final = "serve-*.json"
CAPTURE_NOTE: Final = ".capture-status.json"
CONNECTED: Final = "connected"
"""What the note of a capture says while it has a connection to its server."""
FULL: Final = "full"
"""What it says while it waits for room on the disk."""
REFRESH_SECONDS: Final = 5.0
"""How often a running command refreshes its note, changed or not."""
STALE_SECONDS: Final = 20.0
"""The age at which a note of a command that says it is running is stale."""
_VERSION: Final = 1
_GREATEST_NUMBER: Final = 2.0**63


def write_state_note(path: Path, values: Mapping[str, Any]) -> None:
    """Replace a note, and create its folder if necessary. Adds `at`, the time now. Raises IoError."""
    data = json.dumps({"version": _VERSION, "at": time.time(), **values}, default=str).encode() + b"\n"
    write_whole(path, data, make_folder=True)


def read_state_note(path: Path) -> dict[str, Any] | None:
    """Return a note's values, None if there is none. Raises IoError, and ManifestError for one that is damaged."""
    try:
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise io_error(error, str(path)) from error
    try:
        values = json.loads(data)
        if not isinstance(values, dict) or values["version"] != _VERSION:
            raise ValueError("another version, or no object")
        values["at"] = finite(values["at"])
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError) as error:
        what = f"the state note is damaged: {error}"
        raise ManifestError(what, file=str(path), remedy="remove it: whoever is running makes it anew") from None
    return values


def finite(value: Any) -> float:
    """Return a note's number as a float. Raises ValueError for one that is not finite, TypeError for no number."""
    number = float(value)
    if not abs(number) < _GREATEST_NUMBER:
        raise ValueError(f"{value!r} is no number of seconds or bytes")
    return number


def samples_of(note: Mapping[str, Any]) -> list[list[float]]:
    """Return the samples in a merge's note: (time, transactions, input bytes). What is no sample is left out."""
    found = note.get("samples")
    return [s for s in found if _is_sample(s)] if isinstance(found, list) else []


def _is_sample(value: object) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 3
        and all(isinstance(n, int | float) and abs(n) < _GREATEST_NUMBER for n in value)
    )


def remove_state_note(path: Path) -> None:
    """Remove a note if it is there. Raises IoError."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise io_error(error, str(path)) from error
