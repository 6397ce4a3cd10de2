"""Converts a PolarDB-X DDL statement to the form that MySQL executes and the form that PolarDB-X reads.

Both forms are the user's own text with pieces cut out. Text is added only where a marker knows more: a table's
collation, its name if the statement has another, a key that MySQL requires. Source of the rules: behaviour of
PolarDB-X's own global binlog, and its documentation of each statement.
"""

from dataclasses import dataclass

from binlog_merge.polardbx.ddl.items import SHARD_KEY_PREFIX, read_index
from binlog_merge.polardbx.ddl.names import Names, ShardKey
from binlog_merge.polardbx.ddl.origin import cut_placement, one_line, read_comments
from binlog_merge.polardbx.ddl.partitions import PARTITIONS
from binlog_merge.polardbx.ddl.statements import read_statement
from binlog_merge.polardbx.ddl.text import Source, Target
from snapshot_store.ddl.actions import PartitionWork, SetPartitioning
from snapshot_store.ddl.parse.statement import ParsedDdl, parse_statement
from snapshot_store.ddl.statements import AlterTable
from snapshot_store.errors import DdlNotUnderstood
from snapshot_store.mysql.sql.session import DdlSession


@dataclass(frozen=True, slots=True)
class ConvertedDdl:
    """A statement in both forms.

    `parsed` is what MySQL executes, None if nothing in the statement is for MySQL. `origin` is what PolarDB-X reads, on
    a single line unless it has line ends that matter. `ddl_id` is the number of the job that ran it, 0 if unknown.
    """

    parsed: ParsedDdl | None
    origin: str
    ddl_id: int = 0

    @property
    def mysql(self) -> str | None:
        """Return the text that MySQL executes, None if there is none."""
        return None if self.parsed is None else self.parsed.sql


def convert(
    sql: str,
    *,
    schema: str | None = None,
    table: str | None = None,
    collation: str | None = None,
    charset: str | None = None,
    indexes: frozenset[str] | None = None,
    shard_keys: tuple[ShardKey, ...] = (),
    lower_names: bool = False,
    session: DdlSession | None = None,
) -> ConvertedDdl:
    """Return the two forms of a statement: what MySQL executes, and what PolarDB-X reads.

    `schema` and `table` are those of the statement's marker: of `DROP TABLE a, b` only that table is kept. `collation`
    is the table's and `charset` the database's; they are written out if the statement leaves them to the cluster's
    default. `indexes` are the lower-case names of the table's indexes before the statement; with None every dropped
    index is assumed to exist. With `lower_names` databases and tables are written in lower case, as PolarDB-X stores
    them. Raises DdlNotUnderstood, and nothing else.
    """
    session = session or DdlSession()
    source = Source(sql, session)
    names = Names(schema, table, collation, charset, indexes, shard_keys, lower_names)
    ddl_id = read_comments(source)
    cut_placement(source)
    public = read_statement(source, names)
    mysql = source.text(Target.MYSQL) if public else None
    parsed = None
    if mysql is not None:
        # The remaining text must be a statement that MySQL can run.
        parsed = ParsedDdl(mysql, source.cursor.session, parse_statement(mysql, source.cursor.session))
    elif _changes_table(sql, source.cursor.session):
        raise DdlNotUnderstood(sql, "it seems to hold nothing for MySQL, but MySQL sees a change of the table")
    return ConvertedDdl(parsed, one_line(source), ddl_id)


def _changes_table(sql: str, session: DdlSession) -> bool:
    """Return whether MySQL's own grammar sees an ALTER TABLE that does more than move data between partitions."""
    try:
        statement = parse_statement(sql, session)
    except DdlNotUnderstood:
        return False
    if not isinstance(statement, AlterTable) or statement.kind != "ALTER TABLE":
        return False
    return any(not isinstance(action, PartitionWork | SetPartitioning) for action in statement.actions)


def has_private_syntax(sql: str, session: DdlSession | None = None) -> bool:
    """Return whether a statement has syntax that MySQL does not know; False for one that is not understood."""
    try:
        source = Source(sql, session or DdlSession(), native=True)
        read_comments(source)
        return not read_statement(source, Names()) or source.edited
    except DdlNotUnderstood:
        return False


def origin_of(sql: str, session: DdlSession | None = None) -> ConvertedDdl:
    """Return only the form that PolarDB-X reads, for a statement that MySQL does not get.

    Never fails: a statement that cannot be tokenized, such as a Java function, keeps its text.
    """
    try:
        source = Source(sql, session or DdlSession())
    except DdlNotUnderstood:
        return ConvertedDdl(None, sql.strip())
    ddl_id = read_comments(source)
    cut_placement(source)
    cursor = source.cursor
    while cursor.peek().kind != "end":
        if cursor.at("MOVE") and cursor.word(1) in PARTITIONS and cursor.place:
            # The placement of data does not concern another cluster.
            source.cut_text(source.token(cursor.place - 1).end, len(sql), Target.ORIGIN)
            break
        cursor.next()
    return ConvertedDdl(None, one_line(source), ddl_id)


def shard_keys_of(sql: str, session: DdlSession | None = None) -> tuple[ShardKey, ...]:
    """Return the indexes on sharding columns that the cluster added to its own form of a CREATE TABLE.

    Raises DdlNotUnderstood.
    """
    source = Source(sql, session or DdlSession())
    cursor = source.cursor
    found: list[ShardKey] = []
    while cursor.peek().kind != "end":
        start = cursor.place
        if cursor.word() in ("KEY", "INDEX") and cursor.peek(1).text.lower().startswith(SHARD_KEY_PREFIX):
            index = read_index(source)
            text = sql[source.token(start).start : source.token(cursor.place - 1).end]
            found.append(ShardKey(index.name or "", index.first, text))
        else:
            cursor.next()
    return tuple(found)


__all__ = [
    "ConvertedDdl",
    "DdlNotUnderstood",
    "ShardKey",
    "convert",
    "has_private_syntax",
    "origin_of",
    "shard_keys_of",
]
