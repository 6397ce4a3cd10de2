"""Who writes an output: contenders for a lease in simulations with faults, and on real stores."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from binlog_merge.config.uri import is_uri
from binlog_merge.errors import LeaseLapsed, LeaseLost, ManifestError, OutputBusy
from binlog_merge.files.lease import (
    ABSENT,
    LEASE_NAME,
    Found,
    Holding,
    Lease,
    Look,
    Lost,
    NoAnswer,
    Put,
    Refused,
    Same,
    State,
    Terms,
    Waiting,
    Written,
    after,
    check_may_write,
    giving,
    outdoing,
    request,
)
from binlog_merge.files.lease_keeper import LeaseKeeper, lease_objects
from binlog_merge.files.lease_seen import check_nobody_leads
from binlog_merge.files.objects import FolderObjects, Objects
from binlog_merge.heartbeat import Role
from tests.effort import effort
from tests.files.lease_simulation import SECONDS, Simulation

ME = Terms("me", 10.0)
OTHER = Lease("other", 7, 10.0, 30)


@pytest.mark.parametrize("stands", [False, True], ids=["clocks that go", "clocks that may stand still"])
def test_faults_never_let_two_write_and_somebody_does_within_the_bound(stands: bool) -> None:
    """The simulation checks at each of its events who may write, and at each record that no later epoch was claimed."""
    for seed in range(effort(60, 300)):
        simulation = Simulation(seed, stands)
        simulation.run(20)
        for _ in range(25):
            simulation.fault()
            simulation.run(simulation.now + simulation.random.expovariate(1 / 6))
        simulation.mend()
        mended = simulation.now
        simulation.run(mended + 40)
        assert simulation.first_after(mended) < mended + 2 * SECONDS, seed
        assert [r.epoch for r in simulation.records] == sorted(r.epoch for r in simulation.records)
        (leader,) = simulation.writers()
        killed = simulation.now
        leader.alive = False
        simulation.start()
        simulation.run(killed + 40)
        assert simulation.first_after(killed, leader.name) < killed + 1.3 * SECONDS, seed


def step(state: State, answer: object, now: float, terms: Terms = ME) -> State:
    """Return the state after the request that it asks for, which began a moment ago."""
    assert isinstance(state, Waiting | Holding)
    _, asked = request(state, terms)
    return after(state, asked, now - 0.1, answer, now, terms)  # type: ignore[arg-type]


def asked(state: State, terms: Terms = ME) -> object:
    assert isinstance(state, Waiting | Holding)
    return request(state, terms)[1]


def held(epoch: int = 8) -> Holding:
    return Holding(Lease("me", epoch, 10.0), "t", 100.0, 100.0)


def test_a_lease_that_nobody_had_is_taken_at_once_but_not_by_a_standby() -> None:
    state = step(Waiting(), Found(None, ABSENT), 5)
    assert asked(state) == Put(Lease("me", 1, 10.0), ABSENT)
    assert asked(state, replace(ME, patient=True)) == Look(None)


def test_who_waits_takes_the_lease_when_it_was_not_renewed_for_its_time() -> None:
    state = step(Waiting(), Found(OTHER, "t1"), 5)
    state = step(state, Same(), 15)
    assert asked(state) == Look("t1")  # that look began at 14.9
    state = step(state, Same(), 15.2)
    assert asked(state) == Put(Lease("me", 8, 10.0), "t1")
    taken = step(state, Written("t2"), 15.4)
    assert isinstance(taken, Holding)
    assert taken.may_write(15.4)
    assert not taken.may_write(15.3 + 8.1)


def test_a_renewal_begins_the_wait_anew_and_a_wish_to_take_over_does_not() -> None:
    state = step(Waiting(), Found(OTHER, "t1"), 5)
    wished = step(state, Found(replace(OTHER, wanted_by="another"), "t2"), 9)
    assert isinstance(asked(step(wished, Same(), 15.2)), Put)
    renewed = step(state, Found(replace(OTHER, serial=31), "t2"), 9)
    assert isinstance(asked(step(renewed, Same(), 15.2)), Look)
    assert isinstance(asked(step(renewed, Same(), 19.2)), Put)


def test_answers_that_are_lost_do_not_begin_the_wait_anew() -> None:
    state = step(Waiting(), Found(OTHER, "t1"), 5)
    state = step(state, NoAnswer(), 12)
    assert asked(state) == Look(None)
    state = step(state, Found(OTHER, "t1"), 15.2)
    assert isinstance(asked(state), Put)


def test_what_is_released_is_taken_at_once_and_first_by_who_is_wanted() -> None:
    free = replace(OTHER, released=True)
    assert isinstance(asked(step(Waiting(), Found(free, "t"), 5)), Put)
    assert isinstance(asked(step(Waiting(), Found(free, "t"), 5), replace(ME, patient=True)), Put)
    assert isinstance(asked(step(Waiting(), Found(replace(free, wanted_by="me"), "t"), 5)), Put)
    others = step(Waiting(), Found(replace(free, wanted_by="another"), "t"), 5)
    assert isinstance(asked(others), Look)
    assert isinstance(asked(step(others, Same(), 15.2)), Put)  # who was wanted is gone, too


def test_a_lease_that_is_removed_is_left_to_its_holder_for_its_time() -> None:
    state = step(Waiting(), Found(OTHER, "t"), 5)
    state = step(state, Found(None, ABSENT), 9)
    assert asked(state) == Look(None)
    assert asked(step(state, Found(None, ABSENT), 18)) == Look(None)
    assert asked(step(state, Found(None, ABSENT), 19.2)) == Put(Lease("me", 8, 10.0), ABSENT)
    holder = step(replace(held(), tag=None), Found(None, ABSENT), 103)
    assert asked(holder) == Put(Lease("me", 8, 10.0, 2), ABSENT)


def test_a_lease_that_was_taken_without_an_answer_is_written_under_only_when_it_is_renewed() -> None:
    """Nobody knows when the request was carried out: another may have been waiting since then."""
    state = step(Waiting(), Found(None, ABSENT), 5)
    state = step(state, NoAnswer(), 7)
    found = step(state, Found(Lease("me", 1, 10.0), "t1"), 16)
    assert isinstance(found, Holding)
    assert not found.may_write(16)
    renewed = step(found, Written("t2"), 16.2)
    assert isinstance(renewed, Holding)
    assert renewed.may_write(16.2)


def test_a_holder_that_was_not_answered_looks_and_goes_on_if_nobody_has_taken_over() -> None:
    unknown = step(held(), NoAnswer(), 104)
    assert asked(unknown) == Look(None)
    assert isinstance(unknown, Holding)
    assert unknown.may_write(107.9)
    assert not unknown.may_write(108)
    again = step(unknown, Found(replace(held().lease, serial=2), "t2"), 111)
    assert isinstance(again, Holding)
    assert not again.may_write(111)  # it has lapsed, and is not lost
    assert step(again, Written("t3"), 111.2).may_write(111.2)  # type: ignore[union-attr]
    assert isinstance(step(unknown, Found(OTHER, "t2"), 111), Lost)
    assert step(held(), Refused(), 104).tag is None  # type: ignore[union-attr]


def test_a_holder_looks_between_renewals_whether_it_is_to_hand_over_and_renews_in_time_all_the_same() -> None:
    state, looked = held(), 0
    assert isinstance(state, Holding) and state.renewed == 100
    while not isinstance(asked(state), Put):
        when, request_made = request(state, ME)
        assert request_made == Look("t")
        state = after(state, request_made, when, Same(), when + 0.1, ME)
        assert isinstance(state, Holding)
        looked += 1
    assert looked > 3
    assert request(state, ME)[0] == pytest.approx(100 + 10 / 3)
    found = after(state, Look("t"), 102, Found(replace(held().lease, wanted_by="b"), "t2"), 102, ME)
    assert isinstance(found, Holding) and found.lease.wanted_by == "b"
    assert asked(giving(found)) == Put(replace(held().lease, serial=2, wanted_by="b", released=True), "t2")


def test_a_greater_epoch_counts_when_it_is_written() -> None:
    """A process whose clock stood still would else outdo who took over meanwhile."""
    state = outdoing(held(), 20)
    assert state.lease.epoch == 21
    assert not state.may_write(100)
    earlier = after(state, Put(held().lease, "t"), 100, Written("t2"), 100, ME)  # was under way
    assert isinstance(earlier, Holding)
    assert not earlier.may_write(100)
    assert step(earlier, Written("t3"), 100.2).may_write(100.2)  # type: ignore[union-attr]


def test_who_releases_writes_no_more() -> None:
    state = giving(held())
    assert not state.may_write(100)
    assert asked(state) == Put(Lease("me", 8, 10.0, 2, released=True), "t")
    assert isinstance(step(state, Written("t2"), 101), Waiting)
    unknown = step(state, NoAnswer(), 101)
    assert isinstance(step(unknown, Found(Lease("me", 8, 10.0, 2, released=True), "t2"), 102), Waiting)


@pytest.mark.parametrize(
    ("state", "now", "error"),
    [
        (Waiting(), 0, OutputBusy),
        (giving(held()), 100, OutputBusy),
        (held(), 108, LeaseLapsed),
        (held(), 99, LeaseLapsed),  # a clock that goes back is no clock
        (Lost(OTHER), 0, LeaseLost),
    ],
)
def test_nothing_is_written_without_a_lease(state: State, now: float, error: type[Exception]) -> None:
    with pytest.raises(error):
        check_may_write(state, now, "s3://…/lease.json")
    check_may_write(held(), 107.9, "")


@pytest.mark.parametrize(
    "data",
    [b"", b"[]", b"{}", b'{"version": 1}', b'{"version": 2, "holder": "a", "epoch": 1, "seconds": 10}', b"\xff",
     b'{"version": 1, "holder": "a", "epoch": 0, "seconds": 10}',
     b'{"version": 1, "holder": "a", "epoch": "1", "seconds": 10}',
     b'{"version": 1, "holder": "a", "epoch": 1, "seconds": 10, "more": 1}'],
)  # fmt: skip
def test_a_damaged_lease_says_what_to_do(data: bytes) -> None:
    with pytest.raises(ManifestError, match="the lease cannot be read"):
        Lease.decode(data)
    assert Lease.decode(OTHER.encode()) == OTHER


@pytest.fixture(params=["folder", pytest.param("s3", marks=pytest.mark.heavy)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "folder":
        yield str(tmp_path)
    else:
        yield request.getfixturevalue("s3").uri(f"lease-{tmp_path.name}")


def keeper(place: str, name: str, seconds: float = 1.0, patient: bool = False) -> LeaseKeeper:
    seconds *= 3 if is_uri(place) else 1  # a server that is late is no fault here
    return LeaseKeeper(lease_objects(place, seconds), Terms(name, seconds, patient), status=lambda: {"of": name})


def lease_at(place: str) -> Lease:
    found = lease_objects(place, 10).changed("lease.json")
    assert found is not None
    return Lease.decode(found.data)


def test_one_of_many_leads_and_another_when_it_releases_or_dies(place: str) -> None:
    stop = threading.Event()
    with keeper(place, "a") as one:
        assert one.leads(stop)
        one.check()
        with keeper(place, "b", patient=True) as two:
            while lease_at(place).serial < 4:
                time.sleep(0.05)
            assert isinstance(two.state, Waiting)
            with pytest.raises(OutputBusy):
                two.check()
            assert lease_at(place).status == {"of": "a"}
            one.release()
            assert two.leads(stop)
            with pytest.raises(OutputBusy):
                one.check()
            two._closed = True  # it is killed: its thread ends without a word
            assert one.leads(stop)
            assert one.epoch == 3
            while _objects(place).below("standby"):
                time.sleep(0.05)


def test_a_lease_that_is_taken_while_its_process_ends_is_released(tmp_path: Path) -> None:
    asked, answers, stop = threading.Event(), threading.Event(), threading.Event()

    class Slow(FolderObjects):
        def create(self, name: str, data: bytes | Path) -> str | None:
            if name == LEASE_NAME:
                asked.set()
                assert answers.wait(60)
            return super().create(name, data)

    with LeaseKeeper(Slow(tmp_path), Terms("a", 6.0)) as one:
        waits = threading.Thread(target=one.leads, args=(stop,))
        waits.start()
        assert asked.wait(60)
        stop.set()
        waits.join()
        threading.Timer(0.2, answers.set).start()
    assert lease_at(str(tmp_path)).released


def test_who_waits_is_told_that_it_is_wanted_and_that_it_is_not_any_more(place: str) -> None:
    stop, told, rehearsed = threading.Event(), list[Role](), list[int]()
    with keeper(place, "a") as one, keeper(place, "b", patient=True) as two:
        two._on_change = lambda change: told.append(change.role) if change.role else None
        assert one.leads(stop)
        waits = threading.Thread(target=two.leads, args=(stop, lambda: rehearsed.append(1)))
        waits.start()
        _eventually(lambda: told == [Role.FOLLOWS])
        for name, role in (("b", Role.PREPARES), ("c", Role.FOLLOWS), ("b", Role.PREPARES)):
            want(place, name)
            _eventually(lambda role=role: told[-1] is role)  # type: ignore[misc]
        one.release()
        waits.join()
        _eventually(lambda: told[-1] is Role.LEADS)
        assert rehearsed == [1]


def test_a_handover_ends_what_the_holder_does_and_the_one_that_is_wanted_gets_it(place: str) -> None:
    stop = threading.Event()
    with keeper(place, "a") as one, keeper(place, "b", patient=True) as two, keeper(place, "c", patient=True) as three:
        assert one.leads(stop)
        want(place, "c")
        assert one.ending.wait(60)
        one.release()
        assert three.leads(stop)
        assert isinstance(two.state, Waiting)
        assert isinstance(one.state, Waiting)
        assert lease_at(place).wanted_by is None


def test_who_was_stopped_and_goes_on_finds_that_it_is_lost(place: str) -> None:
    stop, ticks = threading.Event(), [0.0]
    one = keeper(place, "a")
    one._clock = lambda: time.monotonic() - ticks[0]
    with one:
        assert one.leads(stop)
        one._closed = True
        one._thread.join()
        with keeper(place, "b") as two:
            assert two.leads(stop)
            with pytest.raises(LeaseLapsed):
                one.check()
            ticks[0] = 1000.0  # its clock stood still, too: it learns of it at its next request
            assert isinstance(one._state, Holding)
            one._state = replace(one._state, renewed=one._clock(), tried=one._clock() - 10)
            one.check()
            one._closed = False
            again = threading.Thread(target=one._work)
            again.start()
            again.join(60)
            assert one.ending.is_set()
            with pytest.raises(LeaseLost, match="b has taken over"):
                one.check()


def test_beside_one_that_leads_nothing_is_merged_by_hand_and_beside_one_that_is_gone_it_is(tmp_path: Path) -> None:
    objects = lease_objects(str(tmp_path), 1)
    check_nobody_leads(objects)
    with keeper(str(tmp_path), "a") as one:
        assert one.leads(threading.Event())
        with pytest.raises(OutputBusy, match="a leads, with epoch 1: it merges into this output"):
            check_nobody_leads(objects)
        one._closed = True  # it is killed
        one._thread.join()
        check_nobody_leads(objects)
    one.release()
    with keeper(str(tmp_path), "b") as two:
        assert two.leads(threading.Event())
    check_nobody_leads(objects)  # released


def test_who_was_asleep_makes_no_object_that_was_made_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By then its first version is gone, so there is nothing of the name."""
    one, other, link = FolderObjects(tmp_path), FolderObjects(tmp_path), FolderObjects._link

    def late(self: FolderObjects, name: str, path: Path, number: int, data: bytes | Path) -> str | None:
        monkeypatch.setattr(FolderObjects, "_link", link)
        tag = other.create("lease.json", b"other 0")
        for again in (b"other 1", b"other 2"):
            assert tag is not None
            tag = other.replace("lease.json", again, tag)
        return link(self, name, path, number, data)

    monkeypatch.setattr(FolderObjects, "_link", late)
    assert one.create("lease.json", b"one") is None
    assert one.read("lease.json") == b"other 2" and not (tmp_path / "lease.json").exists()


def _eventually(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def want(place: str, name: str) -> None:
    """Ask for a handover, as `takeover` does."""
    objects = lease_objects(place, 10)
    while True:
        found = objects.changed("lease.json")
        assert found is not None
        lease = replace(Lease.decode(found.data), wanted_by=name)
        if objects.replace("lease.json", lease.encode(), found.tag):
            return


def _objects(place: str) -> Objects | FolderObjects:
    found = lease_objects(place, 10)
    assert isinstance(found, Objects | FolderObjects)
    return found
