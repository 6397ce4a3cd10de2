"""The tables that a query names, found by its tokens, so that any query can be read.

    WITH c AS (SELECT * FROM a) SELECT … FROM c JOIN d.b x, (SELECT 1 FROM e) …        a, d.b, e

A table's name follows FROM, JOIN, TABLE, or a comma in such a list. A FROM in the parentheses of a function is not one
(`TRIM(x FROM y)`), and a name that WITH defines is not a table unless a database precedes it.
"""

from dataclasses import dataclass

from snapshot_store.mysql.sql.cursor import Cursor, TableName
from snapshot_store.mysql.sql.functions import function

_JOINS = frozenset({"JOIN", "STRAIGHT_JOIN"})
_LIST_ENDS = frozenset(
    {"WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "WINDOW", "FOR", "UNION", "EXCEPT", "INTERSECT", "INTO", "SELECT"}
)
_NO_TABLES = _LIST_ENDS | {"DUAL", "JSON_TABLE", "LATERAL", "TABLE", "VALUES", "WITH"}


@dataclass
class _Level:
    """The state within one pair of parentheses.

    `of_function`: FROM belongs to a function. `listing`: a list of tables is open. `awaits`: a table's name is next.
    """

    of_function: bool = False
    listing: bool = False
    awaits: bool = False

    def take(self, word: str) -> None:
        """Update the state after a word."""
        if (word == "FROM" and not self.of_function) or word == "TABLE":
            self.listing = self.awaits = True
        elif word in _JOINS and self.listing:  # after SELECT, STRAIGHT_JOIN is a modifier
            self.awaits = True
        elif word in _NO_TABLES:
            self.awaits = False
            self.listing = self.listing and word not in _LIST_ENDS


def tables_of_query(cursor: Cursor) -> tuple[TableName, ...]:
    """Read to the end of the statement; return the tables that its query names, each once, in order."""
    tables: dict[TableName, None] = {}
    given: set[str] = set()
    levels, before, with_names = [_Level()], "", False
    while not cursor.done:
        here, word = levels[-1], cursor.word()
        if with_names and _at_given_name(cursor):
            given.add(cursor.peek().text.lower())
        if cursor.accept_symbol("("):
            # A table or join in parentheses continues the list; a query in parentheses begins another.
            levels.append(_Level(function(before.lower()).has_from, here.awaits, here.awaits))
        elif cursor.accept_symbol(")"):
            levels = levels[:-1] or [_Level()]
            levels[-1].awaits = False
        elif cursor.accept_symbol(","):
            here.awaits = here.listing
        elif here.awaits and cursor.at_name() and word not in _NO_TABLES:
            tables[cursor.table_name()] = None
            here.awaits = False
        else:
            cursor.next()
            here.take(word)
            with_names = with_names or word == "WITH"
        before = word
    return tuple(name for name in tables if name[0] is not None or name[1].lower() not in given)


def _at_given_name(cursor: Cursor) -> bool:
    """Return whether `name AS (` or `name (columns) AS (` comes next, with which WITH defines a name."""
    if not cursor.at_name():
        return False
    start = cursor.place
    try:
        cursor.next()
        if cursor.at_symbol("("):
            cursor.parenthesized()
        return cursor.word() == "AS" and cursor.at_symbol("(", 1)
    finally:
        cursor.place = start
