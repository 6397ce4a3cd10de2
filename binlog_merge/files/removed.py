"""The note beside a node's captured files that says up to where they were removed, so that no output begins behind it.

    captured/dn-1/.removed.json   {"version": 1, "first": "binlog.000001", "last": "binlog.000006", "below": "7507…",
                                   "out": "/var/lib/merged", "at": 1790000000.5}

The output for which they were removed has what was in them. A new one that began with the files that are left would
have halves of transactions, and nothing would tell.
"""

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from binlog_merge.config.uri import local_path
from binlog_merge.errors import ManifestError, io_error
from binlog_merge.files.disk import replace_file

REMOVED_NAME: Final = ".removed.json"  # patterns with * do not match a hidden file
_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class RemovedBefore:
    """The captured files `first` to `last` of a node were removed; `out` is the output for which that was done.

    Everything in them has an order key less than `below`, a 54-digit text. `at` is in seconds since 1970.
    """

    first: str
    last: str
    below: str
    out: str
    at: float


def note_removed(folder: Path, names: Sequence[str], below: str, out: Path) -> None:
    """Note that a node's captured files are removed, the oldest first. Raises IoError, ManifestError if it is damaged.

    Returns when that is on disk.
    """
    before = _read(folder / REMOVED_NAME)
    first = names[0] if before is None else before.first
    below = below if before is None else max(below, before.below)
    found = RemovedBefore(first, names[-1], below, str(out), time.time())
    replace_file(folder / REMOVED_NAME, json.dumps({"version": _VERSION, **asdict(found)}).encode() + b"\n")


def read_removed(patterns: Sequence[str]) -> RemovedBefore | None:
    """Return the note in the folders of a node's file patterns. Raises IoError, ManifestError if it is damaged."""
    local = [path for pattern in patterns if (path := local_path(pattern)) is not None]
    found = (_read(Path(path).parent / REMOVED_NAME) for path in local)
    return next((note for note in found if note is not None), None)


def _read(path: Path) -> RemovedBefore | None:
    try:
        values: dict[str, Any] = json.loads(path.read_bytes())
        if values.pop("version") != _VERSION:
            raise ValueError("another version")
        return RemovedBefore(**{**values, "below": f"{int(values['below']):054d}"})
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise io_error(error, str(path)) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ManifestError(
            f"the note of what was removed is damaged: {error}",
            file=str(path),
            remedy="if no captured file of the node was removed, or none is needed any more, remove the note",
        ) from None
