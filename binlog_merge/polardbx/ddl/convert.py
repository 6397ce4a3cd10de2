"""Converts a PolarDB-X DDL statement to the form that MySQL executes and the form that PolarDB-X reads.

Both forms are the user's own text with pieces cut out. Text is added only where a marker knows more: a table's
collation, its name if the statement has another, a key that MySQL requires. Source of the rules: behaviour of
PolarDB-X's own global binlog, and its documentation of each statement.

The placement of data (LOCALITY), the number of the statement's job (DDL_ID), and hints for that job are cut. Then the
text is joined to a single line. Source: behaviour of PolarDB-X's own global binlog.
"""

import re
from dataclasses import dataclass

from binlog_merge.polardbx.ddl.alter import PARTITIONS, alter_table, drops_unknown_shard_key
from binlog_merge.polardbx.ddl.create import at_create_table, create_database, create_index, create_table
from binlog_merge.polardbx.ddl.items import SHARD_KEY_PREFIX, at_index, is_online_change, read_index, skip_algorithm
from binlog_merge.polardbx.ddl.text import Names, ShardKey, Source, Target, quote_new_words
from snapshot_store.ddl.actions import PartitionWork, SetPartitioning
from snapshot_store.ddl.parse.statement import ParsedDdl, parse_statement
from snapshot_store.ddl.statements import AlterTable
from snapshot_store.errors import DdlNotUnderstood
from snapshot_store.mysql.sql.cursor import Cursor
from snapshot_store.mysql.sql.edits import Comment
from snapshot_store.mysql.sql.lexer import Token
from snapshot_store.mysql.sql.session import DdlSession

_JOB_HINTS = ("GSI_BACKFILL_POSITION_MARK", "FP_PAUSE_AFTER_DDL_TASK_EXECUTION", "FP_STATISTIC_SAMPLE_ERROR")
_VALUE = r"(?:'[^']*'|\"[^\"]*\"|[^,()'\"]*)"
_JOB_HINT = rf"(?:{'|'.join(_JOB_HINTS)})\s*=\s*{_VALUE}"
_WITH_BODY = frozenset({"EVENT", "FUNCTION", "PROCEDURE", "TRIGGER"})
_DDL_ID = re.compile(r"/\*\s*DDL_ID\s*=\s*(\d+)\s*\*/", re.IGNORECASE)
_TDDL = re.compile(r"/\*\s*\+\s*TDDL\b", re.IGNORECASE)
_EMPTY_HINT = re.compile(r"/\*\s*\+?\s*TDDL\s*:?\s*(?:cmd_extra\s*\(\s*\))?\s*\*/", re.IGNORECASE)


def read_comments(source: Source) -> int:
    """Edit the hints and comments of a statement. Returns the number in `/*DDL_ID=n*/`, 0 without one."""
    number = 0
    for comment in source.comments:
        if comment.bracket:
            continue
        if job := _DDL_ID.fullmatch(comment.text):
            number = int(job[1])
            source.cut_text(comment.start, comment.end, Target.BOTH)
            continue
        if comment.text.startswith("/*"):
            _read_hint(source, comment)
        elif not has_body(source.cursor):
            # On a single line it would comment out all that follows.
            source.cut_text(comment.start, comment.end, Target.ORIGIN)
    return number


def _read_hint(source: Source, comment: Comment) -> None:
    text = _without_job_hints(comment.text)
    banged = source.sql.startswith("/!", comment.start)
    if _TDDL.match(comment.text):
        source.cut_text(comment.start, comment.end, Target.MYSQL)
        targets = Target.ORIGIN
    else:
        targets = Target.BOTH
    if _EMPTY_HINT.fullmatch(text):
        source.cut_text(comment.start, comment.end, targets)
    elif banged or text != comment.text:
        source.put(comment.start, comment.end, text, targets)


def _without_job_hints(text: str) -> str:
    text = re.sub(rf",\s*{_JOB_HINT}", "", text, flags=re.IGNORECASE)
    return re.sub(rf"\b{_JOB_HINT}\s*(?:,\s*)?", "", text, flags=re.IGNORECASE)


def cut_placement(source: Source) -> None:
    """Cut every LOCALITY, except in statements that only set it."""
    setting = False
    for place, token in enumerate(source.tokens()):
        setting = _word(token) == "SET" or (setting and token.text != ",")
        value = place + (2 if source.token(place + 1).text == "=" else 1)
        if _word(token) == "LOCALITY" and source.token(value).kind == "string" and not setting:
            source.cut(place, value + 1, Target.ORIGIN)


def one_line(source: Source) -> str:
    """Return the text for PolarDB-X, on a single line unless a string or a routine has line ends of its own."""
    text = source.text(Target.ORIGIN)
    if has_body(source.cursor) or _quoted_line_end(source):
        return text
    return text.replace("\r\n", " ").replace("\n", " ").replace("\r", " ")


def has_body(cursor: Cursor) -> bool:
    """Return whether a statement creates a routine, a trigger or an event, in whose body line ends are kept."""
    words = {cursor.word(ahead - cursor.place) for ahead in range(1, 16)}
    return cursor.word(-cursor.place) in ("CREATE", "ALTER") and bool(words & _WITH_BODY)


def _quoted_line_end(source: Source) -> bool:
    texts = (source.sql[t.start : t.end] for t in source.tokens() if t.kind in ("string", "name"))
    return any("\n" in text or "\r" in text for text in texts)


def _word(token: Token) -> str:
    return token.text.upper() if token.kind == "word" else ""


def read_statement(source: Source, names: Names) -> bool:
    """Read a statement. Returns False if nothing in it is for MySQL."""
    cursor = source.cursor
    reader = {"CREATE": _create, "ALTER": _alter, "DROP": _drop, "TRUNCATE": _truncate, "RENAME": _rename}.get(
        cursor.word()
    )
    if reader is None:
        return not _is_private_verb(cursor)
    cursor.next()
    public = reader(source, names)
    about_table = any(t.text.upper() in ("TABLE", "TABLES", "INDEX", "TRUNCATE") for t in source.tokens()[:6])
    if public and about_table and not source.native and not has_body(cursor):
        quote_new_words(source)
    return public


def _create(source: Source, names: Names) -> bool:
    cursor = source.cursor
    if at_create_table(source):
        create_table(source, names)
    elif cursor.accept_one("DATABASE", "SCHEMA"):
        create_database(source, names)
    elif at_index(cursor) and not cursor.at("SPATIAL", "REFERENCE"):
        create_index(source, names)
    else:
        return not _at_private_object(cursor)
    return True


def _alter(source: Source, names: Names) -> bool:
    cursor = source.cursor
    place = cursor.place
    while cursor.accept_one("IGNORE", "ONLINE", "OFFLINE"):
        pass
    source.cut(place, cursor.place)
    if cursor.at("TABLE"):
        return alter_table(source, names)
    if cursor.at("INDEX") or cursor.at("GLOBAL", "INDEX"):
        return False
    if cursor.at("DATABASE") or cursor.at("SCHEMA"):
        return not _sets_private_option(cursor)
    return not _at_private_object(cursor)


def _sets_private_option(cursor: Cursor) -> bool:
    """Return whether ALTER DATABASE sets an option that MySQL does not have: `SET name = value`, LOCALITY."""
    unnamed = cursor.word(1) in ("CHARACTER", "CHAR", "DEFAULT")
    return not unnamed and cursor.word(2) in ("SET", "KILL", "LOCALITY", "MODE", "PARTITION_MODE")


def _drop(source: Source, names: Names) -> bool:
    cursor = source.cursor
    if cursor.accept_one("TABLE", "TABLES"):
        _drop_tables(source, names)
    elif cursor.accept_one("DATABASE", "SCHEMA"):
        cursor.accept("IF", "EXISTS")
        names.schema(source)
    elif cursor.accept("INDEX"):
        if drops_unknown_shard_key(cursor.name(), names):
            return False
        cursor.expect("ON")
        names.plain(source)
    else:
        return not _at_private_object(cursor)
    _cut_tail(source)
    return True


def _drop_tables(source: Source, names: Names) -> None:
    """Keep only the marker's own table of several: each of the others has a marker of its own."""
    cursor = source.cursor
    cursor.accept("IF", "EXISTS")
    start = cursor.place
    found: list[tuple[int, int, str]] = []
    while True:
        place = cursor.place
        name = cursor.table_name()
        found.append((place, cursor.place, _full_name(name, names)))
        if not cursor.accept_symbol(","):
            break
    stop = cursor.place
    own = [span for span in found if span[2] == _full_name((None, names.table or ""), names)]
    kept = own[0] if own else found[0]
    if len(found) == 1 or names.table is None:
        cursor.place = start
        while cursor.place < stop:
            names.marked(source) if names.table is not None else names.plain(source)
            cursor.accept_symbol(",")
        return
    if kept[0] > start:
        source.cut_text(source.token(start).start, source.token(kept[0]).start, Target.BOTH)
    if kept[1] < stop:
        source.cut_text(source.token(kept[1] - 1).end, source.token(stop - 1).end, Target.BOTH)
    cursor.place = kept[0]
    names.marked(source)
    cursor.place = stop


def _full_name(name: tuple[str | None, str], names: Names) -> str:
    schema = name[0] if name[0] is not None else names.schema_name or ""
    return f"{schema.lower()}\0{name[1].lower()}"


def _truncate(source: Source, names: Names) -> bool:
    source.cursor.accept("TABLE")
    names.marked(source)
    _cut_tail(source)
    return True


def _rename(source: Source, names: Names) -> bool:
    cursor = source.cursor
    if cursor.at("USER"):
        return True
    if not cursor.accept_one("TABLE", "TABLES"):
        return False
    while True:
        names.plain(source)
        cursor.expect("TO")
        names.plain(source)
        if not cursor.accept_symbol(","):
            break
    place = cursor.place
    cursor.skip_rest()
    source.cut(place, cursor.place)
    return True


def _cut_tail(source: Source) -> None:
    """Cut PURGE, which bypasses PolarDB-X's recycle bin, and PolarDB-X's ALGORITHM from the end of a statement."""
    cursor = source.cursor
    while not cursor.done:
        place = cursor.place
        if is_online_change(cursor):
            skip_algorithm(cursor)
        elif not cursor.accept("PURGE"):
            cursor.next()
            continue
        source.cut(place, cursor.place)


# What follows CREATE, ALTER or DROP in statements that only PolarDB-X has.
_PRIVATE_OBJECTS = frozenset(
    {
        "CCL_RULE",
        "CCL_TRIGGER",
        "EXTERNAL",
        "FILESTORAGE",
        "JAVA",
        "JOINGROUP",
        "MATERIALIZED",
        "OUTLINE",
        "SCHEDULE",
        "SECURITY",
        "SEQUENCE",
        "STORAGE",
        "SYSTEM",
        "TABLEGROUP",
        "TENANT",
    }
)
_SEQUENCE_KINDS = frozenset({"GROUP", "NEW", "SIMPLE", "TIME"})
# The first words of statements that only PolarDB-X has.
_PRIVATE_VERBS = frozenset(
    {
        "ARCHIVE",
        "CALL",
        "CANCEL",
        "CLEAR",
        "COLLECT",
        "CONTINUE",
        "CONVERT",
        "EXPIRE",
        "FLASHBACK",
        "INSPECT",
        "MERGE",
        "MOVE",
        "PAUSE",
        "PURGE",
        "REBALANCE",
        "RECOVER",
        "REFRESH",
        "RELOAD",
        "REMOVE",
        "RESIZE",
        "RESTORE",
        "SLOW",
        "TRACE",
        "UNARCHIVE",
    }
)


def _at_private_object(cursor: Cursor) -> bool:
    ahead = 0
    while cursor.word(ahead) in _SEQUENCE_KINDS or (cursor.word(ahead) in ("WITH", "CACHE") and ahead):
        ahead += 1
    if cursor.word(ahead) == "SEQUENCE":
        return True
    ahead = 2 if cursor.at("OR", "REPLACE") else 0
    return cursor.word(ahead) in _PRIVATE_OBJECTS


def _is_private_verb(cursor: Cursor) -> bool:
    return cursor.word() in _PRIVATE_VERBS


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
    keys: list[ShardKey] = []
    while cursor.peek().kind != "end":
        start = cursor.place
        if cursor.word() in ("KEY", "INDEX") and cursor.peek(1).text.lower().startswith(SHARD_KEY_PREFIX):
            index = read_index(source)
            text = sql[source.token(start).start : source.token(cursor.place - 1).end]
            keys.append(ShardKey(index.name or "", index.first, text))
        else:
            cursor.next()
    return tuple(keys)


__all__ = [
    "ConvertedDdl",
    "DdlNotUnderstood",
    "ShardKey",
    "convert",
    "has_private_syntax",
    "origin_of",
    "shard_keys_of",
]
