# ruff: noqa: N818 (the names say what happened; "Error" would add nothing)
"""The errors of schemas, DDL, stores and histories: a class for each cause that a program may want to distinguish.

The message of each states what happened and, where possible, what to do. None is ever logged and then ignored.
"""

_SHOWN = 200


def shorten(sql: str) -> str:
    """Return a statement on one line, shortened to fit into an error message."""
    line = " ".join(sql.split())
    return line if len(line) <= _SHOWN else line[: _SHOWN - 1] + "…"


_REMEDIES = (
    "remedies: give the table's definition from here on with `schema set`, import a snapshot introspected from the "
    "server after it, or choose the policy opaque, which takes the shape from the table maps that follow"
)


class SnapshotStoreError(Exception):
    """The base class of all errors of this package."""


class DdlNotUnderstood(SnapshotStoreError):
    """A statement whose effect on table definitions is not known for certain. It is never guessed."""

    def __init__(self, sql: str, reason: str) -> None:
        super().__init__(f"DDL not understood: {reason}; statement: {shorten(sql)}; {_REMEDIES}")
        self.sql = sql
        self.reason = reason

    def __reduce__(self) -> tuple[type["DdlNotUnderstood"], tuple[str, str]]:
        return (type(self), (self.sql, self.reason))


class UnsupportedType(SnapshotStoreError):
    """A column type that is not known here, or not to whoever was asked for its form, as the message says."""

    def __init__(self, name: str, form: str = "") -> None:
        super().__init__(f"type {name} has no form {form} that is known here" if form else f"type {name} is not known")
        self.name, self.form = name, form

    def __reduce__(self) -> tuple[type["UnsupportedType"], tuple[str, str]]:
        return (type(self), (self.name, self.form))


class DdlRejected(SnapshotStoreError):
    """A statement that is understood, but that any server would refuse. Nothing has changed."""


class UnknownSchema(SnapshotStoreError):
    """A statement names a schema that the catalog does not have."""


class UnknownTable(SnapshotStoreError):
    """A statement or a lookup names a table that does not exist at that time; `name` is its (schema, table)."""

    def __init__(self, message: str, name: tuple[str, str] | None = None) -> None:
        super().__init__(message)
        self.name = name


class UnknownColumn(SnapshotStoreError):
    """A statement names a column that its table does not have."""


class UnknownIndex(SnapshotStoreError):
    """A statement names an index, foreign key or check that its table does not have."""


class AlreadyExists(SnapshotStoreError):
    """A statement creates something that already exists, without IF NOT EXISTS."""


class HistoryConflict(SnapshotStoreError):
    """Two different definitions of the same table at the same order key."""


class AmbiguousRoute(SnapshotStoreError):
    """More than one route of the same rank matches a table, and they disagree."""


class StoreError(SnapshotStoreError):
    """The store's file cannot be used: locked by another process, of a newer version, or damaged."""


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
