"""Brings streams up to date from one reading of the log: the parts of a hash, or a single stream.

    log  ──items──▶ part 1 ─▶ .streams/part-1/.binlog.000007.….part ─▶ published
                    part 2 ─▶ .streams/part-2/…

Parts that stand at different places, since a process died between them, are brought to the end of the file one by one.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO, Final

from binlog_merge.errors import MergeError, io_error
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
