"""The text of a RENAME TABLE of logical tables: the user's own if it renames exactly these, otherwise a
generated one.
"""

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
    """Return the statement; `session` is that of the user's own statement."""
    if renaming.sql and _does(renaming, session):
        return renaming.sql
    steps = ", ".join(f"{_quoted(old)} TO {_quoted(new)}" for old, new in _in_turn(renaming))
    return f"RENAME TABLE {steps}"


def _does(renaming: Renaming, session: DdlSession) -> bool:
    """Return whether the user's statement renames exactly these tables, each to a free name, within their databases."""
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
    """Yield the renames in an order in which every new name is free; a ring goes by way of an unused name."""
    remaining = dict(renaming.pairs)
    while remaining:
        old = next((old for old, new in sorted(remaining.items()) if new not in remaining), None)
        if old is None:
            old = min(remaining)
            aside = _free(old, renaming.taken | set(remaining))
            yield old, aside
            remaining[aside] = remaining.pop(old)
        else:
            yield old, remaining.pop(old)


def _free(name: Name, taken: set[Name] | frozenset[Name]) -> Name:
    """Return an unused name for a table that is temporarily renamed."""
    number = 0
    while True:
        suffix = f"_aside{number or ''}"
        found = (name[0], f"_{name[1]}"[: _LONGEST_NAME - len(suffix)] + suffix)
        if found not in taken:
            return found
        number += 1


def _quoted(name: Name) -> str:
    return ".".join(map(quote_name, name))
