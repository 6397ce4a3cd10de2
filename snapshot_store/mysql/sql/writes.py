"""Which tables a statement that changes rows writes, as far as its text alone tells with certainty."""

from collections.abc import Iterator
from dataclasses import dataclass

from snapshot_store.errors import DdlNotUnderstood
from snapshot_store.mysql.sql.cursor import Cursor, TableName
from snapshot_store.mysql.sql.functions import CANONICAL, FUNCTIONS, NATIVE_PREFIXES
from snapshot_store.mysql.sql.names import is_reserved
from snapshot_store.mysql.sql.session import DdlSession

_NO_CALLS = frozenset(("value", "against", "row"))
"""Words that are not reserved, and may have a parenthesis behind them."""


@dataclass(frozen=True, slots=True)
class Writes:
    """A statement's kind, the tables that it writes (of a statement on several tables, all of them), and the words that
    qualify other names.
    """

    kind: str
    tables: tuple[TableName, ...]
    qualifiers: frozenset[str]
    unqualified: bool = False
    """Whether it reads a table without naming its database."""


def written_by(sql: str, session: DdlSession) -> Writes | None:
    """Return what an INSERT, REPLACE, UPDATE, DELETE or LOAD DATA writes; None if the text does not tell.

    It does not if the statement calls a function that is not built in, which may write anywhere, or is of another kind.
    What triggers write is never in the text. CREATE and DROP TEMPORARY TABLE write no table.
    """
    try:
        cursor = Cursor.of(sql, session)
        kind, tables = _target(cursor)
        if not tables and not kind.endswith("TEMPORARY TABLE"):
            return None
        if _calls(cursor):
            return None
    except DdlNotUnderstood:
        return None
    names = Cursor.of(sql, session)
    return Writes(kind, tuple(tables), frozenset(_qualifiers(names)), _reads_unqualified(Cursor.of(sql, session)))


def _target(cursor: Cursor) -> tuple[str, list[TableName]]:
    """Return the statement's kind and the tables that it writes; the cursor is then behind them."""
    verb = cursor.word()
    cursor.next()
    match verb:
        case "INSERT" | "REPLACE":
            _skip(cursor, "LOW_PRIORITY", "DELAYED", "HIGH_PRIORITY", "IGNORE", "INTO")
            tables = [cursor.table_name()]
            if cursor.accept("PARTITION"):
                cursor.parenthesized()
            _columns(cursor)
            return verb, tables
        case "UPDATE":
            _skip(cursor, "LOW_PRIORITY", "IGNORE")
            return verb, list(_references(cursor, "SET"))
        case "DELETE":
            _skip(cursor, "LOW_PRIORITY", "QUICK", "IGNORE")
            if not cursor.accept("FROM"):
                while not cursor.at("FROM"):  # aliases and tables of those behind FROM
                    cursor.next()
                    if cursor.done:
                        raise cursor.error("expected FROM")
                cursor.expect("FROM")
            return verb, list(_references(cursor, "WHERE", "ORDER", "LIMIT"))
        case "LOAD":
            while not cursor.at("INTO", "TABLE"):
                cursor.next()
                if cursor.done:
                    raise cursor.error("expected INTO TABLE")
            cursor.expect("INTO", "TABLE")
            return "LOAD DATA", [cursor.table_name()]
        case "CREATE" | "DROP" if cursor.accept("TEMPORARY", "TABLE"):
            if cursor.accept("IF"):
                _skip(cursor, "NOT", "EXISTS")
            cursor.table_name()
            _columns(cursor)
            return f"{verb} TEMPORARY TABLE", []
    raise cursor.error("not a statement that changes rows")


def _columns(cursor: Cursor) -> None:
    """Skip a list of columns or their definitions, if one comes next."""
    if cursor.at_symbol("(") and cursor.word(1) not in ("SELECT", "WITH", "TABLE", "VALUES"):
        cursor.parenthesized()


def _skip(cursor: Cursor, *words: str) -> None:
    while cursor.accept_one(*words):
        pass


def _references(cursor: Cursor, *ends: str) -> Iterator[TableName]:
    """Yield the tables of a list of table references, up to a word that ends it; raise for derived tables."""
    expects = True
    while not cursor.done and cursor.word() not in ends:
        if expects:
            table = cursor.table_name()
            if cursor.accept_symbol("."):  # `t.*` in DELETE FROM t.* USING …
                cursor.expect_symbol("*")
            yield table
            expects = False
        elif cursor.at_symbol("("):
            cursor.parenthesized()
        else:
            expects = cursor.at_symbol(",") or cursor.word() in ("JOIN", "STRAIGHT_JOIN", "USING")
            joins_by = cursor.word() == "USING" and cursor.at_symbol("(", 1)
            cursor.next()
            expects = expects and not joins_by


def _calls(cursor: Cursor) -> bool:
    """Return whether, from here on, a name is called that may be no built-in function, or another statement follows."""
    while cursor.peek().kind != "end":
        token = cursor.next()
        if token.kind == "symbol" and token.text == ";" and cursor.peek().kind != "end":
            return True
        if not cursor.at_symbol("(") or token.kind not in ("word", "name"):
            continue
        before = cursor.peek(-2)
        if token.kind == "name" or (before.kind == "symbol" and before.text == "."):
            return True
        name = token.text.lower()
        built_in = name in FUNCTIONS or name in CANONICAL or name.startswith(NATIVE_PREFIXES)
        if not built_in and name not in _NO_CALLS and not is_reserved(token.text, cursor.session):
            return True
    return False


def _reads_unqualified(cursor: Cursor) -> bool:
    """Return whether a name without a qualifier follows FROM or JOIN."""
    while cursor.peek().kind != "end":
        if cursor.next().text.upper() in ("FROM", "JOIN") and cursor.at_name() and not cursor.at_symbol(".", 1):
            return True
    return False


def _qualifiers(cursor: Cursor) -> Iterator[str]:
    while cursor.peek().kind != "end":
        token = cursor.next()
        if token.kind in ("word", "name") and cursor.at_symbol("."):
            yield token.text
