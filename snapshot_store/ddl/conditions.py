"""IF EXISTS and IF NOT EXISTS of columns, keys and partitions, which MariaDB has: what a statement with them does.

    ALTER TABLE t ADD COLUMN IF NOT EXISTS a INT, DROP COLUMN IF EXISTS b, ADD c INT      of a table with a, without b
    ALTER TABLE t ADD c INT

All conditions are about the table before the statement, and about what stands before them in it. An index without a
name has that of its first column for this. Source: `handle_if_exists_options` of MariaDB `sql/sql_table.cc`.

A CHECK without a name of its own is `t_chk_1` in MySQL, which is unique in a database; MariaDB calls it `CONSTRAINT_1`,
or nothing at all if a column's definition has it. So which one is meant by such a name is not known, and is refused.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from ipaddress import ip_address
from itertools import islice
from typing import Final

from snapshot_store.ddl.actions import (
    CONDITIONAL,
    Action,
    AddColumn,
    AddConstraint,
    ChangeColumn,
    DropColumn,
    DropConstraint,
    PartitionWork,
    RenameColumn,
    RenameIndex,
    SetDefault,
    SetVisible,
)
from snapshot_store.ddl.parse.statement import ParsedDdl, parsed
from snapshot_store.ddl.specs import CheckSpec, ForeignKeySpec, KeySpec, Value
from snapshot_store.ddl.statements import AlterTable, RenameTables
from snapshot_store.errors import DdlNotUnderstood, UnknownIndex
from snapshot_store.model import Catalog, Default, Table
from snapshot_store.mysql.column_type import ColumnType, Family
from snapshot_store.mysql.sql.cursor import Cursor, items_of, names_in
from snapshot_store.mysql.sql.edits import Edits
from snapshot_store.mysql.sql.functions import FUNCTIONS
from snapshot_store.mysql.sql.lexer import Token
from snapshot_store.mysql.sql.session import DdlSession

_OF_SERVERS: Final = re.compile(r"CONSTRAINT_\d+|.+_chk_\d+", re.IGNORECASE)
"""Names that the servers give to checks without one: MariaDB's, and MySQL's."""

_TRANSLATED: Final = 80400
_TEXTS: Final = {4: 15, 16: 32}
"""How many bytes addresses and UUIDs have, and how long a column is at least that has their texts."""
_UUID: Final = re.compile(r"[0-9A-Fa-f]{32}")
_OF_UUID: Final = re.compile(r"^\W*(?:uuid|uuid_v4|uuid_v7|sys_guid)\s*\(", re.IGNORECASE)
_OF_CHANCE: Final = re.compile(
    rf"\b(?:{'|'.join(name for name, function in FUNCTIONS.items() if function.unsafe)})\s*\(", re.IGNORECASE
)
"""Calls that may give each row another value."""
_STRING: Final = re.compile(r"'[^']*'")


def is_conditional(action: Action) -> bool:
    """Return whether an action says IF EXISTS or IF NOT EXISTS."""
    return isinstance(action, CONDITIONAL) and action.conditional


def without_conditions(table: Table, actions: Sequence[Action]) -> tuple[Action, ...]:
    """Return the actions that do something to a table, as they are without IF EXISTS and IF NOT EXISTS.

    Raises UnknownIndex for the name of a check that the node may call otherwise.
    """
    if not any(map(is_conditional, actions)):
        return tuple(actions)
    made: list[Action] = []
    for action in actions:
        done = _done(table, action, made)
        made += [] if done is None else [done]
    return tuple(made)


def _done(table: Table, action: Action, before: Sequence[Action]) -> Action | None:
    """Return an action without its condition, None if that does not hold."""
    if not isinstance(action, CONDITIONAL) or not action.conditional:
        return action
    if isinstance(action, PartitionWork):
        return _partitions(table, action)
    return replace(action, conditional=False) if _holds(table, action, before) else None


def _holds(table: Table, action: Action, before: Sequence[Action]) -> bool:
    match action:
        case AddColumn(column=column):
            added = {a.column.name.lower() for a in before if isinstance(a, AddColumn | ChangeColumn)}
            return table.index_of(column.name) is None and column.name.lower() not in added
        case DropColumn(name=name):
            dropped = {a.name.lower() for a in before if isinstance(a, DropColumn)}
            return table.index_of(name) is not None and name.lower() not in dropped
        case ChangeColumn(old=name) | RenameColumn(old=name) | SetDefault(name=name):
            return table.index_of(name) is not None
        case SetVisible(what="column", name=name):
            return table.index_of(name) is not None
        case RenameIndex(old=name) | SetVisible(name=name):
            return name.lower() in _indexes(table)
        case AddConstraint(constraint=constraint):
            if isinstance(constraint, CheckSpec):
                check_is_certain(table, constraint.name or "")
            added = {_called(a.constraint) for a in before if isinstance(a, AddConstraint)}
            known = _indexes(table) if isinstance(constraint, KeySpec) else _constraints(table, type(constraint))
            return _called(constraint) not in {*known, *added}
        case DropConstraint(kind=kind, name=name):
            gone = {a.name.lower() for a in before if isinstance(a, DropConstraint) and a.kind == kind}
            if kind in ("check", "any") and name.lower() not in gone:
                check_is_certain(table, name)
            return name.lower() in _droppable(table, kind) - gone
        case _:
            return True


def check_is_certain(table: Table, name: str) -> None:
    """Raise UnknownIndex if a name may be that of a check that has none of its own."""
    if not _OF_SERVERS.fullmatch(name):
        return
    known = [check for check, _ in table.checks]
    unnamed = [check for check in known if re.fullmatch(rf"{re.escape(table.name)}_chk_\d+", check, re.IGNORECASE)]
    own = {check.lower() for check in known} - {check.lower() for check in unnamed}
    if not unnamed or name.lower() in own:
        return
    raise UnknownIndex(
        f"table {table.schema}.{table.name} may have a check {name}: it has checks whose names the servers choose "
        f"({', '.join(unnamed)} in MySQL, CONSTRAINT_1 and so on in MariaDB); give the statement with the name in MySQL"
    )


def _indexes(table: Table) -> set[str]:
    return {index.name.lower() for index in table.indexes}


def _constraints(table: Table, kind: type) -> set[str]:
    if kind is ForeignKeySpec:
        return {key.name.lower() for key in table.foreign_keys}
    return {name.lower() for name, _ in table.checks}


def _droppable(table: Table, kind: str) -> set[str]:
    keys, checks = _constraints(table, ForeignKeySpec), _constraints(table, CheckSpec)
    known = {"index": _indexes(table), "foreign key": keys, "check": checks}
    unique = {index.name.lower() for index in table.unique_keys}
    return known.get(kind, unique | keys | checks)


def _called(constraint: KeySpec | ForeignKeySpec | CheckSpec) -> str:
    """Return the name by which a new key or constraint is looked for: of a foreign key that of its index first."""
    if isinstance(constraint, ForeignKeySpec) and constraint.index_name is not None:
        return constraint.index_name.lower()
    if constraint.name is not None:
        return constraint.name.lower()
    if isinstance(constraint, KeySpec):
        return (constraint.parts[0].column or "").lower()
    return constraint.columns[0].lower() if isinstance(constraint, ForeignKeySpec) else ""


def _partitions(table: Table, work: PartitionWork) -> PartitionWork | None:
    known = {name.lower() for name in (table.partitioning.names if table.partitioning else ())}
    if work.kind == "ADD":
        there = any(one.name.lower() in known for one in work.partitions)
        return None if there else replace(work, conditional=False)
    names = tuple(name for name in work.names if name.lower() in known)
    return replace(work, names=names, conditional=False) if names else None


def settled(ddl: ParsedDdl, catalog: Catalog, database: str | None) -> ParsedDdl | None:
    """Return what a statement with conditions does to a catalog, as a statement without them; None if nothing.

    One without conditions is returned as it is, and so is one on a table that is not known, unless it says IF EXISTS of
    the table. Raises DdlNotUnderstood.
    """
    statement = ddl.statement
    if isinstance(statement, RenameTables) and statement.if_exists:
        return _renamed(ddl, statement, catalog, database)
    if not isinstance(statement, AlterTable):
        return ddl
    table = catalog.get(statement.table[0] or database or "", statement.table[1])
    if table is not None and _may_be_of_mariadb(ddl.session):
        _check_texts(ddl, table, statement.actions)
    if not (statement.if_exists or any(map(is_conditional, statement.actions))):
        return ddl
    if table is None:
        return None if statement.if_exists else ddl
    if statement.actions and not without_conditions(table, statement.actions):
        return None
    cursor = parsed(ddl.sql, ddl.session)
    edits = Edits(cursor)
    if statement.kind == "ALTER TABLE":
        _cut_actions(edits, cursor, table, statement.actions)
    return _bare(ddl, cursor, edits)


def _may_be_of_mariadb(session: DdlSession) -> bool:
    """Return whether a statement's session is as translations of MariaDB's binlogs have it."""
    return session.server_version == _TRANSLATED and session.default_collation_for_utf8mb4 == "utf8mb4_general_ci"


def _check_texts(ddl: ParsedDdl, table: Table, actions: Sequence[Action]) -> None:
    """Raise DdlNotUnderstood where MariaDB may have the text of an address or a UUID, and MySQL its bytes."""
    columns = {
        column.name.lower(): column.type
        for column in table.columns
        if column.type.name == "binary" and column.type.length in _TEXTS
    }
    for action in actions:
        _check_values(ddl, action)
        for names, text in _texts(action, ddl.session) if columns else ():
            met = names & columns.keys()
            if met and not isinstance(action, SetDefault):
                raise DdlNotUnderstood(
                    ddl.sql,
                    f"an expression takes {', '.join(sorted(met))}, which may be an address or a UUID: MariaDB has its "
                    "text in an expression, and MySQL its bytes; give the statement with what MySQL is to compute",
                )
            value = next((one[1:-1] for one in _STRING.findall(text) if _is_written(one[1:-1])), None)
            if value is None and isinstance(action, SetDefault) and _OF_UUID.search(text):
                value = text
            if value is not None and met:
                raise DdlNotUnderstood(
                    ddl.sql,
                    f"{value!r}, the text of an address or a UUID, is meant for {', '.join(sorted(met))}, which has "
                    "its bytes: give the statement with the bytes, x'…' or UUID_TO_BIN(UUID())",
                )
        if isinstance(action, ChangeColumn) and (at := table.index_of(action.old)) is not None:
            old, new = table.columns[at].type, action.column.type.type
            if _is_written_as(old, new, 0) or _is_written_as(new, old):
                raise DdlNotUnderstood(
                    ddl.sql,
                    f"{action.old} may become the text of an address or a UUID on MariaDB, or its bytes, and would be "
                    f"neither on MySQL: {old.name.upper()} to {new.name.upper()}; give the statements that do it there",
                )


def _check_values(ddl: ParsedDdl, action: Action) -> None:
    """Raise DdlNotUnderstood for a new column whose DEFAULT is another value in each row: MySQL does not run such a
    statement (1674), and a MariaDB does not log which values its rows have got.
    """
    added = action.column.default if isinstance(action, AddColumn) else None
    if isinstance(added, Default) and added.kind == "expression" and _OF_CHANCE.search(added.text):
        raise DdlNotUnderstood(
            ddl.sql,
            f"the rows that are there get values of {added.text}, which the log does not have, and MySQL refuses the "
            "statement (1674): give the column without this DEFAULT, then its values, then the DEFAULT",
        )


def _is_written_as(stored: ColumnType, text: ColumnType, least: int | None = None) -> bool:
    """Return whether a column may have the texts of addresses or UUIDs of which another one has the bytes. It is at
    least as long as most of these, or as `least`: texts are written as far as they fit (`::1`).
    """
    longest = _TEXTS.get(stored.length or 0) if stored.name == "binary" else None
    least = longest if least is None else least
    return longest is not None and text.family is Family.TEXT and (text.length is None or text.length >= (least or 0))


def _texts(action: Action, session: DdlSession) -> Iterator[tuple[set[str], str]]:
    """Yield the columns and words that values and expressions of an action are about, and their texts."""
    match action:
        case SetDefault(name=name, default=Value(kind="string", text=text)):
            yield {name.lower()}, f"'{text}'"
        case SetDefault(name=name, default=Default(kind="expression", text=text)):
            yield {name.lower()}, text
        case AddConstraint(constraint=CheckSpec(expression=text)):
            yield names_in(text, session), text
        case AddColumn(column=column) | ChangeColumn(column=column):
            texts = [one.expression for one in column.constraints if isinstance(one, CheckSpec)]
            texts += [] if column.generated is None else [column.generated.expression]
            if isinstance(column.default, Default) and column.default.kind == "expression":
                texts.append(column.default.text)
            yield from ((names_in(text, session), text) for text in texts)


def _is_written(text: str) -> bool:
    """Return whether a text is that of an address or a UUID, in which hyphens may stand anywhere."""
    if _UUID.fullmatch(text.replace("-", "")):
        return True
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _renamed(ddl: ParsedDdl, statement: RenameTables, catalog: Catalog, database: str | None) -> ParsedDdl | None:
    tables, kept = {*catalog.tables, *catalog.views}, list[bool]()
    for pair in statement.pairs:
        old, new = ((schema or database or "", name) for schema, name in pair)
        kept.append(old in tables)
        tables = tables - {old} | {new} if kept[-1] else tables
    if not any(kept):
        return None
    cursor = parsed(ddl.sql, ddl.session)
    edits = Edits(cursor)
    _cut(edits, cursor.tokens, [(first, stop) for first, stop, _ in cursor.items], kept)
    return _bare(ddl, cursor, edits)


def _bare(ddl: ParsedDdl, cursor: Cursor, edits: Edits) -> ParsedDdl:
    """Return the statement with all edits, and without the words of its conditions."""
    for start, end in cursor.conditions:
        edits.remove(start, end)
    return ParsedDdl.of(edits.applied().strip(), ddl.session)


def _cut_actions(edits: Edits, cursor: Cursor, table: Table, actions: Sequence[Action]) -> None:
    """Cut the actions of an ALTER TABLE whose conditions do not hold."""
    tokens, before, kept = cursor.tokens, list[Action](), list[bool]()
    left = zip(actions, cursor.actions, strict=True)
    for _, stop, count in cursor.items:
        own, held = list(islice(left, count)), list[bool]()
        for action, _ in own:
            done = _done(table, action, before)
            held.append(done is not None)
            before += [] if done is None else [done]
            if isinstance(action, PartitionWork) and isinstance(done, PartitionWork):
                names = items_of(tokens, stop - 2 * len(action.names) + 1, stop) if action.names else ()
                _cut(edits, tokens, names, [name in done.names for name in action.names])
        kept.append(any(held) or not own)
        if any(held) and not all(held):  # ADD IF NOT EXISTS (a INT, b INT)
            _cut(edits, tokens, [span for _, span in own], held)
    _cut(edits, tokens, [(first, stop) for first, stop, _ in cursor.items], kept)


def _cut(edits: Edits, tokens: Sequence[Token], bounds: Sequence[tuple[int, int]], kept: Sequence[bool]) -> None:
    """Remove items of a list that are not kept, each with a comma if one stands beside it."""
    any_before = False
    for (first, stop), keep in zip(bounds, kept, strict=True):
        if not keep and any_before:
            edits.remove(tokens[first - 1].start, tokens[stop - 1].end)
        elif not keep:
            more = stop < len(tokens) and tokens[stop].text == "," and tokens[stop].kind == "symbol"
            edits.remove(tokens[first].start, tokens[stop + 1].start if more else tokens[stop - 1].end)
        any_before = any_before or keep
