"""Loads a merged binlog into a DuckDB file: segment by segment, each with its position in a transaction.

A transaction that comes in several segments is committed at its end. The columns of a table are those of the tables at
the beginning after the log's statements. They are checked against the table map; if the two differ, the schema history
next to the log or the names in the table map decide.

Rows that a server changes because of a foreign key (ON DELETE CASCADE, SET NULL) are logged by servers from 9.6 on,
which have a flag for that in every rows event. Before, InnoDB makes such changes without the binlog, and a replica's
InnoDB does the same. A target without foreign keys can only report the tables concerned.
"""

import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

import duckdb
import numpy as np

from binlog_merge.binlog.constants import EventType, RowsFlag
from binlog_merge.binlog.errors import BinlogFormatError, CellValueError
from binlog_merge.binlog.json_diff import NoDocument
from binlog_merge.binlog.kernels import log_walk as k
from binlog_merge.binlog.kernels.row_cells import ABSENT
from binlog_merge.binlog.table_map import TableMap
from binlog_merge.errors import (
    WAYS_OUT_OF_COLLISIONS,
    ConfigError,
    ConversionFailed,
    MergeError,
    ReplayStopped,
    UnknownTableSchema,
    UnsupportedInput,
)
from binlog_merge.filters.expressions import Op
from binlog_merge.filters.filter import Filter, FilterSettings
from binlog_merge.log.changes import OPS, Changes, changes_of, rows_that_pass
from binlog_merge.log.checkpoint import Checkpoint, resume
from binlog_merge.log.log import Log
from binlog_merge.log.replay_options import ReplayOptions, ReplayResult, Walk
from binlog_merge.log.rows import RowSelector, TableShapes
from binlog_merge.log.segments import Segment, StatementAt, segments
from binlog_merge.log.statement import StatementSession
from binlog_merge.log.whole_json import with_whole_json
from binlog_merge.reshape.witness import check_witness
from binlog_merge.tables.ddl import understood
from binlog_merge.tables.found_there import FoundThere, TouchingWriter, Unjudgeable
from binlog_merge.tables.rows import DuckdbDocuments, OverwritingWriter, RowRefused, TableWriter
from binlog_merge.tables.target import DuckdbTarget
from binlog_merge.targets.server.overwriting import not_whole
from binlog_merge.targets.server.statements import Step, plan_statement
from binlog_merge.values.from_table_map import table_from_table_map
from binlog_merge.values.types import facts_of
from snapshot_store.ddl import ParsedDdl
from snapshot_store.ddl.effects import effects_of
from snapshot_store.model import Catalog, Table
from snapshot_store.tso import OrderKey

_LOG = logging.getLogger(__name__)
_BEHIND_BASE: Final = OrderKey(0, 0, 1, 0)


class Base(Protocol):
    """The rows of tables where a log begins, or after some of its transactions."""

    @property
    def rank(self) -> int:
        """Return the number of transactions that the base has."""

    def fill(self, target: DuckdbTarget, tables: Mapping[tuple[str, str], Table]) -> set[tuple[str, str]]:
        """Insert rows into tables of the target; return the tables whose rows are complete then."""


def load(
    binlog: Log,
    target: DuckdbTarget,
    history: TableShapes | None,
    options: ReplayOptions,
    found_there: FoundThere | None = None,
    base: Base | None = None,
    begins: Catalog | None = None,
) -> ReplayResult:
    """Load a range into a DuckDB file, from the file's position on. Errors have what was committed as `result`.

    Of a file that has only some of the tables, only these are kept up. `begins` are the log's tables where a new file
    begins, if they are known; else the log is read for them, from its beginning.

    `found_there` receives the tables that the log does not create: their rows from before the log are inferred from row
    images, except for tables whose rows `base` has.
    """
    if "text" in (options.zero_dates.others, *dict(options.zero_dates.columns).values()):
        raise ConfigError(
            "--zero-dates text is not for DuckDB files, which have dates of one kind",
            remedy="begin the file with --temporal text, or make NULL of such dates: --zero-dates null",
        )
    options = _of_its_tables(target, options)
    first = options.first_rank
    if target.rank is not None:
        Checkpoint(target.rank).check_first(first)
        resume(binlog, target.place or Checkpoint(target.rank), None)
    if target.rank is None:
        rank = (first or 1) - 1
        binlog.check_there(rank + 1)
        chosen = options.filter
        wanted = lambda schema, table: chosen is None or chosen.table(schema, table).action == "Do"  # noqa: E731
        catalog = catalog_at(binlog, history, rank, options.system_zone) if begins is None else begins
        target.start_at(rank, catalog, wanted)
        if found_there is not None:
            found_there.given |= set() if base is None else base.fill(target, target.catalog.tables)
            found_there.begin(target.catalog)
    if options.filter is not None:
        target.leaves_out()
    begun = target.rank or 0
    result = ReplayResult(begun + 1, begun, selector=RowSelector(options.filter))
    try:
        _Loader(binlog, target, history, options, result, found_there, base).run()
    except MergeError as error:
        error.result = result
        raise
    return result


def _of_its_tables(target: DuckdbTarget, options: ReplayOptions) -> ReplayOptions:
    """Return the options with which a file that has only some of the tables goes on with these."""
    names = sorted(target.only())
    if not names:
        return options
    if options.filter is not None:
        raise ConfigError(
            f"the file has rows of {', '.join('.'.join(name) for name in names)} only",
            file=str(target.path),
            remedy="leave --filter out: these tables are kept up, and all others are left out",
        )
    rules = [".".join('"' + part.replace('"', '""') + '"' for part in name) for name in names]
    return replace(options, filter=Filter(FilterSettings(case_sensitive=True, rules=rules, name="table-at")))


def catalog_at(binlog: Log, history: TableShapes | None, rank: int, system_zone: str | None) -> Catalog:
    """Return the catalog after `rank` transactions: that where the log begins, after the log's statements.

    Of a log that has none yet it is the base.
    """
    if history is None:
        return Catalog()
    if not binlog.state.files:
        return history.catalog(_BEHIND_BASE)
    catalog, begins = history.catalog(OrderKey.parse(binlog.state.files[0].first_key)), binlog.state.first_rank
    for piece in segments(binlog, begins, rank) if rank >= begins else ():
        if isinstance(piece, StatementAt):
            ddl = piece.statement.ddl_in(StatementSession.of(piece.statement, system_zone).ddl)
            _, catalog = understood(catalog, ddl, piece.statement.schema)
    return catalog


@dataclass
class _Loader:
    binlog: Log
    target: DuckdbTarget
    history: TableShapes | None
    options: ReplayOptions
    result: ReplayResult
    found_there: FoundThere | None = None
    base: Base | None = None
    open: bool = False
    counted: tuple[Counter[Any], Counter[Any]] = field(default_factory=lambda: (Counter(), Counter()))
    statements: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    skipped: list[tuple[int, str]] = field(default_factory=list)

    def run(self) -> None:
        try:
            for piece in segments(self.binlog, self.result.first_rank, self.options.last_rank):
                if not self.open:
                    self.target.begin()
                    self.open = True
                if isinstance(piece, Segment):
                    self._segment(piece)
                else:
                    self._statement(piece)
        except duckdb.Error as error:
            raise ReplayStopped(
                f"DuckDB refuses it: {str(error).splitlines()[0]}",
                file=str(self.target.path),
                remedy="what is committed stays; correct the file and run the replay again",
            ) from error

    def _commit(self, rank: int, gtid: str, key: OrderKey | None) -> None:
        for number, text in self.skipped:
            self.target.skipped(number, text)
        self.target.commit(rank, gtid, None if key is None else key.text())
        self.open = False
        _LOG.debug("applied", extra={"file": str(self.target.path), "last": rank})
        result = self.result
        result.selector.applied.update(self.counted[0])
        result.selector.filtered.update(self.counted[1])
        result.statements += self.statements
        result.left_out += self.left_out
        result.skipped += [text for _, text in self.skipped]
        self.counted = (Counter(), Counter())
        self.statements, self.left_out, self.skipped = [], [], []
        result.transactions, result.last_rank = rank - result.first_rank + 1, rank

    def _segment(self, segment: Segment) -> None:
        for number, rank in enumerate(segment.ranks):
            if rank in self.options.skip and segment.transactions[number, k.T_END] >= 0:
                self.skipped.append((rank, segment.begin(number).gtid))
        skip = self.options.skip
        kept = self._blamed(segment, 0, lambda: self._with_documents(segment))
        for changes in changes_of(kept, lambda rank: rank not in skip):
            for text in unlogged_changes(changes, self.target.catalog):
                if text not in (*self.result.left_out, *self.left_out):
                    self.left_out += [text]
            self._blamed(segment, changes.transaction_of(0), lambda changes=changes: self._changes(changes))
        if segment.ended:
            last = len(segment.transactions) - 1
            self._commit(segment.last_rank, segment.begin(last).gtid, segment.key(last))

    def _with_documents(self, segment: Segment) -> Segment:
        if self.options.overwrite:
            return segment  # what is in the file need not be what the differences are to
        there = {} if self.found_there is None else self.found_there.names
        try:
            return with_whole_json(segment, DuckdbDocuments(self.target))
        except NoDocument as error:
            if error.name not in there:
                raise
            raise Unjudgeable(error.message, there[error.name]) from None

    def _blamed(self, segment: Segment, transaction: int, act: Any) -> Any:
        """Add a transaction's location to errors without a position."""
        try:
            return act()
        except MergeError as error:
            if error.position is not None:
                raise
            begin = segment.begin(transaction)
            raise error.located(file=begin.file, position=begin.position, order_key=segment.key(transaction)) from None

    def _changes(self, changes: Changes) -> None:
        name = (changes.table.schema, changes.table.table)
        chosen = self.options.filter
        if name in self.options.without or (chosen is not None and chosen.table(*name).action != "Do"):
            self._count(changes, None)
            return
        there = self.found_there
        if there is not None and self.target.catalog.get(*name) is None:
            made = {name: self._table(changes)}
            if self.base is None or not self.base.fill(self.target, made):
                there.names[name] = name
        if there is not None and there.leaves_out(name):
            self._count(changes, None)
            return
        table = self._table(changes)
        passing = rows_that_pass(changes, chosen, table, facts_of(table, temporal_text=True))
        here = {column.lower() for column in self.target.columns_of(*name)}
        kept = [
            i for i, c in enumerate(table.columns) if c.name.lower() in here and c in self.target.ddl.columns(table)
        ]
        text = self.target.temporal_text
        facts = facts_of(table, text, zero_dates=self.options.zero_dates)
        connection = self.target.connection
        if self.options.overwrite:
            self._check_whole(changes)
            writer: TableWriter = OverwritingWriter(connection, table, facts, kept, text)
        elif there is not None and name in there.names:
            touched = there.touched(name, connection)
            writer = TouchingWriter(connection, table, facts, kept, text, touched=touched)
        else:
            writer = TableWriter(connection, table, facts, kept, text)
        try:
            writer.write(changes, passing)
        except RowRefused as error:
            refused = self._refused(changes, error)
            if there is not None and name in there.names:
                raise Unjudgeable(refused.message, there.names[name]) from None
            raise refused from None
        except (CellValueError, BinlogFormatError) as error:
            raise ConversionFailed(
                f"{'.'.join(name)}: {error}",
                remedy="--zero-dates null makes NULL of such a date, --temporal text keeps every date as MySQL's text",
            ) from None
        self._count(changes, passing)

    def _check_whole(self, changes: Changes) -> None:
        segment = changes.segment
        for number in np.unique(segment.events[changes.events, k.E_KIND]).tolist():
            if number == EventType.PARTIAL_UPDATE_ROWS_EVENT:
                raise not_whole(changes.table)
        if (changes.cut.sizes == ABSENT).any():
            raise not_whole(changes.table)

    def _count(self, changes: Changes, passing: Any) -> None:
        name = (changes.table.schema, changes.table.table)
        for op in OPS:
            rows = changes.rows_of(op)
            count = 0 if passing is None else int((rows & passing).sum())
            self.counted[0][*name, op] += count
            self.counted[1][*name, op] += int(rows.sum()) - count

    def _refused(self, changes: Changes, error: RowRefused) -> ReplayStopped:
        number = changes.transaction_of(error.row)
        begin, table = changes.segment.begin(number), changes.table
        op = changes.op_of(error.row)
        collides = ""
        if error.taken:
            collides = (
                "if shards give equal keys (`binlog-merge verify` names transactions, the warnings of the merge the "
                f"shards): {WAYS_OUT_OF_COLLISIONS}. If the file was changed: "
            )
        return ReplayStopped(
            f"{begin.gtid}: {op} of {table.schema}.{table.table}: {error.reason}",
            remedy=f"{collides}correct the table and run the replay again; it goes on where it was committed last. "
            f"--skip {begin.rank} leaves the transaction out, and records it",
        ).located(file=begin.file, position=begin.position, order_key=changes.segment.key(number))

    def _table(self, changes: Changes) -> Table:
        """Return the table of some rows; create it, or alter its columns, if it does not fit them."""
        witness = changes.table
        known = self.target.catalog.get(witness.schema, witness.table)
        if known is not None and check_witness(known, witness) is None:
            return known
        found = self._from_history(changes) or table_from_table_map(witness)
        if found is None:
            raise UnknownTableSchema(
                f"what {witness.schema}.{witness.table} is here is not known: "
                + ("no statement has made it" if known is None else str(check_witness(known, witness))),
                remedy="keep schema.duckdb with the merged binlog, or let the nodes write binlog_row_metadata=FULL",
            )
        if known is None or not self.target.columns_of(found.schema, found.name):
            if not self.target.columns_of(found.schema, found.name):
                self.target.ddl.create(found)
        else:
            session = StatementSession(changes.segment.begin(changes.transaction_of(0)).commit_us)
            self.target.ddl.alter(known, found, {}, session)
        self.target.know(self.target.catalog.with_table(found))
        return found

    def _from_history(self, changes: Changes) -> Table | None:
        witness: TableMap = changes.table
        key = changes.segment.key(changes.transaction_of(0))
        if self.history is None or key is None:
            return None
        version = self.history.at(witness.schema, witness.table, key)
        if version is None or version.table is None or check_witness(version.table, witness) is not None:
            return None
        return version.table

    def _statement(self, piece: StatementAt) -> None:
        walk = Walk(self.options)
        walk.begin, walk.key = piece.begin, piece.statement.key
        with walk.blamed():
            if walk.skipping:
                self.skipped.append((piece.begin.rank, piece.begin.gtid))
            self._carry_out(piece, walk)
        if piece.ended:
            self._commit(piece.begin.rank, piece.begin.gtid, piece.statement.key)

    def _carry_out(self, piece: StatementAt, walk: Walk) -> None:
        statement, before = piece.statement, self.target.catalog
        session = StatementSession.of(statement, self.options.system_zone)
        session = replace(session, zero_dates=self.options.zero_dates)
        if not walk.skipping:
            plan = plan_statement(statement, self.options.filter, walk.ddl_tso())
            catalog = before
            for step in plan.steps:
                catalog = self._done(catalog, statement.ddl_in(session.ddl, step.text), step, session)
                self.statements.append(step.shown)
            self.left_out += plan.left_out
        # What the rows look like follows the whole statement, whatever of it was carried out here.
        parsed, after = understood(before, statement.ddl_in(session.ddl), statement.schema)
        self.target.know(after)
        self._follow_names(parsed, statement.schema)
        if self.found_there is not None:
            self.found_there.follow(self.target.connection, before, after, parsed, statement.schema)

    def _follow_names(self, parsed: Any, schema: str) -> None:
        """Keep up a table of a file that has only some, under its new name, too."""
        only = self.target.only()
        moved = (
            [new for old, new in effects_of(parsed, schema).paths if old in only and new not in only] if only else []
        )
        if moved:
            self.target.has_only(*moved)
            self.options = _of_its_tables(self.target, replace(self.options, filter=None))

    def _done(self, catalog: Catalog, ddl: ParsedDdl, step: Step, session: StatementSession) -> Catalog:
        """Execute a step. Raises Unjudgeable if that is impossible for a table from before the log."""
        try:
            return self.target.ddl.carry_out(catalog, ddl, step.schema, session)
        except (ReplayStopped, UnsupportedInput) as error:
            there = {} if self.found_there is None else self.found_there.names
            concerned = [there[name] for name in step.tables if name in there]
            if self.found_there is None or not concerned or concerned[0] in self.found_there.left_out:
                raise
            raise Unjudgeable(f"{step.shown}: {error.message}", concerned[0]) from None


_FLAGS_AT: Final = 6
_EXCUSED: Final = RowsFlag.USE_SQL_FOREIGN_KEY_F | RowsFlag.NO_FOREIGN_KEY_CHECKS_F
_EVENTS: Final[tuple[tuple[Op, str], ...]] = (("delete", "DELETE"), ("update", "UPDATE"))


def unlogged_changes(changes: Changes, catalog: Catalog) -> Iterator[str]:
    """Yield a text for each table that unlogged changes may concern: the table, the foreign key's action, its cause."""
    events = changes.segment.events[changes.events]
    silent = (changes.segment.buffer[events[:, k.E_BODY] + _FLAGS_AT] & _EXCUSED) == 0
    if not silent.any():
        return
    parent = (changes.table.schema, changes.table.table)
    for op, event in _EVENTS:
        if (changes.rows_of(op) & silent[changes.cut.events]).any():
            yield from _children(catalog, parent, event)


def _children(catalog: Catalog, parent: tuple[str, str], event: str) -> Iterator[str]:
    for (schema, name), table in sorted(catalog.tables.items()):
        for key in table.foreign_keys:
            action = key.on_delete if event == "DELETE" else key.on_update
            if action in ("CASCADE", "SET NULL") and key.target(schema) == parent:
                yield (
                    f"{schema}.{name}: rows that a server changed by ON {event} {action} of {'.'.join(parent)} stand "
                    "in no binlog before MySQL 9.6"
                )
