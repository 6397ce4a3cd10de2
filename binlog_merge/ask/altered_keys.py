"""What an ALTER of a key's type makes of its values, as changes show them: BINARY(6) has 0x616263640000 for 0x61626364.

What is not known, or cannot be told from another value, has no answer.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from binlog_merge.ask.key_spans import Span
from binlog_merge.ask.values import plain_of
from binlog_merge.binlog.arrow import cell_value
from binlog_merge.binlog.encode import encode_cell
from binlog_merge.binlog.errors import BinlogFormatError, CellValueError
from binlog_merge.errors import MergeError
from binlog_merge.log.altered_cells import altered_cells
from binlog_merge.log.names import Said
from binlog_merge.log.statement_session import StatementSession
from binlog_merge.values.column_facts import column_facts_of
from binlog_merge.values.value import ConversionError
from snapshot_store.ddl import actions as act
from snapshot_store.ddl import statements as st
from snapshot_store.model import Column
from snapshot_store.mysql.sql.session import STRICT_ALL_TABLES, STRICT_TRANS_TABLES

Values = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class AlteredKey:
    """A statement that gives a key other values, and the key before and after it."""

    said: Said
    before: Span
    after: Span

    def made_of(self, values: Values) -> Values | None:
        """Return what the statement makes of a key."""
        return _converted(self.before.parts, self.after.parts, values, self._session, self._alone)

    def source_of(self, values: Values) -> Values | None:
        """Return a key of which the statement makes this one; there may be others."""
        session = self._session
        lenient = replace(session.ddl, sql_mode=session.ddl.sql_mode & ~(STRICT_TRANS_TABLES | STRICT_ALL_TABLES))
        session = replace(session, ddl=lenient)
        found = _converted(self.after.parts, self.before.parts, values, session, self._alone)
        return found if found is not None and self.made_of(found) == values else None

    @property
    def _session(self) -> StatementSession:
        return StatementSession.of(self.said.at.statement)

    @property
    def _alone(self) -> bool:
        statement = self.said.statement
        actions = statement.actions if isinstance(statement, st.AlterTable) else ()
        return len(actions) == 1 and isinstance(actions[0], act.ChangeColumn)


def _converted(
    old: Sequence[Column], new: Sequence[Column], values: Values, session: StatementSession, alone: bool
) -> Values | None:
    try:
        return tuple(
            _shown(after, altered_cells(before, after, [_cell(before, value)], session, alone)[0])
            for before, after, value in zip(old, new, values, strict=True)
        )
    except (ConversionError, CellValueError, BinlogFormatError, MergeError):
        return None


def _cell(column: Column, shown: Any) -> bytes:
    facts = column_facts_of(column, True)
    value = bytes.fromhex(shown[2:]) if pa.types.is_binary(facts.type) else shown
    if column.type.name == "binary":
        value = value.rstrip(b"\0")  # which its cells leave out
    return encode_cell(facts.code, facts.meta, value, facts.unsigned, facts.charset, facts.members)


def _shown(column: Column, cell: bytes | None) -> Any:
    facts = column_facts_of(column, True)
    value = cell_value(cell, facts.code, facts.meta, facts.unsigned, facts.charset, facts.members, facts.kind, True)
    return plain_of(facts.type)(value)
