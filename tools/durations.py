"""Reads how long the tests of a run took out of its JUnit report.

`python -m tools.durations build/tests.xml` prints the seconds by folder and the slowest functions; with `--keep` it
also writes tests/durations.tsv, from which a run takes the longest tests first.
"""

import argparse
from collections import defaultdict
from pathlib import Path
from xml.etree import ElementTree

from tests.schedule import DURATIONS, function_of

ROOT = Path(__file__).resolve().parents[1]

_SHORT = 0.2
"""Seconds of all its runs below which a function is not kept: the order of what is short does not matter."""


def read(report: Path) -> dict[str, list[float]]:
    """Return the seconds of each run of each test function, set-up and tear-down included."""
    seconds: dict[str, list[float]] = defaultdict(list)
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        if case.find("skipped") is None:
            module, *classes = _module_and_classes(case.get("classname", ""))
            function = function_of("::".join([module, *classes, case.get("name", "")]))
            seconds[function].append(float(case.get("time", 0)))
    return seconds


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
    seconds = read(asked.report)
    folders: dict[str, float] = defaultdict(float)
    for function, runs in seconds.items():
        folders["/".join(function.split("::")[0].split("/")[:2])] += sum(runs)
    print("seconds  folder")
    for folder, total in sorted(folders.items(), key=lambda item: -item[1]):
        print(f"{total:7.1f}  {folder}")
    print("\nseconds  runs  function")
    slowest = sorted(seconds.items(), key=lambda item: -sum(item[1]))
    for function, runs in slowest[: asked.slowest]:
        print(f"{sum(runs):7.1f}  {len(runs):4}  {function}")
    if asked.keep:
        kept = sorted((function, runs) for function, runs in seconds.items() if sum(runs) >= _SHORT)
        DURATIONS.write_text("".join(f"{sum(runs):.1f}\t{len(runs)}\t{function}\n" for function, runs in kept))


if __name__ == "__main__":
    main()
