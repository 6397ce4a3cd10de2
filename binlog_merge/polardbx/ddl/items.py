"""Column and index definitions, as CREATE TABLE and ALTER TABLE share them.

id bigint NOT NULL AUTO_INCREMENT BY GROUP UNIT COUNT 1 INDEX 0      ->  id bigint NOT NULL AUTO_INCREMENT
sum int AS (a + b) LOGICAL                                           ->  sum int
GLOBAL INDEX g (a) COVERING (b) PARTITION BY KEY (a) PARTITIONS 4    ->  INDEX g (a)
"""

from dataclasses import dataclass
from itertools import pairwise

from binlog_merge.polardbx.ddl.clauses import at_trailer, skip_index_clause, skip_unit
from binlog_merge.polardbx.ddl.text import Source, Target
from snapshot_store.mysql.sql.cursor import Cursor

IMPLICIT_COLUMN = "_drds_implicit_id_"
SHARD_KEY_PREFIX = "auto_shard_key_"

_MODIFIERS = ("GLOBAL", "LOCAL", "CLUSTERED", "COLUMNAR")
_KINDS = ("UNIQUE", "FULLTEXT", "SPATIAL", "PRIMARY")


@dataclass(frozen=True, slots=True)
class Column:
    """What the rest of its statement must know of a column definition; `keyed` by an attribute of its own."""

    name: str
    auto_increment: bool
    keyed: bool


@dataclass(frozen=True, slots=True)
class Index:
    """What the rest of its statement must know of an index: its name if it has one, and its first column if it is one.

    `place` is where the name of a global index would stand that has none, None for others.
    """

    kind: str
    name: str | None
    first: str | None
    place: int | None = None


def at_index(cursor: Cursor) -> bool:
    """Tell whether an index stands here, not a column: LOCAL and the like may be names of columns."""
    ahead = 0
    if cursor.word() == "CONSTRAINT":
        ahead = 1
        if cursor.word(1) not in (*_KINDS, *_MODIFIERS):
            ahead = 2
    while cursor.word(ahead) in _MODIFIERS:
        ahead += 1
    return cursor.word(ahead) in ("INDEX", "KEY", *_KINDS)


def read_index(source: Source, *, altering: bool = False) -> Index:
    """Move past an index definition and cut what MySQL does not know of it."""
    cursor = source.cursor
    if cursor.accept("CONSTRAINT") and cursor.word() not in (*_KINDS, *_MODIFIERS):
        cursor.name()
    kind, words = cut_modifiers(source)
    named = None if cursor.at_symbol("(") or _at_type(cursor) else cursor.name()
    begin = cursor.place
    _read_type(source, cut=altering)
    behind = source.token(cursor.place - 1).end
    first = read_key_parts(source)
    read_index_options(source, altering=altering)
    if not altering:
        cut_ordered_hash(source, begin)
    unnamed = named is None and first is not None and "GLOBAL" in words
    return Index(kind, named, None if first is None else source.token(first).text, behind if unnamed else None)


def cut_modifiers(source: Source) -> tuple[str, tuple[str, ...]]:
    """Read up to INDEX or KEY in whatever order, cut PolarDB-X's words; return the kind of index and the words cut."""
    cursor, kind, words = source.cursor, "INDEX", []
    while True:
        place = cursor.place
        # In front of the columns it is the name of an index.
        if not cursor.at_symbol("(", 1) and (found := cursor.accept_one(*_MODIFIERS)):
            words.append(found)
            source.cut(place, cursor.place)
        elif found := cursor.accept_one(*_KINDS):
            kind = found
        else:
            break
    cursor.accept_one("INDEX", "KEY")
    return kind, tuple(words)


def read_index_options(source: Source, *, altering: bool = False) -> None:
    """Move past what stands behind the columns of an index, and cut what MySQL does not know of it."""
    cursor = source.cursor
    while not (cursor.done or cursor.at_symbol(",") or cursor.at_symbol(")")):
        place = cursor.place
        if cursor.accept("COVERING"):
            cursor.parenthesized()
        elif cursor.accept("WITH", "DICT") or cursor.at("DICTIONARY"):
            cursor.accept("DICTIONARY")
            cursor.accept_symbol("=")
            cursor.next()
        elif cursor.accept("ENGINE"):
            cursor.accept_symbol("=")
            cursor.next()
        elif is_online_change(cursor):
            skip_algorithm(cursor)
        elif cursor.accept("INVISIBLE"):
            source.cut_shared(place, cursor.place)
            continue
        elif skip_index_clause(cursor):
            pass
        elif _at_type(cursor):
            _read_type(source, cut=altering)
            continue
        elif _skip_option(cursor):
            continue
        else:
            return
        source.cut(place, cursor.place)


def read_column(source: Source, *, adding: bool = False) -> Column:
    """Move past a column definition and cut what MySQL does not know of it.

    A generated column becomes a plain one, whose values come with the rows; `adding` it to a table that has rows also
    costs its UNIQUE, since MySQL would fill it with one value.
    """
    cursor = source.cursor
    name = cursor.name()
    while cursor.accept_symbol("."):
        name = cursor.after_dot()
    increments = cursor.at("SERIAL")
    keyed, generated = increments, False
    uniques: list[tuple[int, int]] = []
    while not (cursor.done or cursor.at_symbol(",") or cursor.at_symbol(")") or at_trailer(cursor)):
        place = cursor.place
        if cursor.accept("AUTO_INCREMENT"):
            increments = True
            _cut_sequence(source)
        elif cursor.accept("GENERATED", "ALWAYS", "AS") or (cursor.at("AS") and cursor.at_symbol("(", 1)):
            generated = True
            cursor.accept("AS")
            cursor.parenthesized()
            if cursor.accept("LOGICAL"):
                source.cut(place, cursor.place)
            else:
                cursor.accept_one("VIRTUAL", "STORED", "PERSISTENT")
                source.cut_shared(place, cursor.place)
        elif cursor.accept("UNIQUE"):
            cursor.accept("KEY")
            keyed = True
            uniques.append((place, cursor.place))
        elif cursor.accept("PRIMARY") or cursor.accept("KEY"):
            keyed = True
        elif cursor.accept_one("DEFAULT", "COMMENT", "COLLATE", "CHARSET", "AFTER"):
            _skip_one(cursor)
        elif cursor.word() in ("ALGORITHM", "LOCK"):
            break
        else:
            _skip_one(cursor)
    if generated and adding:
        for first, stop in uniques:
            source.cut_shared(first, stop)
    return Column(name, increments, keyed)


def is_online_change(cursor: Cursor) -> bool:
    """Tell whether ALGORITHM names a way to alter a table that only PolarDB-X has."""
    ahead = 2 if cursor.at_symbol("=", 1) else 1
    return cursor.at("ALGORITHM") and cursor.word(ahead) in ("OMC", "OMC_INDEX")


def skip_algorithm(cursor: Cursor) -> None:
    """Move past ALGORITHM or LOCK with its value."""
    cursor.next()
    cursor.accept_symbol("=")
    cursor.word_or_name()


def _cut_sequence(source: Source) -> None:
    """Cut how PolarDB-X counts, behind AUTO_INCREMENT: `BY GROUP`, `BY SIMPLE WITH CACHE`, `UNIT COUNT 1 INDEX 0`."""
    cursor = source.cursor
    place = cursor.place
    if cursor.accept("BY"):
        cursor.word_or_name()
        cursor.accept("WITH", "CACHE")
    skip_unit(cursor)
    source.cut(place, cursor.place)


def _at_type(cursor: Cursor) -> bool:
    return cursor.word() in ("USING", "TYPE") and cursor.word(1) in ("BTREE", "HASH", "RTREE")


def _read_type(source: Source, *, cut: bool) -> None:
    """Move past `USING BTREE`; in ALTER TABLE it is cut, as PolarDB-X's own binlog does."""
    cursor = source.cursor
    place = cursor.place
    if _at_type(cursor):
        cursor.next()
        cursor.next()
        if cut:
            source.cut_shared(place, cursor.place)


def cut_ordered_hash(source: Source, begin: int) -> None:
    """Cut USING HASH from an index that stands behind `begin`, if one of its parts has ASC or DESC.

    PolarDB-X takes both together, MySQL does not (1221); InnoDB makes a B-tree of either.
    """
    tokens = [source.token(place) for place in range(begin, source.cursor.place)]
    words = [token.text.upper() if token.kind == "word" else "" for token in tokens]
    if "ASC" in words or "DESC" in words:
        for i, pair in enumerate(pairwise(words)):
            if pair in (("USING", "HASH"), ("TYPE", "HASH")):
                source.cut_shared(begin + i, begin + i + 2)


def read_key_parts(source: Source) -> int | None:
    """Move past the parts of a key; return the place of the first one's column, None if that is an expression.

    MySQL wants an expression in parentheses, PolarDB-X does not: `(a + 1 DESC)` becomes `((a + 1) DESC)`.
    """
    cursor = source.cursor
    cursor.expect_symbol("(")
    first = cursor.place if _is_column(cursor) else None
    while not cursor.at_symbol(")"):
        place, column = cursor.place, _is_column(cursor)
        enclosed = cursor.at_symbol("(")
        pieces = 0
        while not (cursor.at_symbol(",") or cursor.at_symbol(")") or cursor.word() in ("ASC", "DESC")):
            if cursor.done:
                raise cursor.error("a parenthesis is never closed")
            _skip_one(cursor)
            pieces += 1
        if not (column or (enclosed and pieces == 1)):
            source.put(source.token(place).start, source.token(place).start, "(", Target.MYSQL)
            end = source.token(cursor.place - 1).end
            source.put(end, end, ")", Target.MYSQL)
        cursor.accept_one("ASC", "DESC")
        if not cursor.accept_symbol(","):
            break
    cursor.expect_symbol(")")
    return first


def _is_column(cursor: Cursor) -> bool:
    """Tell whether a part of a key is a column, with the length of a prefix or without."""
    prefix = cursor.at_symbol("(", 1) and cursor.peek(2).kind == "number" and cursor.at_symbol(")", 3)
    behind = cursor.peek(4 if prefix else 1)
    return cursor.at_name() and (behind.text in (",", ")") or behind.text.upper() in ("ASC", "DESC"))


def _skip_option(cursor: Cursor) -> bool:
    """Move past an option of an index that MySQL has too; tell whether one stood here."""
    if cursor.accept("VISIBLE"):
        return True
    if cursor.accept("WITH", "PARSER"):
        cursor.word_or_name()
        return True
    if cursor.accept_one("COMMENT", "KEY_BLOCK_SIZE", "ENGINE_ATTRIBUTE", "SECONDARY_ENGINE_ATTRIBUTE"):
        cursor.accept_symbol("=")
        cursor.next()
        return True
    return False


def _skip_one(cursor: Cursor) -> None:
    """Move past one token, or past a pair of parentheses."""
    if cursor.at_symbol("("):
        cursor.parenthesized()
    elif not cursor.done:
        cursor.next()
