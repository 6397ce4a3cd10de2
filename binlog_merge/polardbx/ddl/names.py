"""The names of databases and tables in a statement, and what its marker records about its table.

A PolarDB-X table has one name, in whatever case it is written; rows carry the lower-case name. A MySQL server may
distinguish case.
"""

from dataclasses import dataclass

from binlog_merge.polardbx.ddl.text import Source, Target
from snapshot_store.mysql.sql.lexer import Token
from snapshot_store.mysql.sql.names import is_reserved, quote_name
from snapshot_store.mysql.sql.session import DdlSession


@dataclass(frozen=True, slots=True)
class ShardKey:
    """An index that the cluster made itself, as its own form of the statement defines it."""

    name: str
    first: str | None
    text: str


@dataclass(frozen=True, slots=True)
class Names:
    """What is known about a statement from outside its text; None or empty if unknown.

    `schema_name` and `table` are the marker's; `collation` is the table's and `charset` the database's; `indexes` are
    the lower-case names of the table's indexes before the statement, None if they are unknown. `lower`: write names in
    lower case.
    """

    schema_name: str | None = None
    table: str | None = None
    collation: str | None = None
    charset: str | None = None
    indexes: frozenset[str] | None = None
    shard_keys: tuple[ShardKey, ...] = ()
    lower: bool = False

    def marked(self, source: Source) -> str:
        """Read the name of the statement's table and replace it by the marker's. Returns the name as written."""
        place = source.cursor.place
        name = source.cursor.table_name()[1]
        self._lower_schema(source, place)
        token = source.token(source.cursor.place - 1)
        wanted = self.table if self.table is not None else token.text
        wanted = wanted.lower() if self.lower else wanted
        if token.text.lower() != wanted.lower():
            _replace(source, token, wanted, Target.BOTH)
        elif self.lower and token.text != wanted:
            _replace(source, token, wanted, Target.MYSQL)
        return name

    def plain(self, source: Source) -> None:
        """Read the name of a table."""
        place = source.cursor.place
        source.cursor.table_name()
        self._lower_schema(source, place)
        self._lower(source, source.token(source.cursor.place - 1))

    def schema(self, source: Source) -> None:
        """Read the name of a database."""
        source.cursor.name()
        self._lower(source, source.token(source.cursor.place - 1))

    def _lower_schema(self, source: Source, place: int) -> None:
        if source.cursor.place - place > 1:
            self._lower(source, source.token(place))

    def _lower(self, source: Source, token: Token) -> None:
        if self.lower and token.text != token.text.lower():
            _replace(source, token, token.text.lower(), Target.MYSQL)


def _replace(source: Source, token: Token, name: str, target: Target) -> None:
    """Replace a token by another name, quoted if the old name was or the new one must be."""
    ordinary = name.replace("_", "").isalnum() and name.isascii() and not name.isdigit()
    plain = token.kind == "word" and ordinary and not is_newly_reserved(name)
    source.put(token.start, token.end, name if plain else quote_name(name), target)


def quote_new_words(source: Source) -> None:
    """Quote the names that MySQL reserves since 8.0 and PolarDB-X does not: a column `rank`, a table `groups`."""
    tokens = source.tokens()
    if any(t.kind == "word" and t.text.upper() == "SELECT" for t in tokens):
        return  # in a query these words may be keywords
    for token in tokens:
        if token.kind == "word" and is_newly_reserved(token.text):
            source.put(token.start, token.end, quote_name(token.text), Target.MYSQL)


def is_newly_reserved(word: str) -> bool:
    """Return whether a word is reserved in MySQL 9 and was not in 5.7."""
    return is_reserved(word, DdlSession()) and not is_reserved(word, DdlSession(server_version=50700))
