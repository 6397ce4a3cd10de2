"""The order in which the branches of a transaction come out, told by the keys that were made up for their rows."""

from collections.abc import Iterable, Sequence

from tests.simulator.keys import Key
from tests.simulator.rows import RowChange, Values

Statement = list[RowChange]


def in_turn(branches: Iterable[Sequence[RowChange]]) -> list[RowChange]:
    """Return the rows of a transaction: always the next statement of the first branch that takes no key which another
    one has yet to free.
    """
    left = [_statements(branch) for branch in branches]
    found: list[RowChange] = []
    while any(left):
        ready = next(branch for branch in left if branch and not _waits(branch[0], branch, left))
        found += ready.pop(0)
    return found


def _statements(changes: Sequence[RowChange]) -> list[Statement]:
    found: dict[int, Statement] = {}
    for change in changes:
        found.setdefault(change.statement, []).append(change)
    return list(found.values())


def _waits(statement: Statement, branch: list[Statement], left: list[list[Statement]]) -> bool:
    takes = {_key(change, change.after) for change in statement} - {None}
    others = (change for other in left if other is not branch for one in other for change in one)
    return not takes.isdisjoint(_key(change, change.before) for change in others)


def _key(change: RowChange, values: Values | None) -> Key | None:
    name = change.physical.columns[0].name
    return None if values is None or name not in values else (change.logical, values[name])
