"""Locals between a sync point's prepare and its commit, and where they stand, however the log is cut."""

import random
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from snapshot_store.tso import OrderKey
from tests.effort import effort
from tests.merge_e2e.editing import assert_prefix
from tests.merge_e2e.local import merge, written
from tests.polardbx.logs import Log, end, gcn, keys, local, rows, sequence, start
from tests.simulator import wire

POINT = "__polardbx_sync_point__"


class Told:
    """One node's log, and the keys that its commits must have by the rule in its plainest form.

    The window's counter goes on from the node's own; while nothing has been committed in it the two are one.
    """

    def __init__(self) -> None:
        self.log = Log()
        self.expected: list[tuple[OrderKey, int]] = []
        self.greatest, self.seq = (0, 0), 0
        self.holding: list[tuple[int, int]] = []
        self.counts: dict[tuple[int, int], int] = {}
        self.places: dict[int, int] = {}

    def prepare(self, transaction: int, table: str = "t", group: str = "G") -> None:
        self.places[transaction] = self.log.group(*start(transaction, table=table, group=group), before=[gcn(1, 3)])
        if table == POINT:
            self.holding = [self.greatest]

    def commit(self, transaction: int, tso: int, group: str = "G", point: bool = False) -> None:
        self.log.group(end(transaction, group=group), before=[gcn(tso, 5)])
        if point:
            self.holding = []
        self.expected.append((OrderKey(tso, transaction, 0, 0), self.places[transaction]))
        if (tso, transaction) > self.greatest:
            self.greatest = (tso, transaction)

    def local(self, own: int | None = None, *, older: bool = False) -> None:
        """Commit a local transaction with or without a TSO of its own, told as 5.7 does or as 8.0 does."""
        if older and own is not None:
            at = self.log.group(wire.query("BEGIN"), *rows(), sequence(own, 2), wire.xid(7))
        else:
            at = self.log.group(*local(), before=[gcn(own or 1, 1 if own is None else 5)])
        held = self.holding and (own or -1) <= self.holding[0][0]
        self._follow(self.holding[0] if held else self.greatest, at)

    def one_phase(self, transaction: int) -> None:
        self._follow(self.greatest, self.log.group(*start(transaction, one_phase=True), before=[gcn(1, 5)]))

    def _follow(self, behind: tuple[int, int], at: int) -> None:
        self.counts[behind] = self.counts.get(behind, 0) + 1
        self.expected.append((OrderKey(*behind, self.counts[behind], 1), at))

    def check(self, folder: Path, seeds: int = 8) -> None:
        config = self.log.save(folder)
        for seed in (None, *range(seeds)):
            assert keys(config, folder, seed, 9) == sorted(self.expected)


def window() -> Told:
    """Return a log in which a sync point was prepared behind TSO 100, and TSO 200 committed meanwhile."""
    told = Told()
    told.prepare(1)
    told.commit(1, 100)
    told.local()
    told.prepare(9, POINT)
    told.local()
    told.prepare(2)
    told.commit(2, 200)
    return told


def test_a_local_without_a_tso_stands_before_the_sync_point(tmp_path: Path) -> None:
    told = window()
    told.local()
    told.local(own=100)
    told.local(own=60, older=True)
    told.commit(9, 300, point=True)
    told.local()
    assert [k for k, _ in sorted(told.expected)][1:6] == [(100, 1, n, 1) for n in range(1, 6)]
    assert [k for k, _ in told.expected][-1] == (300, 9, 1, 1)
    told.check(tmp_path)


def test_a_later_one_stands_where_it_always_does(tmp_path: Path) -> None:
    told = window()
    told.local(own=101)
    told.local(own=150, older=True)
    told.local(own=99)
    told.one_phase(5)
    told.commit(9, 300, point=True)
    assert [k for k, _ in told.expected][-5:-1] == [(200, 2, 1, 1), (200, 2, 2, 1), (100, 1, 3, 1), (200, 2, 3, 1)]
    told.check(tmp_path)


def test_the_next_sync_point_counts_only_what_the_one_before_left(tmp_path: Path) -> None:
    told = window()
    told.local()
    told.local()
    told.commit(9, 150, point=True)
    told.prepare(8, POINT)
    told.prepare(3)
    told.commit(3, 400)
    told.local()
    told.local()
    told.commit(8, 500, point=True)
    assert [k for k, _ in told.expected][-3:-1] == [(200, 2, 1, 1), (200, 2, 2, 1)]
    told.check(tmp_path)


def test_one_that_is_rolled_back_or_in_doubt_changes_nothing(tmp_path: Path) -> None:
    for ended in (True, False):
        told = window()
        told.holding = []
        told.local()
        if ended:
            told.log.group(end(9, "ROLLBACK", "G"), before=[gcn(1, 1)])
        told.local()
        told.check(tmp_path / str(ended))


def test_a_node_with_two_copies(tmp_path: Path) -> None:
    """The second prepare begins the window anew, the first commit ends it."""
    told = window()
    told.prepare(10, POINT)
    told.local()
    told.prepare(3)
    told.commit(3, 250)
    told.local()
    told.commit(9, 300, point=True)
    told.local()
    told.commit(10, 300, point=True)
    told.local()
    assert [k for k, _ in told.expected if k.seq][-4:] == [
        (200, 2, 1, 1), (200, 2, 2, 1), (300, 9, 1, 1), (300, 10, 1, 1),
    ]  # fmt: skip
    told.check(tmp_path)


_STEPS = st.lists(
    st.one_of(
        st.sampled_from(["prepare", "point", "one-phase"]),
        st.tuples(st.just("commit"), st.integers(0, 5)),
        st.tuples(st.just("local"), st.none() | st.integers(-3, 3), st.booleans()),
    ),
    min_size=4,
    max_size=25,
)


@given(_STEPS, st.integers(0, 1000))
@settings(max_examples=effort(15, 40), deadline=None)
def test_any_history_cut_anywhere(steps: list[object], seed: int) -> None:
    told, open_, points = Told(), [2, 3], {2}
    told.prepare(1)
    told.commit(1, 1000)
    told.prepare(2, POINT)
    told.prepare(3)
    tso, number = 1000, 3
    for step in steps:
        if isinstance(step, str):
            number += 1
            if step == "one-phase":
                told.one_phase(number)
                continue
            told.prepare(number, POINT if step == "point" else "t")
            open_.append(number)
            points |= {number} if step == "point" else set()
        elif isinstance(step, tuple) and step[0] == "commit" and open_:
            tso += 10
            which = open_.pop(step[1] % len(open_))
            told.commit(which, tso, point=which in points)
        elif isinstance(step, tuple) and step[0] == "local":
            told.local(None if step[1] is None else tso + 10 * step[1], older=step[2])
    for which in open_:
        tso += 10
        told.commit(which, tso, point=which in points)
    with TemporaryDirectory() as name:
        told.check(Path(name), 3)


def test_published_run_by_run(tmp_path: Path) -> None:
    """While a sync point is under way nothing behind what was committed before it is published."""
    told = window()
    told.local()
    told.commit(9, 300, point=True)
    told.prepare(4)
    told.commit(4, 400)
    told.local()
    config = told.log.save(tmp_path)
    (tmp_path / "base.sql").write_text("CREATE DATABASE d; USE d; CREATE TABLE t (a bigint);")
    values = yaml.safe_load(config.read_text()) | {"base": {"logical": "base.sql"}}
    config.write_text(yaml.safe_dump(values))
    merge(config, tmp_path / "whole")
    whole = written(tmp_path / "whole")
    path = tmp_path / "dn-1" / "binlog.000001"
    data, places = path.read_bytes(), [*told.log.starts, len(told.log.data)]
    for seed in range(6):
        rng, out = random.Random(seed), tmp_path / f"out-{seed}"
        for at in sorted(rng.sample(places[1:], 4)):
            path.write_bytes(data[:at])
            merge(config, out, end_of_input=False)
            assert_prefix(written(out), whole)
        path.write_bytes(data)
        merge(config, out)
        assert written(out) == whole
