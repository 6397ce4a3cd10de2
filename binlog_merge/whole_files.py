"""Files that are there whole or not at all, and among them small notes: a version and the fields of a frozen dataclass.

    {"version": 1, "server_uuid": "3f0e5a2c-…", "file": "binlog.000003", "position": 18211}

A `NoteKind` is the dataclass and the version. A note that is no JSON, lacks a field, has a wrong type in one, or has
another version is damaged: nothing of it is believed. Notes may also stand among other things: a line of a file, the
values of a hashed line, a column of a table.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, TypeVar

from binlog_merge.errors import ManifestError, MergeError, io_error

Value = TypeVar("Value")


@dataclass(frozen=True)
class NoteKind(Generic[Value]):
    """A kind of notes: the dataclass whose fields it has, and what may be wrong with these is a ValueError of it.

    `version` is None for notes that have always been written without one.
    """

    of: type[Value]
    version: int | None = 1

    def values(self, value: Value) -> dict[str, Any]:
        """Return what stands in a note."""
        fields: dict[str, Any] = asdict(value)  # type: ignore[call-overload]
        return fields if self.version is None else {"version": self.version, **fields}

    def dump(self, value: Value) -> bytes:
        """Return a note, as a line of JSON."""
        return json.dumps(self.values(value)).encode() + b"\n"

    def parse(self, data: str | bytes) -> Value:
        """Return what a note says. Raises ValueError if it is damaged, or of a version that is not known."""
        try:
            values = json.loads(data)
        except RecursionError as error:
            raise ValueError(f"it is no note: {error}") from None
        return self.read(values)

    def read(self, values: Any) -> Value:
        """Return what the values of a note say. Raises ValueError as `parse` does."""
        from pydantic import ValidationError

        if not isinstance(values, Mapping):
            raise ValueError("it is no JSON object")
        if self.version is not None and values.get("version") != self.version:
            raise ValueError(f"version {values.get('version')} is not known")
        try:
            # As JSON, in which a tuple is a list.
            found: Value = self._adapter.validate_json(json.dumps(values), strict=True)
        except (ValidationError, RecursionError) as error:
            first = error.errors()[0] if isinstance(error, ValidationError) else {"loc": (), "msg": str(error)}
            raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
        return found

    @cached_property
    def _adapter(self) -> Any:
        # Most processes read no note: they need not wait for pydantic.
        from pydantic import TypeAdapter

        return TypeAdapter(self.of)


def read_note(
    path: Path, kind: NoteKind[Value], what: str, remedy: str, damaged: type[MergeError] = ManifestError
) -> Value | None:
    """Return a note, None if there is none. Raises IoError, and `damaged` with `what` it is and what to do."""
    try:
        return kind.parse(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise io_error(error, str(path)) from error
    except ValueError as error:
        raise damaged(f"{what} is damaged: {error}", file=str(path), remedy=remedy) from None


def write_note(path: Path, kind: NoteKind[Value], value: Value, *, mode: int = 0o666, writer: str = "") -> None:
    """Replace a note, and make its folder if only that is missing. Raises IoError.

    It is not synced: after a crash of the machine there may be an older one.
    """
    write_whole(path, kind.dump(value), make_folder=True, mode=mode, writer=writer)


def write_whole(
    path: Path, data: bytes, *, synced: bool = False, make_folder: bool = False, mode: int = 0o666, writer: str = ""
) -> None:
    """Replace a file's contents atomically: readers see the old or the new contents, never a mixture. Raises IoError.

    What a killed writer leaves beside the file the next one writes over; where two may write at a time, each has a name
    of its own, as `writer`. With `synced` the contents are on disk when it has its name; the name itself is not synced.
    """
    part = path.with_name(f".{path.name}{writer and '.'}{writer}.part")
    try:
        if make_folder:
            path.parent.mkdir(exist_ok=True)
        fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            if synced:
                file.flush()
                os.fsync(fd)
        part.replace(path)
    except OSError as error:
        with suppress(OSError):  # where nothing can be written, nothing can be removed
            part.unlink(missing_ok=True)
        raise io_error(error, str(path)) from error


@contextmanager
def appearing(path: Path) -> Iterator[Path]:
    """Yield a path to write to. What is there at the end becomes the file, unless that fails. Raises IoError."""
    part = path.with_name(f".{path.name}.part")
    try:
        part.unlink(missing_ok=True)  # of one that was killed
        yield part
        part.replace(path)
    except OSError as error:
        raise io_error(error, str(path)) from error
    except MergeError as error:  # of a library that names the file it was given
        error.message = error.message.replace(str(part), str(path))
        raise
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)
