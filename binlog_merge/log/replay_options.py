"""What all kinds of replay share: options, result, and the current transaction."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from binlog_merge.binlog.temporal import STOP, ZeroDates
from binlog_merge.errors import MergeError, ReplayStopped
from binlog_merge.filters.filter import Filter
from binlog_merge.log.reader import Begin, OrderedBy
from binlog_merge.log.rows import RowSelector
from binlog_merge.log.shapes import Shapes
from snapshot_store.tso import OrderKey, carries_time, tso_millis


@dataclass(frozen=True)
class ReplayOptions:
    """The options of a replay of transactions `first_rank` to `last_rank`.

    None means: from the position of the target, and to the end of the log.

    `batch` transactions share a commit. `skip` are ranks that are skipped, and recorded as such at the target. A lost
    connection is retried for `retry_seconds`. `workers` sessions apply rows in parallel; with `keep_order` they commit
    in the order of the log, except for what waits for a DDL. `rate` is the largest number of transactions applied a
    second. With `until_lag` the replay follows the merge until the last transaction applied was committed at most so
    many seconds ago. With `global_barrier` a DDL blocks all tables. `system_zone` is the time zone SYSTEM of the nodes'
    servers, for targets that execute DDL themselves; None if not known. With `overwrite` a row becomes what its event
    says whatever the target has there: for tables whose rows were read while the log went on (`bootstrap`). Rows of
    the tables `without` are left out. `zero_dates` says what becomes of dates that no calendar has, in targets whose
    dates have types.
    """

    first_rank: int | None = None
    last_rank: int | None = None
    filter: Filter | None = None
    batch: int = 100
    skip: frozenset[int] = frozenset()
    retry_seconds: float = 60.0
    workers: int = 1
    keep_order: bool = True
    rate: float | None = None
    until_lag: float | None = None
    global_barrier: bool = False
    system_zone: str | None = None
    overwrite: bool = False
    without: frozenset[tuple[str, str]] = frozenset()
    zero_dates: ZeroDates = STOP


@dataclass
class ReplayResult:
    """The result of a replay. `left_out` are statements that the filter ignored, `skipped` GTIDs that `skip` names.

    `snapshots` are names of snapshots of the target that were made, `removed` of those that were removed; None: there
    was none to make.
    """

    first_rank: int
    last_rank: int
    transactions: int = 0
    statements: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    selector: RowSelector = field(default_factory=lambda: RowSelector(None))
    snapshots: list[str] | None = None
    removed: list[str] = field(default_factory=list)

    def go_on(self, other: "ReplayResult") -> None:
        """Add the result of a replay that went on where this one ended."""
        self.last_rank = max(self.last_rank, other.last_rank)
        self.transactions += other.transactions
        self.statements += other.statements
        self.left_out += [text for text in other.left_out if text not in self.left_out]
        self.skipped += other.skipped
        self.selector.applied.update(other.selector.applied)
        self.selector.filtered.update(other.selector.filtered)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as `-o json` prints them."""
        made = {} if self.snapshots is None else {"snapshots": self.snapshots, "snapshots_removed": self.removed}
        return {
            "first_rank": self.first_rank,
            "last_rank": self.last_rank,
            "transactions": self.transactions,
            "rows": _by_table(self.selector.applied),
            "rows_left_out": _by_table(self.selector.filtered),
            "statements": self.statements,
            "statements_left_out": self.left_out,
            "skipped": self.skipped,
            **made,
        }


def _by_table(counts: Counter[Any]) -> dict[str, dict[str, int]]:
    tables: dict[str, dict[str, int]] = {}
    for (schema, table, op), number in sorted(counts.items()):
        if number:
            tables.setdefault(f"{schema}.{table}", {})[op] = number
    return tables


def history_of(directory: Path) -> Shapes | None:
    """Return the schema history in the store of a merge's output, None if the output has no store."""
    path = directory / "schema.duckdb"
    return Shapes(path) if path.exists() else None


class Walk:
    """The current transaction of a reader of items."""

    def __init__(self, options: ReplayOptions) -> None:
        self.options = options
        self.begin: Begin | None = None
        self.key: OrderKey | None = None

    def over(self, item: Any) -> bool:
        """Take an item; return whether it is after the last transaction of the range."""
        if isinstance(item, Begin):
            if self.options.last_rank is not None and item.rank > self.options.last_rank:
                return True
            self.begin, self.key = item, None
        elif isinstance(item, OrderedBy):
            self.key = item.key
        return False

    @property
    def skipping(self) -> bool:
        """Return whether the user has asked to skip the current transaction."""
        return self.begin is not None and self.begin.rank in self.options.skip

    @property
    def gtid(self) -> str:
        """Return the transaction's GTID, or its rank where it has none."""
        if self.begin is None:
            return ""
        return self.begin.gtid if ":" in self.begin.gtid else f"transaction {self.begin.rank}"

    @property
    def tso(self) -> int | None:
        """Return the transaction's commit TSO, None if not known."""
        return None if self.key is None else self.key.commit_tso

    def ddl_tso(self) -> int | None:
        """Return the commit TSO of the current DDL, None if not known.

        Raises ReplayStopped if it is not known and may be one that the filter ignores.
        """
        chosen = self.options.filter
        if self.key is None and chosen is not None and self.begin is not None:
            millis = self.begin.commit_us // 1000
            if any(tso_millis(tso) == millis or not carries_time(tso) for tso in chosen.settings.ignore_commit_tso):
                raise ReplayStopped(
                    "the filter leaves out a commit TSO that may be this DDL's; the output does not say",
                    remedy="leave the TSO out of the filter, and give --skip for what is to be left out",
                )
        return self.tso

    @contextmanager
    def blamed(self) -> Iterator[None]:
        """Add the transaction's GTID, position and order key to errors raised in this block."""
        try:
            yield
        except MergeError as error:
            if self.begin is None:
                raise
            error.message = f"{self.gtid}: {error.message}" if self.gtid not in error.message else error.message
            raise error.located(file=self.begin.file, position=self.begin.position, order_key=self.key) from None
