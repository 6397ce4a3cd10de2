"""Sends closed output files to the archive: at the end of a run, or beside the rounds of `merge --stop-never`.

What is in the way is noted for `status`, logged, and stops nothing: the files stay here until they are archived.
"""

import logging
import time
from contextlib import suppress
from pathlib import Path
from threading import Condition, Thread
from typing import Final

from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.errors import InternalError, MergeError
from binlog_merge.files.archive import Sender, stop_archiving
from binlog_merge.files.manifest import ManifestState
from binlog_merge.files.state_notes import ARCHIVE_NOTE, NOTES_FOLDER, remove_state_note, write_state_note

_FIRST_PAUSE: Final = 1.0
_LAST_PAUSE: Final = 60.0
_LOG = logging.getLogger(__name__)


class Archiver:
    """What archives an output while the caller holds its lock. Raises IoError, ManifestError if the note is damaged."""

    def __init__(self, config: MergeConfig, directory: Path) -> None:
        self._directory = directory
        self._note = directory / NOTES_FOLDER / ARCHIVE_NOTE
        self._sender: Sender | None = None
        self._since: float | None = None
        self.problem: str | None = None
        if config.archive is None:
            stop_archiving(directory)
            with suppress(MergeError):
                remove_state_note(self._note)
            return
        self._sender = Sender(directory, config.archive.to, config.archive.compress == "zstd")
        self._sender.begin()

    def published(self, state: ManifestState) -> None:
        """Send what is closed and not archived yet; what is in the way is `problem` then."""
        if self._sender is not None:
            self._send_all(self._sender, state)

    def close(self) -> None:
        """End; what is being sent is sent by the next run."""

    def _send_all(self, sender: Sender, state: ManifestState) -> bool:
        """Send until nothing is left, or something is in the way; return whether all is archived."""
        while (left := sender.waiting(state)) and state.header is not None:
            try:
                begun = time.monotonic()
                sender.send(state.header, left[0])
                extra = {"file": left[0].name, "size": left[0].size, "seconds": round(time.monotonic() - begun, 3)}
                _LOG.info("archived", extra=extra)
                self.problem = self._since = None
            except Exception as error:
                known = error if isinstance(error, MergeError) else InternalError(f"{type(error).__name__}: {error}")
                self.problem = f"{known.message} ({known.file})" if known.file else known.message
                self._since = self._since or time.time()
                _LOG.warning("cannot be archived", extra={"file": left[0].name, "why": self.problem})
                self._write_note(len(left), sum(file.size for file in left))
                return False
        self._write_note(0, 0)
        return True

    def _write_note(self, files: int, size: int) -> None:
        values = {"files": files, "bytes": size, "error": self.problem, "since": self._since}
        try:
            write_state_note(self._note, values)
        except MergeError as error:
            _LOG.warning("the note of the archive cannot be written", extra={"why": error.message})


class ArchiverBeside(Archiver):
    """One that sends in a thread of its own, and tries again what fails."""

    def __init__(self, config: MergeConfig, directory: Path) -> None:
        super().__init__(config, directory)
        self._news = Condition()
        self._state: ManifestState | None = None
        self._last: str | None = None
        self._ended = self._has_news = False
        self._thread = Thread(target=self._run, daemon=True, name="archive")
        if self._sender is not None:
            self._thread.start()

    def published(self, state: ManifestState) -> None:
        """Let the thread send what is closed and not archived yet."""
        last = next((file.name for file in reversed(state.files) if file.closed), None)
        with self._news:
            if last != self._last:  # most rounds close no file
                self._state, self._has_news, self._last = state, True, last
                self._news.notify()

    def close(self) -> None:
        """End, without waiting for what is being sent."""
        with self._news:
            self._ended = True
            self._news.notify()

    def _run(self) -> None:
        assert self._sender is not None
        pause = 0.0
        while True:
            with self._news:
                self._news.wait_for(lambda: self._ended or self._has_news, timeout=pause or None)
                if self._ended:
                    return
                state, self._has_news = self._state, False
            try:
                done = state is None or self._send_all(self._sender, state)
            except MergeError as error:  # the note beside the manifest
                self.problem, done = error.message, False
                _LOG.warning("cannot be archived", extra={"why": error.message})
            pause = 0.0 if done else min(_LAST_PAUSE, pause * 2 or _FIRST_PAUSE)
