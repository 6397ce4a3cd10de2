"""Statements of several branches are put in order: of what could have happened, what keeps keys unique is found."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from binlog_merge.pipeline.gather.arrange import Arrangement, Change, Statement, arranged

FREES, TOUCHES, TAKES = -1, 0, 1


def statement(branch: int, *changes: tuple[int, int], clear: bool = True) -> Statement:
    """Return a statement that does (value, sign) to the values of one key."""
    told: list[Change] = [(1, value, sign, clear) for value, sign in changes]
    signs = {sign for _, sign in changes}
    return Statement(branch, told, deletes=signs == {FREES}, inserts=signs == {TAKES})


def order(*statements: Statement, updates_stay: bool = False) -> list[int]:
    found = arranged(statements, updates_stay)
    assert not found.doubted and not found.excluded
    return list(found.order)


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Statement], list[int]]:
    """Return what a few branches did one after the other, and the values that they held before."""
    branches, values = draw(st.integers(2, 4)), range(draw(st.integers(1, 4)))
    holder: dict[int, int | None] = {value: draw(st.none() | st.integers(0, branches - 1)) for value in values}
    before = [value for value in values if holder[value] is not None]
    done: list[Statement] = []
    for _ in range(draw(st.integers(1, 14))):
        branch = draw(st.integers(0, branches - 1))
        changes = []
        for value in draw(st.lists(st.sampled_from(values), min_size=1, max_size=2)):
            if holder[value] is None:
                holder[value] = branch
                changes.append((value, TAKES))
            elif holder[value] == branch:
                sign = draw(st.sampled_from([FREES, TOUCHES]))
                holder[value] = None if sign == FREES else branch
                changes.append((value, sign))
        if changes:
            done.append(statement(branch, *changes))
    return sorted(done, key=lambda s: s.branch), before


@given(histories())
def test_what_has_happened_can_happen_again(history: tuple[list[Statement], list[int]]) -> None:
    statements, before = history
    found = arranged(statements, False)
    assert not found.excluded and not found.doubted
    assert sorted(found.order) == list(range(len(statements)))
    held = dict.fromkeys(before, 1)
    for number in found.order:
        for _, value, sign, _ in statements[number].changes:
            held[value] = held.get(value, 0) + sign
            assert held[value] in (0, 1)
    for branch in {s.branch for s in statements}:
        own = [n for n in found.order if statements[n].branch == branch]
        assert all(a < b or statements[a].deletes for a, b in pairwise(own))


def test_nothing_moves_without_need() -> None:
    freed, taken = statement(0, (1, FREES)), statement(1, (1, TAKES))
    assert order(freed, statement(0, (2, TAKES)), statement(1, (3, FREES)), taken) == [0, 1, 2, 3]
    assert arranged([statement(0, (1, TAKES)), statement(1, (1, TAKES))], False) == Arrangement(range(2))


def test_who_inserts_first_on_both_nodes_is_passed_by_what_is_deleted() -> None:
    here, there = statement(0, (7, TAKES)), statement(1, (8, TAKES))
    assert order(here, statement(0, (8, FREES)), there, statement(1, (7, FREES))) == [1, 2, 3, 0]
    change = statement(0, (5, TOUCHES))
    both = (here, change, statement(0, (8, FREES)), there, statement(1, (7, FREES)))
    assert order(*both) == [2, 3, 4, 0, 1]
    assert order(*both, updates_stay=True) == [4, 0, 1, 2, 3]
    own = (here, statement(0, (8, TOUCHES)), statement(0, (8, FREES)), there, statement(1, (7, FREES)))
    assert order(*own) == [4, 0, 1, 2, 3], "what changes a row stays before what deletes it"


def test_what_has_no_order_is_told() -> None:
    swapped = [statement(0, (1, FREES), (2, TAKES)), statement(1, (2, FREES), (1, TAKES))]
    assert arranged(swapped, False) == Arrangement(range(2), frozenset(), frozenset({1}))
    copies = [statement(b, (1, FREES)) for b in (0, 1)] + [statement(b, (1, TAKES)) for b in (0, 1)]
    assert arranged(sorted(copies, key=lambda s: s.branch), False).doubted == {1}, "two nodes have the same row"


def test_values_that_are_not_clear() -> None:
    came, went = statement(0, (1, TAKES), clear=False), statement(1, (2, FREES), clear=False)
    assert order(came, went) == [1, 0], "they may be one value"
    assert order(came, statement(1, (2, TAKES), clear=False)) == [0, 1]
    # What is not known does not tell rows apart: the deletes pass the inserts.
    came, went = (
        [Statement(b, [(1, -1, TAKES, False), (2, b, TAKES, True)], inserts=True) for b in (0, 1)],
        [Statement(b, [(1, -1, FREES, False), (2, 1 - b, FREES, True)], deletes=True) for b in (0, 1)],
    )
    assert order(came[0], went[0], came[1], went[1]) == [1, 2, 3, 0]
    swapped = [statement(0, (1, FREES), (2, TAKES), clear=False), statement(1, (3, FREES), (4, TAKES), clear=False)]
    assert arranged(swapped, False) == Arrangement([0, 1], frozenset({1}))


def test_statements_of_any_size_are_looked_at_about_once() -> None:
    """Each row that a long INSERT takes is freed by a DELETE of its own: were all of it looked at again after each of
    them, this would take hours.
    """
    count = 20_000
    taken = statement(0, *((value, TAKES) for value in range(count)))
    freed = [statement(1, (value, FREES)) for value in range(count)]
    assert order(taken, *freed) == [*range(1, count + 1), 0]
    # One that may not pass what changes its rows waits likewise.
    here = [statement(0, (-1, TAKES)), statement(0, *((value, TOUCHES) for value in range(count)))]
    here.append(statement(0, *((value, FREES) for value in range(count))))
    there = [statement(1, (value, TAKES)) for value in range(count)]
    there += [statement(1, (count + value, FREES)) for value in range(count)] + [statement(1, (-1, FREES))]
    found = order(*here, *there, updates_stay=True)
    assert sorted(found) == list(range(len(found))) and found.index(2) < found.index(3)
