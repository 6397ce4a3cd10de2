"""Prints the folders of tests whose extended tests a change asks for, for `make test EXTENDED=`.

`python -m tools.extended_tests [BASE]` compares the working tree with BASE, by default the commit before: all of them
where that is not to be had, as in a clone without history.
"""

import subprocess
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.schedule import EVERYWHERE

MAP: Final = Path(__file__).resolve().parents[1] / "tests" / "extended.toml"


def read_map() -> dict[str, list[str]]:
    """Return where a change may be, and what it asks for."""
    return {str(place): list(asked) for place, asked in tomllib.loads(MAP.read_text()).items()}


def asked_for(changed: Iterable[str], places: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the paths of tests that changed files ask for, in the order of their names.

    Of the places that a file is in, the innermost says what it asks for.
    """
    asked: set[str] = set()
    for file in changed:
        around = [place for place in places if file == place or file.startswith(place + "/")]
        if around:
            asked.update(places[max(around, key=len)])
        if file.startswith("tests/") and Path(file).name.startswith("test_"):
            asked.add(file)
    return [EVERYWHERE] if EVERYWHERE in asked else sorted(asked)


def changed_since(base: str) -> list[str] | None:
    """Return the files that differ from a commit, or None where git does not know it."""
    told = subprocess.run(["git", "diff", "--name-only", base], capture_output=True, text=True, cwd=MAP.parents[1])
    return told.stdout.splitlines() if told.returncode == 0 else None


def main() -> None:
    """Print what is asked for, in one line."""
    base = sys.argv[1] if len(sys.argv) > 1 else "HEAD^"
    changed = changed_since(base)
    if changed is None:
        print(f"extended tests: git has no {base} to compare with; all of them", file=sys.stderr)
    print(EVERYWHERE if changed is None else " ".join(asked_for(changed, read_map())))


if __name__ == "__main__":
    main()
