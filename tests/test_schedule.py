"""Tests of how the tests are chosen and ordered."""

import os
import re
import runpy
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests import room, schedule
from tests.processor import Meter, processor_seconds
from tools import durations, extended_tests


def test_the_longest_group_comes_first_and_keeps_its_order(tmp_path: Path) -> None:
    path = tmp_path / "durations.tsv"
    path.write_text("30\t9\t3\ttests/a.py::one\n8\t2\t1\ttests/b.py::two\n")
    durations = schedule.read_durations(path)
    assert durations == {"tests/a.py::one": 10.0, "tests/b.py::two": 8.0}
    tests = ["tests/n.py::new", "tests/a.py::one[x@y]", "tests/b.py::two@b", "tests/b.py::more@b", "tests/a.py::one[z]"]
    ordered = schedule.longest_first(
        tests,
        lambda test: "b" if test.endswith("@b") else test,
        lambda test: durations.get(schedule.function_of(test), 0.0),
    )
    assert ordered == [
        "tests/a.py::one[x@y]",
        "tests/a.py::one[z]",
        "tests/b.py::two@b",
        "tests/b.py::more@b",
        "tests/n.py::new",
    ]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ([], False),
        (["all"], True),
        (["tests/spark"], True),
        (["tests/spark/"], True),
        (["tests/spark/test_x.py"], True),
        (["tests/spa", "tests/serve"], False),
    ],
)
def test_extended_tests_are_asked_for_by_paths(asked: list[str], expected: bool) -> None:
    assert schedule.is_asked_for("tests/spark/test_x.py", asked) is expected


def test_there_are_no_durations_without_a_file(tmp_path: Path) -> None:
    assert schedule.read_durations(tmp_path / "none.tsv") == {}


REPORT = """<testsuites><testsuite>
<testcase classname="tests.test_schedule" name="test_one[a]" time="1.5">
<properties><property name="processor" value="0.25"/></properties></testcase>
<testcase classname="tests.test_schedule" name="test_one[b]" time="0.5">
<properties><property name="processor" value="0.5"/></properties></testcase>
<testcase classname="tests.test_schedule" name="test_two" time="9"><skipped/></testcase>
</testsuite></testsuites>"""


def test_a_report_says_what_each_function_took_and_the_order_follows(tmp_path: Path) -> None:
    report, kept = tmp_path / "tests.xml", tmp_path / "durations.tsv"
    report.write_text(REPORT)
    took = durations.read(report)
    assert took == {"tests/test_schedule.py::test_one": [(1.5, 0.25), (0.5, 0.5)]}
    kept.write_text("".join(durations.line_of(function, runs) for function, runs in took.items()))
    assert kept.read_text() == "2.0\t0.8\t2\ttests/test_schedule.py::test_one\n"
    assert schedule.read_durations(kept) == {"tests/test_schedule.py::test_one": 1.0}


def test_what_a_test_takes_of_a_core_has_processes_that_still_run() -> None:
    before = processor_seconds()
    command = [sys.executable, "-c", "import time\nwhile time.process_time() < 0.3: pass\nprint(flush=True)\ninput()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None and running.stdout.readline()
        assert processor_seconds() - before >= 0.28
        running.communicate(b"\n")
    assert processor_seconds() - before >= 0.28


def test_nothing_is_told_twice_of_what_tests_take() -> None:
    began, told, meter = processor_seconds(), 0.0, Meter()
    for seconds in (0.01, 0.2, 0.02, 0.15):
        meter.begin()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            pass
        told += meter.end()
        assert told <= processor_seconds() - began + 0.03  # ticks
    assert told > 0


def test_tests_write_into_memory_only_where_there_is_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not room.has_room(tmp_path / "none")
    monkeypatch.setattr(room, "_ROOM", 1)
    assert room.has_room(tmp_path)
    monkeypatch.setattr(room, "_free", lambda: 0)
    assert not room.has_room(tmp_path)
    monkeypatch.setattr(room, "IN_MEMORY", tmp_path)
    monkeypatch.delenv("PYTEST_DEBUG_TEMPROOT", raising=False)
    room.write_into_memory()
    assert "PYTEST_DEBUG_TEMPROOT" not in os.environ


def test_a_change_asks_for_the_extended_tests_of_its_room_and_of_itself() -> None:
    places = {"binlog_merge/spark": ["tests/spark"], "uv.lock": ["all"]}
    changed = ["binlog_merge/spark/runner.py", "binlog_merge/sparks.py", "tests/serve/test_a.py", "tests/serve/help.py"]
    assert extended_tests.asked_for(changed, places) == ["tests/serve/test_a.py", "tests/spark"]
    assert extended_tests.asked_for(["uv.lock", *changed], places) == ["all"]
    assert extended_tests.asked_for([], places) == []


def test_the_innermost_place_says_what_a_change_asks_for() -> None:
    places = {"binlog_merge/files": ["tests/files"], "binlog_merge/files/object_stores.py": ["tests/s3"], "tests": []}
    assert extended_tests.asked_for(["binlog_merge/files/object_stores.py"], places) == ["tests/s3"]
    assert extended_tests.asked_for(["binlog_merge/files/lock.py"], places) == ["tests/files"]
    assert extended_tests.asked_for(["tests/test_a.py"], places) == ["tests/test_a.py"]


ROOT = extended_tests.MAP.parents[1]


def missing(named: Iterable[str]) -> list[str]:
    return [path for path in named if not any(ROOT.glob(path))]


def test_the_map_names_what_there_is() -> None:
    places = extended_tests.read_map()
    assert missing([*places, *(path for paths in places.values() for path in paths if path != "all")]) == []
    assert extended_tests.changed_since("no-such-commit") is None


def test_a_change_of_some_part_asks_for_each_extended_test() -> None:
    asked = [path for paths in extended_tests.read_map().values() for path in paths if path != schedule.EVERYWHERE]
    files = [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "tests").rglob("test_*.py"))]
    marked = [file for file in files if re.search(r"mark\.extended|\bkeeping\(", (ROOT / file).read_text())]
    assert len(marked) > 50
    assert [file for file in marked if not schedule.is_asked_for(file, asked)] == []


@pytest.mark.parametrize("file", ["Makefile", ".ci/run"])
def test_commands_name_what_there_is(file: str) -> None:
    """Paths as they stand there, and those of `make quick`, which go without `tests/`."""
    text = (ROOT / file).read_text()
    named = re.findall(r"(?<![\w/.-])(?:tests|tools|docs|fixtures|benchmarks|\.ci)/[\w./-]*\w", text)
    quick = re.findall(r"^QUICK := \$\(addprefix tests/,(.*)\)$", text, re.MULTILINE)
    named += [f"tests/{name}" for names in quick for name in names.split()]
    named += [module.replace(".", "/") + "*" for module in re.findall(r"-m ((?:tools|tests|benchmarks)[\w.]*)", text)]
    assert len(quick) == (file == "Makefile") and named
    assert missing(named) == []


def test_mutation_targets_name_what_there_is() -> None:
    targets = runpy.run_path(str(ROOT / "tools" / "mutants.py"))["TARGETS"]
    assert missing(path for parts in targets.values() for paths in parts for path in paths) == []
