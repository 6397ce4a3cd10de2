"""Mutated inputs merged and judged: right bytes, a documented error, or named by `verify`; nothing else is good.

    same     the bytes of the input without faults
    other    other bytes, and the oracle says they are what the mutated input means: a changed value is a value
    error    a MergeError with a documented code; what was published before is whole
    told     the merge warned of, or listed as in doubt, what it had not before
    named    `verify` says what is wrong
    unjudged the oracle does not model the case, or not this input, and `verify` finds the output whole

What must not be raises `SilentError`, AssertionError, or whatever was raised. Run as a program it tries seeds one after
the other and writes a line before and behind each, so that whoever started it sees which one it hangs at.
"""

import fcntl
import json
import os
import random
import shutil
import signal
import struct
import sys
import time
import traceback
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from subprocess import PIPE, Popen
from tempfile import TemporaryDirectory
from threading import Timer
from types import FrameType
from typing import Any, NoReturn

import psutil
import yaml
import zstandard

from binlog_merge.errors import ERRORS, MergeError
from binlog_merge.log.log import Log
from binlog_merge.log.replay_options import history_of
from binlog_merge.pipeline.values import MergeResult
from binlog_merge.verification.whole import verify
from tests.merge_e2e.cases import INPUTS, copy_case
from tests.merge_e2e.editing import Log as Edited
from tests.merge_e2e.editing import Piece, assert_prefix, transactions
from tests.merge_e2e.local import merge, written
from tests.merge_e2e.mutation import Mutation, mutated
from tests.oracle import OracleError, merge_case
from tests.oracle.polardbx.merge import merge_polardbx

SECONDS = 120
"""Of processor time, for one attack: with the kernels still to be compiled."""
SILENCE = 900
"""Of anything at all, on a machine that is busy with other things."""
UNREADABLE = (OracleError, AssertionError, LookupError, ValueError, TypeError, struct.error, StopIteration)
"""What the oracle raises where input makes no sense to it: it is no product, and says little of why."""


class SilentError(Exception):
    """Wrong bytes came out, and nobody said so."""


@dataclass(frozen=True)
class Attack:
    """One attack: what was done to which file, and what came of it."""

    seed: int
    case: str
    file: str
    sort: str
    names: tuple[str, ...]
    outcome: str

    def __str__(self) -> str:
        return f"seed {self.seed}, {self.case}/{self.file}, {self.sort} ({', '.join(self.names)}): {self.outcome}"


@contextmanager
def within(seconds: int) -> Iterator[None]:
    """Raise TimeoutError when the block takes longer: seconds of work, not of a busy machine."""

    def late(number: int, frame: FrameType | None) -> NoReturn:
        raise TimeoutError

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def attack(seed: int, folder: Path, sort: str | None = None) -> Attack:
    """Merge a case with one file mutated, and judge what comes of it. The folder is left only by what fails."""
    rng = random.Random(seed)
    case = INPUTS[seed % len(INPUTS)]
    bare = rng.random() < 0.25
    config = copy_case(case, folder / "case", _any_carrier if rng.random() < 0.1 else None)
    files = sorted(p for p in (folder / "case" / "nodes").glob("*/binlog.*") if p.suffix != ".index")
    if bare:
        for path in files:
            Edited.load(path).without_checksums().save(path)
    good = _good(case, bare, yaml.safe_load(config.read_text())["commit-tso"]["carrier"])
    path = rng.choice(files)
    mutation = mutated(path.read_bytes(), rng, sort)
    path.write_bytes(mutation.data)
    partitions = rng.choice([None, 2, 7])
    outcome = _outcome(config, folder / "out", good, mutation, bare, partitions)
    shutil.rmtree(folder)
    names = ("checksum-none", *mutation.names) if bare else mutation.names
    return Attack(seed, case.name, f"{path.parent.name}/{path.name}", mutation.sort, names, outcome)


def _outcome(config: Path, out: Path, good: "_Good", mutation: Mutation, bare: bool, partitions: int | None) -> str:
    try:
        with within(SECONDS):
            result = merge(config, out, partitions=partitions)
    except MergeError as error:
        assert error.exit_code != 70 and error.code in ERRORS, error
        assert error.remedy, error
        files = written(out)
        transactions(files)
        if mutation.sort == "raw" and not bare and good.files is not None:
            assert_prefix(files, good.files)
        return f"error {error.code}"
    files = written(out)
    transactions(files)
    if files == good.files:
        return "same"
    if told := _told(result) - good.told:
        return f"told {min(told)[:80]}"
    judged, why = _oracle(config)
    if judged == files and mutation.sort != "groups":
        return "other"
    try:
        verify(Log(out), history_of(out))
    except MergeError as error:
        return f"named {error.code}"
    if judged is None and why == "unmodelled":
        return "unjudged"
    if judged == files:
        raise SilentError("groups were moved")
    raise SilentError(f"the oracle says {why if judged is None else _difference(files, judged)}")


def _told(result: MergeResult) -> frozenset[str]:
    """Return what a result names: its warnings, and the branches that are in doubt."""
    return frozenset((*result.warnings, *(f"in doubt: {dict(branch)}" for branch in result.in_doubt)))


@dataclass(frozen=True)
class _Good:
    """What comes of a case without faults; None where that is an error."""

    files: Mapping[str, bytes] | None
    told: frozenset[str]


@cache
def _good(case: Path, bare: bool, carrier: str) -> _Good:
    with TemporaryDirectory() as folder:
        config = copy_case(case, Path(folder) / "case", lambda values: values["commit-tso"].update(carrier=carrier))
        if bare:
            for path in (Path(folder) / "case" / "nodes").glob("*/binlog.*"):
                if path.suffix != ".index":
                    Edited.load(path).without_checksums().save(path)
        try:
            result: MergeResult = merge(config, Path(folder) / "out")
        except MergeError:
            return _Good(None, frozenset())
        return _Good(written(Path(folder) / "out"), _told(result))


def _oracle(config: Path) -> tuple[Mapping[str, bytes] | None, str]:
    """Return what must come of a configuration, or why the oracle does not know."""
    values = yaml.safe_load(config.read_text())
    if "shard-mode" in values:
        return None, "unmodelled"  # its holds are what the tests of shards tell the oracle
    polardbx = any(path.name == "history.py" for path in _home(config).iterdir())
    try:
        return (merge_polardbx if polardbx else merge_case)(config).files, ""
    except zstandard.ZstdError as error:
        return None, str(error)
    except UNREADABLE as error:
        if any(word in str(error) for word in ("not model", "carrier")):
            return None, "unmodelled"
        return None, f"{type(error).__name__}: {error}"


def _home(config: Path) -> Path:
    name = yaml.safe_load(config.read_text())["name"]
    return next(case for case in INPUTS if yaml.safe_load((case / "cluster.yaml").read_text())["name"] == name)


def _difference(files: Mapping[str, bytes], judged: Mapping[str, bytes]) -> str:
    if sorted(files) != sorted(judged):
        return f"the files are {sorted(judged)}, not {sorted(files)}"
    for name in sorted(files):
        ours, theirs = Edited.load(files[name]).events, Edited.load(judged[name]).events
        for i, (a, b) in enumerate(zip(ours, theirs, strict=False)):
            if a != b:
                return f"event {i} of {name} is {_short(b)}, not {_short(a)}"
        if len(ours) != len(theirs):
            return f"{name} has {len(theirs)} events, not {len(ours)}"
    return "the files differ in their heads"


def _short(event: Piece) -> str:
    head = f"type {event.type}, time {event.timestamp}, server {event.server_id}, flags {event.flags}"
    return f"{head}, {event.body[:60]!r}"


def _any_carrier(values: dict[str, Any]) -> None:
    values["commit-tso"] = {"carrier": "auto"}


def attacks(
    seeds: Iterable[int], folder: Path, bounds: bool = True, sort: str = "", patience: float = 2 * SECONDS
) -> Iterator[dict[str, Any]]:
    """Try seeds in another process, with bounds checks in its kernels; yield what it says of each.

    A process that dies or hangs (`patience` seconds of work without a word) is one more thing said of the seed that it
    was at; it goes on behind it in a new one.
    """
    left = list(seeds)
    while left:
        for said in _one_process(left, folder, bounds, sort, patience):
            yield said
            left = left[left.index(said["seed"]) + 1 :]


def _one_process(seeds: list[int], folder: Path, bounds: bool, sort: str, patience: float) -> Iterator[dict[str, Any]]:
    command = [sys.executable, "-m", __name__, str(folder), sort, *map(str, seeds)]
    # The checked kernels read small files alone, and most of what it would take to compile them is optimising.
    own = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_OPT": "0"} if bounds else {"NUMBA_BOUNDSCHECK": "0"}
    process = Popen(command, stdout=PIPE, text=True, env=os.environ | own)
    assert process.stdout is not None
    watch = _Watch(process, patience)
    at: int | None = None
    try:
        for line in process.stdout:
            watch.heard()
            said = json.loads(line)
            at = said["seed"] if "outcome" not in said and "wrong" not in said else None
            if at is None:
                yield said
        if at is not None:
            how = "hangs" if watch.fired else f"ended with {process.wait()}"
            yield {"seed": at, "wrong": f"the process {how}"}
        elif process.wait():
            raise AssertionError(f"the process ended with {process.returncode}")
    finally:
        watch.stop()
        process.kill()
        process.wait()


class _Watch:
    """Kills a process that says nothing for too long, by its processor time or by the clock."""

    def __init__(self, process: "Popen[str]", patience: float) -> None:
        self.process, self.patience, self.fired, self.stopped = process, patience, False, False
        self.since, self.used = time.monotonic(), float("inf")  # its work counts from its first word on
        self._look()

    def heard(self) -> None:
        self.since, self.used = time.monotonic(), self._time()

    def stop(self) -> None:
        self.stopped = True
        self.timer.cancel()

    def _time(self) -> float:
        try:
            return sum(psutil.Process(self.process.pid).cpu_times()[:2])
        except psutil.Error:
            return 0.0

    def _look(self) -> None:
        if self._time() - self.used > self.patience or time.monotonic() - self.since > SILENCE:
            self.fired = True
            self.process.kill()
        elif not self.stopped:
            self.timer = Timer(2, self._look)
            self.timer.daemon = True
            self.timer.start()


def main(folder: str, sort: str, *seeds: str) -> None:
    """Try seeds; a line of JSON before and behind each."""
    first, *_ = map(int, seeds)
    for seed in map(int, seeds):
        print(json.dumps({"seed": seed}), flush=True)
        home = Path(folder) / str(seed)
        _fail_if_asked(seed)
        try:
            with _compiling_alone(home) if seed == first else nullcontext():
                found = attack(seed, home, sort or None)
            said = {"seed": seed} | {n: getattr(found, n) for n in ("outcome", "sort", "case", "names")}
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            said = {
                "seed": seed,
                "wrong": f"{type(error).__name__}: {str(error)[:600]} ({place.filename}:{place.lineno}); {home}",
            }
        print(json.dumps(said), flush=True)


@contextmanager
def _compiling_alone(home: Path) -> Iterator[None]:
    """Let one of several processes compile the kernels, with bounds checks, for the cache of all."""
    with (Path(os.environ.get("NUMBA_CACHE_DIR", home.parent)) / "attack.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fail_if_asked(seed: int) -> None:
    """Die or hang at the seed that ATTACK_FAULT names, as a kernel may; so that the watchdog is seen to bark."""
    at, _, how = os.environ.get("ATTACK_FAULT", "").partition(":")
    if at == str(seed) and how == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    while at == str(seed) and how == "hangs":
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGPROF})


if __name__ == "__main__":
    main(*sys.argv[1:])
