"""The state note of a node's capture, for `status`: whether its server is connected, and what stopped the capture."""

import contextlib
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from binlog_merge.errors import IoError, MergeError
from binlog_merge.files.state_notes import CAPTURE_NOTE, REFRESH_SECONDS, write_state_note

CONNECTING: Final = "connecting"
CONNECTED: Final = "connected"
LOST: Final = "lost"
FULL: Final = "full"


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
