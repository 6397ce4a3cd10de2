"""Translates errors of the schema store (`snapshot_store`) into errors of a merge, which have exit codes."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from binlog_merge.errors import (
    BeforeBase,
    ConfigError,
    DdlNotUnderstoodError,
    IoError,
    MergeError,
    SchemaConflict,
    ServerRefused,
    StoreInUse,
    StoreTooNew,
    StoreUnusable,
    UnknownTable,
)

_DAMAGED = (
    "put the store back from a copy, as it was at the end of the last merge; or merge again from the start into "
    "another directory, and say again by `schema set` what had been said there"
)
_IN_THE_MESSAGE = ""  # the message already contains the remedy


@contextmanager
def as_merge_errors(path: Path | str | None) -> Iterator[None]:
    """Raise errors of `snapshot_store` in this block as errors of a merge; `path` is the store's file."""
    from snapshot_store import errors
    from snapshot_store.introspect import ServerRefused as Refused

    table: tuple[tuple[type[Exception], type[MergeError], str | None], ...] = (
        (errors.StoreBusy, StoreInUse, None),
        (errors.StoreTooNew, StoreTooNew, None),
        (errors.QueryFailed, ConfigError, "ask over the views that `binlog-merge schema sql --help` lists"),
        (errors.BeforeBase, BeforeBase, _IN_THE_MESSAGE),
        (errors.AmbiguousMoment, ConfigError, "give a commit TSO; `schema history` shows them"),
        (errors.StoreMissing, StoreUnusable, _IN_THE_MESSAGE),
        (errors.StoreDamaged, StoreUnusable, _DAMAGED),
        (errors.StoreIoFailed, IoError, None),
        (errors.StoreUnavailable, StoreUnusable, "check the path, the permissions there and free space"),
        (errors.StoreError, StoreUnusable, _IN_THE_MESSAGE),
        (errors.UnknownTable, UnknownTable, None),
        (errors.UnknownSchema, UnknownTable, _IN_THE_MESSAGE),
        (errors.HistoryConflict, SchemaConflict, _IN_THE_MESSAGE),
        (errors.AmbiguousRoute, ConfigError, "correct the routes of the configuration"),
        (Refused, ServerRefused, _IN_THE_MESSAGE),
        (errors.SnapshotStoreError, DdlNotUnderstoodError, _IN_THE_MESSAGE),
    )
    try:
        yield
    except errors.DdlNotUnderstood as error:
        raise DdlNotUnderstoodError(
            f"{error.reason}; statement: {errors.shorten(error.sql)}",
            file=None if path is None else str(path),
            remedy="give the table as SHOW CREATE TABLE prints it, its database by USE or before its name",
        ) from error
    except errors.SnapshotStoreError as error:
        for kind, ours, remedy in table:
            if isinstance(error, kind):
                raise ours(str(error), file=None if path is None else str(path), remedy=remedy) from error
        raise
