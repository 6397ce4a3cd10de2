"""Messages of a part of a log in the log's order, over all its tables."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np

from binlog_merge.errors import MergeError
from binlog_merge.files.failpoint import failpoint
from binlog_merge.filters.filter import Filter
from binlog_merge.log.changes import OPS
from binlog_merge.log.checkpoint import Checkpoint, resume
from binlog_merge.log.log import Log
from binlog_merge.log.versions import key_at
from binlog_merge.messages.message import Format, Message, Schemas
from binlog_merge.messages.read import Ddl, Part, Reading, placing_of
from binlog_merge.messages.rows import TableRows
from snapshot_store.ddl import ParsedDdl
from snapshot_store.model import Table


class Outgoing(NamedTuple):
    """A message of a row: whose it is, its key and value, the facts of its transaction, its definition's number.

    `aside`: it tells where the row's transaction begins or ends. `schemas` are those of a format that has any.
    """

    schema: str
    table: str
    key: bytes | None
    value: bytes | None
    rank: int
    gtid: str | None
    order_key: str | None
    version: int = 0
    schemas: Schemas | None = None
    aside: bool = False


def outgoing(maker: Format, tables: Sequence[TableRows], now_ns: int) -> Iterator[Outgoing]:
    """Yield the messages of rows, in the order of the log. Raises what the format does."""
    made: list[list[Outgoing]] = []
    orders = []
    for rows in tables:
        encoded = maker.rows(rows, now_ns)
        keys, values = (_bytes(array) for array in (encoded.keys, encoded.values))
        ranks, gtids, order_keys = rows.ranks.tolist(), rows.gtids.to_pylist(), rows.order_keys.to_pylist()
        schema, table = rows.table.schema, rows.table.name
        numbers, version = encoded.rows.tolist(), rows.changes.table.table_id
        messages = [
            Outgoing(schema, table, key, value, ranks[i], gtids[i], order_keys[i], version, encoded.schemas)
            for key, value, i in zip(keys, values, numbers, strict=True)
        ]
        if encoded.aside is not None:
            for place in np.flatnonzero(encoded.aside).tolist():
                messages[place] = messages[place]._replace(schemas=encoded.aside_schemas, aside=True)
        made.append(messages)
        orders.append(rows.order[encoded.rows])
    if len(made) == 1:
        yield from made[0]
        return
    whole = [message for messages in made for message in messages]
    for place in np.argsort(np.concatenate(orders), kind="stable").tolist():
        yield whole[place]


def _bytes(array: object) -> list[bytes | None]:
    """Return texts as bytes."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return list(pc.cast(array, pa.large_binary()).to_pylist())


_ANOTHER = "the target has another log's messages: take another name, or another target"

COMMIT_BYTES = 4 << 20


class Target(Protocol):
    """Takes messages, and makes them visible together with a position."""

    rank: int
    key: str | None
    empty: bool

    def send(self, message: Outgoing) -> None:
        """Take a message of a row."""

    def send_ddl(self, message: Outgoing, everywhere: bool = False) -> None:
        """Take the message of a statement or of a definition."""

    def define(self, schema: str, name: str, table: Table | None, version: int, ddl: ParsedDdl | None) -> None:
        """Take a version of a table: before its first rows, and (None: dropped) with the statement that makes it."""

    def commit(self, rank: int, key: str | None) -> None:
        """Make what was sent visible, with the position that it reaches."""


@dataclass
class Delivered:
    """The result of a delivery."""

    first_rank: int
    last_rank: int
    transactions: int = 0
    messages: int = 0
    rows: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    statements: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as `-o json` prints them."""
        tables: dict[str, dict[str, int]] = {}
        for (schema, table, op), number in sorted(self.rows.items()):
            tables.setdefault(f"{schema}.{table}", {})[op] = number
        return {
            "first_rank": self.first_rank,
            "last_rank": self.last_rank,
            "transactions": self.transactions,
            "messages": self.messages,
            "rows": tables,
            "rows_left_out": {},
            "statements": self.statements,
            "statements_left_out": [],
            "skipped": [],
        }


def deliver(
    binlog: Log, target: Target, maker: Format, first: int | None, last: int | None, chosen: Filter | None
) -> Delivered:
    """Deliver transactions `first` to `last`. An error has what was committed before as `result`.

    Raises ConfigError and ReplayStopped where the target's position does not fit the range or the log.
    """
    begin = _begin(binlog, target, first)
    result = Delivered(begin, begin - 1)
    end = binlog.last_rank if last is None else min(last, binlog.last_rank)
    try:
        _Delivery(binlog, target, maker, result).run(begin, end, chosen)
    except MergeError as error:
        error.result = result
        raise
    return result


def _begin(binlog: Log, target: Target, first: int | None) -> int:
    if target.empty:
        return first or binlog.state.first_rank
    return resume(binlog, Checkpoint(target.rank, key=target.key), first, _ANOTHER)


@dataclass
class _Sent:
    """What was sent and is not committed: of rows the ranks of their transactions."""

    messages: int = 0
    rows: list[tuple[tuple[str, str, str], Any]] = field(default_factory=list)
    statements: list[str] = field(default_factory=list)

    def counted(self, rank: int, result: Delivered) -> "_Sent":
        """Count what is committed up to a rank; return what is left."""
        result.messages += self.messages
        result.statements += self.statements
        left = []
        for name, ranks in self.rows:
            if count := int((ranks <= rank).sum()):
                result.rows[name] += count
            if count < len(ranks):
                left.append((name, ranks[ranks > rank]))
        return _Sent(rows=left)


@dataclass
class _Delivery:
    binlog: Log
    target: Target
    maker: Format
    result: Delivered
    _open: bool = False
    _done: int = 0
    _rank: int = -1
    _bytes: int = 0
    _sent: _Sent = field(default_factory=_Sent)

    def run(self, first: int, last: int, chosen: Filter | None) -> None:
        self._done = first - 1
        wanted: Callable[[str, str], bool] = lambda schema, table: True  # noqa: E731
        if chosen is not None:
            wanted = lambda schema, table: not chosen.table(schema, table).ignored  # noqa: E731
        for piece in Reading(self.binlog, first, last, wanted, filter=chosen, placing=placing_of(self.maker)).pieces():
            if isinstance(piece, Ddl):
                self._ddl(piece)
            else:
                self._part(piece)
        self._commit(max(self._done, last))

    def _ddl(self, ddl: Ddl) -> None:
        # What comes before a statement is visible before it.
        self._commit(ddl.begin.rank - 1)
        for message in self.maker.ddl(ddl, time.time_ns()):
            gtid = ddl.begin.gtid if ":" in ddl.begin.gtid else None
            self._send_ddl(message, ddl.begin.rank, gtid, None)
        for version in ddl.versions:
            self.target.define(version.schema, version.name, version.table, version.version_id, ddl.statement.ddl)
            self._open = True
        self._sent.statements.append(ddl.text)
        self._done = ddl.begin.rank
        self._commit(ddl.begin.rank)

    def _part(self, part: Part) -> None:
        for rows in part.tables:
            for message in self.maker.before(rows):
                self._send_ddl(message, int(rows.ranks[0]), None, rows.order_keys[0].as_py())
            schema, table = rows.table.schema, rows.table.name
            self.target.define(schema, table, rows.table, rows.changes.table.table_id, None)
            self._sent.rows += [((schema, table, op), rows.ranks[rows.ops == code]) for code, op in enumerate(OPS)]
        if part.tables:
            for out in outgoing(self.maker, part.tables, time.time_ns()):
                # All that was sent is of whole transactions when the first message of another one comes.
                if self._bytes > COMMIT_BYTES and out.rank != self._rank:
                    self._commit(out.rank - 1)
                self._send(out)
        elif part.done >= self._rank:
            self._done = max(self._done, part.done)
            if self._open:
                self._commit(part.done)

    def _send(self, out: Outgoing) -> None:
        self.target.send(self._wired(out))
        self._open, self._rank = True, out.rank
        self._bytes += len(out.value or b"")
        self._sent.messages += 1

    def _send_ddl(self, message: Message, rank: int, gtid: str | None, key: str | None) -> None:
        out = Outgoing(
            message.schema, message.table, message.key, message.value, rank, gtid, key, schemas=message.schemas
        )
        self.target.send_ddl(self._wired(out), message.kind != "ddl" or self.maker.keyed)
        self._open = True
        self._sent.messages += 1

    def _wired(self, out: Outgoing) -> Outgoing:
        wire = getattr(self.maker, "wire", None)
        if wire is None:
            return out
        key, value = wire(out.key, out.value)
        return out._replace(key=key, value=value)

    def _commit(self, rank: int) -> None:
        """Commit what was sent, which is of whole transactions up to a rank."""
        if rank <= self.result.last_rank and not self._open:
            return
        failpoint("deliver.before-commit")
        key = key_at(self.binlog, rank)
        self.target.commit(rank, None if key is None else key.text())
        failpoint("deliver.after-commit")
        self._open, self._bytes = False, 0
        self._done = max(self._done, rank)
        self._sent = self._sent.counted(rank, self.result)
        self.result.transactions += rank - self.result.last_rank
        self.result.last_rank = rank
