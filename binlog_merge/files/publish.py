"""Publishing: makes rendered temporary files part of the output, safely across a crash.

The order is the guarantee. Whatever the moment of a crash, the manifest names only files whose bytes and names are on
disk:

    0  the header is in the manifest                  (before any file has its final name)
    1  fsync every temporary file
    2  rename them, in order of their numbers
    3  fsync the directory
    4  replace binlog.index                           (whole, by rename)
    5  append the publish record to the manifest      <- from here on they exist

A crash before 5 leaves files and bytes that no record names; `recover` removes them at the start of the next run, which
produces them again, byte for byte. Published bytes are never changed; `recover` checks that nobody else has changed
them (`files.intact`).
"""

import os
import re
import uuid
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from binlog_merge.errors import ConfigError, InternalError, ManifestError
from binlog_merge.files.durable import replace_file, sync_directory, sync_file, truncate_file
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
from binlog_merge.files.source import io_error, is_text

FAILPOINTS = (
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
    directory = Path(path).absolute()
    real = str(directory.resolve())
    if "?" in real or not is_text(real):
        what = "holds a ?, behind which DuckDB expects options" if "?" in real else "is not UTF-8"
        raise ConfigError(f"the output directory's path {what}", file=str(directory), remedy="choose another --out")
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise io_error(error, str(directory)) from error
    return directory


def part_path(directory: Path, name: str) -> Path:
    """Return a new temporary path for a file to be published as `name`; two attempts never share a path."""
    return directory / f".{name}.{uuid.uuid4().hex}.part"


def publish(directory: Path, manifest: Manifest, record: Publish, rendered: Mapping[str, Path]) -> ManifestState:
    """Publish a run: rename its files, which are `rendered` at temporary paths, then append `record`.

    Raises IoError; then nothing of this run is published.
    """
    header = manifest.state.header
    if header is None or set(rendered) != {file.name for file in record.files}:
        raise InternalError("publish was called without a header, or with other files than the record names")
    for file in record.files:
        _check_rendered(rendered[file.name], file)
        sync_file(rendered[file.name])
    sealed = tuple(replace(file, tail=tail_of(rendered[file.name], file.size)) for file in record.files)
    failpoint("publish-before-rename")
    for file in record.files:
        try:
            rendered[file.name].replace(directory / file.name)
        except OSError as error:
            raise io_error(error, str(directory / file.name)) from error
        failpoint("publish-after-rename")
    sync_directory(directory)
    failpoint("publish-before-index")
    names = [file.name for file in manifest.state.after(record).files if (directory / file.name).exists()]
    _write_index(directory, basename_of(manifest.state), names)
    failpoint("publish-before-manifest")
    state = manifest.append(replace(record, files=sealed))
    failpoint("publish-after-manifest")
    published = {file.name: stamp_of(directory / file.name) for file in record.files}
    write_note(directory, {name: stamp for name, stamp in (read_note(directory) | published).items() if stamp})
    return state


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
        return ()
    basename = basename_of(state)
    try:
        for path in directory.glob(".*.part"):
            path.unlink()
        published = {file.name for file in state.files}
        for path in _numbered(directory, basename):
            if path.name not in published:
                path.unlink()
    except OSError as error:
        raise io_error(error, str(directory)) from error
    note = read_note(directory)
    files = _not_purged(directory, state)
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
            remedy="choose another --out",
        )


def basename_of(state: ManifestState) -> str:
    """Return the basename that an output was begun with."""
    if state.header is None:
        raise InternalError("the manifest has no header")
    return str(state.header.settings["output.basename"])


def _numbered(directory: Path, basename: str) -> list[Path]:
    pattern = re.compile(re.escape(basename) + r"\.\d{6,}")
    return [path for path in directory.iterdir() if pattern.fullmatch(path.name)] if directory.exists() else []


def _check_rendered(path: Path, file: OutputFile) -> None:
    try:
        size = path.stat().st_size
    except OSError as error:
        raise io_error(error, str(path)) from error
    if size != file.size:
        raise InternalError(f"{file.name} was rendered with {size} bytes, not {file.size}", file=str(path))


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
