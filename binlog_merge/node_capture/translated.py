"""The files of a MariaDB: kept as they are, and beside them what a MySQL would have written, which is what is merged.

    captured/dn-1/.mariadb/mysql-bin.000001 …      as on the server
    captured/dn-1/mysql-bin.000001 …               their translation, as they grow

What retention removes of the translation goes from the server's files, too.
"""

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

_EVERY: Final = 0.1


class Translation(Protocol):
    """The translation of a folder's files into another folder; `removed` are files whose translation is gone."""

    def advance(self) -> Sequence[Any]: ...

    def removed(self) -> Sequence[Path]: ...


Translating = Callable[[Path, Path, Callable[[str], None]], Translation]
"""Makes the translation of a folder into another one; the last argument gets what is left out or changed, each once."""


class AsItIs:
    """What is captured of a node whose files need no translation."""

    def tick(self) -> None:
        """Do nothing."""

    def advance(self) -> None:
        """Do nothing."""


class Translated(AsItIs):
    """The translation of what is captured of a node."""

    def __init__(self, made: Translation, raw: Path) -> None:
        self._made, self._raw, self._last = made, raw, 0.0

    @classmethod
    def of(cls, raw: Path, folder: Path, translating: Translating, say: Callable[[str], None]) -> "Translated":
        """Return the translation of a server's files into `folder`."""
        return cls(translating(raw, folder, say), raw)

    def tick(self) -> None:
        """Translate what has come, but not all the time. Raises MergeError."""
        if time.monotonic() - self._last >= _EVERY:
            self.advance()

    def advance(self) -> None:
        """Translate what has come. Raises MergeError."""
        with os.scandir(self._raw) as entries:
            if all(entry.name.startswith(".") for entry in entries):
                return
        for path in self._made.removed():
            path.unlink(missing_ok=True)
        self._made.advance()
        self._last = time.monotonic()
