"""Translates the files of a MariaDB into a folder, as they grow.

    raw/mysql-bin.000007   →   translated/mysql-bin.000007
                               translated/.from-mariadb.json    files that are done, which need no other look

What is there already is compared with what comes out now, so the bytes of a file never change but at its end, and for
the flag that says that its server still writes it.
"""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from binlog_merge.binlog.constants import (
    BINLOG_MAGIC,
    ENCRYPTED_MAGIC,
    EVENT_HEADER_LEN,
    MAX_EVENT_SIZE,
    EventFlag,
    EventType,
)
from binlog_merge.binlog.control import FormatDescription
from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.errors import EncryptedBinlog as EncryptedMagic
from binlog_merge.binlog.header import EventHeader, check_magic, frame
from binlog_merge.errors import (
    ChecksumMismatch,
    ConfigError,
    EncryptedBinlog,
    MergeError,
    NoFiles,
    TruncatedEvent,
    WrongNode,
    io_error,
)
from binlog_merge.files.globs import expand
from binlog_merge.mariadb_nodes.translator import ENCRYPTED_REMEDY, Translator
from binlog_merge.whole_files import NoteKind, write_note

NOTE_NAME: Final = ".from-mariadb.json"
_NUMBERED: Final = re.compile(r".+\.\d{6,18}")
_FLAGS_AT: Final = len(BINLOG_MAGIC) + 17
_IN_USE: Final = int(EventFlag.LOG_EVENT_BINLOG_IN_USE_F)
_STEP: Final = 1 << 20
_REMEMBERED: Final = 1000
"""Texts that are not said again."""


@dataclass(frozen=True, slots=True)
class Done:
    """The files that are translated whole: by name their size, and that of the translation."""

    files: Mapping[str, tuple[int, int]]


_KIND: Final = NoteKind(Done)


@dataclass(frozen=True, slots=True)
class Translated:
    """A file as far as it is translated: sizes before and after, and whether its server has ended it.

    `left` are the bytes at its end that are no whole event, or not yet.
    """

    name: str
    source: str
    read: int
    written: int
    ended: bool
    left: int = 0


class FileTranslation:
    """The translation of a file, from its beginning on; `advance` takes what has come since the last call."""

    def __init__(self, source: Path, target: Path, note: Callable[[str], None]) -> None:
        self.source, self.target = source, target
        self._note, self._at = note, 0
        self._translator = Translator(lambda text: note(f"{source}:{self._at}: {text}"))
        self._checksum = True
        self.ended = self.in_use = False

    @property
    def read(self) -> int:
        """Return up to where the file is read."""
        return self._at

    @property
    def written(self) -> int:
        """Return how many bytes its translation has."""
        return self._translator.position

    def advance(self) -> None:
        """Translate the whole events that have come. Raises MergeError."""
        try:
            with self.source.open("rb", buffering=_STEP) as file:
                size = os.fstat(file.fileno()).st_size
                if size < self._at or self.ended:
                    return  # it is being fetched anew
                if self._at and size == self._at and self._flag_of(file) == self.in_use:
                    return
                with _Target(self.target, self.written) as target:
                    self._take(file, size, target)
        except OSError as error:
            raise io_error(error, str(self.source)) from error
        except EncryptedMagic as error:
            raise EncryptedBinlog(
                error.reason,
                file=str(self.source),
                position=0,
                remedy=ENCRYPTED_REMEDY,
            ) from None
        except BinlogFormatError as error:
            place = error.offset if error.offset >= 0 else self._at
            raise ChecksumMismatch(
                error.reason,
                file=str(self.source),
                position=place,
                remedy="copy the file from the node again; `mariadb-binlog --verify-binlog-checksum` looks at it",
            ) from None
        except MergeError as error:
            raise error.located(file=str(self.source), position=self._at) from None

    def _take(self, file: BinaryIO, size: int, target: "_Target") -> None:
        if not self._at:
            if size < len(BINLOG_MAGIC) + EVENT_HEADER_LEN:
                return
            check_magic(file.read(len(BINLOG_MAGIC)), str(self.source))
            self._at = len(BINLOG_MAGIC)
        self.in_use = self._flag_of(file)
        file.seek(self._at)
        while size - self._at >= EVENT_HEADER_LEN:
            head = file.read(EVENT_HEADER_LEN)
            length = EventHeader.parse(head).event_size
            if length > size - self._at and length <= MAX_EVENT_SIZE:
                break
            body = file.read(min(length, MAX_EVENT_SIZE) - EVENT_HEADER_LEN) if length > EVENT_HEADER_LEN else b""
            event = frame(memoryview(head + body), 0, offset=self._at, checksum=self._checksum)
            if event.type_code == EventType.FORMAT_DESCRIPTION_EVENT:
                self._checksum = FormatDescription.parse(event.body).checksum
            target.write(self._translator.feed(event))
            self._at += length
            if event.type_code in (EventType.ROTATE_EVENT, EventType.STOP_EVENT):
                self.ended = True
                break
        target.flag(self.in_use)

    def _flag_of(self, reader: BinaryIO) -> bool:
        reader.seek(_FLAGS_AT)
        return bool(reader.read(1)[0] & _IN_USE)

    def check_whole(self) -> None:
        """Raise TruncatedEvent if the file ends inside an event: a later one exists."""
        size = self.source.stat().st_size
        if size > self._at and not self.ended:
            raise TruncatedEvent(
                f"the file ends {size - self._at} bytes into an event, and a later file exists",
                file=str(self.source),
                position=self._at,
                remedy="copy the file from the node again",
            )

    def ends_by_crash(self) -> None:
        """Mark the translation as that of a file whose server never ended it; a later one exists. Raises MergeError.

        The copy of such a file need not have the flag: a capture clears it when the next file begins.
        """
        try:
            with _Target(self.target, self.written) as target:
                target.flag(in_use=True)
        except OSError as error:
            raise io_error(error, str(self.target)) from error


class _Target:
    """A translation that is written from `place` on: what is there is compared, what is not is appended."""

    def __init__(self, path: Path, place: int) -> None:
        self._path, self._place = path, place
        self._file: BinaryIO | None = None

    def __enter__(self) -> "_Target":
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        self._file = os.fdopen(descriptor, "r+b")
        self._size = os.fstat(descriptor).st_size
        if self._size < self._place:
            raise _other(self._path, self._size)
        self._file.seek(self._place)
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def write(self, data: bytes) -> None:
        """Compare or append the next bytes."""
        assert self._file is not None
        there = self._file.read(min(len(data), max(0, self._size - self._place)))
        if not _alike(there, data[: len(there)], self._place):
            raise _other(self._path, self._place)
        if len(there) < len(data):
            self._file.seek(self._place + len(there))
            self._file.write(data[len(there) :])
            self._size = self._place + len(data)
        self._place += len(data)

    def flag(self, in_use: bool) -> None:
        """Set or clear the flag that says that the file is being written; sync what was written."""
        assert self._file is not None
        if self._size <= _FLAGS_AT:
            return
        self._file.seek(_FLAGS_AT)
        before = self._file.read(1)[0]
        if bool(before & _IN_USE) != in_use:
            self._file.seek(_FLAGS_AT)
            self._file.write(bytes([before ^ _IN_USE]))
        self._file.flush()
        os.fsync(self._file.fileno())


def _alike(there: bytes, data: bytes, place: int) -> bool:
    if place or len(there) <= _FLAGS_AT:
        return there == data
    flagged = bytearray(data)
    flagged[_FLAGS_AT] ^= (there[_FLAGS_AT] ^ data[_FLAGS_AT]) & _IN_USE
    return there == bytes(flagged)


def _other(path: Path, place: int) -> WrongNode:
    return WrongNode(
        "what is there is not the translation of the file",
        file=str(path),
        position=place,
        remedy="if the node began its binlogs anew, or lost their end in a crash, translate into a new folder and "
        "begin a new output with it; if another release of binlog-merge wrote this, and a merge has stopped at the "
        "statement that is there, remove the translated files, translate again, and the output goes on (see Upgrades)",
    )


class _Once:
    """Passes each text on once, as far as the last texts are remembered."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note, self.remembered = note, dict[str, None]()

    def __call__(self, text: str) -> None:
        if text in self.remembered:
            return
        self.remembered[text] = None
        if len(self.remembered) > _REMEMBERED:
            del self.remembered[next(iter(self.remembered))]
        self._note(text)


class FolderTranslation:
    """The translation of a node's files into a folder; `advance` takes what has come since the last call.

    A call without new files costs next to nothing for each that is done. `note` gets each text once.
    """

    def __init__(self, patterns: Sequence[str], folder: Path, note: Callable[[str], None]) -> None:
        self._patterns, self._folder, self._note = patterns, folder, _Once(note)
        self._files: dict[str, FileTranslation] = {}
        self._results: dict[str, Translated] = {}
        self._done: dict[str, tuple[int, int]] = {}
        self._noted: dict[str, tuple[int, int]] | None = None
        self._binlogs: dict[str, bool] = {}
        self._listed: Sequence[Sequence[str]] = ()
        self._in_order: Sequence[Path] = ()
        self._there: tuple[Sequence[str], frozenset[str]] = ((), frozenset())
        self._from = 0
        self._certain = False

    def advance(self) -> list[Translated]:
        """Translate what has come; return what is translated of each file, in order. Raises MergeError."""
        self._begin()
        paths = self._paths()
        for number in range(self._from, len(paths)):
            path, later = paths[number], number + 1 < len(paths)
            before = self._results.get(path.name)
            if before is None or not before.ended:
                self._results[path.name] = self._translated(path, later)
            if self._from == number and self._results[path.name].ended:
                self._from += 1
        self._write_note()
        return [self._results[path.name] for path in paths]

    def _begin(self) -> None:
        """Read what other processes have done already."""
        if self._noted is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._noted = dict(_read_note(self._folder).files)
            self._done = dict(self._noted)

    def removed(self) -> list[Path]:
        """Return the files whose translation retention has removed: those before the first translation that is there.

        What somebody has removed besides is translated again.
        """
        self._begin()
        names = _names_in(self._folder)
        if names != self._there[0]:
            self._there = names, frozenset(filter(_NUMBERED.fullmatch, names))
        there = self._there[1]
        gone = self._done.keys() - there
        if not gone:
            return []
        self._from = 0
        self._done = {name: sizes for name, sizes in self._done.items() if name not in gone}
        self._results = {name: made for name, made in self._results.items() if name not in gone}
        if not there:
            return []
        first = min(map(_number, there))
        return [path for path in self._found() if path.name in gone and _number(path.name) < first]

    def _paths(self) -> Sequence[Path]:
        """Return the files in order. Raises NoFiles, ConfigError."""
        listed = self._matching()
        if not self._certain or listed != self._listed:
            self._in_order = self._ordered()
            self._listed, self._from = listed, 0
        return self._in_order

    def _matching(self) -> list[Sequence[str]]:
        """Return the names that may be files, for each pattern."""
        return [_names_in(Path(one)) if Path(one).is_dir() else expand(one) for one in self._patterns]

    def _found(self) -> set[Path]:
        """Return the files that are binlogs."""
        found = set[Path]()
        self._certain = True
        for pattern, names in zip(self._patterns, self._matching(), strict=True):
            folder = Path(pattern) if Path(pattern).is_dir() else Path()
            paths = [folder / name for name in names]
            found.update(path for path in paths if _NUMBERED.fullmatch(path.name) and self._is_binlog(path))
        return found

    def _is_binlog(self, path: Path) -> bool:
        known = self._binlogs.get(str(path))
        if known is None:
            known, certain = _is_binlog(path)
            if certain:
                self._binlogs[str(path)] = known
            self._certain = self._certain and certain
        return known

    def _ordered(self) -> list[Path]:
        found = self._found()
        if not found:
            raise NoFiles(
                f"no binlog file is there: {', '.join(self._patterns)}",
                remedy="give the files, the folder that holds them, or a pattern in quotes",
            )
        by_name: dict[str, Path] = {}
        for path in sorted(found):
            if path.parent.resolve() == self._folder.resolve():
                raise ConfigError("the translation cannot be written over the files", file=str(path))
            if path.name in by_name:
                raise ConfigError(
                    f"two files are called {path.name}: {by_name[path.name]} and {path}",
                    remedy="translate each node's files into a folder of its own",
                )
            by_name[path.name] = path
        series = {name.rpartition(".")[0] for name in by_name}
        if len(series) > 1:
            raise ConfigError(
                f"the files belong to {len(series)} series: {', '.join(sorted(series))}",
                remedy="translate each node's files into a folder of its own",
            )
        return [by_name[name] for name in sorted(by_name, key=_number)]

    def _translated(self, path: Path, has_later: bool) -> Translated:
        target, done = self._folder / path.name, self._done.get(path.name)
        size = path.stat().st_size
        if done is not None and (size, target.stat().st_size if target.exists() else -1) == done:
            return Translated(path.name, str(path), size, done[1], True)
        file = self._files.get(path.name)
        if file is None:
            file = self._files[path.name] = FileTranslation(path, target, self._note)
        try:
            file.advance()
            if has_later:
                file.check_whole()
                if not file.ended:
                    file.ends_by_crash()
        except MergeError:
            del self._files[path.name]  # what it has in memory may be ahead of what is on the disk: it begins again
            raise
        ended = file.ended or has_later
        if ended:
            self._files.pop(path.name)
            self._done[path.name] = (file.read, file.written)
        return Translated(
            path.name, str(path), file.read, file.written, ended, 0 if ended else max(0, size - file.read)
        )

    def _write_note(self) -> None:
        if self._noted != self._done:
            write_note(self._folder / NOTE_NAME, _KIND, Done(self._done))
            self._noted = dict(self._done)


def _number(name: str) -> int:
    return int(name.rpartition(".")[2])


def _names_in(folder: Path) -> list[str]:
    """Return the names in a folder, as they come. Raises MergeError."""
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in entries]
    except OSError as error:
        raise io_error(error, str(folder)) from error


def _is_binlog(path: Path) -> tuple[bool, bool]:
    """Return whether a file is a binlog, or one that was just begun, and whether that is certain.

    A data folder has other numbered files, too.
    """
    if not path.is_file():
        return False, False
    try:
        with path.open("rb") as file:
            magic = file.read(len(BINLOG_MAGIC))
    except OSError as error:
        raise io_error(error, str(path)) from error
    return BINLOG_MAGIC.startswith(magic) or magic == ENCRYPTED_MAGIC, len(magic) == len(BINLOG_MAGIC)


def _read_note(folder: Path) -> Done:
    try:
        return _KIND.parse((folder / NOTE_NAME).read_bytes())
    except FileNotFoundError:
        return Done({})
    except OSError as error:
        raise io_error(error, str(folder / NOTE_NAME)) from error
    except ValueError:
        return Done({})  # then all is compared again


def translating(source: Path, folder: Path, note: Callable[[str], None]) -> FolderTranslation:
    """Return the translation of a folder's files into another one."""
    return FolderTranslation([str(source)], folder, note)
