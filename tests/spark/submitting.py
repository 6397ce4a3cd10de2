"""Merges that spark-submit starts on a cluster: the files and the output are in a store."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from binlog_merge.spark.peer import PACKAGES
from tests.merge_e2e.cases import copy_case, max_size
from tests.object_store import Store
from tests.spark import sabotage
from tests.spark.cluster import BARE_PYTHON, QUICK_JAVA, SPARK_HOME, Cluster

ROOT = Path(__file__).resolve().parents[2]
BARE = f"spark.pyspark.python={BARE_PYTHON}"
_PROGRAM = "import sabotage\nfrom binlog_merge.cli.main import main\nsabotage.prepare()\nmain()\n"


def packed(path: Path) -> Path:
    """Make the archive for executors."""
    subprocess.run([sys.executable, "-m", "binlog_merge.spark.archive", str(path)], check=True, capture_output=True)
    return path


def stored(case: Path, folder: Path, store: Store, size: int, address: str | None = None) -> Path:
    """Put a case's files into a store; returns the path of a configuration that reads them there."""

    def change(values: dict[str, Any]) -> None:
        max_size(size)(values)
        for node in values["nodes"]:
            home = f"logs/{node['source-id']}"
            for path in (case / "nodes" / node["source-id"]).glob("binlog.0*"):
                store.put(f"{home}/{path.name}", path.read_bytes())
            node["files"] = [store.uri(f"{home}/binlog.*", address=address)]
        # What spark-submit was told wins over it.
        values["spark"] = {"spark.master": "local[1]", "spark.app.name": "configured"}

    return copy_case(case, folder, change)


@dataclass
class Submitted:
    """A merge that runs: the process that spark-submit is, and what it says."""

    process: subprocess.Popen[bytes]
    log: Path

    def said(self) -> str:
        return self.log.read_text()

    def ended(self) -> int:
        """Wait for the exit code of the merge."""
        return self.process.wait()


@dataclass(frozen=True)
class Submitter:
    """Starts merges; what they leave is in `folder`.

    Executors have a bare Python and the archive, which each of them unpacks; without one, this Python.
    """

    cluster: Cluster
    folder: Path
    archive: Path | None = None
    program: str = _PROGRAM
    _started: list[Submitted] = field(default_factory=list)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._started:
            with suppress(ProcessLookupError):
                os.killpg(each.process.pid, signal.SIGKILL)
            each.process.wait()

    def submit(
        self,
        config: Path,
        out: str,
        *conf: str,
        strikes: Sequence[sabotage.Strike] = (),
        pauses: Sequence[sabotage.Pause] = (),
        **environment: str,
    ) -> Submitted:
        """Start a merge to the end of the input. `environment` is the driver's."""
        if strikes or pauses:
            told = {"strikes": [asdict(s) for s in strikes], "pauses": [asdict(p) for p in pauses]}
            environment[sabotage.VARIABLE] = json.dumps(told)
        return self.start(["merge", "-c", str(config), "--out", out, "--end-of-input"], *conf, **environment)

    def start(self, arguments: Sequence[str], *conf: str, **environment: str) -> Submitted:
        """Start the program with arguments."""
        here = self.folder / f"submitted-{len(self._started)}"
        (here / "tmp").mkdir(parents=True)
        program = here / "program.py"
        program.write_text(self.program)
        keys = {name: os.environ[name] for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")}
        command = [f"{SPARK_HOME}/bin/spark-submit", "--master", self.cluster.master, "--name", "submitted"]
        command += ["--py-files", sabotage.__file__, "--driver-java-options", QUICK_JAVA]
        command += ["--conf", f"spark.executor.extraJavaOptions={QUICK_JAVA}"]
        if self.archive is not None:
            command += ["--archives", f"{self.archive}#{PACKAGES}"]
        python = f"spark.pyspark.python={sys.executable}" if self.archive is None else BARE
        for option in (python, f"spark.pyspark.driver.python={sys.executable}", *conf):
            command += ["--conf", option]
        command += [f"--conf=spark.executorEnv.{name}={value}" for name, value in keys.items()]
        own = {"SPARK_HOME": str(SPARK_HOME), "PYTHONPATH": str(ROOT), "TMPDIR": str(here / "tmp")}
        with (here / "log").open("wb") as log:
            process = subprocess.Popen(
                [*command, str(program), *arguments],
                stdout=log, stderr=log, env={**os.environ, **own, **environment}, start_new_session=True,
            )  # fmt: skip
        self._started.append(Submitted(process, here / "log"))
        return self._started[-1]

    def merge(self, config: Path, out: str, *conf: str, **options: Any) -> tuple[int, str]:
        """Merge; returns the exit code and what was said."""
        started = self.submit(config, out, *conf, **options)
        return started.ended(), started.said()
