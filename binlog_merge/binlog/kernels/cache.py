"""The cache of compiled kernels on disk, with checksums.

numba trusts the files of its cache: a file that a power cut left half-written, or that a disk changed, would cause an
exception deep in the loader, or be wrong machine code. Here each file begins with the SHA-256 of the rest; a file that
does not match is removed, and the kernel is compiled again. If the cache cannot be written, kernels are compiled at
every start.

numba looks for a kernel by the path and the time of its source file. Here the cache's folder says which sources are
meant, so that another installation of the same ones finds them: an executor that has unpacked an archive, say.

`IndexDataCacheFile` is an internal class of numba, which tests check; only files under our folder are handled this way.
"""

import atexit
import hashlib
import logging
import os
import pickle
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import numba
from numba.core import caching

_DIGEST: Final = hashlib.sha256().digest_size
_LOG: Final = logging.getLogger("binlog_merge")
_Plain: Any = caching.IndexDataCacheFile


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


def use(folder: Path) -> None:
    """Cache compiled kernels in `folder` or, if it is not writable, in a folder of this user in /tmp.

    The folder's name stands for the kernels' sources.
    """
    place = folder if _is_writable(folder) else _spare(folder)
    numba.config.CACHE_DIR = str(place)

    def file(cache_path: str, filename_base: str, source_stamp: Any) -> Any:
        if not Path(cache_path).is_relative_to(place):
            return _Plain(cache_path=cache_path, filename_base=filename_base, source_stamp=source_stamp)
        if Path(cache_path).name.rpartition("_")[0] == Path(__file__).parent.name:
            return _CheckedFile(str(place), filename_base, place.name)
        return _CheckedFile(cache_path, filename_base, source_stamp)  # a kernel of another folder

    caching.IndexDataCacheFile = file


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
