# ruff: noqa: N818 (the names say what happened; "Error" would add nothing)
"""What can go wrong with schemas.

Every error says what, where it can, and what to do; nothing here is ever logged and passed over.
"""

_SHOWN = 200


def shorten(sql: str) -> str:
    """Return a statement on one line, cut to what a person reads in an error."""
    line = " ".join(sql.split())
    return line if len(line) <= _SHOWN else line[: _SHOWN - 1] + "…"


_REMEDIES = (
    "remedies: give the table's definition from here on with `schema set`, import a snapshot introspected from the "
    "server after it, or choose the policy opaque, which takes the shape from the table maps that follow"
)


class SnapshotStoreError(Exception):
    """Anything the schema room refuses to do."""


class DdlNotUnderstood(SnapshotStoreError):
    """A statement whose effect on table shapes is not known for certain; never guessed at."""

    def __init__(self, sql: str, reason: str) -> None:
        super().__init__(f"DDL not understood: {reason}; statement: {shorten(sql)}; {_REMEDIES}")
        self.sql = sql
        self.reason = reason

    def __reduce__(self) -> tuple[type["DdlNotUnderstood"], tuple[str, str]]:
        return (type(self), (self.sql, self.reason))


class DdlRejected(SnapshotStoreError):
    """A statement that is understood and that no server would carry out: nothing has changed."""


class UnknownSchema(SnapshotStoreError):
    """A statement names a schema that the catalog does not have."""


class UnknownTable(SnapshotStoreError):
    """A statement or a lookup names a table that does not exist at that moment."""


class UnknownColumn(SnapshotStoreError):
    """A statement names a column that its table does not have."""


class UnknownIndex(SnapshotStoreError):
    """A statement names an index, foreign key or check that its table does not have."""


class AlreadyExists(SnapshotStoreError):
    """A statement creates something that is already there, and does not say IF NOT EXISTS."""


class HistoryConflict(SnapshotStoreError):
    """Two different definitions claim the same table at the same order key."""


class AmbiguousRoute(SnapshotStoreError):
    """More than one route of the same rank matches a table, and they disagree."""


class StoreError(SnapshotStoreError):
    """The store's file cannot be used: locked by another process, of a newer version, or damaged."""
