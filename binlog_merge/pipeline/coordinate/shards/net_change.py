"""The net schema change of several statements of one shard, and when two shards' statements are the same DDL.

RENAME COLUMN a TO b; RENAME COLUMN b TO a    no change
RENAME COLUMN a TO b; RENAME COLUMN b TO c    RENAME COLUMN a TO c
DROP COLUMN a; ADD COLUMN a INT               a column a as before, but with other values
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from binlog_merge.pipeline.coordinate.shards.values import ShardDdl, Step
from snapshot_store.diff import diff_tables, equivalent
from snapshot_store.model import Table
from snapshot_store.mysql.sql.session import (
    ANSI_QUOTES,
    HIGH_NOT_PRECEDENCE,
    NO_BACKSLASH_ESCAPES,
    PIPES_AS_CONCAT,
    REAL_AS_FLOAT,
    DdlSession,
)


@dataclass(frozen=True, slots=True)
class NetChange:
    """A change from `before` to `after`: the net column renames, and the columns replaced by a new one of the same
    name.
    """

    before: Table
    after: Table
    renames: tuple[tuple[str, str], ...]
    replaced: tuple[str, ...]

    def source(self, column: str) -> str | None:
        """Return the column of `before` whose values a column of `after` has; None if it is a new one."""
        name = column.lower()
        renamed = next((old for old, new in self.renames if new.lower() == name), None)
        if renamed is not None or name in (replaced.lower() for replaced in self.replaced):
            return renamed
        return column if self.before.index_of(column) is not None else None


def net_change_of(ddls: Sequence[ShardDdl]) -> NetChange:
    """Return the net change of consecutive statements of one shard."""
    return net_change(ddls[0].before, (step for ddl in ddls for step in ddl.steps))


def net_change(before: Table, steps: Iterable[Step]) -> NetChange:
    """Return the net change of consecutive clauses."""
    after = before
    origin: dict[str, str | None] = {c.name.lower(): c.name for c in before.columns}
    for step in steps:
        after = step.after
        for name in step.drops:
            origin.pop(name.lower(), None)
        moved = [(new.lower(), origin.pop(old.lower(), None)) for old, new in step.renames]
        origin.update(moved)
        origin.update((name.lower(), None) for name in step.adds)
    had = {c.name.lower() for c in before.columns}
    renames, replaced = [], []
    for column in after.columns:
        source = origin.get(column.name.lower())
        if source is not None and source.lower() != column.name.lower():
            renames.append((source, column.name))
        if source is None and column.name.lower() in had:
            replaced.append(column.name)
    return NetChange(before, after, tuple(renames), tuple(replaced))


def inverse(renames: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Return the renames that undo these."""
    return tuple((new, old) for old, new in reversed(renames))


def same_ddl(a: ShardDdl, b: ShardDdl) -> bool:
    """Return whether two statements are the same DDL: the same text, the same clauses, or the same schema change.

    One text means two things in sessions that read it in different ways.
    """
    same_text = _same_text(a, b)
    if same_text and reads_alike(a.session, b.session):
        return True
    changes = [diff_tables(ddl.before, ddl.after) for ddl in (a, b)]
    if same_text and changes[0] == changes[1]:
        return True
    if not changes[0] or _plain_renames(a) != _plain_renames(b):
        return False
    if changes[0] == changes[1]:
        return True
    # Comments may differ if the statements change more than comments.
    return equivalent(a.before, b.before) and equivalent(a.after, b.after) and not equivalent(a.before, a.after)


def _same_text(a: ShardDdl, b: ShardDdl) -> bool:
    if plain(a.sql, a.session) == plain(b.sql, b.session):
        return True
    clauses = [frozenset(plain(step.sql, ddl.session) for step in ddl.steps) for ddl in (a, b)]
    return clauses[0] == clauses[1] and len(a.steps) == len(b.steps)


def reads_alike(a: DdlSession | None, b: DdlSession | None) -> bool:
    """Return whether two sessions read one text as one statement; an unknown session (None) reads like any."""
    return a is None or b is None or not (a.sql_mode ^ b.sql_mode) & _READING


def _plain_renames(ddl: ShardDdl) -> list[tuple[str, str]]:
    return sorted((old.lower(), new.lower()) for old, new in ddl.renames)


_READING = ANSI_QUOTES | HIGH_NOT_PRECEDENCE | NO_BACKSLASH_ESCAPES | PIPES_AS_CONCAT | REAL_AS_FLOAT
"""The bits of sql_mode that decide what a text says."""

_ESCAPED = re.compile(r"""('(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")""", re.DOTALL)
_UNESCAPED = re.compile(r"""('(?:[^']|'')*'|"(?:[^"]|"")*")""", re.DOTALL)


def plain(sql: str, session: DdlSession | None = None) -> str:
    """Return a statement's text normalized outside of strings: blanks, backticks and letter case."""
    quoted = _ESCAPED if session is None or session.backslash_escapes else _UNESCAPED
    pieces = quoted.split(sql.strip().rstrip(";"))
    pieces[::2] = [" ".join(piece.replace("`", "").split()).casefold() for piece in pieces[::2]]
    return " ".join(pieces)
