"""Runs pytest, and what failed beside other tests once more alone, where that is up to three of them.

`python -m tools.run_tests ARGUMENTS` gives pytest these arguments. Tests here start servers, kill processes and wait
for leases, several at once on few cores: a machine that stands still for seconds can fail one of them. A test that
fails alone too has failed; one that does not is named, since it may hide a race.
"""

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]

_LAST_FAILED: Final = ".pytest_cache/v/cache/lastfailed"

_MOST: Final = 3
"""Of more tests that fail the cause is not the machine."""

_SOME_FAILED: Final = 1


def run(arguments: Sequence[str], root: Path = ROOT) -> int:
    """Run the tests below a folder and return pytest's exit code."""
    (root / _LAST_FAILED).unlink(missing_ok=True)
    code = _pytest(arguments, root)
    failed = _failed(root) if code == _SOME_FAILED else []
    if not 0 < len(failed) <= _MOST:
        return code
    print("", "failed beside others, now alone:", *failed, sep="\n", flush=True)
    code = _pytest([*_options(arguments, root), "-n", "0", *failed], root)
    print(f"{'failed' if code else 'passed'} alone:", *failed, sep="\n", flush=True)
    return code


def _pytest(arguments: Sequence[str], root: Path) -> int:
    return subprocess.run([sys.executable, "-m", "pytest", *arguments], cwd=root).returncode


def _failed(root: Path) -> list[str]:
    """Return the tests that failed, without the group that xdist writes behind them."""
    path = root / _LAST_FAILED
    found = json.loads(path.read_text()) if path.exists() else {}
    return [re.sub(r"@[\w-]+$", "", each) for each in found]


def _options(arguments: Sequence[str], root: Path) -> list[str]:
    """Return the arguments without paths of tests, and without the report: it is the first run's."""
    options = (each for each in arguments if not (root / each.partition("::")[0]).exists())
    return [each for each in options if not each.startswith("--junitxml")]


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
