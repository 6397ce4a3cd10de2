"""A running cluster's processes are killed again and again; output and replica are as if they had not been.

Long: `LIVE_KILLS=200 LIVE_SECONDS=1200 SOAK_SEED=n python -m pytest -s -m soak tests/soak/test_killed_live.py`.
LIVE_KILLS are those of each kind of process; where each costs a start of Spark, LIVE_SECONDS end it before.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.soak.compare import as_one_merge, drained
from tests.soak.faulty import Watch
from tests.soak.killing import KINDS, KilledRun, kept_apart, kill_all_kinds, size_of, started
from tests.soak.sturdy_bank import SturdyBank
from tools.demo_live.cluster import LiveCluster
from tools.demo_live.load import Load

pytestmark = [pytest.mark.soak, pytest.mark.mysql, pytest.mark.spark]

KILLS = int(os.environ.get("LIVE_KILLS", "5"))
SECONDS = float(os.environ.get("LIVE_SECONDS", "150"))
SEED = int(os.environ.get("SOAK_SEED", "1"))
RATE = float(os.environ.get("LIVE_RATE", "40"))


@contextmanager
def loaded(live: LiveCluster, bank: SturdyBank) -> Iterator[tuple[Load, Watch, Callable[[], None]]]:
    """Transfers and DDL, until the load is stopped, and looks at the replica; the last value raises what is wrong."""
    live.follow()
    load, watch, stopped = Load(bank, RATE), Watch(live.replica), threading.Event()

    def alter() -> None:
        while not stopped.wait(2):
            bank.alter(0.5)

    def check() -> None:
        watch.check()
        assert load.error is None, repr(load.error)

    altering = threading.Thread(target=alter, daemon=True)
    with watch.watching():
        load.start()
        altering.start()
        try:
            yield load, watch, check
        finally:
            stopped.set()
            altering.join()
            load.stop()
        drained(bank, live.replica, check)


def test_capture_merge_and_serve_are_killed(tmp_path: Path) -> None:
    """Each on its own; the merge without Spark: it starts in a moment then, and is killed in rounds more often."""
    with started(tmp_path) as (live, bank):
        kept = kept_apart(live, KILLS, SEED)
        for one in kept:
            one.start()
        try:
            with loaded(live, bank) as (load, watch, check):
                while sum(one.done for one in kept) < len(kept):
                    check()
                    time.sleep(0.2)
        finally:
            for one in kept:
                one.end()
        for one in kept:
            assert "Traceback" not in one.log.read_text(errors="replace"), one.log
        print(f"\nseed {SEED}: killed { ({one.name: one.kills for one in kept}) }", end="; ")
        _say(live, bank, load, watch)


def test_run_and_all_below_it_are_killed(tmp_path: Path) -> None:
    """Java and Spark's workers, too. What `run` has started ends with it, and it can be started again at once."""
    with started(tmp_path) as (live, bank), ExitStack() as stack:
        run = KilledRun(live, SEED)
        stack.callback(run.close)
        with loaded(live, bank) as (load, watch, check):
            kill_all_kinds(run, KILLS, SECONDS, SEED, lambda: size_of(live.home / "merged", "binlog.0*"), check)
        assert run.end() == 0 and all(run.kills[kind] for kind in KINDS)
        print(f"\nseed {SEED}: killed {dict(run.kills)}", end="; ")
        _say(live, bank, load, watch)


def _say(live: LiveCluster, bank: SturdyBank, load: Load, watch: Watch) -> None:
    print(f"{load.done} transfers, {bank.altered} DDL, {watch.snapshots} snapshots", end="; ")
    print(as_one_merge(live), flush=True)
