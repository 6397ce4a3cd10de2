"""Reads a merged log for messages: rows by table, in parts of a few megabytes, and statements between them."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from binlog_merge.binlog.kernels import log_walk as k
from binlog_merge.binlog.kernels import types as t
from binlog_merge.binlog.table_map import TableMap
from binlog_merge.filters.expressions import Op
from binlog_merge.filters.filter import Filter
from binlog_merge.log.changes import OPS
from binlog_merge.log.log import Log
from binlog_merge.log.question import Name
from binlog_merge.log.read import PART_BYTES, RowReader, pieces_between
from binlog_merge.log.reader import Begin
from binlog_merge.log.segments import Segment, StatementAt, segments
from binlog_merge.log.statement import Statement
from binlog_merge.log.table_changes import TableChanges
from binlog_merge.log.versions import TableVersions, key_before, versions_between
from binlog_merge.log.where import Where
from binlog_merge.messages.rows import (
    UNKNOWN,
    Begins,
    InTransaction,
    TableRows,
    TransactionCounts,
    select_places,
    u32_at,
)
from binlog_merge.polardbx.ddl.comments import split_comment
from snapshot_store.ddl.statements import CreateView, DropViews
from snapshot_store.history import TableVersion
from snapshot_store.model import Table
from snapshot_store.tso import ORIGIN, OrderKey

Weights = Callable[[TableRows], Any]


def placing_of(maker: object) -> "Placing":
    """Return what places rows for a format."""
    return Placing(getattr(maker, "weights", None))


@dataclass
class Placing:
    """Places rows, part after part. With `weights`, which say as how many a row counts, tables are counted too."""

    weights: Weights | None = None
    _rank: int = -1
    _before: int = 0
    _counts: TransactionCounts = field(default_factory=Counter)

    def placed(self, found: Sequence[TableRows]) -> tuple[TableRows, ...]:
        """Return rows of a part with their places."""
        order = np.concatenate([rows.order for rows in found])
        turn = np.argsort(order, kind="stable")
        ranks = np.concatenate([rows.ranks for rows in found])[turn]
        starts = np.flatnonzero(np.diff(ranks, prepend=-1))
        sizes = np.diff(starts, append=len(ranks))
        goes_on = bool(ranks[0] == self._rank)
        weights = np.ones(len(ranks), np.int64)
        if self.weights is not None:
            weights = np.concatenate([self.weights(rows) for rows in found])[turn]
        before = np.cumsum(weights) - weights
        offsets = before - np.repeat(before[starts], sizes)
        offsets[: sizes[0]] += self._before if goes_on else 0
        last = np.zeros(len(ranks), bool)
        last[starts + sizes - 1] = True
        back = np.empty(len(turn), np.int64)
        back[turn] = np.arange(len(turn))
        ends = np.cumsum([len(rows) for rows in found])
        splits = np.split(back, ends[:-1])
        places = [InTransaction(offsets[own], last[own]) for own in splits]
        if self.weights is not None:
            places = self._counted(found, places, splits, (ranks, weights), goes_on)
        self._rank, self._before = int(ranks[-1]), int(offsets[-1] + weights[-1])
        return tuple(replace(rows, place=place) for rows, place in zip(found, places, strict=True))

    def _counted(
        self,
        found: Sequence[TableRows],
        places: list[InTransaction],
        splits: Sequence[Any],
        rows: tuple[Any, Any],
        goes_on: bool,
    ) -> list[InTransaction]:
        """Return places with the numbers of rows in their tables, and what each transaction has had of each table."""
        tables = np.empty(len(rows[0]), np.int64)
        names: list[tuple[str, str]] = []
        for each, own in zip(found, splits, strict=True):
            name = (each.table.schema, each.table.name)
            if name not in names:
                names.append(name)
            tables[own] = names.index(name)
        own_offsets = np.empty(len(tables), np.int64)
        counts: dict[int, TransactionCounts] = {}
        if goes_on:
            counts[self._rank] = self._counts
        for at, (rank, weight, table) in enumerate(zip(*(a.tolist() for a in (*rows, tables)), strict=True)):
            counted = counts.setdefault(rank, Counter())
            own_offsets[at] = counted[names[table]]
            counted[names[table]] += weight
        self._counts = counts[int(rows[0][-1])]
        return [replace(place, own=own_offsets[own], counts=counts) for place, own in zip(places, splits, strict=True)]


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of some transactions, table by table; `done` is the rank of the last one that is complete."""

    tables: tuple[TableRows, ...]
    done: int

    @property
    def first_rank(self) -> int:
        """Return the rank of the first transaction that has rows here."""
        return min(int(rows.ranks[0]) for rows in self.tables)

    @property
    def last_rank(self) -> int:
        """Return the rank of the last transaction that has rows here."""
        return max(int(rows.ranks[-1]) for rows in self.tables)

    def open_last(self) -> None:
        """Note that the last row is not the last one of its transaction."""
        rows = max(self.tables, key=lambda rows: int(rows.order[-1]))
        rows.place.last[-1] = False


@dataclass(frozen=True, slots=True)
class Ddl:
    """A statement, the tables that it names, and the versions that it makes; `before` are the definitions before it.

    `versions` is empty where the log's schema store does not have the statement.
    """

    begin: Begin
    statement: Statement
    file: str
    names: tuple[tuple[str, str], ...]
    versions: tuple[TableVersion, ...]
    before: tuple[Table | None, ...]
    key: OrderKey

    @property
    def text(self) -> str:
        """Return the statement's text."""
        return self.statement.text

    @property
    def schema(self) -> str:
        """Return the default database of the statement, else that of the first table that it names."""
        return self.statement.schema or (self.names[0][0] if self.names else "")


@dataclass
class Reading:
    """What is read of a log; `columns` and `where` are of one table's rows.

    `wanted` chooses tables, `filter` rows and statements as `replay --filter` does. With `only`, the one wanted table,
    parts of the log without its rows or those that match are not read, where an index says so.
    """

    binlog: Log
    first: int
    last: int
    wanted: Callable[[str, str], bool] = lambda schema, table: True
    ops: Collection[Op] = OPS
    where: Where | None = None
    columns: Sequence[str] | None = None
    filter: Filter | None = None
    only: tuple[str, str] | None = None
    known: dict[tuple[str, str], TableVersions] = field(default_factory=dict)
    part_bytes: int = PART_BYTES
    placing: Placing = field(default_factory=Placing)
    _begin: Any = UNKNOWN
    _rank: int = 0
    _statements: "_Statements | None" = None
    _key: OrderKey = ORIGIN

    def pieces(self) -> Iterator[Part | Ddl]:
        """Yield rows and statements in the order of the log. Raises what reading the log does, and ConversionFailed.

        Rows are held back until it is known whether more of their last transaction come.
        """
        held: Part | None = None
        for piece in self._unsettled():
            if isinstance(piece, Part) and piece.tables:
                if held is not None:
                    if held.last_rank == piece.first_rank:
                        held.open_last()
                    yield held
                held = piece
                continue
            if held is not None and (isinstance(piece, Ddl) or piece.done >= held.last_rank):
                yield held
                held = None
            if held is None:
                yield piece
        if held is not None:
            yield held

    def _unsettled(self) -> Iterator[Part | Ddl]:
        if self.first > self.last:
            return
        reader = RowReader(self.binlog, self.wanted, self._definition, self.ops, self.where, self.filter)
        for piece in self._sought():
            if isinstance(piece, StatementAt):
                ddl = self._ddl(piece)
                if ddl is not None:
                    yield ddl
            else:
                yield from self._parts(reader, piece)

    def _sought(self) -> Iterator[Segment | StatementAt]:
        """Yield what may have rows of the one wanted table that match, and statements; else all there is."""
        if self.only is None:
            return segments(self.binlog, self.first, self.last)
        known = self.known.get(self.only)
        tables = () if known is None else known.tables()
        return pieces_between(self.binlog, self.first, self.last, self.wanted, self.where, tables, statements=True)

    def _parts(self, reader: RowReader, segment: Segment) -> Iterator[Part]:
        begins = self._begins(segment)
        last = segment.last_rank if segment.ended else segment.last_rank - 1
        self._key, self._rank = segment.key(len(segment.transactions) - 1) or self._key, segment.last_rank
        for part in reader.parts(segment, self.part_bytes):
            found = [self._rows(changes, begins) for changes in part if len(changes)]
            if found:
                yield Part(self.placing.placed(found), max(int(rows.ranks[-1]) for rows in found) - 1)
        yield Part((), last)

    def _definition(self, witness: TableMap, key: OrderKey | None) -> tuple[Table, None]:
        name = (witness.schema, witness.table)
        if name not in self.known:
            self.known[name] = versions_between(self.binlog, *name, self.first, self.last)
        return self.known[name].of_rows(witness, key), None

    def _rows(self, changes: TableChanges, begins: Begins) -> TableRows:
        nowhere = InTransaction(changes.rows, changes.rows)
        return TableRows(
            changes.changes, changes.chosen, changes.table, changes.transactions, changes.gtid_prefix,
            places=select_places(changes.table, self.columns), begins=begins, place=nowhere,
        )  # fmt: skip

    def _begins(self, segment: Segment) -> Begins:
        """Return the session and the position of each BEGIN."""
        at = segment.transactions[:, k.T_GTID]
        found = np.full((2, len(at)), UNKNOWN, np.int64)
        begun = np.flatnonzero(at >= 0)
        begins = at[begun] + u32_at(segment.buffer, at[begun] + 9)
        queries = segment.buffer[begins + 4] == t.QUERY_EVENT
        found[0, begun[queries]] = u32_at(segment.buffer, begins[queries] + 19)
        found[1, begun[queries]] = begins[queries] + segment.base
        if len(at) and at[0] < 0:
            found[:, 0] = self._begin
        self._begin = found[:, -1].copy() if len(at) else self._begin
        return Begins(*found)

    def _ddl(self, piece: StatementAt) -> Ddl | None:
        default, names = piece.statement.schema, named_by(piece.statement)
        judged = self.filter is not None and names is not None and bool(piece.statement.parts)
        if judged:
            if not self._passes(piece.statement):
                return None
        elif names is not None and names and not any(self.wanted(*name) for name in names):
            return None
        if self._statements is None:
            self._statements = _Statements.of(self.binlog)
        if piece.begin.rank > self._rank + 1:  # what stands before it was not read
            self._key = max(self._key, key_before(self.binlog, piece.begin.rank))
        self._rank = max(self._rank, piece.begin.rank)
        versions = self._statements.of_text(piece.statement.text, self._key)
        if versions:
            self._key = max(self._key, versions[0].key)
        if not judged and not self._wanted(names, default, versions):
            return None
        key = versions[0].key if versions else self._key
        names = names or tuple((version.schema, version.name) for version in versions)
        file = piece.begin.file.rpartition("/")[2]
        before = tuple(self._statements.before(version) for version in versions)
        return Ddl(piece.begin, piece.statement, file, names, versions, before, key)

    def _passes(self, statement: Statement) -> bool:
        """Return whether the filter does not ignore a statement, or a part of it.

        What a replay refuses, because its target would not have the rows, is told: a message has no target's rows.
        """
        assert self.filter is not None
        tso = None if statement.key is None else statement.key.commit_tso
        outcomes = [self.filter.ddl(part, commit_tso=tso).outcome for part in statement.parts]
        return any(outcome in ("apply", "error", "restate") for outcome in outcomes)

    def _wanted(self, names: Sequence[Name] | None, default: str, versions: Sequence[TableVersion]) -> bool:
        """Return whether a statement that names no table, or is not understood, is about what is wanted."""
        if names is None:
            return any(self.wanted(version.schema, version.name) for version in versions)
        return bool(names) or self.wanted(default, "")


def named_by(statement: Statement) -> tuple[tuple[str, str], ...] | None:
    """Return the tables that messages of a statement name: no views. None if it is not understood."""
    of_views = isinstance(statement.ddl.result, CreateView | DropViews)
    return () if of_views else statement.tables


@dataclass
class _Statements:
    """The logical versions of a log's schema store, by the text of the statement that made them, in order."""

    by_text: dict[str, list[TableVersion]]
    by_name: dict[tuple[str, str], list[TableVersion]]

    @classmethod
    def of(cls, binlog: Log) -> "_Statements":
        from binlog_merge.store_errors import as_merge_errors
        from snapshot_store.store.db import Store

        texts: dict[str, list[TableVersion]] = {}
        names: dict[tuple[str, str], list[TableVersion]] = {}
        with binlog.folder.schema_store() as (path, _):
            if path.exists():
                with as_merge_errors(path), Store.open(path, True) as store:
                    for version in store.load_history().versions:
                        if version.node is None:
                            names.setdefault((version.schema, version.name), []).append(version)
                            texts.setdefault(version.ddl, []).append(version)
        return cls(texts, names)

    def before(self, version: TableVersion) -> Table | None:
        """Return the definition before a version."""
        earlier = [v for v in self.by_name[version.schema, version.name] if v.key < version.key]
        return earlier[-1].table if earlier else None

    def of_text(self, text: str, after: OrderKey) -> tuple[TableVersion, ...]:
        """Return the versions that the next such statement behind a key made; PolarDB-X's own says its key."""
        try:
            comment, text = split_comment(text)
        except ValueError:
            comment = None
        if comment is not None:
            made = (version for versions in self.by_text.values() for version in versions)
            return tuple(version for version in made if version.key == comment.key)
        versions = [version for version in self.by_text.get(text, ()) if version.key > after]
        return tuple(version for version in versions if version.key == versions[0].key)
