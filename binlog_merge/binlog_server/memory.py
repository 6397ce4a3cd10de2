"""Gives memory back to the system that clients have used and left: the C library keeps it otherwise, in pieces that
other threads do not find.
"""

import ctypes
import time
from typing import Any, Final

_EVERY: Final = 2.0


def take_of_system() -> None:
    """Let Arrow have its memory of the C library: its own allocator gives back nothing that ended threads have used."""
    import pyarrow as pa

    pa.set_memory_pool(pa.system_memory_pool())


class Memory:
    """Knows when there is something to give back. `left` is for any thread, `give_back` for the server's."""

    def __init__(self) -> None:
        self._trim: Any = getattr(ctypes.CDLL(None), "malloc_trim", None)  # there is none but in glibc
        self._left = False
        self._last = 0.0

    def left(self) -> None:
        """Note that a client has left."""
        self._left = True

    def give_back(self) -> None:
        """Give back what clients have left since the last time, which is not just now."""
        if self._trim is not None and self._left and time.monotonic() - self._last >= _EVERY:
            self._left = False
            self._trim(0)
            self._last = time.monotonic()
