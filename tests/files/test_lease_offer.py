"""A holder that lacks what a merge needs gives the lease up to one that has it, and to no other."""

import json
import os
import random
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.files.disk import ROOM
from binlog_merge.files.lacks import lacks
from binlog_merge.files.lease import Holding, Lease, Terms, Waiting
from binlog_merge.files.lease_keeper import Change, LeaseKeeper, lease_objects
from binlog_merge.files.lease_offer import DISK, WITHIN, GiveUp, Lacks, Offer, considered
from binlog_merge.files.state_notes import CAPTURE_NOTE, STALE_SECONDS, write_state_note
from binlog_merge.heartbeat import Role
from tests.small_disk import small_disk

NODES: Lacks = frozenset({"dn-1", "dn-2"})
NOTHING: Lacks = frozenset()
AFTER = 60.0
LEASE = 2.0


def test_nobody_is_asked_while_nothing_is_lacking_or_only_for_a_moment() -> None:
    assert considered(Offer(), NOTHING, None, ("b",), 5, AFTER) == Offer()
    offer = considered(Offer(), NODES, None, ("b",), 5, AFTER)
    assert offer == Offer(since=5)
    assert considered(offer, NODES, None, ("b",), 64, AFTER) == offer
    assert considered(offer, NOTHING, None, ("b",), 64, AFTER) == Offer()
    assert considered(offer, NODES, None, (), 65, AFTER) == offer  # nobody waits
    assert considered(offer, NODES, None, ("b",), 65, AFTER) == Offer(since=5, to="b", at=65)


@pytest.mark.parametrize(
    ("answer", "at_once", "in_the_end"),
    [
        (None, False, False),
        (NOTHING, True, True),
        (frozenset({"dn-1"}), False, True),
        (NODES, False, False),
        (frozenset({"dn-1", "dn-3"}), False, False),
        (frozenset({DISK}), False, False),
        (frozenset({"dn-1", "dn-2", "dn-3"}), False, False),
    ],
)
def test_it_is_given_up_for_one_that_lacks_less(answer: Lacks | None, at_once: bool, in_the_end: bool) -> None:
    asked = Offer(since=5, to="b", at=65)
    found = considered(asked, NODES, answer, ("b",), 66, AFTER)
    assert found == (GiveUp("b") if at_once else asked)
    found = considered(asked, NODES, answer, ("b",), 65 + WITHIN, AFTER)
    assert found == (GiveUp("b") if in_the_end else Offer(since=5, at=65, vain=1, again=65 + WITHIN + AFTER))
    assert considered(asked, NOTHING, answer, ("b",), 66, AFTER) == Offer()


def test_one_after_the_other_is_asked_and_less_and_less_often() -> None:
    offer, asked, now = Offer(), list[tuple[float, str]](), 0.0
    while now < 7200:
        found = considered(offer, NODES, NODES, ("b", "c"), now, AFTER)
        assert isinstance(found, Offer)
        if found.to is not None and offer.to is None:
            asked.append((now, found.to))
        offer, now = found, now + 1.0
    assert [to for _, to in asked[:4]] == ["b", "c", "b", "c"]
    pauses = [b - a - WITHIN for (a, _), (b, _) in pairwise(asked)]
    assert pauses[:4] == [60, 120, 240, 480] and set(pauses[4:]) == {600}


def test_where_two_hosts_are_cut_off_at_random_the_lead_goes_only_to_one_that_is_better_off() -> None:
    """Each says what it lacks once it is asked, as if its capture had connected at once."""
    rng = random.Random(35)
    state: dict[str, Lacks] = {"a": NOTHING, "b": NOTHING}
    leader, offer, moved = "a", Offer(), 0
    for now in range(100_000):
        if rng.random() < 0.005:
            state[rng.choice("ab")] = frozenset(name for name in ("dn-1", "dn-2", DISK) if rng.random() < 0.4)
        other = "b" if leader == "a" else "a"
        found = considered(offer, state[leader], state[other] if offer.to else None, (other,), now, AFTER)
        if isinstance(found, GiveUp):
            assert not state[other] or state[other] < state[leader]
            leader, offer, moved = other, Offer(), moved + 1
        else:
            offer = found
    assert moved > 10


@pytest.fixture
def config(tmp_path: Path) -> MergeConfig:
    path = tmp_path / "cluster.yaml"
    nodes = "".join(f"  - {{source-id: dn-{i}, server: 'mysql://c@127.0.0.1:{i}'}}\n" for i in (1, 2))
    path.write_text(f"version: 1\nname: c\nnodes:\n{nodes}capture: {{dir: {tmp_path / 'captured'}}}\n")
    return MergeConfig.load(path)


def test_what_a_host_lacks_is_what_its_captures_say_and_its_disk(config: MergeConfig, tmp_path: Path) -> None:
    captured, work = tmp_path / "captured", tmp_path / "work"

    def note(node: str, state: str, age: float = 0.0) -> None:
        (captured / node).mkdir(parents=True, exist_ok=True)
        path = captured / node / CAPTURE_NOTE
        write_state_note(path, {"state": state})
        path.write_text(json.dumps({**json.loads(path.read_text()), "at": time.time() - age}))

    assert lacks(config, work, True, leads=True) == NOTHING  # another captures, and not by this program
    assert lacks(config, work, True, leads=False) == NODES
    for state in ("connecting", "lost", "failed", "stopped"):
        note("dn-1", state)
        assert lacks(config, work, True, leads=True) == {"dn-1"}, state
    note("dn-1", "connected")
    note("dn-2", "connected", age=STALE_SECONDS + 1)
    assert lacks(config, work, True, leads=True) == {"dn-2"}
    note("dn-2", "full")
    assert lacks(config, work, True, leads=True) == {"dn-2", DISK}
    note("dn-2", "connected")
    assert lacks(config, work, True, leads=True) == lacks(config, work, True, leads=False) == NOTHING
    (captured / "dn-2" / CAPTURE_NOTE).write_text("damaged")
    assert lacks(config, work, True, leads=True) == {"dn-2"}


def test_where_nothing_is_captured_a_host_has_the_nodes_whose_files_come(config: MergeConfig, tmp_path: Path) -> None:
    """`run --no-capture`: no host has notes of a capture, and one whose disk is full finds another."""
    captured, work = tmp_path / "captured", tmp_path / "work"
    for leads in (True, False):
        assert lacks(config, work, True, leads=leads) == lacks(config, work, False, leads=leads)
    (captured / "dn-1").mkdir(parents=True)
    (captured / "dn-2").mkdir()
    (captured / "dn-1" / "binlog.000001").write_bytes(b"\xfebin")
    assert lacks(config, work, False, leads=False) == {"dn-2"}
    (captured / "dn-2" / "binlog.000007").write_bytes(b"\xfebin")
    answer = lacks(config, work, False, leads=False)
    asked = Offer(since=5, to="b", at=65)
    assert considered(asked, frozenset({DISK}), answer, ("b",), 66, AFTER) == GiveUp("b")
    assert lacks(config, work, True, leads=False) == NODES
    write_state_note(captured / "dn-2" / CAPTURE_NOTE, {"state": "lost"})  # by a capture of its own
    assert lacks(config, work, False, leads=False) == {"dn-2"}


def test_a_disk_that_is_full_is_lacking(tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text("version: 1\nname: c\nnodes:\n  - {source-id: dn-1, files: nodes/*}\n")
    with small_disk(tmp_path / "disk", 40) as disk:
        config = MergeConfig.load(path)
        assert lacks(config, disk / "not" / "there", True, leads=True) == NOTHING
        with (disk / "ballast").open("wb") as ballast:
            os.posix_fallocate(ballast.fileno(), 0, (40 << 20) - ROOM + 4096)
        assert lacks(config, disk / "not" / "there", True, leads=True) == {DISK}


class Contender:
    """A process that contends for a lease, and what it has said; `here` is what is lacking on its host."""

    def __init__(self, place: str, name: str, patient: bool = False) -> None:
        self.here: Lacks = NOTHING
        self.said: list[Change] = []
        self.stop = threading.Event()
        self.keeper = LeaseKeeper(
            lease_objects(place, LEASE),
            Terms(name, LEASE, patient, give_up_after=0.5),
            on_change=self.said.append,
            lacks=lambda leads: self.here,
        )
        self.thread = threading.Thread(target=self._lead, daemon=True)

    def __enter__(self) -> "Contender":
        self.keeper.__enter__()
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self.keeper.ending.set()
        self.thread.join()
        self.keeper.__exit__(None, None, None)

    def _lead(self) -> None:
        """Do as `follow_leading` does."""
        while self.keeper.leads(self.stop):
            self.keeper.ending.wait()
            self.keeper.release()

    @property
    def leads(self) -> bool:
        return isinstance(self.keeper.state, Holding)

    @property
    def events(self) -> list[str]:
        return [change.event for change in self.said]


@pytest.mark.parametrize("store", ["folder", pytest.param("s3", marks=pytest.mark.heavy)])
def test_a_holder_that_lacks_something_hands_over_to_one_that_has_it(
    store: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    place = str(tmp_path) if store == "folder" else request.getfixturevalue("s3").uri(f"offer-{tmp_path.name}")
    with Contender(place, "a") as one:
        eventually(lambda: one.leads)
        with Contender(place, "b", patient=True) as two:
            two.here = one.here = NODES  # both are cut off
            eventually(lambda: "asks" in one.events)
            eventually(lambda: two.said[-1].role is Role.PREPARES and two.said[-1].event == "may lead")
            assert one.leads and lease_at(place).offered_to == "b"
            two.here = frozenset({"dn-1"})
            time.sleep(LEASE)
            assert one.leads  # the other may still be connecting
            two.here = NOTHING
            eventually(lambda: two.leads)
            eventually(lambda: isinstance(one.keeper.state, Waiting) and one.said[-1].role is Role.FOLLOWS)
            assert "hands over" in one.events and two.keeper.epoch == 2
            assert lease_at(place).offered_to is None
            two.here = one.here
            eventually(lambda: "asks" in two.events)
            assert two.leads


def test_an_offer_is_taken_back_when_nothing_is_lacking_any_more(tmp_path: Path) -> None:
    with Contender(str(tmp_path), "a") as one, Contender(str(tmp_path), "b", patient=True) as two:
        eventually(lambda: one.leads)
        two.here = one.here = NODES
        eventually(lambda: bool(two.said) and two.said[-1].role is Role.PREPARES)
        one.here = NOTHING
        eventually(lambda: two.said[-1].role is Role.FOLLOWS)
        assert one.leads and lease_at(str(tmp_path)).offered_to is None
        note = lease_objects(str(tmp_path), LEASE).changed("standby/b.json")
        assert note is not None
        assert one.leads


def test_an_earlier_version_reads_a_lease_that_is_offered() -> None:
    offered = Lease("a", 1, LEASE, offered_to="b", status={"nodes": {}})
    assert Lease.decode(offered.encode()) == offered
    assert json.loads(offered.encode()).keys() == {
        "version", "holder", "epoch", "seconds", "serial", "since", "released", "wanted_by", "status",
    }  # fmt: skip


def lease_at(place: str) -> Lease:
    found = lease_objects(place, 10).changed("lease.json")
    assert found is not None
    return Lease.decode(found.data)


def eventually(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)
