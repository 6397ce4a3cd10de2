"""Starts three MySQL servers, a bank on them, `binlog-merge run`, and a MySQL replica of what it serves; and watches.

    DEMO_SECONDS=60 DEMO_RATE=50 python -m tools.demo_live

Everything is real, under build/demo-live (or DEMO_DIR/demo-live), and made anew each time. The exit code is 0 if every
consistent snapshot of the replica has had the right total, if in the end it has every account as the nodes have it, and
if `run` ends well.
"""

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tools.demo_live.bank import ADD_NOTE, NODES, TOTAL, Bank
from tools.demo_live.cluster import ENDS_WITHIN, LiveCluster
from tools.demo_live.load import Load
from tools.demo_live.watch import Snapshot, percentile, replica_error, snapshot_of
from tools.mysql_server import MYSQL_MISSING, ROOT, MySqlServer, mysql_available

HOME: Final = Path(os.environ.get("DEMO_DIR") or ROOT / "build").absolute() / "demo-live"
_FIRST_SECONDS: Final = 300.0
_LAST_SECONDS: Final = 120.0
_LOOK: Final = 0.25


class DemoFailedError(Exception):
    """The demo has not shown what it is there to show."""


@dataclass
class Watch:
    """What has been seen of the replica so far."""

    load: Load
    replica: MySqlServer
    run: "subprocess.Popen[bytes]"
    snapshots: int = 0
    lags: list[float] = field(default_factory=list)
    columns: tuple[str, ...] = ()

    def look(self) -> Snapshot | None:
        """Take a snapshot of the replica and judge it. Raises DemoFailedError."""
        if self.run.poll() is not None:
            raise DemoFailedError(f"`run` has ended with exit code {self.run.returncode}")
        if self.load.error is not None:
            raise DemoFailedError(f"the load has failed: {self.load.error!r}")
        if (error := replica_error(self.replica)) is not None:
            raise DemoFailedError(f"the replica has stopped: {error}")
        seen = snapshot_of(self.replica, time.monotonic())
        if seen is None or (not seen.accounts and not self.snapshots):
            return None
        if seen.wrong is not None or not seen.accounts:
            raise DemoFailedError(f"snapshot {self.snapshots + 1} of the replica: {seen.wrong or 'no accounts'}")
        self.snapshots += 1
        self.columns = seen.columns
        return seen


def main() -> int:
    """Run the demo; return the exit code."""
    seconds = float(os.environ.get("DEMO_SECONDS") or 60)
    rate = float(os.environ.get("DEMO_RATE") or 50)
    if not mysql_available():
        print(f"demo-live: {MYSQL_MISSING}", file=sys.stderr)
        return 1
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the servers must not outlive it
    try:
        with contextlib.ExitStack() as stack:
            stack.enter_context(_alone())
            shutil.rmtree(HOME, ignore_errors=True)
            _demo(stack, seconds, rate)
    except DemoFailedError as error:
        print(f"\ndemo-live: FAILED: {error}\n", file=sys.stderr)
        print("\n".join(["the end of the log of `run`:", *_log_tail(20)]), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _demo(stack: contextlib.ExitStack, seconds: float, rate: float) -> None:
    _say(f"{len(NODES)} MySQL servers are to be the nodes, one the replica")
    cluster = stack.enter_context(LiveCluster.started(HOME))
    bank, replica = cluster.bank, cluster.replica
    _say(f"a bank lies on the nodes: {TOTAL:,} in all accounts together")
    run = stack.enter_context(cluster.running())
    _say(f"`binlog-merge run` captures, merges and serves them: its log is {_shown(cluster.log)}")
    _say(f"  status   http://127.0.0.1:{cluster.page}/")
    _say(f"  replicas 127.0.0.1:{cluster.port}")
    cluster.follow()
    load = Load(bank, rate)
    watch = Watch(load, replica, run)
    _until_first(watch, bank)
    load.start()
    stack.callback(load.stop)
    _watch(watch, bank, seconds)
    load.stop()
    _until_same(watch, bank)
    _summary(watch, load)
    run.send_signal(signal.SIGTERM)
    if (code := run.wait(ENDS_WITHIN)) != 0:
        raise DemoFailedError(f"`run` has ended with exit code {code} after SIGTERM")
    _say("`run` has ended, exit code 0")


def _until_first(watch: Watch, bank: Bank) -> None:
    _say("waiting for the accounts to appear in the replica; the load begins then")
    end = time.monotonic() + _FIRST_SECONDS
    while watch.look() is None:
        bank.heartbeat()
        if time.monotonic() > end:
            raise DemoFailedError(f"after {_FIRST_SECONDS:.0f} s the replica has nothing yet")
        time.sleep(_LOOK)


def _watch(watch: Watch, bank: Bank, seconds: float) -> None:
    """Show a line a second; in the middle a column is added to the accounts."""
    begun = time.monotonic()
    done, shown = watch.load.done, begun
    altering: threading.Thread | None = None
    while (now := time.monotonic()) < begun + seconds:
        if altering is None and now > begun + seconds / 2:
            _say(f"  ALTER TABLE accounts {ADD_NOTE}: one node after the other")
            altering = threading.Thread(target=bank.add_note, args=(seconds / 60,), daemon=True)
            altering.start()
        seen = _look(watch)
        lag = None if seen is None else seen.lag(watch.load.committed_at)
        if lag is not None:
            watch.lags.append(lag)
        if seen is not None and now - shown >= 1:
            speed, done, shown = (watch.load.done - done) / (now - shown), watch.load.done, now
            _say(
                f"{now - begun:6.0f} s   nodes: {done:,} transfers, {speed:.0f}/s   replica: total {seen.total:,}, "
                f"{watch.snapshots} snapshots alike, lag {'?' if lag is None else f'{lag:.2f}'} s"
            )
        time.sleep(_LOOK)
    if altering is not None:
        altering.join()


def _look(watch: Watch) -> Snapshot | None:
    """Look at the replica, and say it where the table has other columns than before."""
    columns = watch.columns
    seen = watch.look()
    if columns and watch.columns != columns:
        _say(f"  the replica has the new column: {', '.join(watch.columns)}")
    return seen


def _until_same(watch: Watch, bank: Bank) -> None:
    """Wait until the replica has all that the nodes have; compare every account."""
    wanted = bank.accounts()
    end = time.monotonic() + _LAST_SECONDS
    found: Sequence[tuple[object, ...]] = ()
    while time.monotonic() < end:
        bank.heartbeat()
        _look(watch)
        found = watch.replica.query("SELECT * FROM bank.accounts ORDER BY id")
        if found == wanted:
            return
        time.sleep(_LOOK)
    differ = sum(a != b for a, b in zip(wanted, found, strict=False)) + abs(len(wanted) - len(found))
    raise DemoFailedError(f"{_LAST_SECONDS:.0f} s after the load {differ} accounts differ between nodes and replica")


def _summary(watch: Watch, load: Load) -> None:
    _say(f"the total was {TOTAL:,} in each of {watch.snapshots} consistent snapshots of the replica")
    _say(f"{load.done:,} transfers, {load.given_up} given up; in the end every account is as on the nodes")
    if "note" not in watch.columns:
        raise DemoFailedError("the new column has not arrived in the replica")
    if watch.lags:
        _say(
            f"lag, from COMMIT on the last node to the row in the replica: median {percentile(watch.lags, 0.5):.2f} s, "
            f"p99 {percentile(watch.lags, 0.99):.2f} s, with all servers and the load on this machine"
        )


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Refuse a second demo: it would remove the first one's servers."""
    HOME.parent.mkdir(parents=True, exist_ok=True)
    with HOME.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DemoFailedError(f"another demo runs in {_shown(HOME)}") from None
        yield


def _log_tail(lines: int) -> list[str]:
    path = HOME / "run.log"
    return path.read_text(errors="replace").splitlines()[-lines:] if path.exists() else []


def _shown(path: Path) -> str:
    return str(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path)


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
