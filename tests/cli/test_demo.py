"""The demo: real fixture, no Spark: the job only puts a node's binlog where the merged one would be."""

import json
import shutil
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from binlog_merge.cli import example, main
from binlog_merge.cli.example import CASE
from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.files.manifest import Manifest
from tests.cli.conftest import RESULT, FakeJob, FakeResult
from tests.files.outputs import header
from tests.merge_e2e.local import merge

ROOT = Path(__file__).parents[2]
FIXTURE = ROOT / "fixtures" / CASE

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


def test_an_earlier_demo_stays_if_the_master_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    earlier = tmp_path / "demo" / "binlog.000001"
    earlier.parent.mkdir()
    Manifest.load(earlier.parent).append(header(MergeConfig.load(FIXTURE / "cluster.yaml")))
    earlier.write_bytes(b"x")
    assert main.run(["demo", "--merged", str(earlier.parent), "--master", "foo://x"]) == 2
    assert "foo://x is no Spark master" in capsys.readouterr().err
    assert earlier.read_bytes() == b"x"


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


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Where the package would be, on a machine without a clone of the repository."""
    monkeypatch.setattr(example, "_CLONED", tmp_path / "no-clone")
    monkeypatch.setattr(example, "_PACKAGED", tmp_path / "site-packages" / "binlog_merge" / "cli" / "demo_cluster")
    return tmp_path / "site-packages"


def test_the_wheel_has_what_the_demo_merges(installed: Path, tmp_path: Path) -> None:
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]
    for source, target in build["wheel"]["force-include"].items():
        assert f"/{source}" in build["sdist"]["include"]
        (installed / target).parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (ROOT / source).is_dir() else shutil.copy
        copy(ROOT / source, installed / target)
    cluster = example.cluster()
    assert cluster.is_relative_to(installed)
    assert merge(cluster, tmp_path / "out").to_dict()["transactions"] == 210


def test_a_demo_without_its_binlogs_is_an_error(
    copying: CopyingJob, installed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["demo", "--out", str(tmp_path / "demo")]) == 2
    assert "the demo's binlogs are missing" in capsys.readouterr().err
