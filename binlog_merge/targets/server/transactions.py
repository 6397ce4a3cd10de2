"""The transactions of a merged binlog as a replay applies them: filtered, with DDL planned, and counted.

A transaction is read completely before it is yielded. A large one is yielded after its beginning, and the consumer
reads the `rest`.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from binlog_merge.binlog.rows import RowsEvent
from binlog_merge.errors import ReplayStopped
from binlog_merge.filters.expressions import Op
from binlog_merge.log.log import Log
from binlog_merge.log.rank_set import RankSet
from binlog_merge.log.reader import Begin, End, Item, Rows
from binlog_merge.log.replay_options import ReplayOptions, Walk
from binlog_merge.log.rows import RowSelector
from binlog_merge.log.statement import Statement
from binlog_merge.targets.server.keys import Claims, TableName, table_name
from binlog_merge.targets.server.mysql import passes
from binlog_merge.targets.server.statements import Plan, plan_statement
from snapshot_store.ddl.effects import Name
from snapshot_store.tso import OrderKey

LARGE: Final = 16 << 20
"""A transaction of more bytes than this is not held in memory."""

Part = tuple[Rows, RowsEvent] | tuple[Statement, Plan]
Counts = Counter[tuple[str, str, Op]]


@dataclass(eq=False, slots=True)
class Transaction:
    """The parts of a transaction to apply. `size` is in bytes; `tables` are those with rows in it."""

    begin: Begin
    gtid: str
    key: OrderKey | None = None
    parts: list[Part] = field(default_factory=list)
    rest: Iterator[Part] | None = None
    size: int = 0
    tables: set[TableName] = field(default_factory=set)
    skipped: bool = False
    claims: Claims | None = None
    applied: Counts = field(default_factory=Counter)
    filtered: Counts = field(default_factory=Counter)
    left_out: list[str] = field(default_factory=list)

    @property
    def rank(self) -> int:
        """Return the transaction's rank, counted from 1."""
        return self.begin.rank

    @property
    def plans(self) -> list[tuple[Statement, Plan]]:
        """Return the statements to execute, with their plans."""
        return [part for part in self.parts if isinstance(part[1], Plan) and part[1].steps]

    @property
    def statements(self) -> list[str]:
        """Return the texts of the statements to execute."""
        return [step.shown for _, plan in self.plans for step in plan.steps]

    @property
    def statement_tables(self) -> tuple[Name, ...]:
        """Return the tables of its statements."""
        return tuple(dict.fromkeys(table for _, plan in self.plans for table in plan.tables))


def transactions(binlog: Log, options: ReplayOptions, selector: RowSelector, done: RankSet) -> Iterator[Transaction]:
    """Yield the transactions of the range that are not `done`. Raises as reading, filters and statements do.

    The `rest` of a transaction must be used up before the next one is asked for.
    """
    walk, current = Walk(options), None
    items = binlog.items(done.low + 1)
    for item in items:
        if walk.over(item):
            return
        if isinstance(item, Begin):
            current = Transaction(item, walk.gtid, skipped=walk.skipping)
            selector.applied, selector.filtered = current.applied, current.filtered
        if current is None or current.rank in done:
            continue
        with walk.blamed():
            current.parts += _parts(item, current, walk, selector)
        if isinstance(item, End):
            yield current
            current = None
        elif current.size > LARGE and not current.plans:
            current.rest = _rest(items, current, walk, selector)
            yield current
            current = None


def _rest(items: Iterator[Item], current: Transaction, walk: Walk, selector: RowSelector) -> Iterator[Part]:
    for item in items:
        with walk.blamed():
            for part in _parts(item, current, walk, selector):
                if isinstance(part[1], Plan):
                    raise ReplayStopped(f"{walk.gtid}: a statement after {LARGE} bytes of rows")
                yield part
        if isinstance(item, End):
            return


def _parts(item: Any, current: Transaction, walk: Walk, selector: RowSelector) -> Iterator[Part]:
    """Yield the parts of an item that are to be applied."""
    current.key = walk.key
    if walk.skipping:
        return
    if isinstance(item, Rows):
        if (item.table.schema, item.table.table) in walk.options.without:
            return
        event = selector.select(item, walk.key)
        if event is not None:
            current.size += len(event.rows) + 200
            current.tables.add(table_name(item.table.schema, item.table.table))
            yield item, event
    elif isinstance(item, Statement):
        plan = plan_statement(item, selector.filter, walk.ddl_tso())
        current.left_out += plan.left_out
        yield item, plan


class Failed(Exception):  # noqa: N818
    """A transaction could not be applied; all before it are applied, and those in parallel have ended.

    `transaction` is None if not known; `row` is the refused row as text, "" if not known.
    """

    def __init__(self, error: Exception, transaction: Transaction | None, row: str = "") -> None:
        super().__init__(str(error))
        self.error = error
        self.transaction = transaction
        self.row = row

    @property
    def text(self) -> str:
        """Return the target's message, and the row and statements that it is about."""
        statements = [] if self.transaction is None else self.transaction.statements
        return " ".join(map(str, self.error.args)) + "".join(f"; {what}" for what in (self.row, *statements) if what)

    @property
    def may_be_of_others(self) -> bool:
        """Return whether a retry, one transaction at a time, could succeed. For DDL it could not: it ran alone."""
        import pymysql

        refused = isinstance(self.error, pymysql.MySQLError) and not passes(self.error)
        return refused and not (self.transaction is not None and self.transaction.plans)
