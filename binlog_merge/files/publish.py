"""Publishing: makes rendered temporary files part of the output, safely across a crash.

The order is the guarantee. Whatever the moment of a crash, the manifest names only files whose bytes and names are on
disk:

    0  the header is in the manifest                  (before any file has its final name)
    1  compare the temporary files of new output files with what their tasks say of them, and fsync them
    2  append to the open output file what it grows by, compare that as well, fsync it
    3  rename the new ones, in order of their numbers; fsync the directory
    4  replace binlog.index                           (whole, by rename; only if there are new files)
    5  append the publish record to the manifest      <- from here on they exist

The manifest's size of a file is the truth: readers do not look at bytes behind it. A crash before 5 leaves files and
bytes that no record names; `recover` removes them at the start of the next run, which produces them again, byte for
byte. Published bytes are never changed; `recover` checks that nobody else has changed them (`files.intact`).
"""

import os
import re
import uuid
import zlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from binlog_merge.config.uri import is_uri
from binlog_merge.errors import ConfigError, InternalError, ManifestError, RenderedDamaged, io_error
from binlog_merge.files.disk import replace_file, sync_directory, sync_file, truncate_file
from binlog_merge.files.failpoint import failpoint
from binlog_merge.files.intact import (
    PUT_BACK,
    Stamp,
    changed,
    check_believed,
    check_whole,
    read_note,
    stamp_of,
    tail_of,
    write_note,
)
from binlog_merge.files.manifest import MANIFEST_NAME, Manifest, ManifestState, OutputFile, Publish
from binlog_merge.files.parts import Rendered, Sent
from binlog_merge.files.sidecar import keep_sidecars_of
from binlog_merge.files.source import directory_error, is_text
from binlog_merge.redaction import redacted

_CHUNK = 1 << 20
_FLATTENED = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")  # what Path makes of s3://bucket

FAILPOINTS = (
    "publish-appended",  # half of the bytes: `publish-appended:kill`; all of them: `publish-appended:kill:2`
    "publish-before-rename",
    "publish-after-rename",  # once per file: `publish-after-rename:kill:2`
    "publish-before-index",
    "publish-before-manifest",
    "manifest-torn",
    "publish-after-manifest",
)


def file_name(basename: str, number: int) -> str:
    """Return the name of an output file: binlog.000001."""
    return f"{basename}.{number:06d}"


def output_directory(path: str | os.PathLike[str]) -> Path:
    """Create the output directory if necessary and return it as an absolute path, for executors. Raises IoError.

    Raises ConfigError for a path that Arrow and DuckDB, which write there, do not accept.
    """
    if is_uri(str(path)) or _FLATTENED.match(str(path)):
        raise ConfigError(
            f"{redacted(str(path))!r} is no local folder",
            remedy="give a local (or mounted) one; a URI as a text, not Path",
        )
    directory = Path(path).absolute()
    real = str(directory.resolve())
    if "?" in real or not is_text(real):
        what = "holds a ?, after which DuckDB expects options" if "?" in real else "is not UTF-8"
        raise ConfigError(f"the output directory's path {what}", file=str(directory), remedy="choose another --merged")
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise directory_error(error, str(directory)) from error
    return directory


def part_path(directory: Path, name: str) -> Path:
    """Return a new temporary path for a file to be published as `name`; two attempts never share a path."""
    return directory / f".{name}.{uuid.uuid4().hex}.part"


def publish(
    directory: Path, manifest: Manifest, record: Publish, rendered: Mapping[str, Rendered | Sent]
) -> ManifestState:
    """Publish a run: append to the open file, give new files their names, then append `record` to the manifest.

    `rendered` are the temporary files: of a new file as a whole, of the open file only what it grows by. A new file
    that is in an object store already has none. Raises IoError, and RenderedDamaged if a file is not what was written;
    then nothing of this run is published.
    """
    state = manifest.state
    if state.header is None or set(rendered) != {file.name for file in record.files}:
        raise InternalError("publish was called without a header, or with other files than the record names")
    grown = state.open_file
    sent = {name: there for name, there in rendered.items() if isinstance(there, Sent)}
    here = {name: found for name, found in rendered.items() if isinstance(found, Rendered)}
    growth = None if grown is None else here.pop(grown.name, None)
    new = [file for file in record.files if file.name in here]
    for file in new:
        _check_size(here[file.name], file, file.size)
        here[file.name].check(file.name)
        sync_file(here[file.name].path)
    if grown is not None and growth is not None:
        _grow(directory / grown.name, grown, record.files[0], growth)
    failpoint("publish-before-rename")
    for file in new:
        try:
            here[file.name].path.replace(directory / file.name)
        except OSError as error:
            raise io_error(error, str(directory / file.name)) from error
        failpoint("publish-after-rename")
    if new:
        sync_directory(directory)
        failpoint("publish-before-index")
        names = [file.name for file in state.after(record).files if (directory / file.name).exists()]
        _write_index(directory, basename_of(state), names)
    sealed = tuple(replace(file, tail=_tail_of(file, sent, directory)) for file in record.files)
    failpoint("publish-before-manifest")
    state = manifest.append(replace(record, files=sealed), {name: there.name for name, there in sent.items()})
    failpoint("publish-after-manifest")
    published = {file.name: stamp_of(directory / file.name) for file in record.files}
    write_note(directory, {name: stamp for name, stamp in (read_note(directory) | published).items() if stamp})
    return state


def _tail_of(file: OutputFile, sent: Mapping[str, Sent], directory: Path) -> str:
    there = sent.get(file.name)
    if there is None:
        return tail_of(directory / file.name, file.size)
    if there.size != file.size:
        raise InternalError(f"{file.name} was sent with {there.size} bytes, not {file.size}")
    return there.tail


def _grow(path: Path, before: OutputFile, after: OutputFile, tail: Rendered) -> None:
    """Append to the open file what a run adds to it. If that fails, what was appended is cut off again."""
    _check_size(tail, after, after.size - before.size)
    size = crc = 0
    try:
        with tail.path.open("rb") as source, path.open("r+b", buffering=0) as target:
            target.truncate(before.size)  # a run that failed may have left bytes
            target.seek(before.size)
            try:
                while chunk := source.read(_CHUNK):
                    _append(target.fileno(), chunk)
                    size, crc = size + len(chunk), zlib.crc32(chunk, crc)
                tail.compare(after.name, size, crc)
                os.fsync(target.fileno())
            except (OSError, RenderedDamaged):
                target.truncate(before.size)
                raise
        tail.path.unlink()
    except OSError as error:
        raise io_error(error, str(path)) from error


def _append(fd: int, data: bytes) -> None:
    half = len(data) // 2
    for part in (memoryview(data)[:half], memoryview(data)[half:]):
        while part:
            part = part[os.write(fd, part) :]
        failpoint("publish-appended")


def recover(directory: Path, manifest: Manifest, basename: str) -> tuple[str, ...]:
    """Restore a directory to the state in its manifest after a crash; changes nothing after a clean end.

    Removes temporary files, and numbered files and bytes that the manifest does not have. Raises ManifestError if
    published bytes are missing or changed, and if there are numbered files but no manifest: they are not ours. The user
    may have removed closed files, the oldest first. Returns the names of files that were read whole because their
    stamps have changed (see `files.intact`).
    """
    state = manifest.state
    if state.header is None:
        _check_unclaimed(directory, basename)
        keep_sidecars_of(directory, ())
        return ()
    basename = basename_of(state)
    try:
        for path in directory.glob(".*.part"):
            path.unlink()
        published = {file.name for file in state.files}
        keep_sidecars_of(directory, published)
        for path in _numbered(directory, basename):
            if path.name not in published:
                path.unlink()
    except OSError as error:
        raise io_error(error, str(directory)) from error
    note = read_note(directory)
    files = _not_purged(directory, state)
    for file in files:
        if manifest.elsewhere is not None and stamp_of(directory / file.name) != note.get(file.name):
            manifest.elsewhere.fill(file, 0)  # the note could not be written: it is read whole, so it is to be whole
    stamps = {file.name: _recover_file(directory / file.name, file, note.get(file.name)) for file in files}
    if stamps != note:
        write_note(directory, stamps)
    names = list(stamps)
    index = directory / f"{basename}.index"
    if names and (not index.exists() or index.read_bytes() != _index(names)):
        replace_file(index, _index(names))
    elif not names and index.exists():
        index.unlink()
    sync_directory(directory)
    return tuple(name for name in names if note.get(name) != stamps[name])


def _not_purged(directory: Path, state: ManifestState) -> list[OutputFile]:
    """Return the published files except those the user purged. Raises ManifestError if others are missing."""
    stamps = [stamp_of(directory / file.name) for file in state.files]
    first = next((i for i, stamp in enumerate(stamps) if stamp is not None), len(stamps))
    if state.open_file is not None:
        first = min(first, len(stamps) - 1)
    for file, stamp in zip(state.files[first:], stamps[first:], strict=True):
        if stamp is None:
            why = "and a later one is there" if file.closed else "and the output goes on in it"
            raise ManifestError(f"{file.name} is missing, {why}", file=str(directory / file.name), remedy=PUT_BACK)
    return list(state.files[first:])


def _check_unclaimed(directory: Path, basename: str) -> None:
    """Raise ManifestError if a directory without a manifest holds files of our names: they are someone else's."""
    names = sorted(path.name for path in _numbered(directory, basename))
    if names:
        raise ManifestError(
            f"the directory holds {names[0]}, but no {MANIFEST_NAME}, so it is not an output of binlog-merge",
            file=str(directory),
            remedy="choose another --merged",
        )


def basename_of(state: ManifestState) -> str:
    """Return the basename that an output was begun with."""
    if state.header is None:
        raise InternalError("the manifest has no header")
    return str(state.header.settings["output.basename"])


def _numbered(directory: Path, basename: str) -> list[Path]:
    pattern = re.compile(re.escape(basename) + r"\.\d{6,}")
    return [path for path in directory.iterdir() if pattern.fullmatch(path.name)] if directory.exists() else []


def _check_size(rendered: Rendered, file: OutputFile, expected: int) -> None:
    if rendered.size != expected:
        raise InternalError(f"{file.name} was rendered with {rendered.size} bytes, not {expected}")


def _recover_file(path: Path, file: OutputFile, noted: Stamp | None) -> Stamp:
    """Check a published file, cut off bytes that a crash left after its published end, and return its new stamp."""
    stamp = stamp_of(path)
    if stamp is None:
        raise changed(path, "it is gone")
    size = stamp[0]
    if size < file.size or (file.closed and size > file.size):
        raise changed(path, f"it has {size} bytes, the manifest says {file.size}")
    if stamp != noted or size > file.size:
        check_whole(path, file)
    elif not file.closed:
        check_believed(path, file)
    if size == file.size:
        return stamp
    truncate_file(path, file.size)
    return stamp_of(path) or stamp


def _index(names: list[str]) -> bytes:
    return "".join(f"./{name}\n" for name in names).encode()


def _write_index(directory: Path, basename: str, names: list[str]) -> None:
    replace_file(directory / f"{basename}.index", _index(names))
