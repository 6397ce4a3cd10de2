"""Numba kernels over byte buffers: events, checksums, row images. Arrays in, arrays out, no objects.

Every buffer is a writable, C-contiguous uint8 array, so that each kernel compiles once. Loads and stores are not
bounds-checked: a kernel validates every length against the event's end before it reads. With NUMBA_BOUNDSCHECK=1 they
are checked, by separately cached kernels; CI runs mutated input in this way. Each kernel has a plain-Python twin in
`tests/`.

Compiled kernels are cached on disk, in a folder named after the hash of all kernel sources: numba itself checks only
the file of the outermost function, and would keep using older versions of functions inlined from other files.
"""

import hashlib
import os
from pathlib import Path

import numba
from numba.core import event

from binlog_merge.binlog.kernels import cache


def _cache_folder() -> Path:
    """Return the cache folder of exactly these kernel sources: under NUMBA_CACHE_DIR, else in the user's cache."""
    digest = hashlib.sha256(f"{numba.__version__} {bool(numba.config.BOUNDSCHECK)}".encode())
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.read_bytes())
    user = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "binlog-merge" / "kernels"
    return Path(os.environ.get("NUMBA_CACHE_DIR") or user).absolute() / digest.hexdigest()[:16]


try:
    cache.use(_cache_folder())
except RuntimeError:  # a user without a home
    cache.use(Path(os.devnull) / "no-home")

event.register("numba:compile", cache.TELLER)
