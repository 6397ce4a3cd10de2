"""Brings streams up to date from one reading of the log: the parts of a hash, or a single stream.

    log  ──items──▶ part 1 ─▶ .streams/part-1/.binlog.000007.….part ─▶ published
                    part 2 ─▶ .streams/part-2/…

Parts that stand at different places, since a process died between them, are brought to the end of the file one by one.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import groupby
from pathlib import Path
from threading import Event, Thread
from typing import BinaryIO, Final

from binlog_merge.errors import IoError, MergeError, io_error
from binlog_merge.files.log_folder import LogFolder
from binlog_merge.files.manifest import ManifestState, OutputFile
from binlog_merge.log.reader import events_of
from binlog_merge.streams.chosen import Shared
from binlog_merge.streams.derive import Item, items_of
from binlog_merge.streams.folder import Part, StreamWriter
from binlog_merge.streams.spec import StreamSpec

_AT_ONCE: Final = 64 << 20
"""Bytes of the log after which what was made of them is published, so that readers need not wait for a whole file."""
_BATCH: Final = 1 << 20
"""Bytes of the log that are taken apart for all streams at once."""


class Family:
    """The parts of a hash, or a single stream. `note` returns what takes what a stream's dialect cannot carry."""

    def __init__(
        self,
        log: LogFolder,
        root: Path,
        specs: Sequence[StreamSpec],
        note: Callable[[StreamSpec], Callable[[str], None]],
    ) -> None:
        self.name = specs[0].family
        self._log = log
        self._shared: Shared | None = {} if len(specs) > 1 else None
        self.writers = [StreamWriter(log, root, spec, note(spec), self._shared) for spec in specs]

    def catch_up(self, source: ManifestState, stop: Callable[[], bool] = lambda: False) -> None:
        """Publish what the log has and the streams have not.

        `stop` is asked between two parts. Raises MergeError for what cannot be derived; what stands before it is
        published.
        """
        ahead = {writer: {file.name for file in writer.files_ahead(source)} for writer in self.writers}
        for file in source.files:
            behind = [writer for writer in self.writers if file.name in ahead[writer]]
            while not stop() and behind and _part(self._log, behind, source, file, self._shared):
                pass
        for writer in self.writers:
            writer.purge(source)


def _part(
    log: LogFolder, writers: Sequence[StreamWriter], source: ManifestState, file: OutputFile, shared: Shared | None
) -> bool:
    """Publish the next part of a file for those that are the furthest back; return whether there was one."""
    begun = [(writer, part) for writer in writers if (part := writer.begin(file)) is not None]
    if not begun:
        return False
    first = min(part.begun.read for _, part in begun)
    parts = [(writer, part) for writer, part in begun if part.begun.read == first]
    others = [part.begun.read for _, part in begun if part.begun.read > first]
    # Those that are further on are waited for, and not overtaken: then all go on together.
    end = min([*others, first + _AT_ONCE, file.size])
    items = items_of(events_of(log, file, first), file.name, first, log.place(file.name))
    try:
        failure = _derived(parts, _until(items, end), shared)
        for writer, part in parts:
            writer.finish(source, part)
    except BaseException:
        for _, part in parts:  # it is tried again, and again: nothing of a failure may stay
            part.path.unlink(missing_ok=True)
        raise
    if failure is not None:
        raise failure
    return any(part.place.read > first for _, part in parts)


def _until(items: Iterator[Item], end: int) -> Iterator[Item]:
    for item in items:
        yield item
        if item.end >= end:
            return


def _derived(
    parts: Sequence[tuple[StreamWriter, Part]], items: Iterator[Item], shared: Shared | None
) -> MergeError | None:
    """Write what items make of each part; return what stopped it."""
    with ExitStack() as stack:
        try:
            files = [stack.enter_context(part.path.open("wb")) for _, part in parts]
            for batch in _batches(items):
                if shared is not None:
                    shared.clear()
                for (writer, part), file in zip(parts, files, strict=True):
                    _write(writer, part, file, batch)
        except OSError as error:
            raise io_error(error, str(parts[0][1].path)) from error
        except MergeError as error:
            return error
        finally:
            if shared is not None:
                shared.clear()
    return None


def _write(writer: StreamWriter, part: Part, file: BinaryIO, batch: Sequence[Item]) -> None:
    for item in batch:
        file.write(writer.derive(part, item))


def _batches(items: Iterator[Item]) -> Iterator[list[Item]]:
    """Yield items in batches; what stops them is raised behind those before it."""
    while True:
        batch: list[Item] = []
        try:
            for item in items:
                batch.append(item)
                if item.end - batch[0].position >= _BATCH:
                    break
        except MergeError:
            yield batch
            raise
        if not batch:
            return
        yield batch


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
