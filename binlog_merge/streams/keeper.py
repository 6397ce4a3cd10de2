"""Keeps streams up with the log, in a thread: as soon as the log says that more is published, streams get it."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from itertools import groupby
from pathlib import Path
from threading import Event, Thread
from typing import Final

from binlog_merge.errors import IoError, MergeError
from binlog_merge.files.log_folder import LogFolder
from binlog_merge.files.manifest import ManifestState
from binlog_merge.streams.spec import StreamSpec
from binlog_merge.streams.together import Family

_WRITABLE: Final = (
    "let the user of serve read the log and write into the stream's folder, and make room there; or keep streams "
    "elsewhere: --streams-folder"
)
_PAUSE: Final = 0.1
_AFTER_FAILURE: Final = 10.0


class StreamKeeper:
    """Writes streams for as long as the context lasts. `state` returns what the log has published.

    `report` gets a line for what a dialect cannot carry, and for a stream that cannot go on: readers wait there, and it
    is tried again from time to time. Raises what `StreamWriter` does.
    """

    def __init__(
        self,
        log: LogFolder,
        root: Path,
        specs: Sequence[StreamSpec],
        state: Callable[[], ManifestState],
        report: Callable[[str], None],
    ) -> None:
        self._state = state
        self._report = report
        self._log = log
        self._families = [
            Family(log, root, list(found), self._note_of) for _, found in groupby(specs, key=lambda spec: spec.family)
        ]
        self.writers = [writer for family in self._families for writer in family.writers]
        self._stop = Event()
        self._thread = Thread(target=self._run, daemon=True, name="streams")
        self._undo = ExitStack()
        self._failed: dict[str, str] = {}

    def _note_of(self, spec: StreamSpec) -> Callable[[str], None]:
        return lambda text: self._report(f"stream {spec.name}: {text}")

    def __enter__(self) -> "StreamKeeper":
        with ExitStack() as stack:
            for writer in self.writers:
                try:
                    stack.enter_context(writer)
                except IoError as error:
                    raise error.with_remedy(f"{_WRITABLE}, and start it again") from None
            self._undo = stack.pop_all()
        if self.writers:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self.writers:
            self._thread.join()
        self._undo.close()

    def stopped(self, spec: StreamSpec) -> str:
        """Return what keeps a stream from going on, "" if nothing does."""
        return self._failed.get(spec.family, "")

    def _run(self) -> None:
        seen: ManifestState | None = None
        while not self._stop.is_set():
            now = self._state()
            if now is seen:
                self._stop.wait(_PAUSE)
                continue
            failures = [family.name for family in self._families if not self._catch_up(family, now)]
            seen = None if failures else now
            if failures:
                self._stop.wait(_AFTER_FAILURE)

    def _catch_up(self, family: Family, state: ManifestState) -> bool:
        """Bring streams up to date; return whether they are. A failure is told once."""
        name = family.name
        try:
            family.catch_up(state, self._stop.is_set)
        except IoError as error:
            text = str(error.with_remedy(f"{_WRITABLE}; it is tried again"))
        except MergeError as error:
            text = str(error)
        except Exception as error:  # a fault of ours ends no other stream, and no reader of the log
            text = f"internal error: {type(error).__name__}: {error}"
        else:
            if self._failed.pop(name, None) is not None:
                self._report(f"stream {name} goes on")
            return True
        if self._failed.get(name) != text:
            self._failed[name] = text
            self._report(f"stream {name} stops: {text}")
        return False
