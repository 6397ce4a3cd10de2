# ruff: noqa: N818 (the names say what happened; "Error" would add nothing)
"""What a store or a history refuses to answer, each with a class of its own so that a program can tell them apart."""

from snapshot_store.errors import SnapshotStoreError, StoreError


class StoreMissing(StoreError):
    """There is no store at this path."""


class StoreDamaged(StoreError):
    """The file is there and is no store, or no longer a whole one."""


class StoreUnavailable(StoreError):
    """DuckDB cannot open, read or write the file, and the file is not at fault."""


class StoreBusy(StoreError):
    """Another process has the store open for longer than one is willing to wait."""


class StoreTooNew(StoreError):
    """The store was written by a newer program."""


class QueryFailed(StoreError):
    """A question in SQL that DuckDB cannot answer."""


class BeforeBase(SnapshotStoreError):
    """A moment is asked for that lies before everything the history knows: nothing is guessed."""


class AmbiguousMoment(SnapshotStoreError):
    """A wall-clock time is asked for, and the commit TSOs carry none."""
