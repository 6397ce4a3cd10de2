"""The order of a distributed transaction's statements, where nothing but unique keys tells it.

Branches come out one after the other, by node. But a row that goes from one node to another is deleted in one branch
and inserted in another, and what takes a key must come after what frees it:

    node 1   INSERT 7, INSERT 8          node 1            INSERT 7             INSERT 8
    node 2   DELETE 7, DELETE 8    ─▶    node 2   DELETE 7          DELETE 8

The statements are run one by one against the values that the branches hold: always the next one of the first branch
that may go on. The statements of a branch keep their order. If no branch may go on (both have inserted before they
delete), a statement that deletes passes those before it that change other rows. It never passes another that deletes,
nor, in a table with foreign keys, one that updates: so parents stay before their children. If that is of no help
either, the branches are tried in other turns, up to `arrange_run.MOST_RETURNS` times.

The order found is a valid one, since it was run. There need not be one: two branches that exchange a key by UPDATE have
none.
"""

from collections import defaultdict
from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from itertools import pairwise

from binlog_merge.pipeline.gather.arrange_run import Held, Run, Statement
from binlog_merge.pipeline.gather.key_changes import FREES, TAKES


@dataclass(frozen=True, slots=True)
class Arrangement:
    """The order of statements, by number.

    `doubted` are keys with values that may contradict it: they are not clear, or several nodes hold them. `excluded`
    are those for which there is no order: then the statements have that of their branches.
    """

    order: Sequence[int]
    doubted: frozenset[int] = frozenset()
    excluded: frozenset[int] = frozenset()


def arranged(statements: Sequence[Statement], updates_stay: bool) -> Arrangement:
    """Return the order of a transaction's statements, which are given branch by branch.

    `updates_stay`: a table has foreign keys, so that no statement that deletes may pass one that updates.
    """
    values = _Values(statements)
    if values.contradictory:
        statements = [_unclear(statement, values.contradictory) for statement in statements]
        values = _Values(statements)
    exchanged, unclear, shared = values.exchanged, values.unclear(), values.shared
    if not exchanged and not unclear:
        return Arrangement(range(len(statements)), shared)
    for keys in (unclear, frozenset[int]()) if unclear else (unclear,):
        for attempt in ("in turn", "passing", "searching"):
            run = Run(statements, exchanged, keys, attempt == "passing", updates_stay)
            order = run.search() if attempt == "searching" else run.order()
            if order is not None:
                return Arrangement(order, shared | (unclear - keys))
    return Arrangement(range(len(statements)), shared, frozenset(key for key, _ in exchanged))


def _unclear(statement: Statement, values: Set[Held]) -> Statement:
    changes = [(*change[:3], change[3] and change[:2] not in values) for change in statement.changes]
    return replace(statement, changes=changes)


class _Values:
    """What the branches do to each value.

    exchanged      values that one branch frees and another takes
    contradictory  those that one branch takes twice: they are not equal, although they seem to be
    shared         keys with values that several nodes hold before or after: they are not unique among the nodes
    """

    def __init__(self, statements: Sequence[Statement]) -> None:
        turns: dict[Held, list[tuple[int, int]]] = defaultdict(list)
        self._frees: dict[tuple[int, bool], set[int]] = defaultdict(set)
        self._takes: dict[tuple[int, bool], set[int]] = defaultdict(set)
        for statement in statements:
            freed, taken = (statement.branch, FREES), (statement.branch, TAKES)
            for key, value, sign, clear in statement.changes:
                if sign and clear:
                    turns[key, value].append(freed if sign == FREES else taken)
                if sign:
                    (self._frees if sign == FREES else self._takes)[key, clear].add(statement.branch)
        exchanged, contradictory, shared = set(), set(), set()
        for held, changes in turns.items():
            if len(changes) == 1 or not _differ(_with(changes, FREES), _with(changes, TAKES)):
                continue
            if any(a == b for a, b in pairwise(changes)):
                contradictory.add(held)
            elif _begun(changes, FREES) > 1 or _begun(changes[::-1], TAKES) > 1:
                shared.add(held[0])
            else:
                exchanged.add(held)
        self.exchanged, self.contradictory, self.shared = exchanged, contradictory, frozenset(shared)

    def unclear(self) -> frozenset[int]:
        """Return the keys of which one branch may free what another takes, as not all of their values are clear."""
        frees, takes = self._frees, self._takes
        return frozenset(
            key
            for key in {key for key, clear in [*frees, *takes] if not clear}
            if _differ(frees[key, False], takes[key, False] | takes[key, True])
            or _differ(frees[key, True], takes[key, False])
        )


def _with(changes: Sequence[tuple[int, int]], sign: int) -> set[int]:
    return {branch for branch, of in changes if of == sign}


def _begun(changes: Sequence[tuple[int, int]], sign: int) -> int:
    """Return how many branches have a change of this sign first, of changes branch by branch."""
    before = [None, *(branch for branch, _ in changes)]
    return sum(of == sign and branch != last for (branch, of), last in zip(changes, before, strict=False))


def _differ(some: set[int], others: set[int]) -> bool:
    """Return whether one of the branches and another one of the others are two."""
    return bool(some) and bool(others) and len(some | others) > 1
