"""Faults of hosts that stand by, and of their store: one writes at a time, and what comes out is what one merge makes.

Long, with a seed, and with processes that are killed and stopped: `tests/soak/test_standing_by.py`, which also takes
folders away.
"""

import logging
import time
from pathlib import Path

import pytest

from binlog_merge.cli.example import cluster
from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.errors import LeaseLost, OutputBusy, WrongNode
from binlog_merge.files.lease_keeper import lease_objects
from binlog_merge.files.lease_seen import hand_over
from binlog_merge.pipeline.rehearsal import rehearse
from binlog_merge.pipeline.run import run_merge
from tests.merge_e2e.local import LocalRunner
from tests.merge_e2e.standing_by import STEPS, Host, Writing
from tests.object_store import Store
from tests.store_proxy import Mode

pytestmark = pytest.mark.heavy


@pytest.fixture
def writing(s3: Store, tmp_path: Path) -> Writing:
    return Writing(s3, tmp_path)


def test_a_leader_that_cannot_reach_the_store_is_followed_by_another_and_writes_no_more(writing: Writing) -> None:
    with Host(writing, "a") as one:
        writing.progress()
        with Host(writing, "b", patient=True) as two:
            writing.progress()
            assert one.leads
            one.proxy.mode = Mode.CUT
            writing.progress()
            assert two.leads
            one.proxy.mode = Mode.PASS
            while one.alive:
                writing.progress()
            assert isinstance(one.error, LeaseLost)
            writing.finish(two)
            assert set(writing.epochs) == {0, 1, 2} or set(writing.epochs) == {1, 2}


@pytest.mark.parametrize("mode", [Mode.E500, Mode.E503, Mode.SLOW])
def test_who_leads_goes_on_when_the_store_was_away_from_all(mode: Mode, writing: Writing) -> None:
    """For longer than the lease: whoever is first then has it."""
    with Host(writing, "a") as one, Host(writing, "b", patient=True) as two:
        writing.progress()
        for host in (one, two):
            host.proxy.slow = 0.6
            host.proxy.mode = mode
        writing.grow(5)
        assert not one._stop.wait(1.5)
        for host in (one, two):
            host.proxy.mode = Mode.PASS
        writing.progress()
        assert one.alive or two.alive
        writing.finish(one, two)


def test_answers_that_are_lost_after_what_was_asked_for_was_done(writing: Writing) -> None:
    with Host(writing, "a") as one, Host(writing, "b", patient=True) as two:
        writing.progress()
        for _ in range(3):
            one.proxy.mode = two.proxy.mode = Mode.LOST
            writing.grow(3)
            assert not one._stop.wait(0.3)
            one.proxy.mode = two.proxy.mode = Mode.PASS
            writing.progress()
        writing.finish(one, two)


def test_a_handover_and_back_loses_nothing(writing: Writing) -> None:
    with Host(writing, "a") as one:
        writing.progress()
        with Host(writing, "b", patient=True) as two:
            for to in (two, one, two):
                objects = lease_objects(one.place, 10.0)
                while not objects.below(f"standby/{to.name}") and not objects.below("standby"):
                    writing.progress()
                hand_over(objects, to.name, 60)
                writing.progress()
                assert to.leads
            assert one.alive
            writing.finish(one, two)


@pytest.mark.extended
def test_a_merge_by_hand_is_refused_beside_a_leader_which_goes_on(writing: Writing, tmp_path: Path) -> None:
    config = MergeConfig.load(writing.config)
    with Host(writing, "a") as one:
        writing.progress()
        place = writing.uri(writing.s3.address)
        for _ in range(3):
            writing.grow(5)
            with pytest.raises(OutputBusy, match="a leads, with epoch 1: it merges into this output"):
                run_merge(LocalRunner(), config, place, work=tmp_path / "by-hand")
        writing.progress()
        assert one.leads and one.error is None
        one.keeper._closed = True  # it is killed: nobody renews its lease any more
        one.keeper._thread.join()
        one._stop.set()
        one.keeper.ending.set()
        one._thread.join(60)
    writing.grow(STEPS)
    run_merge(LocalRunner(), config, place, work=tmp_path / "by-hand", end_of_input=True)
    assert writing.published() == writing.good


def test_a_lease_that_is_removed_is_made_anew(writing: Writing) -> None:
    with Host(writing, "a") as one, Host(writing, "b", patient=True) as two:
        writing.progress()
        lease_objects(one.place, 10.0).delete(["lease.json"])
        writing.progress()
        assert one.leads
        assert not two.leads
        writing.finish(one)


def test_a_host_that_leads_again_waits_until_its_capture_has_what_another_merged(
    writing: Writing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its captured files end where it led last. Where no lease says that another wrote, the node has lost something."""
    with Host(writing, "a") as one:
        writing.progress()
    behind = writing.at
    with Host(writing, "b") as two:
        for _ in range(3):
            writing.progress()
    del one, two
    reached, writing.at = writing.at, behind
    writing.grow(0)
    captured = {home.name: home for home in (writing.config.parent / "nodes").iterdir()}
    with Host(writing, "c") as alone:  # of no captured folders: the error stays what it was
        while alone.alive:
            time.sleep(0.05)
        assert isinstance(alone.error, WrongNode)
    monkeypatch.setattr(MergeConfig, "captured_folders", lambda self: captured)
    with Host(writing, "d") as again:
        while not again.failures:
            time.sleep(0.05)
        assert again.alive
        assert all("the capture here catches up" in failure.message for failure in again.failures)
        writing.at = reached
        writing.progress()
        writing.finish(again)


def test_a_rehearsal_leaves_nothing_behind_and_may_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    log = logging.getLogger("binlog_merge.pipeline.rehearsal")
    monkeypatch.setattr(log, "propagate", False)  # a command that ran before may have sent the log elsewhere
    monkeypatch.setattr(log, "handlers", [caplog.handler])
    caplog.set_level(logging.INFO, log.name)
    rehearse(LocalRunner(), cluster())
    rehearse(LocalRunner(), tmp_path / "absent.yaml")
    assert caplog.messages == ["rehearses", "has rehearsed", "rehearses", "could not rehearse"]
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
