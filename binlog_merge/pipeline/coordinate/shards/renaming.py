"""The text of a RENAME TABLE of logical tables: the user's own, where it does just that, else one that is made."""

from collections.abc import Iterator, Sequence

from binlog_merge.pipeline.coordinate.shards.following import Renaming
from binlog_merge.pipeline.coordinate.shards.values import Name
from snapshot_store.ddl.effects import effects_of
from snapshot_store.ddl.parse.statement import parse_statement
from snapshot_store.mysql.sql.names import quote_name
from snapshot_store.mysql.sql.session import DdlSession

_LONGEST_NAME = 64

Pairs = Sequence[tuple[Name, Name]]


def rename_sql(renaming: Renaming, session: DdlSession) -> str:
    """Return the statement; `session` is that of the user's own."""
    if renaming.sql and _does(renaming, session):
        return renaming.sql
    steps = ", ".join(f"{_quoted(old)} TO {_quoted(new)}" for old, new in _in_turn(renaming))
    return f"RENAME TABLE {steps}"


def _does(renaming: Renaming, session: DdlSession) -> bool:
    """Tell whether the user's statement renames just these, each name free in its turn, within their databases."""
    effects = effects_of(parse_statement(renaming.sql, session))
    if {(old, new) for new, old in effects.origins.items()} != set(renaming.pairs):
        return False
    taken, databases = set(renaming.taken), {name[0] for pair in renaming.pairs for name in pair}
    for old, new in effects.moves:
        if old not in taken or new in taken or new[0] not in databases:
            return False
        taken = (taken - {old}) | {new}
    return True


def _in_turn(renaming: Renaming) -> Iterator[tuple[Name, Name]]:
    """Yield the renames so that every name is free in its turn; a ring goes by way of a name that no table has."""
    left = dict(renaming.pairs)
    while left:
        old = next((old for old, new in sorted(left.items()) if new not in left), None)
        if old is None:
            old = min(left)
            aside = _free(old, renaming.taken | set(left))
            yield old, aside
            left[aside] = left.pop(old)
        else:
            yield old, left.pop(old)


def _free(name: Name, taken: set[Name] | frozenset[Name]) -> Name:
    """Return a name for a table that is put aside."""
    number = 0
    while True:
        suffix = f"_aside{number or ''}"
        found = (name[0], f"_{name[1]}"[: _LONGEST_NAME - len(suffix)] + suffix)
        if found not in taken:
            return found
        number += 1


def _quoted(name: Name) -> str:
    return ".".join(map(quote_name, name))
