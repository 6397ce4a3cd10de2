"""What each reader of a log says of a statement: its kind, its tables, and what becomes of it."""

import json
from collections.abc import Mapping
from typing import Any, Final

from binlog_merge.binlog.constants import EventType
from binlog_merge.binlog.gtid import Gtid
from binlog_merge.errors import ConfigError, DdlNotUnderstoodError, ReplayStopped
from binlog_merge.filters import BinlogEventRule
from binlog_merge.filters.filter import Filter, FilterSettings
from binlog_merge.log.names import _Walk
from binlog_merge.log.reader import Begin
from binlog_merge.log.segments import StatementAt
from binlog_merge.log.statement import Statement, StatementSession
from binlog_merge.messages.message import FORMATS, action_of, canal_kind, format_of, tidb_number
from binlog_merge.messages.read import Ddl, named_by
from binlog_merge.streams.chosen import StatementChooser
from binlog_merge.streams.mariadb.events import for_mariadb
from binlog_merge.streams.transaction import Piece, Transaction
from binlog_merge.tables.ddl import understood
from binlog_merge.targets.server.statements import plan_statement
from binlog_merge.time_travel.passable_ddl import Written, after_ddl
from binlog_merge.time_travel.selection import touched_by
from snapshot_store.ddl.effects import keeps_rows, keeps_values
from snapshot_store.errors import DdlNotUnderstood, SnapshotStoreError
from snapshot_store.model import Catalog
from snapshot_store.tso import ORIGIN
from tests.streams.helpers import specs

Name = tuple[str, str]
Said = dict[str, Any]

_RULES: Final = [BinlogEventRule("*", "*", ["drop column", "drop index", "modify column"], [], "Ignore")]
_FILTER: Final = Filter(FilterSettings(rules=("*.*", "!*.*2"), binlog_rules=_RULES))
_FORMATS: Final = {name: format_of(name, {}) for name in FORMATS}
_BEGIN: Final = Begin(1, "ANONYMOUS", 1_700_000_000_000_000, "binlog.000001", 4)
_CHOOSER: Final = StatementChooser(specs("all")[0], _FILTER, None)
_NOTHING: Final = "none"


class _Table:
    """What is asked of a table by whoever wants to know whether a statement touches it."""

    def __init__(self, name: Name) -> None:
        self.schema, self.name = name


def said_of(statement: Statement) -> Said:
    """Return what each reader says of a statement."""
    return {
        "kind": (action_of(statement.ddl), canal_kind(statement.ddl), tidb_number(statement.ddl)),
        "tables": statement.tables,
        "messages": _messages(statement),
        "filter": _filtered(statement),
        "replay": _planned(statement, None),
        "filtered replay": _planned(statement, _FILTER),
        "stream": _streamed(statement),
        "mariadb": _for_mariadb(statement),
        "undo": _undone(statement),
        "duckdb": _in_duckdb(statement),
        "names": _names(statement),
        "body": bool(_or_not(lambda: statement.body)),
    }


def in_lower_case(said: Any) -> Any:
    """Return the same with names in lower case, as lower_case_table_names has them."""
    if isinstance(said, tuple) and len(said) == 2 and all(isinstance(part, str) for part in said):
        return tuple(part.lower() for part in said)
    if isinstance(said, tuple | list | frozenset):
        return type(said)(in_lower_case(part) for part in said)
    return {key: in_lower_case(value) for key, value in said.items()} if isinstance(said, Mapping) else said


def apart(said: Said) -> list[str]:
    """Return which readers do not agree with each other."""
    kind, (tables, parts) = said["kind"][0], (said["tables"], said["filter"])
    if parts == _NOTHING:
        return [name for name in ("kind", "tables") if said[name] not in (None, ("", "QUERY", 0))]
    named = {name for part in parts for name in part[2] if name[1]}
    found = [] if set(tables) == named else ["tables and filter"]
    planned = {name for name in said["replay"][0] if name[1]} if said["replay"][0] else set()
    found += [] if planned == named else ["replay and filter"]
    found += [] if said["undo"][0] >= named else ["undo and filter"]
    found += [] if {part[0] for part in parts} <= {kind} else ["kind and filter"]
    shown = {name for _, name, _ in said["messages"] if name[1]}
    found += [] if shown <= named else ["messages and filter"]
    return found


def _or_not(ask: Any) -> Any:
    try:
        return ask()
    except (SnapshotStoreError, DdlNotUnderstoodError, ReplayStopped, ConfigError) as error:
        return type(error).__name__


def _messages(statement: Statement) -> list[Any]:
    names = named_by(statement) or ()
    ddl = Ddl(_BEGIN, statement, _BEGIN.file, names, (), (), ORIGIN)
    found = []
    for name, maker in _FORMATS.items():
        for message in maker.ddl(ddl, 0):
            value = json.loads(message.value or b"{}")
            found.append((name, (message.schema, message.table), str(value.get("type", value.get("t")))))
    return found


def _filtered(statement: Statement) -> Any:
    try:
        parts = statement.parts
    except DdlNotUnderstood:
        return _NOTHING
    return [(p.action, p.kind, p.tables, p.is_global, p.frees, _or_not(lambda: _FILTER.ddl(p).outcome)) for p in parts]  # noqa: B023


def _planned(statement: Statement, chosen: Filter | None) -> Any:
    plan = _or_not(lambda: plan_statement(statement, chosen))
    if isinstance(plan, str):
        return (), plan
    return plan.tables, [step.tables for step in plan.steps], len(plan.left_out), plan.is_global


def _transaction(statement: Statement) -> Transaction:
    piece = Piece(EventType.QUERY_EVENT, 0, 1, 0, statement.query.pack())
    return Transaction(piece, Gtid(0, bytes(16), 0), (piece,), None, statement, "binlog.000001", 4)


def _streamed(statement: Statement) -> Any:
    made = _or_not(lambda: _CHOOSER.choose(_transaction(statement), statement))
    if isinstance(made, str) or made is None:
        return made
    comes = Statement(type(statement.query).parse(made.pieces[0].body))
    return comes.text == statement.text, action_of(comes.ddl), comes.tables


def _for_mariadb(statement: Statement) -> Any:
    notes: list[str] = []
    made = for_mariadb(_transaction(statement), notes.append)
    if made is None:
        return None, len(notes)
    comes = Statement(type(statement.query).parse(made.pieces[0].body))
    return comes.text == statement.text, len(notes)


def _undone(statement: Statement) -> Any:
    def tables() -> frozenset[Name]:
        concerned = {name for effect in statement.effects.all for name in (effect.table, effect.other) if name}
        asked: Any = [_Table(name) for name in sorted({*concerned, ("other", "other")}) if name[1]]
        return frozenset((t.schema, t.name) for t in touched_by(StatementAt(_BEGIN, statement, True), asked))

    exact = after_ddl(statement.ddl, frozenset(), Written.NAMED) is not None
    return _or_not(tables), exact, keeps_rows(statement.ddl.result), keeps_values(statement.ddl.result)


def _in_duckdb(statement: Statement) -> Any:
    ddl = statement.ddl_in(StatementSession.of(statement).ddl)
    return _or_not(lambda: type(understood(Catalog(), ddl, statement.schema)[0]).__name__)


def _names(statement: Statement) -> Any:
    name = (statement.tables or ((statement.schema, "none"),))[0]
    walk = _Walk(1, name)
    walk.take(StatementAt(_BEGIN, statement, True))
    found = walk.found("u", 9)
    return [[(n.schema, n.name) for n in t.names] for t in found.tenures], len(found.others)
