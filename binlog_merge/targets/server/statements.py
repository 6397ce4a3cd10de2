"""Executes DDL on a MySQL target restartably: DDL commits implicitly, so it cannot be atomic with the position.

    record the intent and the tables' fingerprint ── execute ── record that it is done

If the replay is killed in between, the next run finds the intent. DDL is atomic in MySQL 8.0 and later: if the tables'
fingerprint has changed, the DDL is done; else it is executed (perhaps again, if it had no visible effect: no rows were
applied in between). The fingerprint covers definitions and InnoDB's table id, which a rename keeps and TRUNCATE does
not.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from binlog_merge.binlog.query import StatusVar
from binlog_merge.binlog.query_session import UTF8MB4_GENERAL_CI, SessionVariables
from binlog_merge.errors import ReplayStopped
from binlog_merge.files.failpoint import failpoint
from binlog_merge.filters.ddl import DdlEvent
from binlog_merge.filters.filter import MIXED_REMEDY, Filter
from binlog_merge.log.statement import Statement
from binlog_merge.targets.server.ledger import BegunDdl
from binlog_merge.targets.server.mysql import META_SCHEMA, RowSession, Session, passes
from snapshot_store.ddl.effects import Name, Verb, renamed_columns
from snapshot_store.errors import DdlNotUnderstood
from snapshot_store.mysql.sql.names import quote_name
from snapshot_store.surrogates import shown

_CORRECT: Final = "correct the filter, or the target by hand"
_ABSENT: Final = frozenset({1049, 1109, 1146})
_DENIED: Final = frozenset({1044, 1142, 1227})


@dataclass(frozen=True, slots=True)
class Step:
    """A statement to execute, and the tables whose fingerprint shows its effect."""

    text: str
    tables: tuple[Name, ...]
    schema: str

    @property
    def shown(self) -> str:
        """Return the text for people."""
        return shown(self.text)


@dataclass(frozen=True, slots=True)
class Plan:
    """The parts of a statement that the filter lets pass; `left_out` names the others and the rules.

    `is_global`: all tables must wait for it, judging by the statement alone. `ties`: it may create or drop foreign
    keys, or change the names by which they are known.
    """

    steps: tuple[Step, ...]
    left_out: tuple[str, ...] = ()
    is_global: bool = True
    ties: bool = True

    @property
    def tables(self) -> tuple[Name, ...]:
        """Return the tables of all steps."""
        return tuple(dict.fromkeys(table for step in self.steps for table in step.tables))


def plan_statement(statement: Statement, chosen: Filter | None, commit_tso: int | None = None) -> Plan:
    """Return the steps of a statement. Raises ReplayStopped if the filter forbids it or cannot judge it."""
    schema = statement.schema
    try:
        events = statement.parts
    except DdlNotUnderstood as error:
        if chosen is not None:
            raise ReplayStopped(f"the filter cannot tell what a statement is about: {error.reason}") from None
        return Plan((Step(statement.text, ((schema, ""),), schema),))
    tables = tuple(dict.fromkeys(table for event in events for table in event.tables))
    whole = Step(statement.text, tables or ((schema, ""),), schema)
    is_global, ties = len(events) != 1 or events[0].is_global, any(map(_ties, events))
    if chosen is None:
        return Plan((whole,), (), is_global, ties)
    if not events:
        return Plan((), (f"{statement.text}: changes no table",))
    steps: list[Step] = []
    left_out: list[str] = []
    for event in events:
        decision = chosen.ddl(event, commit_tso=commit_tso)
        if decision.outcome == "error":
            raise ReplayStopped(
                f"{event.text}: {decision.rule}",
                remedy=f"{MIXED_REMEDY}; --skip passes over the transaction" if decision.mixed else _CORRECT,
            )
        if decision.outcome == "restate":
            raise ReplayStopped(
                f"{event.text}: {decision.rule}, and a replay does not know what it was",
                remedy="choose both tables; or filter when merging, `merge --filter`, which writes the columns out; or "
                "make the table at the target by hand and pass over this transaction with --skip",
            )
        if decision.outcome == "apply":
            steps.append(Step(event.text, event.tables, schema))
        else:
            left_out.append(f"{event.text}: {decision.rule}")
    return Plan(tuple(steps) if left_out else (whole,), tuple(left_out), is_global, ties)


def _ties(event: DdlEvent) -> bool:
    """Return whether a part of a statement is about foreign keys, or may be about what they name."""
    effects = event.effects
    if event.is_schema or event.frees or effects.moves or effects.having(Verb.REFER):
        return True
    return any(old.lower() != new.lower() for old, new in renamed_columns(event.ddl.statement))


def carry_out(
    session: RowSession, rank: int, statement: Statement, steps: Sequence[Step], found: BegunDdl, first: int = 0
) -> None:
    """Execute the steps that are not done yet; `found` is an earlier run's progress in this transaction.

    `first` is the number of its first step in the transaction.
    """
    import pymysql

    for number, step in enumerate(steps, first):
        if number < found.step:
            continue
        before = fingerprint(session, step.tables)
        text = step.shown
        begun = number == found.step and found.intent == text
        if not (begun and found.before != before):
            if not begun:
                _note(session, rank, BegunDdl(number, text, before))
            failpoint("replay-intended")
            try:
                _run(session, statement, step)
            except pymysql.MySQLError as error:
                if not passes(error):
                    # Refused, so without effect. A correction at the target must not be mistaken for its effect.
                    _note(session, rank, BegunDdl(number))
                raise
            failpoint("replay-ddl-done")
        _note(session, rank, BegunDdl(number + 1))
        failpoint("replay-step-done")


def forget(session: RowSession, rank: int) -> None:
    """Remove a DDL's intent, in the transaction that records the DDL as applied."""
    session.run(
        f"DELETE FROM {META_SCHEMA}.replay_ddl WHERE cluster = %s AND `rank` = %s", (session.target.cluster, rank)
    )


def _note(session: RowSession, rank: int, now: BegunDdl) -> None:
    """Record the progress of a DDL, before and after a step."""
    session.run(
        f"REPLACE INTO {META_SCHEMA}.replay_ddl (cluster, `rank`, step, intent, before_intent) "
        "VALUES (%s, %s, %s, %s, %s)",
        (session.target.cluster, rank, now.step, now.intent, now.before),
    )


def _run(target: Session, statement: Statement, step: Step) -> None:
    if step.schema and not statement.suppress_use and _there(target, step.schema):
        target.use(step.schema)
    own = {str(name): str(value) for name, value in target.ask(f"SHOW SESSION VARIABLES WHERE {KEPT}")}
    settings = settings_of(statement, own)
    target.run(settings)
    target.send(statement.query.with_text(step.text).query)
    for setting in afterwards(settings, own):
        target.run(setting)


def _there(target: Session, schema: str) -> bool:
    return bool(target.ask("SELECT 1 FROM information_schema.schemata WHERE schema_name = %s", (schema,)))


def fingerprint(target: Session, tables: Sequence[Name]) -> str:
    """Return a hash of the current definitions of tables and databases."""
    digest = hashlib.sha256()
    for schema, table in tables:
        for fact in _facts(target, schema, table):
            digest.update(repr(fact).encode())
    return digest.hexdigest()


def _facts(target: Session, schema: str, table: str) -> list[Any]:
    if not table:
        names = "SELECT table_name FROM information_schema.tables WHERE table_schema = %s ORDER BY 1"
        return [_shown(target, f"SHOW CREATE DATABASE {quote_name(schema)}"), target.ask(names, (schema,))]
    return [
        _shown(target, f"SHOW CREATE TABLE {quote_name(schema)}.{quote_name(table)}"),
        _innodb_id(target, schema, table),
    ]


def _shown(target: Session, sql: str) -> Any:
    return _unless(target, sql, (), _ABSENT)


def _innodb_id(target: Session, schema: str, table: str) -> Any:
    sql = "SELECT table_id FROM information_schema.innodb_tables WHERE name = %s"
    return _unless(target, sql, (f"{schema}/{table}",), _DENIED)


def _unless(target: Session, sql: str, arguments: Sequence[Any], errors: frozenset[int]) -> Any:
    """Return a query's rows, or None if the server returns one of these errors."""
    import pymysql

    try:
        return target.ask(sql, arguments or None)
    except pymysql.MySQLError as error:
        if error.args and error.args[0] in errors:
            return None
        raise


_RESTRICTED: Final = ("sql_require_primary_key", "default_table_encryption")
"""Variables that need a privilege beyond those of a replay: they are set only if the server's values differ."""
_THREAD: Final = "pseudo_thread_id"
"""It needs that privilege, too, so it is set only for statements that depend on it."""
KEPT: Final = "variable_name IN ({})".format(", ".join(f"'{name}'" for name in (*_RESTRICTED, _THREAD)))
"""The variables of the target's session that are restored after a statement, as an SQL condition."""
_NO_FOREIGN_KEY_CHECKS: Final = 1 << 26
_RELAXED_UNIQUE_CHECKS: Final = 1 << 27


def settings_of(statement: Statement, own: Mapping[str, str]) -> str:
    """Return the SET statement for a statement's session; `own` are the target's `KEPT` variables, if it has them."""
    session = SessionVariables.of(statement.query, statement.timestamp)
    client, _, _ = statement.query.status_vars.get(StatusVar.Q_CHARSET_CODE) or (UTF8MB4_GENERAL_CI, 0, 0)
    values: dict[str, Any] = {
        "timestamp": f"{statement.timestamp}.{session.microseconds or 0:06}",
        "sql_mode": session.sql_mode,
        "foreign_key_checks": 0 if session.flags2 & _NO_FOREIGN_KEY_CHECKS else 1,
        "unique_checks": 0 if session.flags2 & _RELAXED_UNIQUE_CHECKS else 1,
        "auto_increment_increment": session.auto_increment_increment,
        "auto_increment_offset": session.auto_increment_offset,
        "lc_time_names": session.lc_time_names,
        "character_set_client": client,
        "collation_connection": session.connection_collation,
        "collation_server": session.server_collation,
        "collation_database": session.database_collation or "DEFAULT",
        # Servers before 8.0 do not log it, and mean this one (mysql-server `Query_log_event::do_apply_event`).
        "default_collation_for_utf8mb4": session.utf8mb4_collation or UTF8MB4_GENERAL_CI,
    }
    if session.time_zone:
        values["time_zone"] = f"X'{session.time_zone.encode('latin-1').hex()}'"
    if session.explicit_defaults_for_timestamp is not None:
        values["explicit_defaults_for_timestamp"] = session.explicit_defaults_for_timestamp
    if "CONNECTION_ID" in statement.text.upper():
        values[_THREAD] = session.thread_id
    for name in _RESTRICTED:
        wanted = getattr(session, name)
        if wanted is not None and name in own and wanted != (own[name] == "ON"):
            values[name] = wanted
    return _set(values)


def afterwards(settings: str, own: Mapping[str, str]) -> tuple[str, ...]:
    """Return the statements that restore the session for rows."""
    kept = {name: value for name, value in own.items() if f" {name} = " in settings}
    rows = "sql_mode = '', foreign_key_checks = 1, unique_checks = 1, timestamp = DEFAULT, time_zone = '+00:00'"
    return ("SET NAMES utf8mb4", f"SET SESSION {rows}", *([_set(kept)] if kept else []))


def _set(values: Mapping[str, Any]) -> str:
    return "SET SESSION " + ", ".join(f"{name} = {value}" for name, value in values.items())
