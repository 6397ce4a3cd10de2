"""The notes of a node's capture.

For `status`: whether its server is connected, and what stopped the capture. Beside the captured files: up to where they
are whole, as of which moment (`files.as_of`).
"""

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from binlog_merge.errors import IoError, MergeError
from binlog_merge.files.as_of import AsOf, remove_as_of, write_as_of
from binlog_merge.files.head import file_identity
from binlog_merge.files.source import LocalSource
from binlog_merge.files.state_notes import CAPTURE_NOTE, REFRESH_SECONDS, write_state_note
from binlog_merge.node_capture.files import NodeFiles
from binlog_merge.node_capture.server_end import Standing
from binlog_merge.node_capture.stream import file_number

CONNECTING: Final = "connecting"
LOST: Final = "lost"


@dataclass(frozen=True, slots=True)
class Connection:
    """The state of a node's capture since a time, in seconds since 1970; `text` says what is lost, or is full."""

    state: str
    since: float
    text: str = ""

    @classmethod
    def now(cls, state: str, text: str = "") -> "Connection":
        """Return a state that begins now."""
        return cls(state, time.time(), text)


class CaptureNote:
    """The note of one node's capture. A note that cannot be written stops no capture: its files cannot be, either."""

    def __init__(self, directory: Path, server: str) -> None:
        self.server = server
        self._path = directory / CAPTURE_NOTE
        self._last: dict[str, Any] | None = None
        self._written = 0.0
        self._ended = False

    def refresh(self, connection: Connection) -> None:
        """Write the note of a running capture if it has changed, and from time to time if it has not."""
        values = {"state": connection.state, "since": connection.since, "text": connection.text, "error": None}
        values["server"] = self.server
        if values != self._last or time.monotonic() - self._written >= REFRESH_SECONDS:
            self._write(values)

    def end(self, complete: bool, error: MergeError | None) -> None:
        """Write the last note of a capture, once: complete, failed, or stopped from outside."""
        if self._ended:
            return
        self._ended = True
        state = "failed" if error is not None else "complete" if complete else "stopped"
        self._write({"state": state, "since": time.time(), "text": "", "error": error and error.to_dict()})

    def _write(self, values: dict[str, Any]) -> None:
        self._last, self._written = values, time.monotonic()
        with contextlib.suppress(IoError):
            write_state_note(self._path, {"server": self.server, **values})


WITHOUT_NOTE: Final = "while it has nothing to write, a merge that orders by clocks (gtid-time) waits for it"


class Noting:
    """The note of a node, for the thread that captures; only `wanting` and `offer` may be called from another.

    `report` gets a line when the server vouches for nothing, and when it does again.
    """

    def __init__(self, files: NodeFiles, server_uuid: str, report: Callable[[str], None]) -> None:
        self._files = files
        self._server_uuid = server_uuid
        self._report = report
        self._standing: Standing | None = None
        self._identity: tuple[str, str | None] = ("", None)
        self._doubt: str | None = None

    @property
    def wanting(self) -> bool:
        """Return whether the last standing is written, so that another one is of use."""
        return self._standing is None

    def offer(self, standing: Standing) -> None:
        """Have a standing of the server written, once the files hold all that it covers."""
        self._standing = standing

    def tick(self) -> None:
        """Write the note if what it covers is captured and on disk. Raises IoError."""
        standing = self._standing
        if standing is None:
            return
        if standing.server_uuid != self._server_uuid:  # another server answers there; the next connection finds out
            self._standing = None
            return
        if standing.doubt != self._doubt:
            self._doubt = standing.doubt
            self._report("its clock counts again" if standing.doubt is None else f"{standing.doubt}: {WITHOUT_NOTE}")
        if standing.doubt is not None:
            self._standing = None
            remove_as_of(self._files.directory)
        elif self._captured(standing):
            self._standing = None
            self._files.sync()
            identity = self._identity_of(standing.file)
            if identity is not None:
                note = AsOf(standing.server_uuid, standing.file, identity, standing.position, standing.clock_us)
                write_as_of(self._files.directory, note)

    def _captured(self, standing: Standing) -> bool:
        place = self._files.place
        wanted = file_number(standing.file), standing.position
        return place is not None and (file_number(place.name), place.end) >= wanted

    def _identity_of(self, name: str) -> str | None:
        if self._identity[0] != name or self._identity[1] is None:
            with LocalSource(str(self._files.directory / name)) as source:
                self._identity = name, file_identity(source)
        return self._identity[1]
