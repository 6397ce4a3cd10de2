"""Which statements come out of a stream: by its filter, by its part of a hash, or none at all."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from binlog_merge.binlog.query import Query
from binlog_merge.errors import ConfigError, DdlNotUnderstoodError
from binlog_merge.filters.ddl import DdlEvent
from binlog_merge.filters.filter import Filter
from binlog_merge.log.statement import Statement
from binlog_merge.streams.hashing import Hashing
from binlog_merge.streams.spec import StreamSpec
from binlog_merge.streams.transaction import Transaction
from snapshot_store.ddl import DdlSession
from snapshot_store.errors import DdlNotUnderstood
from snapshot_store.mysql.sql.cursor import Cursor
from snapshot_store.tso import carries_time, tso_millis

REMEDY: Final = "correct the stream's filter; under another name, as what is written of a stream does not change"
_RESHAPES: Final = frozenset(
    {
        "ActionAddColumn", "ActionAddColumns", "ActionDropColumn", "ActionDropColumns", "ActionModifyColumn",
        "ActionMultiSchemaChange", "ActionModifyTableCharsetAndCollate", "ActionRenameTable", "ActionRenameTables",
        "ActionAlterTable",
    }
)  # fmt: skip
"""Actions behind which a table's rows have, or may have, another shape or name."""


class StatementChooser:
    """Chooses the statements of one stream. `chosen` and `hashing` are None if it has no filter, or is of no hash."""

    def __init__(self, spec: StreamSpec, chosen: Filter | None, hashing: Hashing | None) -> None:
        self._spec = spec
        self._filter = chosen
        self._hashing = hashing

    def choose(self, transaction: Transaction, statement: Statement) -> Transaction | None:
        """Return what comes out of a statement's transaction, None if nothing does.

        Raises ConfigError and DdlNotUnderstoodError where the filter forbids it, or cannot tell.
        """
        if self._spec.ddl == "none":
            return None
        if self._filter is None and self._hashing is None:
            return transaction
        events, query = self._events(statement), statement.query
        chosen = [event for event in events if self._applies(event, transaction)]
        if self._filter is not None and not chosen:
            return None
        once = self._spec.ddl == "once"
        if once and events and events[0].action == "ActionCreateSchema":
            # The tables of a database are in several streams: whichever comes first makes it.
            return _with_text(transaction, query, if_not_exists(statement.text, statement.session))
        if self._hashing is not None:
            chosen = self._of_part(self._hashing, chosen, once)
            if not chosen and (events or not self._hashing.has_statement((), once)):
                return None
        if chosen and self._leaves_out(statement.schema):
            # Whoever runs it may not have the session's database.
            query = replace(query, schema=chosen[0].schema.encode("utf-8", "surrogateescape"))
            transaction = _with_text(transaction, query, statement.text)
        if len(chosen) in (0, len(events)):
            return transaction
        head = events[0].query[: events[0].head]
        return _with_text(transaction, query, head + ", ".join(event.text[len(head) :] for event in chosen))

    def _leaves_out(self, database: str) -> bool:
        return self._filter is not None and bool(database) and self._filter.schema(database).action != "Do"

    @staticmethod
    def _of_part(hashing: Hashing, events: list[DdlEvent], once: bool) -> list[DdlEvent]:
        """Return the parts of a statement that are in this stream; of renames all, as names may be swapped."""
        found = [event for event in events if hashing.has_statement(event.effects.changed or event.tables, once)]
        if found and any(event.effects.moves for event in events):
            names = [name for event in events for name in event.effects.changed]
            return events if hashing.has_statement(names, once) else []
        return found

    def _events(self, statement: Statement) -> Sequence[DdlEvent]:
        """Return the parts of a statement; none of one that is not understood, which only a filter needs to be."""
        try:
            return statement.parts
        except DdlNotUnderstood as error:
            if self._filter is None:
                return ()
            raise DdlNotUnderstoodError(f"what the statement is about is not understood: {error.reason}") from None

    def _applies(self, event: DdlEvent, transaction: Transaction) -> bool:
        """Return whether a part comes out. One that does not must not change the shape of rows that do."""
        if self._filter is None:
            return True
        self._check_tso(self._filter, transaction)
        decision = self._filter.ddl(event)
        if decision.outcome in ("error", "restate"):
            raise ConfigError(f"{event.text}: {decision.rule}", remedy=REMEDY)
        if decision.outcome == "apply":
            return True
        if event.action in _RESHAPES and self._filter.table(event.schema, event.table).action == "Do":
            raise ConfigError(
                f"the filter leaves out {event.text!r} ({decision.rule}), and rows of {event.schema}.{event.table}, "
                "which come out, may have another shape from there on",
                remedy=f"let the statement pass, or leave the table out: {REMEDY}",
            )
        return False

    def _check_tso(self, chosen: Filter, transaction: Transaction) -> None:
        """Raise ConfigError if the filter leaves out a commit TSO that may be this statement's."""
        millis = (transaction.gtid.immediate_commit_timestamp or 0) // 1000
        if any(tso_millis(tso) == millis or not carries_time(tso) for tso in chosen.settings.ignore_commit_tso):
            raise ConfigError(
                "the filter leaves out a commit TSO that may be this statement's; the log does not say", remedy=REMEDY
            )


def _with_text(transaction: Transaction, query: Query, text: str) -> Transaction:
    body = query.with_text(text).pack()
    return replace(transaction, pieces=(replace(transaction.pieces[0], body=body),))


def if_not_exists(sql: str, session: DdlSession) -> str:
    """Return a CREATE DATABASE with IF NOT EXISTS."""
    cursor = Cursor.of(sql, session)
    cursor.expect("CREATE")
    end = cursor.next().end
    return sql if cursor.at("IF") else f"{sql[:end]} IF NOT EXISTS{sql[end:]}"
