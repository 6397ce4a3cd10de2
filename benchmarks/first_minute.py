"""The first minute with the package: a demo on a new machine, a small merge on a known one, and what commands import.

    python -m benchmarks.first_minute [--rounds 5]

CPU seconds are those of a command and of all processes that it starts, also of those that outlive it: where other
things run on the machine they say more than the clock does.
"""

import argparse
import ctypes
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.measure import spread

_PR_SET_CHILD_SUBREAPER: Final = 36
_COMMAND: Final = (sys.executable, "-m", "binlog_merge")
_CLUSTER: Final = Path("fixtures/three-nodes-online-ddl")
_LIGHT: Final = {
    "version": ["--version"],
    "help": ["--help"],
    "inspect": ["inspect", str(_CLUSTER / "nodes/dn-1/binlog.000001")],
    "filter": ["filter", "test", "--help"],
    "plan": ["debug", "plan", str(_CLUSTER / "cluster.yaml"), "--out", "nothing"],
    "merge --help": ["merge", "--help"],
}


def timed(arguments: Sequence[str], environment: dict[str, str]) -> tuple[float, float]:
    """Run a command, wait for all that it has started, and return its seconds by the clock and those of processors."""
    before = _used()
    begun = time.perf_counter()
    subprocess.run(
        [*_COMMAND, *arguments], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=True
    )
    seconds = time.perf_counter() - begun
    while True:
        try:
            os.wait()
        except ChildProcessError:
            return seconds, _used() - before


def _used() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measured(rounds: int) -> dict[str, Any]:
    """Measure on the repository's own demo, with caches of its own; each kind of run once a round."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    took: dict[str, list[tuple[float, float]]] = {}
    # Not in TMPDIR: what lies there is not kept, so that nothing would be archived.
    with tempfile.TemporaryDirectory(dir=Path.cwd() / "build") as folder:
        environment = {**os.environ, "NUMBA_CACHE_DIR": f"{folder}/cache"}
        demo = ["demo", "--out", f"{folder}/demo"]
        took["demo, nothing cached"] = [timed(demo, environment)]  # with the archive that it lets be made
        took["warm"] = [timed(["warm"], environment)]
        for _ in range(rounds):
            took.setdefault("demo, all cached", []).append(timed(demo, environment))
            for name, arguments in _LIGHT.items():
                took.setdefault(name, []).append(timed(arguments, environment))
    return {
        **{name: _row(found) for name, found in took.items()},
        "environment_mb": round(_size(Path(sys.prefix)) / 1e6),
        "load": round(os.getloadavg()[0], 1),
    }


def apart(rounds: int) -> dict[str, Any]:
    """Measure in a process of its own, which waits for all that commands leave behind."""
    command = [sys.executable, "-m", "benchmarks.first_minute", "--rounds", str(rounds)]
    found: dict[str, Any] = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    return found


def _row(found: Sequence[tuple[float, float]]) -> dict[str, Any]:
    seconds, cpu = zip(*found, strict=True)
    return {"seconds": spread(seconds, 2), "cpu_seconds": spread(cpu, 2)}


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.first_minute", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--rounds", type=int, default=5)
    print(json.dumps(measured(parser.parse_args().rounds), indent=1))
