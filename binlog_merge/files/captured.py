"""The record that a capture keeps beside a server's files: whose they are, and what of them it has not fetched.

    captured/dn-1/.capture.json      {"server_uuid": "…", "hole": {"file": "binlog.000007", "begin": …, "end": …}, …}

    captured/dn-1/binlog.000007      | head, first events |  hole  | from where a merge goes on …

A capture on a new host begins with what the merged log still needs of a node. Of the first file it then has the
beginning, by which readers know it, and the end. Offsets stay those of the server: the file is sparse. Whoever reads a
captured file, reads it through `files.source.open_source`, which refuses to read what is not there.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from binlog_merge.config.uri import local_path
from binlog_merge.errors import ManifestError, Purged, io_error
from binlog_merge.whole_files import NoteKind

RECORD_NAME: Final = ".capture.json"


@dataclass(frozen=True, slots=True)
class Hole:
    """The bytes from `begin` to `end` of a file were not fetched: the log that was merged into `merged` has them."""

    file: str
    begin: int
    end: int
    merged: str

    def refusal(self, path: str, position: int) -> Purged:
        """Return the error for a reader of what is not there."""
        return Purged(
            f"bytes {self.begin:,} to {self.end:,} of the file were not captured: {self.merged} had all that is in "
            "them when this capture began",
            file=path,
            position=max(position, self.begin),
            remedy=f"read the file from {self.end} on; or capture into a new directory with `--whole`, while the node "
            "has its first files",
        )


@dataclass(frozen=True, slots=True)
class Begun:
    """A capture began in the middle of a node's log: where the merged log in `merged` went on, at `resumed` of a file.

    That merge had read up to `read` of another: until that is captured again, it cannot go on. `executed` is the text
    of the GTIDs that the node's log has before `resumed`; None if they are not known.
    """

    merged: str
    resumed_in: str
    resumed: int
    read_in: str
    read: int
    executed: str | None


@dataclass(frozen=True, slots=True)
class _Captured:
    """What a capture's record says, as far as it is asked for here."""

    server_uuid: str
    hole: Hole | None = None
    begun: Begun | None = None


_RECORD: Final = NoteKind(_Captured)


def recorded_server_uuid(file: str) -> str | None:
    """Return the UUID of the server from which a file was captured; None if no capture has recorded it beside it."""
    if (local := local_path(file)) is None:
        return None
    try:
        return _RECORD.parse((Path(local).parent / RECORD_NAME).read_bytes()).server_uuid
    except (OSError, ValueError):
        return None


def hole_of(path: str) -> Hole | None:
    """Return what is not in a local file, None if it is whole. Raises IoError, ManifestError for a damaged record."""
    found = _record_with(path, b'"hole": {')
    hole = None if found is None else found.hole
    return hole if hole is not None and hole.file == Path(path).name else None


def begun_of(file: str) -> Begun | None:
    """Return where the capture of a file's server began, None if at a first file. Raises what `hole_of` does."""
    local = local_path(file)
    found = None if local is None else _record_with(local, b'"begun": {')
    return None if found is None else found.begun


def _record_with(path: str, text: bytes) -> _Captured | None:
    """Return the record beside a file if it has a text: nearly none has, and then nothing is loaded to parse it."""
    record = os.path.join(os.path.dirname(path), RECORD_NAME)  # noqa: PTH118, PTH120 - as often as files are opened
    try:
        with open(record, "rb") as file:  # noqa: PTH123
            data = file.read()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise io_error(error, record) from error
    try:
        return _RECORD.parse(data) if text in data else None
    except ValueError as error:
        raise ManifestError(
            f"the record of the capture is damaged: {error}",
            file=record,
            remedy="it says which bytes of a file are not there: capture into a new directory",
        ) from None
