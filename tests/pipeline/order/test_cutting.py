"""Where output files end: by the order alone, so that neither the parts of a run nor the runs can be seen in it."""

from itertools import pairwise
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from binlog_merge.pipeline.base.blocks import write_block
from binlog_merge.pipeline.order.cutting import Cut, cut, rows_of
from binlog_merge.pipeline.order.ordered import COLUMNS, OrderResult, transactions
from tests.pipeline.logs import columns

HERE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
Transaction = list[int]  # the bytes of its branches
MOST = 20


def part(found: list[Transaction], path: Path, begin: int = 0) -> OrderResult:
    """Write transactions as one part of the global order, with TSOs from `begin` on."""
    of = columns(("tso", "start", "end"), [(i, 0, size) for i, t in enumerate(found, begin) for size in t])
    of = {name: of.get(name, of["start"] * 0) for name in COLUMNS}
    write_block(str(path), of | transactions(of, ("tso",)))
    rows = sum(len(t) for t in found)
    return OrderResult(0, str(path), rows, len(found), sum(map(sum, found)), None, 0, 0, 0, 0, None)


def parts(found: list[Transaction], places: list[int], folder: Path) -> list[OrderResult]:
    """Write transactions as parts that end at these places."""
    bounds = [0, *sorted(min(at, len(found)) for at in places), len(found)]
    return [part(found[a:b], folder / f"{i}.arrow", a) for i, (a, b) in enumerate(pairwise(bounds))]


def begins(sizes: list[int]) -> list[int]:
    """Return the ranks of the transactions that begin a file: those at which the one before is full."""
    found, filled = [], MOST
    for rank, size in enumerate(sizes, 1):
        if filled >= MOST:
            found.append(rank)
            filled = 0
        filled += size
    return found


TRANSACTIONS = st.lists(st.lists(st.integers(1, 15), min_size=1, max_size=3), max_size=12)


@HERE
@given(TRANSACTIONS, st.lists(st.integers(0, 12), max_size=3))
def test_parts_cannot_be_seen_in_files(tmp_path: Path, found: list[Transaction], places: list[int]) -> None:
    given_parts = parts(found, places, tmp_path)
    cuts = cut(given_parts, MOST, 1, None)
    assert [one.rank for one in cuts] == begins([sum(t) for t in found])
    runs = [run for one in cuts for run in one.runs]
    assert all(start < stop for _, start, stop in runs)
    assert [(path, row) for path, start, stop in runs for row in range(start, stop)] == [
        (one.path, row) for one in given_parts for row in range(one.rows)
    ]
    assert sum(rows_of(cuts)) == sum(len(t) for t in found)


@HERE
@given(TRANSACTIONS, st.lists(st.integers(0, 12), max_size=3))
def test_runs_cannot_be_seen_in_files(tmp_path: Path, found: list[Transaction], places: list[int]) -> None:
    ranks: list[int] = []
    rank, used = 0, None
    for one in parts(found, places, tmp_path):
        cuts: list[Cut] = cut([one], MOST, rank + 1, used)
        assert all(later.goes_on is False for later in cuts[1:])
        ranks += [one.rank for one in cuts if not one.goes_on]
        rank += one.transactions
        new = [sum(sum(t) for t in found[a - 1 : b - 1]) for a, b in pairwise([*(c.rank for c in cuts), rank + 1])]
        if cuts:
            used = new[-1] + ((used or 0) if cuts[-1].goes_on else 0)
    assert ranks == begins([sum(t) for t in found])


def test_a_full_file_is_closed_when_something_follows(tmp_path: Path) -> None:
    nothing, one = part([], tmp_path / "nothing"), part([[5], [5, 5]], tmp_path / "one")
    assert cut([nothing], MOST, 7, MOST) == cut([nothing], MOST, 7, None) == []
    closed, new = cut([nothing, one], MOST, 7, MOST)
    assert (closed.rank, closed.goes_on, closed.runs) == (7, True, [])
    assert (new.rank, new.goes_on, new.runs) == (7, False, [(one.path, 0, 3)])
    assert [c.goes_on for c in cut([one], MOST, 7, MOST - 1)] == [True, False]
