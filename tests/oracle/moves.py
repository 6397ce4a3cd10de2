"""The order of a distributed transaction's statements: what frees a key's value comes before what takes it.

Step by step, and looking at everything again before each step: of the branches the first whose next statement may run;
if there is none, the first whose next DELETE may run, where nothing that it passes is about the same rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.oracle.binlog import OracleError, Packed
from tests.oracle.ddl import Column
from tests.oracle.reshape import ABSENT, Cell, Change, Image

Key = tuple[str, str]  # table, name of the key
Value = tuple[Cell, ...] | None  # None: not known
Step = tuple[Key, Value, int]  # -1 frees, 1 takes, 0 leaves it


@dataclass
class Statement:
    branch: int
    events: list[Packed] = field(default_factory=list)
    changes: list[tuple[Change, tuple[Column, ...]]] = field(default_factory=list)

    def steps(self) -> list[Step]:
        return [step for change, columns in self.changes for step in _steps(change, columns)]

    def only(self, kind: str) -> bool:
        return all(change.kind == kind for change, _ in self.changes)


def _steps(change: Change, columns: tuple[Column, ...]) -> list[Step]:
    found: list[Step] = []
    for name in sorted({key for c in columns for key in c.keys}):
        places = [i for i, c in enumerate(columns) if name in c.keys]
        key = (change.table, name)
        before = change.before and tuple(change.before[i] for i in places)
        after = change.after and tuple(
            change.before[i] if change.after[i] == ABSENT and change.before else change.after[i] for i in places
        )
        if before and after and before == after:
            found += [(key, _folded(columns, places, before), 0)] if ABSENT not in before and None not in before else []
            continue
        for cells, sign in ((before, -1), (after, 1)):
            if cells and None not in cells:
                found.append((key, None if ABSENT in cells else _folded(columns, places, cells), sign))
    return found


def _folded(columns: tuple[Column, ...], places: list[int], cells: Image) -> Image:
    folded: list[Cell] = []
    for place, cell in zip(places, cells, strict=True):
        column = columns[place]
        if isinstance(cell, bytes) and column.collation:
            if not cell.isascii():
                raise OracleError(f"which texts {column.collation} takes for equal is not modelled")
            cell = cell if column.collation.endswith("_bin") else cell.upper()
        folded.append(cell)
    return tuple(folded)


def in_order(statements: Sequence[Statement]) -> list[Statement]:
    """Return a transaction's statements in the order in which they come out."""
    for attempt in (_Attempt(statements, waiting, passing) for waiting in (True, False) for passing in (False, True)):
        found = attempt.run()
        if found is not None:
            return found
    raise OracleError("no order keeps the keys unique")


class _Attempt:
    def __init__(self, statements: Sequence[Statement], waiting: bool, passing: bool) -> None:
        self.waiting, self.passing = waiting, passing
        self.left: dict[int, list[Statement]] = {}
        for statement in statements:
            self.left.setdefault(statement.branch, []).append(statement)
        self.steps = {id(s): s.steps() for s in statements}
        self.holders: dict[tuple[Key, Value], int] = {}
        for branch in self.left:
            for key, value, sign in self._open(branch):
                if value is not None and sign:
                    # Who frees a value before he takes it has held it at the beginning.
                    self._began(branch, key, value, sign)

    def _began(self, branch: int, key: Key, value: Value, sign: int) -> None:
        first = next(s for k, v, s in self._open(branch) if (k, v) == (key, value) and s)
        if first == -1:
            self.holders[key, value] = branch

    def _open(self, branch: int) -> list[Step]:
        """Return what a branch has yet to do."""
        return [step for statement in self.left[branch] for step in self.steps[id(statement)]]

    def run(self) -> list[Statement] | None:
        done: list[Statement] = []
        while any(self.left.values()):
            found = next((s for s in (self._next(b) for b in self.left) if s is not None), None)
            if found is None and self.passing:
                found = next((s for s in (self._deleting(b) for b in self.left) if s is not None), None)
            if found is None:
                return None
            self.left[found.branch].remove(found)
            for key, value, sign in self.steps[id(found)]:
                if sign == 1:
                    self.holders[key, value] = found.branch
                elif sign == -1:
                    self.holders.pop((key, value), None)
            done.append(found)
        return done

    def _next(self, branch: int) -> Statement | None:
        statements = self.left[branch]
        return statements[0] if statements and self._may_run(statements[0]) else None

    def _deleting(self, branch: int) -> Statement | None:
        passed: set[tuple[Key, Value]] = set()
        unkeyed: set[str] = set()
        for statement in self.left[branch]:
            steps = self.steps[id(statement)]
            bare = {c.table for c, columns in statement.changes if not any(column.keys for column in columns)}
            if statement.changes and statement.only("delete"):
                rows = {(key, value) for key, value, _ in steps}
                free = not rows & passed and not bare & unkeyed
                return statement if free and self._may_run(statement) else None
            passed |= {(key, value) for key, value, _ in steps}
            unkeyed |= bare
        return None

    def _may_run(self, statement: Statement) -> bool:
        others = [step for b in self.left if b != statement.branch for step in self._open(b)]
        for at, (key, value, sign) in enumerate(self.steps[id(statement)]):
            if sign != 1:
                continue
            frees = [v for k, v, s in others if k == key and s == -1]
            if self.waiting and any(v is None or value is None for v in frees):
                return False
            if value is not None and value in frees:
                taken = self.holders.get((key, value), statement.branch) != statement.branch
                again = any((k, v) == (key, value) and s for k, v, s in self._after(statement, at))
                if taken or not again:
                    return False
        return True

    def _after(self, statement: Statement, at: int) -> list[Step]:
        """Return what a branch does after a step of a statement."""
        own = self.left[statement.branch]
        later = [step for s in own[own.index(statement) + 1 :] for step in self.steps[id(s)]]
        return self.steps[id(statement)][at + 1 :] + later
