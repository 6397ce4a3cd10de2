"""What replays of every kind share: what is asked, what was done, and where a walk through the binlog stands."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from binlog_merge.errors import MergeError, ReplayStopped
from binlog_merge.filters.filter import Filter
from binlog_merge.log.reader import Begin, OrderedBy
from binlog_merge.log.rows import RowSelector
from binlog_merge.log.shapes import Shapes
from snapshot_store.tso import OrderKey, carries_time, tso_millis


@dataclass(frozen=True)
class ReplayOptions:
    """What a replay does: transactions `first_rank` to `last_rank` (None: from where the target stands, to the end).

    `batch` transactions share a commit. `skip` are ranks that are left out, and recorded at the target.
    `retry_seconds` is how long a lost connection is tried again. `workers` sessions apply rows beside each other;
    `keep_order`: they commit in the order of the log, but for what waits for a DDL. `rate` is how many transactions
    are applied a second, at most. `until_lag`: go on, as the merge publishes more, until what is applied was committed
    no more than so many seconds ago. `global_barrier`: every DDL holds up all tables. `system_zone` is the time zone
    SYSTEM of the nodes' servers, for targets that carry out DDL themselves; None where it is not known.
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


@dataclass
class ReplayResult:
    """What was done. Ranks count transactions; `rows` are by table and kind."""

    first_rank: int
    last_rank: int
    transactions: int = 0
    statements: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    selector: RowSelector = field(default_factory=lambda: RowSelector(None))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as `-o json` prints them."""
        return {
            "first_rank": self.first_rank,
            "last_rank": self.last_rank,
            "transactions": self.transactions,
            "rows": _by_table(self.selector.applied),
            "rows_left_out": _by_table(self.selector.filtered),
            "statements": self.statements,
            "statements_left_out": self.left_out,
            "skipped": self.skipped,
        }


def _by_table(counts: Counter[Any]) -> dict[str, dict[str, int]]:
    tables: dict[str, dict[str, int]] = {}
    for (schema, table, op), number in sorted(counts.items()):
        if number:
            tables.setdefault(f"{schema}.{table}", {})[op] = number
    return tables


def history_of(directory: Path) -> Shapes | None:
    """Return what tells the tables' shapes from the store that a merge left beside its output, None without one."""
    path = directory / "schema.duckdb"
    return Shapes(path) if path.exists() else None


class Walk:
    """Where a walk through the items stands."""

    def __init__(self, options: ReplayOptions) -> None:
        self.options = options
        self.begin: Begin | None = None
        self.key: OrderKey | None = None

    def over(self, item: Any) -> bool:
        """Take an item; tell whether the range ends before it."""
        if isinstance(item, Begin):
            if self.options.last_rank is not None and item.rank > self.options.last_rank:
                return True
            self.begin, self.key = item, None
        elif isinstance(item, OrderedBy):
            self.key = item.key
        return False

    @property
    def skipping(self) -> bool:
        """Tell whether the transaction is left out by order of the user."""
        return self.begin is not None and self.begin.rank in self.options.skip

    @property
    def gtid(self) -> str:
        """Return the transaction's GTID, or its rank where it has none."""
        if self.begin is None:
            return ""
        return self.begin.gtid if ":" in self.begin.gtid else f"transaction {self.begin.rank}"

    @property
    def tso(self) -> int | None:
        """Return the transaction's commit TSO, where it is known."""
        return None if self.key is None else self.key.commit_tso

    def ddl_tso(self) -> int | None:
        """Return the commit TSO of the DDL here, where it is known.

        Raises ReplayStopped where it is not, and may be one that the filter leaves out.
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
        """Give errors the place of the transaction."""
        try:
            yield
        except MergeError as error:
            if self.begin is None:
                raise
            error.message = f"{self.gtid}: {error.message}" if self.gtid not in error.message else error.message
            raise error.located(file=self.begin.file, position=self.begin.position, order_key=self.key) from None


def text_of(sql: bytes) -> str:
    """Return a statement as text that can be shown."""
    return sql.decode("utf-8", "backslashreplace")
