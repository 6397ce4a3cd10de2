# ruff: noqa: N818 (the names say what happened; "Error" would add nothing)
"""The errors of stores and histories, one class for each cause that a program may want to distinguish."""

from snapshot_store.errors import SnapshotStoreError, StoreError


class StoreMissing(StoreError):
    """There is no store at this path."""


class StoreDamaged(StoreError):
    """The file exists but is not a store, or is damaged."""


class StoreUnavailable(StoreError):
    """DuckDB cannot open, read or write the file, for a reason other than its content."""


class StoreIoFailed(StoreError):
    """The machine cannot read or write the file now: its disk is full, or descriptors are used up. It may pass."""


class StoreBusy(StoreError):
    """Another process kept the store open for longer than the caller would wait."""


class StoreTooNew(StoreError):
    """The store was written by a newer program."""


class QueryFailed(StoreError):
    """A query that DuckDB cannot run."""


class BeforeBase(SnapshotStoreError):
    """A lookup at a time before the history begins. Nothing is guessed."""


class AmbiguousMoment(SnapshotStoreError):
    """A lookup by wall-clock time in a history whose commit TSOs carry no time."""
