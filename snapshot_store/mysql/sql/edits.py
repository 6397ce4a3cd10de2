"""Edits of a statement's text by offset; all other text stays as it is, comments included.

A part of a statement may begin in an executable comment and end outside of it. What an edit takes one bracket of loses
the other one too, so that the rest stands bare:

    ALTER TABLE t /*!50100 ADD a INT, DROP b */     without `DROP b */` is
    ALTER TABLE t ADD a INT
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from snapshot_store.mysql.sql.cursor import Cursor
from snapshot_store.mysql.sql.session import DdlSession

_EXECUTABLE = re.compile(r"/\*!(\d{5,6})?")


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment as written, or one bracket of an executable comment (`/*!50100` or its `*/`)."""

    start: int
    end: int
    text: str
    bracket: bool = False


class Edits:
    """Replacements of parts of a statement, which a cursor is on. One that lies in another's part is dropped."""

    def __init__(self, cursor: Cursor) -> None:
        self._sql, self._cursor = cursor.sql, cursor
        self._made: list[tuple[int, int, str]] = []

    def replace(self, start: int, end: int, text: str) -> None:
        """Put a text in place of a part; with start == end, insert it."""
        self._made.append((start, end, text))

    def remove(self, start: int, end: int) -> None:
        """Remove a part."""
        self.replace(start, end, "")

    def empties(self, start: int, end: int) -> bool:
        """Return whether nothing but blanks is left of a part."""
        inside = [edit for edit in self._made if start <= edit[0] and edit[1] <= end]
        return not self._applied(inside, start, end).strip()

    def applied(self) -> str:
        """Return the text with all edits."""
        if not self._made:
            return self._sql
        return self._applied([*self._made, *self._bared()], 0, len(self._sql))

    def _applied(self, edits: Iterable[tuple[int, int, str]], begin: int, end: int) -> str:
        result, place = [], begin
        # Of edits that begin together, insertions come first, then the longest, so that those inside it are dropped.
        for start, stop, text in sorted(edits, key=lambda edit: (edit[0], edit[0] < edit[1], -edit[1])):
            if start >= place:
                result += [self._sql[place:start], text]
                place = stop
        return "".join((*result, self._sql[place:end]))

    def _bared(self) -> Iterator[tuple[int, int, str]]:
        """Yield the removal of both brackets of each executable comment that an edit takes one of."""
        if "/*!" not in self._sql:
            return
        for pair in brackets(comments_of(self._sql, self._cursor.text, self._cursor.session)):
            taken = [any(start <= one.start and one.end <= end for start, end, _ in self._made) for one in pair]
            if taken[0] != taken[1]:
                yield from ((one.start, one.end, "") for one in pair)


def parts_of(cursor: Cursor, *parts: tuple[int, int]) -> str:
    """Return parts of a statement, in order, as one text."""
    edits, place = Edits(cursor), 0
    for start, end in parts:
        edits.remove(place, start)
        place = end
    edits.remove(place, len(cursor.sql))
    return edits.applied()


def brackets(comments: Iterable[Comment]) -> Iterator[tuple[Comment, Comment]]:
    """Yield the two brackets of each executable comment, the inner ones first."""
    opened: list[Comment] = []
    for bracket in (comment for comment in comments if comment.bracket):
        if bracket.text == "*/":
            yield opened.pop(), bracket
        else:
            opened.append(bracket)


def comments_of(sql: str, expanded: str, session: DdlSession) -> Iterator[Comment]:
    """Yield the comments of a statement: the text that the lexer has blanked in `expanded`."""
    place = 0
    while place < len(sql):
        if expanded[place] != " " or sql[place] == " ":
            place += 1
            continue
        executable = _EXECUTABLE.match(sql, place)
        if executable and int(executable[1] or 0) <= session.server_version:
            end, bracket = executable.end(), True
        elif sql.startswith("*/", place):
            end, bracket = place + 2, True
        else:
            end, bracket = _blanked_end(sql, expanded, place), False
        yield Comment(place, end, sql[place:end], bracket)
        place = end


def _blanked_end(sql: str, expanded: str, start: int) -> int:
    """Return where a comment ends: at its closing bracket or line end, but not before the end of its blanked text."""
    if sql.startswith("/*", start) and not sql.startswith("/*!", start):
        return sql.index("*/", start + 2) + 2
    end = start
    while end < len(expanded) and expanded[end] == " " and sql[end] != "\n":
        end += 1
    return end if not sql.startswith("/*!", start) else sql.rindex("*/", start, _run_end(expanded, start)) + 2


def _run_end(expanded: str, start: int) -> int:
    end = start
    while end < len(expanded) and expanded[end] == " ":
        end += 1
    return end
