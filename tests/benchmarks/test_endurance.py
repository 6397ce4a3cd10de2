"""What is flat, and what is not; a short run of the real thing is `soak`."""

from pathlib import Path

import pytest

from benchmarks.endurance import judged, kind_of, puts_an_hour, run


@pytest.mark.parametrize(
    ("values", "flat"),
    [
        ([5, 90, 100, 101, 99, 100, 101, 100, 102], True),  # it grows at the beginning
        ([100, 100, 100, 100, 100, 100, 130, 130, 130], False),
        ([float(i) for i in range(100, 400, 10)], False),
        ([0, 0, 0, 0, 0, 0, 1, 1, 1], True),
    ],
)
def test_what_is_flat(values: list[float], flat: bool) -> None:
    assert judged(values)["flat"] is flat


def test_kinds_of_objects() -> None:
    names = ("binlog.000001", "binlog.index", "open/binlog.000002/1-2-x", "manifest/head.jsonl", "lease.json")
    assert [kind_of(name) for name in names] == ["file", "other", "open", "manifest", "lease"]


def test_requests_that_write_are_told_by_the_hour() -> None:
    samples = [
        {"at": 0.0, "requests": {"PUT open": 10, "GET open": 1}},
        {"at": 1800.0, "requests": {"PUT open": 110, "GET open": 900, "PUT lease": 5}},
    ]
    assert puts_an_hour(samples) == {"open": 200, "lease": 10}


@pytest.mark.soak
@pytest.mark.mysql
def test_two_minutes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    found = run(tmp_path, minutes=2, rate=20, ddl_each=30)
    assert found["replica_equals_nodes"] and found["transactions"] > 100 and found["ddl"]
