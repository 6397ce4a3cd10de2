"""The demo: real fixture, no Spark: the job only puts a node's binlog where the merged one would be."""

import json
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from binlog_merge.cli import main
from binlog_merge.cli.demo import CASE
from binlog_merge.files.manifest import Manifest
from tests.cli.conftest import RESULT, FakeJob, FakeResult
from tests.files.outputs import header

FIXTURE = Path(__file__).parents[2] / "fixtures" / CASE

pytestmark = pytest.mark.skipif(not FIXTURE.exists(), reason="the fixture is not there")


@dataclass
class CopyingJob(FakeJob):
    def merge(self, spark: Any, config: Any, out: Path, *, progress: Any, **options: Any) -> FakeResult:
        super().merge(spark, config, out, progress=progress, **options)
        out.mkdir(parents=True, exist_ok=True)
        Manifest.load(out).append(header(config))
        shutil.copy(sorted(FIXTURE.glob("nodes/dn-1/binlog.0*"))[0], out / "binlog.000001")
        return RESULT


@pytest.fixture
def copying(job: FakeJob, monkeypatch: pytest.MonkeyPatch) -> CopyingJob:
    copying = CopyingJob()
    monkeypatch.setattr(sys.modules["binlog_merge.spark.job"], "merge", copying.merge)
    return copying


def test_demo_says_what_to_look_at(copying: CopyingJob, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "demo"
    assert main.run(["demo", "--out", str(out)]) == 0
    text = capsys.readouterr().out
    assert copying.options["end_of_input"] is True
    for part in (
        f"merged into {out}",
        f"{out}/binlog.000001 begins:",
        "GTID",
        "ALTER TABLE orders_0 ADD COLUMN note",
        f"binlog-merge inspect -v {out}/binlog.000001",
        f"mysqlbinlog {out}/binlog.0* | mysql",
    ):
        assert part in text


def test_an_earlier_demo_is_made_anew(copying: CopyingJob, tmp_path: Path) -> None:
    out = tmp_path / "demo"
    for _ in range(2):
        assert main.run(["demo", "--out", str(out)]) == 0
        assert not (out / "stale").exists()
        (out / "stale").touch()


def test_another_directory_is_left_alone(
    copying: CopyingJob, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine").write_text("mine")
    assert main.run(["demo", "--out", str(tmp_path)]) == 2
    assert "does not hold an earlier demo" in capsys.readouterr().err
    Manifest.load(tmp_path).append(header())
    assert main.run(["demo", "--out", str(tmp_path)]) == 2
    assert (tmp_path / "mine").read_text() == "mine"


def test_json(copying: CopyingJob, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["demo", "--out", str(tmp_path / "demo"), "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["transactions"] == 12


def test_an_installed_package_has_no_demo(
    copying: CopyingJob, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("binlog_merge.cli.demo.CASE", "not-there")
    assert main.run(["demo", "--out", str(tmp_path / "demo")]) == 2
    assert "come with the source repository" in capsys.readouterr().err
