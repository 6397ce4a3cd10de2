"""Splits a shard's statement into its clauses: each as a statement of its own, with the table after it. Clauses about
tablespaces and directories, which differ between servers, are cut out.

    ALTER TABLE t1 ADD COLUMN b INT, DROP COLUMN c     of a shard of shop.t is
    ALTER TABLE `shop`.`t` ADD COLUMN b INT            and
    ALTER TABLE `shop`.`t` DROP COLUMN c

A statement stays whole if its clauses, run one after the other, yield another table than the statement does (RENAME
COLUMN a TO b, RENAME COLUMN b TO a). Names are replaced and clauses cut out by offset; the rest of the user's text
stays.

CREATE TABLE t (a INT) TABLESPACE ts1 COMMENT 'x'     CREATE TABLE t (a INT) COMMENT 'x'
ALTER TABLE t TABLESPACE ts1, ADD b INT               ALTER TABLE t ADD b INT
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from binlog_merge.pipeline.coordinate.shards.values import Step
from snapshot_store.ddl.actions import AddColumn, Convert, DropColumn
from snapshot_store.ddl.apply.statement import apply_parsed
from snapshot_store.ddl.effects import renamed_columns
from snapshot_store.ddl.indexes import renamed_generated
from snapshot_store.ddl.parse.statement import ParsedDdl, file_options
from snapshot_store.ddl.resolve import default_conversion
from snapshot_store.ddl.statements import AlterTable, Statement
from snapshot_store.errors import DdlNotUnderstood, SnapshotStoreError
from snapshot_store.model import Catalog, Schema, Table
from snapshot_store.mysql.sql.cursor import Cursor, depths_of, items_of
from snapshot_store.mysql.sql.edits import Edits
from snapshot_store.mysql.sql.lexer import Token
from snapshot_store.mysql.sql.names import quote_name
from snapshot_store.mysql.sql.session import DdlSession
from snapshot_store.mysql.sql.types import accept_charset

_BEFORE_NAME = frozenset({"TABLE", "ON", "TRUNCATE"})
_SKIPPED = frozenset({"IF", "NOT", "EXISTS"})


@dataclass(frozen=True, slots=True)
class Naming:
    """A physical table's name, and how to rename other tables that a statement names.

    `aim` maps the name of a table that a foreign key references, or of one whose rows a partition is exchanged with.
    The latter is in `database`, the default one, if it is not qualified.
    """

    schema: str
    table: str
    aim: Callable[[tuple[str, str]], tuple[str, str]]
    database: str = ""

    def constraint(self, name: str, table: str) -> str:
        """Return the name of a constraint once its table is called `table`: it only changes if the server
        generated it.
        """
        for suffix in ("chk", "ibfk"):
            name = renamed_generated(name, self.table, table, suffix)
        return name


def routed(sql: str, schema: str, table: str, session: DdlSession, names: "Naming | None" = None) -> str:
    """Return a statement on one table with the table's name replaced by `schema`.`table`; the rest is the user's text.

    With `names`, names that a server derives from the table's (t1_chk_1) are replaced too, and those of tables that
    foreign keys reference or a partition is exchanged with. Raises DdlNotUnderstood if the table's name is not found.
    """
    cursor = Cursor.of(sql, session)
    start, end = _name_place(cursor, sql)
    edits = Edits(cursor)
    edits.replace(start, end, f"{quote_name(schema)}.{quote_name(table)}")
    while names is not None and not cursor.done:
        token = cursor.peek()
        if cursor.word(-1) == "REFERENCES" and cursor.at_name():
            target = cursor.table_name()
            aimed = names.aim((target[0] or names.schema, target[1]))
            edits.replace(token.start, cursor.peek(-1).end, ".".join(map(quote_name, aimed)))
            continue
        if cursor.word(-2) == "WITH" and cursor.word(-1) == "TABLE" and cursor.at_name():
            target = cursor.table_name()
            aimed = names.aim((target[0] or names.database or names.schema, target[1]))
            edits.replace(token.start, cursor.peek(-1).end, ".".join(map(quote_name, aimed)))
            continue
        if cursor.at_name() and (cursor.word(-1) in ("CHECK", "CONSTRAINT") or _after_foreign_key(cursor)):
            name = names.constraint(token.text, table)
            if name != token.text:
                edits.replace(token.start, token.end, quote_name(name))
        cursor.next()
    return edits.applied()


def _after_foreign_key(cursor: Cursor) -> bool:
    return cursor.word(-2) == "FOREIGN" and cursor.word(-1) == "KEY"


def without_rename(sql: str, session: DdlSession) -> str:
    """Return an ALTER TABLE without its RENAME TO; "" if it has no other action."""
    cursor = Cursor.of(sql, session)
    _, head = _name_place(cursor, sql)
    pieces: list[tuple[int, int]] = []
    begin = cursor.place
    for first, _ in items_of(cursor.tokens, begin, len(cursor.tokens)):
        cursor.place = first
        start = cursor.peek().start
        if cursor.accept("RENAME") and cursor.word() not in ("COLUMN", "INDEX", "KEY"):
            if not cursor.accept_symbol("="):
                cursor.accept_one("TO", "AS")
            cursor.table_name()
            pieces.append((start, cursor.peek(-1).end))
    kept = cursor.text
    for start, end in reversed(pieces):
        before, after = kept[:start].rstrip(), kept[end:].lstrip()
        if after.startswith(","):
            after = after[1:].lstrip()
        elif before.endswith(","):
            before = before[:-1]
        kept = f"{before} {after}"
    return kept.strip() if kept[head:].strip().strip(";") else ""


def with_names(sql: str, session: DdlSession, names: Iterable[tuple[str, str]]) -> str:
    """Return a RENAME TABLE with its tables' names replaced, in the order in which they appear."""
    cursor = Cursor.of(sql, session)
    cursor.expect("RENAME")
    cursor.accept_one("TABLE", "TABLES")
    edits = Edits(cursor)
    for name in names:
        start = cursor.peek().start
        cursor.table_name()
        edits.replace(start, cursor.peek(-1).end, ".".join(map(quote_name, name)))
        if not cursor.accept_symbol(","):
            cursor.accept("TO")
    return edits.applied()


def with_charset(sql: str, session: DdlSession, database: Schema | None) -> str:
    """Return an ALTER TABLE that says the character set instead of CONVERT TO CHARACTER SET DEFAULT.

    DEFAULT means that of the session's `database`, which clients may not have, or may not use, where the text is run.
    """
    charset, collation = default_conversion(session, database)
    cursor = Cursor.of(sql, session)
    edits = Edits(cursor)
    while not cursor.done:
        if cursor.accept("CONVERT", "TO") and accept_charset(cursor) is not None and cursor.word(-1) == "DEFAULT":
            default = cursor.peek(-1)
            said = charset if cursor.at("COLLATE") else f"{charset} COLLATE {collation}"
            edits.replace(default.start, default.end, said)
        elif not cursor.done:
            cursor.next()
    return edits.applied()


def steps_of(sql: str, before: Table, session: DdlSession) -> tuple[Step, ...]:
    """Return the clauses of a statement on `before`, which has the name that the statement uses.

    Raises what `apply_ddl` raises for the whole statement.
    """
    whole_ddl = ParsedDdl.of(sql, session)
    whole = applied_parsed(before, whole_ddl)
    clauses = list(_clauses(sql, session))
    steps = _separate_steps(clauses, before, session) if len(clauses) > 1 else None
    if steps is None or steps[-1].after != whole:
        return (_step(whole_ddl, whole),)
    return steps


def _separate_steps(clauses: list[str], before: Table, session: DdlSession) -> tuple[Step, ...] | None:
    steps, table = [], before
    for clause in clauses:
        try:
            ddl = ParsedDdl.of(clause, session)
            table = applied_parsed(table, ddl)
        except SnapshotStoreError:
            return None
        # ALGORITHM, LOCK and the like change nothing by themselves.
        if not isinstance(ddl.statement, AlterTable) or ddl.statement.actions:
            steps.append(_step(ddl, table))
    return tuple(steps) or None


def _step(ddl: ParsedDdl, after: Table) -> Step:
    adds, drops, renames = columns_named(ddl.statement)
    return Step(ddl.sql, after, adds, drops, renames)


Names = tuple[str, ...]


def columns_named(statement: Statement) -> tuple[Names, Names, tuple[tuple[str, str], ...]]:
    """Return the columns that a statement adds, those it drops, and those it renames as (old, new)."""
    actions = statement.actions if isinstance(statement, AlterTable) else ()
    return (
        tuple(a.column.name for a in actions if isinstance(a, AddColumn)),
        tuple(a.name for a in actions if isinstance(a, DropColumn)),
        tuple((old, new) for old, new in renamed_columns(statement) if old.lower() != new.lower()),
    )


def applied(before: Table, sql: str, session: DdlSession) -> Table:
    """Return the table after a statement on it alone. Raises what `apply_ddl` raises."""
    return applied_parsed(before, ParsedDdl.of(sql, session))


def applied_parsed(before: Table, ddl: ParsedDdl) -> Table:
    """Return the table after a statement on it alone. Raises what `apply_ddl` raises.

    No database is known: a CONVERT TO CHARACTER SET DEFAULT, which means that of one, is not understood.
    """
    if isinstance(ddl.result, AlterTable) and any(isinstance(a, Convert) and not a.charset for a in ddl.result.actions):
        raise DdlNotUnderstood(ddl.sql, "DEFAULT is the character set of a session's database: name the one it means")
    schema = Schema(before.schema, before.charset, before.collation)
    catalog = Catalog({before.schema: schema}, {(before.schema, before.name): before})
    return apply_parsed(catalog, ddl, before.schema).catalog.table(before.schema, before.name)


def _clauses(sql: str, session: DdlSession) -> Iterator[str]:
    """Yield the items of an ALTER TABLE, each as a statement; other statements unchanged."""
    cursor = Cursor.of(sql, session)
    _, end = _name_place(cursor, sql)
    cursor = Cursor.of(sql, session)
    if not cursor.at("ALTER", "TABLE"):
        yield sql
        return
    tokens, text = cursor.tokens, cursor.text  # without comments, which may be cut in two
    begin = next((i for i, token in enumerate(tokens) if token.start >= end), len(tokens))
    for first, stop in items_of(tokens, begin, len(tokens)):
        start = end if first == begin else tokens[first - 1].end
        item = text[start : tokens[stop].start if stop < len(tokens) else len(text)]
        yield f"{text[:end]} {item.strip().rstrip(';').rstrip()}"


def _name_place(cursor: Cursor, sql: str) -> tuple[int, int]:
    """Return the offsets at which the name of a statement's table begins and ends."""
    while not cursor.done:
        if cursor.word() in _BEFORE_NAME:
            cursor.next()
            if cursor.word() == "TABLE":
                cursor.next()
            while cursor.word() in _SKIPPED:
                cursor.next()
            start = cursor.peek().start
            cursor.table_name()
            return start, cursor.peek(-1).end
        cursor.next()
    raise DdlNotUnderstood(sql, "names no table")


def without_files(sql: str, session: DdlSession) -> tuple[str, tuple[str, ...]]:
    """Return a statement without such clauses, and the clauses. Raises DdlNotUnderstood."""
    if "TABLESPACE" not in sql.upper() and "DIRECTORY" not in sql.upper():
        return sql, ()
    spans = file_options(sql, session)
    cut = tuple(sql[start:end] for start, end in spans)
    for start, end in reversed(spans):
        begin, stop = _with_comma(sql, session, start, end)
        sql = f"{sql[:begin].rstrip()} {sql[stop:].lstrip()}".rstrip()
    return sql, cut


def _with_comma(sql: str, session: DdlSession, start: int, end: int) -> tuple[int, int]:
    """Return the range to cut for an option, so that no superfluous comma remains.

    In a list of options its comma is cut too, unless another option precedes it without a comma. Commas between
    partitions stay.
    """
    cursor = Cursor.of(sql, session)
    place, depth = next((i, depth) for i, token, depth in depths_of(cursor.tokens) if token.start >= start)
    if depth or not place:
        return start, end
    before = cursor.tokens[place - 1]
    cursor.place = place
    while cursor.peek().start < end and not cursor.done:
        cursor.next()
    listed = before.kind == "symbol" and before.text == ","
    if cursor.at_symbol(",") and (listed or _begins_list(sql, session, before)):
        return start, cursor.peek().end
    return (before.start, end) if listed else (start, end)


def _begins_list(sql: str, session: DdlSession, before: Token) -> bool:
    """Return whether table options begin after a token: after the columns, or after the table's name."""
    if before.kind == "symbol":
        return before.text == ")"
    cursor = Cursor.of(sql, session)
    cursor.next()
    while cursor.word() in ("IGNORE", "TABLE"):
        cursor.next()
    cursor.table_name()
    return cursor.peek(-1).start == before.start
