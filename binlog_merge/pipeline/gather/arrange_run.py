"""Runs the statements of a transaction's branches against the key values that they hold: see `gather.arrange`.

However many changes a statement has, it is not looked at from the beginning again each time another one has run: what
has held it up is looked at first.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import chain, groupby
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
