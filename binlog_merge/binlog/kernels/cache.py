"""The cache of compiled kernels on disk, with checksums.

numba trusts the files of its cache: a file that a power cut left half-written, or that a disk changed, would cause an
exception deep in the loader, or be wrong machine code. Here each file begins with the SHA-256 of the rest; a file that
does not match is removed, and the kernel is compiled again. If the cache cannot be written, kernels are compiled at
every start.

numba looks for a kernel by the path and the time of its source file. Here the cache's folder says which sources are
meant, so that another installation of the same ones finds them: an executor that has unpacked an archive, say. A
mark in the folder says that all kernels of a kind are there for this processor; a folder with it serves also where it
cannot be written, as in the image of a container.

Before it looks for a kernel, numba prepares all that it needs to compile one, which takes longer than to load every
kernel of a merge. Here that is left for a kernel that is not there.

`IndexDataCacheFile` and `FunctionCache` are internal classes of numba, which tests check; only files under our folder
are handled this way.
"""

import atexit
import hashlib
import logging
import os
import pickle
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import numba
from llvmlite import binding
from numba.core import caching, event
from numba.core.runtime import rtsys

_DIGEST: Final = hashlib.sha256().digest_size
_LOG: Final = logging.getLogger("binlog_merge")
_SLOW: Final = 1.0
"""Seconds of compiling of which nothing need be said."""
_Plain: Any = caching.IndexDataCacheFile
_prepare_and_load: Any = caching.FunctionCache.load_overload


class _CheckedFile(caching.IndexDataCacheFile):
    """The index and the data files of a kernel, with checksums."""

    def _load_index(self) -> dict[Any, str]:
        data = self._sound(self._index_path)
        if data is None:
            return {}
        stamp, overloads = pickle.loads(data)
        return overloads if stamp == (self._version, self._source_stamp) else {}

    def _save_index(self, overloads: dict[Any, str]) -> None:
        self._write(self._index_path, pickle.dumps(((self._version, self._source_stamp), overloads)))

    def _load_data(self, name: str) -> Any:
        data = self._sound(self._data_path(name))
        if data is None:
            raise FileNotFoundError(name)  # which numba takes for a kernel that is not there yet
        return pickle.loads(data)

    def _save_data(self, name: str, data: Any) -> None:
        self._write(self._data_path(name), self._dump(data))

    def _write(self, path: str, data: bytes) -> None:
        try:
            with self._open_for_write(path) as file:
                file.write(hashlib.sha256(data).digest() + data)
        except OSError as error:
            _LOG.warning("a compiled kernel cannot be kept: %s: %s", path, error.strerror)

    def _sound(self, path: str) -> bytes | None:
        try:
            data = Path(path).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            _LOG.warning("a compiled kernel cannot be read: %s: %s", path, error.strerror)
            return None
        if hashlib.sha256(data[_DIGEST:]).digest() == data[:_DIGEST]:
            return data[_DIGEST:]
        _LOG.warning("a compiled kernel is damaged and is compiled anew: %s", path)
        with suppress(OSError):
            Path(path).unlink()
        return None


def _load(kernels: Any, signature: Any, target: Any) -> Any:
    """Return a function's kernel for a signature from its cache; None if it is not there: numba can compile then."""
    if isinstance(kernels._cache_file, _CheckedFile):
        rtsys.initialize(target)
        with kernels._guard_against_spurious_io_errors():
            if (found := kernels._load_overload(signature, target)) is not None:
                return found
    return _prepare_and_load(kernels, signature, target)


def use(folder: Path) -> None:
    """Cache compiled kernels in `folder` or, if it is not writable, in a folder of this user in /tmp.

    The folder's name stands for the kernels' sources.
    """
    place = folder if _mark(folder).exists() or _is_writable(folder) else _spare(folder)
    numba.config.CACHE_DIR = str(place)

    def file(cache_path: str, filename_base: str, source_stamp: Any) -> Any:
        if not Path(cache_path).is_relative_to(place):
            return _Plain(cache_path=cache_path, filename_base=filename_base, source_stamp=source_stamp)
        if Path(cache_path).name.rpartition("_")[0] == Path(__file__).parent.name:
            return _CheckedFile(str(place), filename_base, place.name)
        return _CheckedFile(cache_path, filename_base, source_stamp)  # a kernel of another folder

    caching.IndexDataCacheFile = file
    caching.FunctionCache.load_overload = _load


def folder() -> Path:
    """Return the folder in which compiled kernels are kept."""
    return Path(str(numba.config.CACHE_DIR))


def is_filled() -> bool:
    """Return whether all kernels of a merge have been compiled here for this processor."""
    return _mark(folder()).exists()


def note_filled() -> None:
    """Remember that all kernels of a merge are there; that a folder cannot be written has been said already."""
    with suppress(OSError):
        _mark(folder()).touch()


def _mark(folder: Path) -> Path:
    """Return the mark's path. numba compiles for a processor, by its name and features, and reads no other's."""
    name, features = numba.config.CPU_NAME, numba.config.CPU_FEATURES
    if name is None:
        name, features = binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten()
    return folder / f"filled-{hashlib.sha256(f'{name} {features}'.encode()).hexdigest()[:16]}"


class Teller(event.Listener):
    """Says that kernels are being compiled as soon as that has taken a second: without a thread, as it may fork."""

    def __init__(self, tell: Callable[[], None], slow: float = _SLOW) -> None:
        self._tell: Callable[[], None] | None = tell
        self._slow = slow
        self._depth, self._begun, self._seconds = 0, 0.0, 0.0

    def on_start(self, event: Any) -> None:
        """Take note that a function begins to compile; others begin within it."""
        now = time.monotonic()
        if self._depth == 0:
            self._begun = now
        self._depth += 1
        if self._tell is not None and self._seconds + now - self._begun > self._slow:
            tell, self._tell = self._tell, None
            tell()

    def on_end(self, event: Any) -> None:
        """Take note that a function is compiled."""
        self._depth -= 1
        if self._depth == 0:
            self._seconds += time.monotonic() - self._begun


def _say_so() -> None:
    level = logging.WARNING if sys.stderr is not None and sys.stderr.isatty() else logging.INFO  # for who waits
    _LOG.log(level, "compiling kernels for this machine; the next time they are there")


TELLER: Final = Teller(_say_so)


def _is_writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


def _spare(folder: Path) -> Path:
    """Return a folder in /tmp that nobody else can write to, as its contents are executed."""
    spare = Path(tempfile.gettempdir()) / f"binlog-merge-kernels-{os.getuid()}"
    with suppress(OSError):
        spare.mkdir(mode=0o700)
    try:
        status = spare.lstat()
        ours = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o022
    except OSError:
        ours = False
    if not ours or not _is_writable(spare / folder.name):
        spare = Path(tempfile.mkdtemp(prefix="binlog-merge-kernels-"))
        atexit.register(shutil.rmtree, spare, ignore_errors=True)
    remedy = "set NUMBA_CACHE_DIR to a folder that can be written"
    _LOG.warning("compiled kernels cannot be kept in %s, so they are in %s: %s", folder, spare, remedy)
    return spare / folder.name
