"""Files of settings that are read once, for this process and for those that it starts: later edits touch none of them.

    with holding():
        hold([path])            what `read` returns from now on, here and where `environment` and `descriptors` arrive
        read(path)              what was held, else what the file has

The bytes stand in files without a name, which only descriptors lead to: a configuration may hold passwords, which no
command line, environment or folder should show.
"""

import json
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

VARIABLE: Final = "BINLOG_MERGE_HELD"
"""Maps absolute paths to inherited descriptors, as JSON."""


def hold(paths: Iterable[str | Path]) -> None:
    """Read files now, so that `read` returns the same ever after. One that cannot be read is left to `read`."""
    for path in map(_absolute, paths):
        if path not in _HELD:
            try:
                data = Path(path).read_bytes()
            except OSError:
                continue
            _HELD[path] = _kept(data)


def read(path: str | Path, most: int = -1) -> bytes:
    """Return a file's bytes, those that were held if it is; at most `most`, if that is given. Raises OSError."""
    descriptor = _HELD.get(_absolute(path))
    if descriptor is None:
        with Path(path).open("rb") as file:
            return file.read(most)
    size = os.fstat(descriptor).st_size
    return os.pread(descriptor, size if most < 0 else min(size, most), 0)


@contextmanager
def holding() -> Iterator[None]:
    """Let go, at the end of the block, of what is held within."""
    before = set(_HELD)
    try:
        yield
    finally:
        for path in set(_HELD) - before:
            os.close(_HELD.pop(path))


def environment() -> dict[str, str]:
    """Return what a process that inherits `descriptors` needs in its environment."""
    return {VARIABLE: json.dumps(_HELD)}


def descriptors() -> tuple[int, ...]:
    """Return the descriptors of all that is held."""
    return tuple(_HELD.values())


def _absolute(path: str | Path) -> str:
    return str(Path(path).absolute())


def _kept(data: bytes) -> int:
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        return os.dup(file.fileno())


def _inherited() -> dict[str, int]:
    held: dict[str, int] = json.loads(os.environ.pop(VARIABLE, "{}"))
    for descriptor in held.values():
        os.set_inheritable(descriptor, False)
    return held


_HELD: Final = _inherited()
