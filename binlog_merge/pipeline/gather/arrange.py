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

Runs the statements of a transaction's branches against the key values that they hold: see `gather.arrange`.

However many changes a statement has, it is not looked at from the beginning again each time another one has run: what
has held it up is looked at first.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import chain, groupby, pairwise
from typing import Final, NamedTuple

from binlog_merge.pipeline.gather.key_changes import FREES, TAKES, UNKNOWN

MOST_RETURNS: Final = 10_000

Change = tuple[int, int, int, bool]  # key, value, sign, clear
Held = tuple[int, int]  # key, value


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement of a branch. `deletes` and `inserts`: it does nothing else; `changes` are what it does to keys."""

    branch: int
    changes: Sequence[Change]
    deletes: bool = False
    inserts: bool = False


class Run:
    """Runs the statements of all branches against the values that they hold."""

    def __init__(
        self,
        statements: Sequence[Statement],
        exchanged: Set[Held],
        unclear: frozenset[int],
        passing: bool,
        updates_stay: bool,
    ) -> None:
        self._statements, self._passing, self._updates_stay = statements, passing, updates_stay
        self._branches = [
            list(numbers) for _, numbers in groupby(range(len(statements)), key=lambda n: statements[n].branch)
        ]
        self._branch_of = [branch for branch, numbers in enumerate(self._branches) for _ in numbers]
        self._takes: list[Sequence[_Take]] = []
        self._effects: list[Sequence[tuple[int, int]]] = []  # (value, sign), by number of the value
        self._frees: list[Sequence[tuple[int, bool]]] = []  # (unclear key, clear)
        self._looked = [0] * len(statements)  # the first change that has held up a statement
        self._holds = [0] * len(exchanged)
        self._left = [0] * len(exchanged)  # changes to come
        self._left_of: Counter[int] = Counter()  # those of a branch: value * branches + branch
        self._to_free: dict[int, Counter[tuple[int, bool]]] = defaultdict(Counter)  # by key: (branch, clear)
        numbers_of = {held: number for number, held in enumerate(exchanged)}
        for statement, branch in zip(statements, self._branch_of, strict=True):
            self._add(statement, branch, numbers_of, unclear)
        self._done = [False] * len(statements)
        self._next = [0] * len(self._branches)
        self._ahead = [0] * len(self._branches)
        self._passed: list[Counter[Held]] = [Counter() for _ in self._branches]
        self._rows_ahead: list[list[Held]] = [[] for _ in self._branches]  # of the one that deletes at `_ahead`

    def _add(self, statement: Statement, branch: int, numbers: Mapping[Held, int], unclear: Set[int]) -> None:
        takes: list[_Take] = []
        effects: list[tuple[int, int]] = []
        frees: list[tuple[int, bool]] = []
        here: dict[int, tuple[int, int]] = {}
        for key, value, sign, clear in statement.changes:
            number = numbers.get((key, value), -1) if sign and clear else -1
            if not sign or (number < 0 and key not in unclear):
                continue
            change, count = here.get(number, (0, 0))
            if sign == TAKES:
                takes.append(_Take(number, change, count + 1, key if key in unclear else None, clear))
            elif key in unclear:
                frees.append((key, clear))
                self._to_free[key][branch, clear] += 1
            if number >= 0:
                own = number * len(self._branches) + branch
                if not self._left_of[own]:
                    self._holds[number] += sign == FREES
                self._left[number] += 1
                self._left_of[own] += 1
                here[number] = change + sign, count + 1
                effects.append((number, sign))
        self._takes.append(tuple(takes))
        self._effects.append(tuple(effects))
        self._frees.append(tuple(frees))

    def order(self) -> list[int] | None:
        """Return the order in which all statements can be run, None if none was found."""
        order: list[int] = []
        while len(order) < len(self._statements):
            found = self._in_turn()
            if found is None and self._passing:
                found = self._out_of_turn()
            if found is None:
                return None
            self._apply(found)
            order.append(found)
        return order

    def search(self) -> list[int] | None:
        """Return an order in which branches take other turns where the first one that may go on gets stuck."""
        order: list[int] = []
        stuck: set[tuple[int, ...]] = set()
        at, first, returns = [0] * len(self._branches), 0, 0
        while len(order) < len(self._statements):
            found = next((b for b in range(first, len(at)) if self._leads_on(at, b, stuck)), None)
            if found is not None:
                number, first = self._branches[found][at[found]], 0
                self._apply(number)
                at[found] += 1
                order.append(number)
                continue
            if not order or returns == MOST_RETURNS:
                return None
            stuck.add(tuple(at))
            returns += 1
            number = order.pop()
            branch = self._branch_of[number]
            self._apply(number, -1)
            at[branch] -= 1
            first = branch + 1
        return order

    def _leads_on(self, at: list[int], branch: int, stuck: set[tuple[int, ...]]) -> bool:
        numbers = self._branches[branch]
        if at[branch] == len(numbers) or not self._may_run(numbers[at[branch]]):
            return False
        return (*at[:branch], at[branch] + 1, *at[branch + 1 :]) not in stuck

    def _in_turn(self) -> int | None:
        for branch, numbers in enumerate(self._branches):
            at = self._next[branch]
            while at < len(numbers) and self._done[numbers[at]]:
                at += 1
            self._next[branch] = at
            if at < len(numbers) and self._may_run(numbers[at]):
                if at < self._ahead[branch]:
                    self._passed[branch].subtract(_rows(self._statements[numbers[at]]))
                return numbers[at]
        return None

    def _out_of_turn(self) -> int | None:
        for branch, numbers in enumerate(self._branches):
            found = self._next_that_deletes(branch, numbers)
            if found is not None and self._may_run(found):
                return found
        return None

    def _next_that_deletes(self, branch: int, numbers: Sequence[int]) -> int | None:
        """Return the first statement of a branch that deletes, if it may pass all before it that have not run."""
        at = max(self._ahead[branch], self._next[branch])
        passed = self._passed[branch]
        while at < len(numbers):
            statement = self._statements[numbers[at]]
            if not self._done[numbers[at]]:
                if statement.deletes and at > self._next[branch]:
                    if at > self._ahead[branch] or not self._rows_ahead[branch]:
                        self._rows_ahead[branch] = [*_rows(statement)]
                    self._ahead[branch] = at
                    return numbers[at] if statement.changes and self._free_to_pass(branch) else None
                if not _may_be_passed(statement, self._updates_stay):
                    break
                passed.update(_rows(statement))
            at += 1
        self._ahead[branch] = at
        return None

    def _free_to_pass(self, branch: int) -> bool:
        """Return whether the statement that deletes at `_ahead` passes none about its rows. Once it is free of one of
        them it stays so: nothing more is passed before it has run.
        """
        passed, rows = self._passed[branch], self._rows_ahead[branch]
        while rows and passed[rows[-1]] <= 0:
            rows.pop()
        return not rows

    def _may_run(self, number: int) -> bool:
        """Return whether a statement may take all its values: first looked at is what has held it up before."""
        takes, branch, start = self._takes[number], self._branch_of[number], self._looked[number]
        for at in chain(range(start, len(takes)), range(start)):
            if self._held_up(takes[at], branch):
                self._looked[number] = at
                return False
        return True

    def _held_up(self, take: "_Take", branch: int) -> bool:
        if take.unclear is not None and self._waits(take.unclear, branch, take.clear):
            return True
        if take.number < 0:
            return False
        if self._holds[take.number] + take.before > 0:
            return True
        # It takes the value for good, while another branch has yet to take or free it.
        left = self._left_of[take.number * len(self._branches) + branch]
        return left == take.nth and self._left[take.number] > left

    def _waits(self, key: int, branch: int, clear: bool) -> bool:
        """Return whether another branch has yet to free what may be the value that is taken."""
        return any(
            count > 0 and of != branch and not (clear and freed) for (of, freed), count in self._to_free[key].items()
        )

    def _apply(self, number: int, times: int = 1) -> None:
        """Let a statement run; -1 `times` undoes it."""
        self._done[number] = times > 0
        branch = self._branch_of[number]
        for key, clear in self._frees[number]:
            self._to_free[key][branch, clear] -= times
        for value, sign in self._effects[number]:
            self._holds[value] += sign * times
            self._left[value] -= times
            self._left_of[value * len(self._branches) + branch] -= times


class _Take(NamedTuple):
    """A value that a statement takes.

    `number` is that of an exchanged value, or -1; `before` is what the statement itself has done to it, and `nth` the
    number of its changes of it so far. `unclear`: the key, if not all of its values are clear.
    """

    number: int
    before: int
    nth: int
    unclear: int | None
    clear: bool


def _rows(statement: Statement) -> set[Held]:
    """Return what tells the rows of a statement apart from others."""
    return {(key, value) for key, value, _, _ in statement.changes if value != UNKNOWN}


def _may_be_passed(statement: Statement, updates_stay: bool) -> bool:
    return statement.inserts or not updates_stay


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
