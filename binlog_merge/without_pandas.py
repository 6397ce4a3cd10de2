"""Keeps pandas out of processes that do not need it: pyarrow imports it with its first value, for half a second."""

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType
from typing import Final


class _Refusing(MetaPathFinder):
    """Finds no pandas. An entry None in sys.modules would not do: DuckDB takes it for the module."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        """Raise ModuleNotFoundError for pandas; leave the others to those who find them."""
        if name == "pandas":
            raise ModuleNotFoundError("pandas is kept out of this process", name=name)


_REFUSING: Final = _Refusing()


def refuse() -> None:
    """Let pandas not be imported from now on. What tries it once, as pyarrow does, then goes without it for good."""
    if _REFUSING not in sys.meta_path:
        sys.meta_path.insert(0, _REFUSING)


def allow() -> None:
    """Let pandas be imported again, by those who have not tried."""
    if _REFUSING in sys.meta_path:
        sys.meta_path.remove(_REFUSING)
