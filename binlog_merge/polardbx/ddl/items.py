"""Column and index definitions, which CREATE TABLE and ALTER TABLE share.

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
    """The parts of a column definition that the rest of the statement needs; `keyed`: it has a key attribute of its
    own.
    """

    name: str
    auto_increment: bool
    keyed: bool


@dataclass(frozen=True, slots=True)
class Index:
    """The parts of an index definition that the rest of the statement needs.

    `name` is None if it has none, `first` is the first key part if that is a column. `place` is the offset at which the
    name of an unnamed global index would be written, None for other indexes.
    """

    kind: str
    name: str | None
    first: str | None
    place: int | None = None


def at_index(cursor: Cursor) -> bool:
    """Return whether the cursor is at an index, not a column: LOCAL and the like may be names of columns."""
    ahead = 0
    if cursor.word() == "CONSTRAINT":
        ahead = 1
        if cursor.word(1) not in (*_KINDS, *_MODIFIERS):
            ahead = 2
    while cursor.word(ahead) in _MODIFIERS:
        ahead += 1
    return cursor.word(ahead) in ("INDEX", "KEY", *_KINDS)


def read_index(source: Source, *, altering: bool = False) -> Index:
    """Read an index definition and cut what MySQL does not know."""
    cursor = source.cursor
    if cursor.accept("CONSTRAINT") and cursor.word() not in (*_KINDS, *_MODIFIERS):
        cursor.name()
    kind, words = cut_modifiers(source)
    named = None if cursor.at_symbol("(") or _at_type(cursor) else cursor.name()
    begin = cursor.place
    _read_type(source, cut=altering)
    name_end = source.token(cursor.place - 1).end
    first = read_key_parts(source)
    read_index_options(source, altering=altering)
    if not altering:
        cut_ordered_hash(source, begin)
    unnamed = named is None and first is not None and "GLOBAL" in words
    return Index(kind, named, None if first is None else source.token(first).text, name_end if unnamed else None)


def cut_modifiers(source: Source) -> tuple[str, tuple[str, ...]]:
    """Read the words up to INDEX or KEY, in any order, and cut PolarDB-X's. Returns the kind of index and the words
    cut.
    """
    cursor, kind, words = source.cursor, "INDEX", []
    while True:
        place = cursor.place
        # Directly before the columns the word is the name of an index.
        if not cursor.at_symbol("(", 1) and (word := cursor.accept_one(*_MODIFIERS)):
            words.append(word)
            source.cut(place, cursor.place)
        elif word := cursor.accept_one(*_KINDS):
            kind = word
        else:
            break
    cursor.accept_one("INDEX", "KEY")
    return kind, tuple(words)


def read_index_options(source: Source, *, altering: bool = False) -> None:
    """Read what follows the columns of an index, and cut what MySQL does not know."""
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
    """Read a column definition and cut what MySQL does not know.

    A generated column becomes a plain one, whose values come with the rows. When `adding` it to an existing table its
    UNIQUE is cut too, since MySQL would fill the existing rows with one value.
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
    """Return whether the cursor is at an ALGORITHM that only PolarDB-X has."""
    ahead = 2 if cursor.at_symbol("=", 1) else 1
    return cursor.at("ALGORITHM") and cursor.word(ahead) in ("OMC", "OMC_INDEX")


def skip_algorithm(cursor: Cursor) -> None:
    """Skip ALGORITHM or LOCK with its value."""
    cursor.next()
    cursor.accept_symbol("=")
    cursor.word_or_name()


def _cut_sequence(source: Source) -> None:
    """Cut PolarDB-X's sequence options after AUTO_INCREMENT: `BY GROUP`, `BY SIMPLE WITH CACHE`, `UNIT COUNT 1 INDEX
    0`.
    """
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
    """Read `USING BTREE`; in ALTER TABLE it is cut, as PolarDB-X's own binlog does."""
    cursor = source.cursor
    place = cursor.place
    if _at_type(cursor):
        cursor.next()
        cursor.next()
        if cut:
            source.cut_shared(place, cursor.place)


def cut_ordered_hash(source: Source, begin: int) -> None:
    """Cut USING HASH from the index whose tokens begin at `begin`, if one of its key parts has ASC or DESC.

    PolarDB-X accepts both together, MySQL does not (error 1221); InnoDB makes a B-tree in either case.
    """
    tokens = [source.token(place) for place in range(begin, source.cursor.place)]
    words = [token.text.upper() if token.kind == "word" else "" for token in tokens]
    if "ASC" in words or "DESC" in words:
        for i, pair in enumerate(pairwise(words)):
            if pair in (("USING", "HASH"), ("TYPE", "HASH")):
                source.cut_shared(begin + i, begin + i + 2)


def read_key_parts(source: Source) -> int | None:
    """Read the parts of a key. Returns the token index of the first part's column, None if that part is an expression.

    MySQL requires parentheses around an expression, PolarDB-X does not: `(a + 1 DESC)` becomes `((a + 1) DESC)`.
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
    """Return whether a key part is a column, with or without a prefix length."""
    prefix = cursor.at_symbol("(", 1) and cursor.peek(2).kind == "number" and cursor.at_symbol(")", 3)
    following = cursor.peek(4 if prefix else 1)
    return cursor.at_name() and (following.text in (",", ")") or following.text.upper() in ("ASC", "DESC"))


def _skip_option(cursor: Cursor) -> bool:
    """Skip an index option that MySQL has too. Returns False if there is none at the cursor."""
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
    """Skip one token, or a pair of parentheses with its content."""
    if cursor.at_symbol("("):
        cursor.parenthesized()
    elif not cursor.done:
        cursor.next()
