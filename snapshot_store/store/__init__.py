"""The schema store: histories in a DuckDB file. `Store` is loaded when it is first used, and DuckDB with it."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from snapshot_store.store.db import Store

__all__ = ["Store"]


def __getattr__(name: str) -> Any:
    if name != "Store":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from snapshot_store.store.db import Store

    return Store
