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

from benchmarks.measure import bytecode, spread
from binlog_merge.errors import ConfigError

_PR_SET_CHILD_SUBREAPER: Final = 36
_COMMAND: Final = (sys.executable, "-m", "binlog_merge")
_CLUSTER: Final = Path("fixtures/three-nodes-online-ddl")
_DEMO: Final = "DEMO"
_SECOND: Final = "11111111-2222-3333-4444-555555555555:2"
_LIGHT: Final = {
    "version": ["--version"],
    "help": ["--help"],
    "inspect": ["inspect", str(_CLUSTER / "nodes/dn-1/binlog.000001")],
    "filter": ["filter", "test", "--help"],
    "plan": ["debug", "plan", str(_CLUSTER / "cluster.yaml"), "--merged", "nothing"],
    "merge --help": ["merge", "--help"],
    "schema history": ["schema", "history", "*", "--merged", _DEMO],
    "changes of few rows": ["changes", _DEMO, "--table", "shop.orders", "--stop", _SECOND],
}


def timed(arguments: Sequence[str], environment: dict[str, str], code: int = 0) -> tuple[float, float]:
    """Run a command, wait for all that it has started, and return its seconds by the clock and those of processors.

    Raises CalledProcessError if its exit code is not `code`.
    """
    before = _used()
    begun = time.perf_counter()
    command = [*_COMMAND, *arguments]
    done = subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
    if done.returncode != code:
        raise subprocess.CalledProcessError(done.returncode, command, stderr=done.stderr)
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
        made = f"{folder}/demo"
        demo = ["demo", "--merged", made]
        took["demo, nothing cached"] = [timed(demo, environment)]  # with the archive that it lets be made
        took["warm"] = [timed(["warm"], environment)]
        for _ in range(rounds):
            took.setdefault("demo, all cached", []).append(timed(demo, environment))
            for name, arguments in _LIGHT.items():
                asked = [made if word == _DEMO else word for word in arguments]
                took.setdefault(name, []).append(timed(asked, environment))
            wrong = timed(["merge", "--config", f"{folder}/none.yaml"], environment, ConfigError.exit_code)
            took.setdefault("configuration error", []).append(wrong)
    return {
        **{name: _row(found) for name, found in took.items()},
        "environment_mb": round(_size(Path(sys.prefix)) / 1e6),
        "bytecode": bytecode(),
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
