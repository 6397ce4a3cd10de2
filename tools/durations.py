"""Reads how long the tests of a run took out of its JUnit report: in seconds, and in seconds of a core.

`python -m tools.durations build/tests.xml` prints both by folder and for the functions that take most of a core; with
`--keep` it also writes tests/durations.tsv, from which a run takes the longest tests first. Of the two, what a test
takes of a core is what holds on a busy machine.
"""

import argparse
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple
from xml.etree import ElementTree

from tests.processor import PROPERTY
from tests.schedule import DURATIONS, function_of

ROOT: Final = Path(__file__).resolve().parents[1]

_SHORT: Final = 0.2
"""Seconds of all its runs below which a function is not kept: the order of what is short does not matter."""


class Took(NamedTuple):
    """What one run of a function took, set-up and tear-down included."""

    seconds: float
    of_a_core: float


def read(report: Path) -> dict[str, list[Took]]:
    """Return what each run of each test function took."""
    took: dict[str, list[Took]] = defaultdict(list)
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        if case.find("skipped") is None:
            module, *classes = _module_and_classes(case.get("classname", ""))
            function = function_of("::".join([module, *classes, case.get("name", "")]))
            of_a_core = (each.get("value", "0") for each in case.iter("property") if each.get("name") == PROPERTY)
            took[function].append(Took(float(case.get("time", 0)), sum(map(float, of_a_core))))
    return took


def line_of(function: str, runs: Sequence[Took]) -> str:
    """Return what tests/durations.tsv has of a function."""
    seconds, of_a_core = summed(runs)
    return f"{seconds:.1f}\t{of_a_core:.1f}\t{len(runs)}\t{function}\n"


def summed(runs: Iterable[Took]) -> Took:
    """Return what runs took together."""
    all_runs = list(runs)
    return Took(sum(run.seconds for run in all_runs), sum(run.of_a_core for run in all_runs))


def _module_and_classes(dotted: str) -> list[str]:
    parts = dotted.split(".")
    for end in range(len(parts), 0, -1):
        path = "/".join(parts[:end]) + ".py"
        if (ROOT / path).exists():
            return [path, *parts[end:]]
    return [dotted]


def main() -> None:
    """Print, and keep, what the report says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("report", type=Path)
    parser.add_argument("--keep", action="store_true", help="write tests/durations.tsv")
    parser.add_argument("--slowest", type=int, default=100, metavar="N")
    asked = parser.parse_args()
    took = read(asked.report)
    folders: dict[str, list[Took]] = defaultdict(list)
    for function, runs in took.items():
        folders["/".join(function.split("::")[0].split("/")[:2])] += runs
    print("seconds  of a core  folder")
    folders["all"] = [run for runs in took.values() for run in runs]
    for folder, runs in sorted(folders.items(), key=lambda item: -summed(item[1]).of_a_core):
        total = summed(runs)
        print(f"{total.seconds:7.1f}  {total.of_a_core:9.1f}  {folder}")
    print("\nseconds  of a core  runs  function")
    for function, runs in sorted(took.items(), key=lambda item: -summed(item[1]).of_a_core)[: asked.slowest]:
        total = summed(runs)
        print(f"{total.seconds:7.1f}  {total.of_a_core:9.1f}  {len(runs):4}  {function}")
    if asked.keep:
        kept = sorted((function, runs) for function, runs in took.items() if summed(runs).seconds >= _SHORT)
        DURATIONS.write_text("".join(line_of(function, runs) for function, runs in kept))


if __name__ == "__main__":
    main()
