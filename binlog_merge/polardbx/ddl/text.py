"""A statement's text and its edits: pieces are cut, replaced and inserted by offset; all other text stays. And the
names of databases and tables in it, with what its marker records about its table.

One reading gives two texts: what MySQL executes, and what PolarDB-X reads. Hints and comments are found here, since the
tokens do not include them:

    /*+TDDL:cmd_extra(A=true)*/ /!tddl:enable_recyclebin=true*/ /*DDL_ID=1234*/ DROP TABLE t

A PolarDB-X table has one name, in whatever case it is written; rows carry the lower-case name. A MySQL server may
distinguish case.
"""

import re
from dataclasses import dataclass, replace
from enum import Flag, auto

from snapshot_store.errors import DdlNotUnderstood
from snapshot_store.mysql.sql.cursor import Cursor
from snapshot_store.mysql.sql.edits import brackets, comments_of
from snapshot_store.mysql.sql.lexer import Token
from snapshot_store.mysql.sql.names import is_reserved, quote_name
from snapshot_store.mysql.sql.session import DdlSession


class Target(Flag):
    """The text that an edit applies to."""

    MYSQL = auto()
    ORIGIN = auto()
    BOTH = MYSQL | ORIGIN


@dataclass(frozen=True, slots=True)
class Edit:
    """Replaces the characters [start, end) by `text`."""

    start: int
    end: int
    text: str
    target: Target


# PolarDB-X also writes a hint as /!TDDL...*/, which is no comment to MySQL.
_BANG_HINT = re.compile(r"/!(?=\s*\+?\s*TDDL)", re.IGNORECASE)
_LEADING_BANG = re.compile(r"\s*/!")
_BLANKS = " \t\n\v\f\r"
# Before these the blanks around a cut piece can go; before any other token one must stay.
_CLOSERS = ",);"


class Source:
    """One statement being read: a cursor over its tokens, and the edits made so far.

    `native` leaves syntax alone that PolarDB-X shares with MySQL, if not its meaning: partitions, generated columns.
    """

    def __init__(self, sql: str, session: DdlSession, native: bool = False) -> None:
        self.sql = sql
        self.native = native
        # The cluster has executed the statement already.
        session = replace(session, validate=False)
        # Same length, so that offsets agree.
        plain = _BANG_HINT.sub("/*", sql)
        if leading := _LEADING_BANG.match(plain):
            plain = plain[: leading.end() - 1] + "*" + plain[leading.end() :]
        try:
            self.cursor = Cursor.of(plain, session)
        except (IndexError, RecursionError, ValueError, TypeError) as error:
            # The tokenizer is not ours: it has raised these on garbage.
            raise DdlNotUnderstood(sql, f"cannot be cut into tokens ({type(error).__name__})") from None
        self.comments = tuple(comments_of(plain, self.cursor.text, session))
        self._edits: list[Edit] = []

    def token(self, place: int) -> Token:
        """Return the token with index `place`; past the last one, a token of kind "end"."""
        return self.cursor.peek(place - self.cursor.place)

    def tokens(self) -> list[Token]:
        """Return all tokens of the statement."""
        tokens: list[Token] = []
        while (token := self.token(len(tokens))).kind != "end":
            tokens.append(token)
        return tokens

    def cut(self, first: int, stop: int, target: Target = Target.MYSQL) -> None:
        """Cut the tokens with indexes [first, stop)."""
        if stop > first:
            self.cut_text(self.token(first).start, self.token(stop - 1).end, target)

    def cut_shared(self, first: int, stop: int) -> None:
        """Cut the tokens with indexes [first, stop), unless the statement is MySQL's own (`native`)."""
        if not self.native:
            self.cut(first, stop)

    @property
    def edited(self) -> bool:
        """Return whether the text for MySQL differs from the statement as written."""
        return any(Target.MYSQL in edit.target for edit in self._edits)

    def cut_text(self, start: int, end: int, target: Target = Target.MYSQL) -> None:
        """Cut the characters [start, end)."""
        self.put(start, end, "", target)

    def put(self, start: int, end: int, text: str, target: Target = Target.BOTH) -> None:
        """Replace the characters [start, end); with start == end, insert."""
        self._edits.append(Edit(start, end, text, target))

    def text(self, target: Target) -> str:
        """Return the statement as edited for one of the targets, without blanks and semicolons at its ends."""
        edits = sorted((e for e in self._edits if target in e.target), key=lambda e: (e.start, e.end))
        edits = _without_covered(sorted([*edits, *self._opened(edits)], key=lambda e: (e.start, e.end)))
        out: list[str] = []
        place = 0
        for edit in _joined(edits, self.sql):
            start, end = (edit.start, edit.end) if edit.text or edit.start == edit.end else self._with_blanks(edit)
            out.append(self.sql[place : max(start, place)])
            place = max(place, end)
            after = self.sql[place : place + 1]
            before = next((piece[-1] for piece in reversed(out) if piece), "")
            glued = not edit.text and _is_wordlike(before) and _is_wordlike(after)
            out.append(" " if glued else edit.text)
        out.append(self.sql[place:])
        return _stripped("".join(out))

    def _with_blanks(self, edit: Edit) -> tuple[int, int]:
        """Widen a cut by the blanks on one of its sides, so that one blank remains of two."""
        sql, start, end = self.sql, edit.start, edit.end
        after = end
        while after < len(sql) and sql[after] in _BLANKS:
            after += 1
        before = start
        while before and sql[before - 1] in _BLANKS:
            before -= 1
        if (after < len(sql) and sql[after] not in _CLOSERS) or before == 0:
            return start, after
        # A line comment needs the line end after it.
        follows_comment = self.cursor.text[before - 1] in _BLANKS
        return (start, end) if follows_comment else (before, end)

    def _opened(self, edits: list[Edit]) -> list[Edit]:
        """Return cuts of the brackets of executable comments that a cut reaches into, so that their content becomes
        plain text.
        """
        cuts: list[Edit] = []
        for opening, close in brackets(self.comments):
            if any(e.end > opening.end and e.start < close.start and e.end > e.start for e in edits):
                cuts += [Edit(b.start, b.end, "", Target.BOTH) for b in (opening, close)]
        return cuts


def _without_covered(edits: list[Edit]) -> list[Edit]:
    """Return the edits without those inside an earlier cut; cuts that overlap become a single one."""
    kept: list[Edit] = []
    for edit in edits:
        last = kept[-1] if kept else None
        if last is None or edit.start >= last.end or last.start == last.end:
            kept.append(edit)
        elif edit.end > last.end:
            kept[-1] = Edit(last.start, edit.end, last.text, last.target)
    return kept


def _joined(edits: list[Edit], sql: str) -> list[Edit]:
    """Return the edits, with cuts joined that have only blanks between them."""
    out: list[Edit] = []
    for edit in edits:
        last = out[-1] if out else None
        if (
            last is not None
            and not (last.text or edit.text)
            and last.end > last.start
            and edit.end > edit.start
            and not sql[last.end : edit.start].strip(_BLANKS)
        ):
            out[-1] = Edit(last.start, edit.end, "", last.target)
        else:
            out.append(edit)
    return out


def _is_wordlike(character: str) -> bool:
    return character.isalnum() or (character != "" and character in "_$`'\"@.")


def _stripped(sql: str) -> str:
    while (shorter := sql.strip(_BLANKS).rstrip(";")) != sql:
        sql = shorter
    return sql


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
