"""The command line with a job that only remembers how it was called: no Spark, no Java."""

import sys
import types
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from binlog_merge.pipeline.rounds import IN_DRIVER

CLUSTER = """\
version: 1
name: orders
nodes:
  - {source-id: dn-1, files: "dn-1/mysql-bin.*"}
output: {dir: merged}
spark: {spark.ui.enabled: false, a: config}
"""


@dataclass(frozen=True)
class FakeResult:
    """Shaped as MergeResult.to_dict()."""

    values: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        return self.values


RESULT = FakeResult(
    {
        "files": [{"name": "binlog.000001", "size": 1234567}],
        "watermark": "7" * 54,
        "transactions": 12,
        "branches": 20,
        "events": 99,
        "row_events": 40,
        "rows_reshaped": 4,
        "ddl": 1,
        "held": 2,
        "held_back_by": "dn-1",
        "in_doubt": [{"node": "dn-1", "xid": "X'61',X'62',1"}],
        "nodes": {"dn-1": {"watermark": "7" * 54, "holds_back": True, "read_to": "mysql-bin.000003:4711"}},
        "ignored": {"statement BEGIN": 3},
        "warnings": ["a table named \x1b[31mred"],
        "stages": {"scan": 1.25, "gather": 2.5},
    }
)


@dataclass
class FakeJob:
    """What the command line did with Spark and the job."""

    session: tuple[str | None, dict[str, str], dict[str, str]] | None = None
    stopped: int = 0
    config: Any = None
    out: Path | None = None
    options: dict[str, Any] = field(default_factory=dict)
    raises: BaseException | None = None

    def create_session(
        self, master: str | None, options: dict[str, str], configured: dict[str, str], archive: Path | None
    ) -> "FakeJob":
        self.session = (master, options, configured)
        return self

    def stop(self) -> None:
        self.stopped += 1

    def merge(self, spark: Any, config: Any, out: Path, *, progress: Any, **options: Any) -> FakeResult:
        self.config, self.out, self.options = config, out, options
        spark()
        progress("scan", 0, 3)
        progress("scan", 3, 3)
        if self.raises is not None:
            raise self.raises
        return RESULT


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch) -> FakeJob:
    fake = FakeJob()
    ends = ("", ".session", ".master", ".java", ".job")
    package, session, master, java, module = (types.ModuleType(f"binlog_merge.spark{end}") for end in ends)
    session.active_session = lambda master: None  # type: ignore[attr-defined]
    session.is_submitted = lambda: False  # type: ignore[attr-defined]
    session.master_for = lambda *settings: "fake"  # type: ignore[attr-defined]
    master.is_connect = master.is_local = lambda master: False  # type: ignore[attr-defined]
    master.check_master = lambda master: None  # type: ignore[attr-defined]
    session.create_session = fake.create_session  # type: ignore[attr-defined]
    java.stop = lambda spark: spark.stop()  # type: ignore[attr-defined]
    module.merge = fake.merge  # type: ignore[attr-defined]
    module.IN_DRIVER = IN_DRIVER  # type: ignore[attr-defined]
    for one in (package, session, master, java, module):
        monkeypatch.setitem(sys.modules, one.__name__, one)
    monkeypatch.setattr("binlog_merge.cli.merge.check_java", lambda: None)
    monkeypatch.setattr("tests.json_documents.check", lambda *_: None)  # its results are no merge's
    return fake


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    path = tmp_path / "cluster.yaml"
    path.write_text(CLUSTER)
    return str(path)
