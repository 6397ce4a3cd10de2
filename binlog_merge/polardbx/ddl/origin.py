"""The form of a statement that PolarDB-X reads: the user's text, without parts that matter only to the cluster it ran
on.

The placement of data (LOCALITY), the number of the statement's job (DDL_ID), and hints for that job are cut. Then the
text is joined to a single line. Source: behaviour of PolarDB-X's own global binlog.
"""

import re

from binlog_merge.polardbx.ddl.text import Source, Target
from snapshot_store.mysql.sql.cursor import Cursor
from snapshot_store.mysql.sql.edits import Comment
from snapshot_store.mysql.sql.lexer import Token

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
