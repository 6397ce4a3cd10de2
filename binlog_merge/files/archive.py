"""The archive of an output: where its closed files are sent, so that the local ones may be removed.

It has the layout of an output in an object store (`files.object_output`), so it is written as safely, and can be read
as one. What it holds is also noted beside the local manifest, for readers and removals:

    OUT/archive.json     where the archive is, and what it holds

    1  the file, compressed if wanted, put only if absent
    2  the archive's record that names it, put only if absent   <- from here on it is archived
    3  the note

After a crash in between the next sender finds what is there by its bytes, or by the record.
"""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Final

from binlog_merge.errors import ConfigError, OutputBusy, io_error
from binlog_merge.files.archived import Archived, is_same_file, read_note, without_credentials, write_note
from binlog_merge.files.failpoint import failpoint
from binlog_merge.files.intact import check_whole
from binlog_merge.files.manifest import Header, ManifestState, OutputFile, Publish
from binlog_merge.files.object_manifest import Names
from binlog_merge.files.object_output import PACKED, ObjectOutput
from binlog_merge.files.objects import put_new

_WORK: Final = ".archive"
_ATTEMPTS: Final = 5

FAILPOINTS: Final = (
    "archive-before-file",
    "archive-before-record",
    "archive-before-note",
    "archive-after-note",
)


class Sender:
    """Sends the closed files of an output to its archive, one by one. For one thread, under the output's lock."""

    def __init__(self, directory: Path, to: str, compress: bool) -> None:
        self._directory = directory
        self._to = to
        self._compress = compress
        self._output: ObjectOutput | None = None
        self._known = Archived(to, True)
        self._work = directory / _WORK

    def begin(self) -> None:
        """Note where the archive is, before anything can be removed. Raises IoError, ManifestError."""
        known, to = read_note(self._directory), without_credentials(self._to)
        self._known = Archived(to, True) if known is None or known.to != to else replace(known, active=True)
        if self._known != known:
            write_note(self._directory, self._known)

    def waiting(self, state: ManifestState) -> list[OutputFile]:
        """Return the closed files that are not archived, as far as the note knows."""
        return [file for file in state.files if file.closed and not self._known.has(file)]

    def send(self, header: Header, file: OutputFile) -> None:
        """Archive a file. Raises MergeError; then it may be tried again."""
        try:
            output = self._opened(header)
            self._record(output, header, file)
            failpoint("archive-before-note")
            self._note(output)
            failpoint("archive-after-note")
        except BaseException:
            self._output = None  # what is there is read again
            raise

    def _opened(self, header: Header) -> ObjectOutput:
        if self._output is None:
            output = ObjectOutput(self._to)
            output.load()
            self._output = output
        there = self._output.state.header
        if there is not None and (there.cluster_uuid, there.name) != (header.cluster_uuid, header.name):
            raise ConfigError(
                f"the archive holds the log of {there.name} ({there.cluster_uuid}), not that of {header.name}",
                file=self._output.objects.place(),
                remedy="set `archive` to a place of its own",
            )
        return self._output

    def _record(self, output: ObjectOutput, header: Header, file: OutputFile) -> None:
        name: str | None = None
        for _ in range(_ATTEMPTS):
            known = next((found for found in output.state.files if found.name == file.name), None)
            if is_same_file(known, file):
                return
            if known is not None:
                raise ConfigError(
                    f"the archive holds another {file.name}: the output was made anew with other contents",
                    file=output.objects.place(output.names.of(file.name)),
                    remedy="set `archive` to a place of its own",
                )
            name = name or self._put(output, file)
            files = {**output.names.files, **({} if name == file.name else {file.name: name})}
            failpoint("archive-before-record")
            try:
                if output.state.header != header:
                    output.record(header, output.names)
                output.record(_published(output.state, file), Names(files))
                return
            except OutputBusy:
                output.load()  # another sender was first
        raise OutputBusy("another merge writes to this archive", file=output.objects.place())

    def _put(self, output: ObjectOutput, file: OutputFile) -> str:
        """Put a file, and return the name of its object; what is there under its own name stays."""
        path = self._directory / file.name
        check_whole(path, file)
        failpoint("archive-before-file")
        suffix = PACKED if self._compress else ""
        try:
            data = self._compressed(path) if self._compress else path
            return put_new(output.objects, file.name, data, suffix)
        finally:
            shutil.rmtree(self._work, ignore_errors=True)

    def _compressed(self, path: Path) -> Path:
        import zstandard

        packed = self._work / f"{path.name}{PACKED}"
        try:
            self._work.mkdir(exist_ok=True)
            with path.open("rb") as source, packed.open("wb") as target:
                zstandard.ZstdCompressor(level=3, write_checksum=True).copy_stream(
                    source, target, size=path.stat().st_size
                )
        except OSError as error:
            raise io_error(error, str(packed)) from error
        return packed

    def _note(self, output: ObjectOutput) -> None:
        files = {file.name: file for file in output.state.files}
        self._known = Archived(without_credentials(self._to), True, files, output.names.files, output.state.header)
        write_note(self._directory, self._known)


def stop_archiving(directory: Path) -> None:
    """Note that nothing is sent any more, if it was: files may go again. What is archived is read there as before."""
    known = read_note(directory)
    if known is not None and known.active:
        write_note(directory, replace(known, active=False))


def _published(state: ManifestState, file: OutputFile) -> Publish:
    return Publish(state.run + 1, (file,), file.last_key, None, max(file.last_rank, state.rank), {}, {})
