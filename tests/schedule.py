"""Which tests run and in what order: the longest first, and what proves a thing once more only where it is asked for.

`tests/durations.tsv` has how long each test function took in an earlier run (`make durations`): seconds, seconds of a
core, runs, and its name. A test that it does not have counts as short.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, TypeVar

DURATIONS: Final = Path(__file__).with_name("durations.tsv")
EVERYWHERE: Final = "all"
One = TypeVar("One")


def function_of(node_id: str) -> str:
    """Return the test function of a node id: without its parameters and its group."""
    return node_id.split("[", 1)[0].split("@", 1)[0]


def read_durations(path: Path = DURATIONS) -> dict[str, float]:
    """Return the seconds that one run of each function takes, by its name; none if there is no file."""
    if not path.exists():
        return {}
    lines = (line.split("\t") for line in path.read_text().splitlines())
    return {function: float(seconds) / int(runs) for seconds, *_, runs, function in lines}


def longest_first(tests: Iterable[One], group: Callable[[One], str], seconds: Callable[[One], float]) -> list[One]:
    """Return the tests by groups, the group that takes longest first; a group's tests stay in their order."""
    groups: dict[str, list[One]] = defaultdict(list)
    for test in tests:
        groups[group(test)].append(test)
    by_length = sorted(groups.values(), key=lambda found: -sum(map(seconds, found)))
    return [test for found in by_length for test in found]


def is_asked_for(path: str, asked: Iterable[str]) -> bool:
    """Return whether a test file is one of, or in one of, the paths that are asked for; `all` asks for every one."""
    return any(one == EVERYWHERE or path == one or path.startswith(one.rstrip("/") + "/") for one in asked)
