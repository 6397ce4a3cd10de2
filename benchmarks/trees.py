"""Merges by this tree and by that of another commit, in turns on the same files, each in a process that stays warm.

One process for each tree and configuration, so that a machine whose speed drifts slows all of them alike. What is
compared are the CPU seconds of one process, without Spark.
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
_PARTS = ("binlog_merge", "snapshot_store", "benchmarks", "tests", "tools", "fixtures", "pyproject.toml")
_PROGRAM = """
import json, os, sys, time
from pathlib import Path
from benchmarks.runner import InlineRunner
from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.pipeline.run import run_merge

for line in sys.stdin:
    config, out = json.loads(line)
    before, begun = time.process_time(), time.perf_counter()
    result = run_merge(InlineRunner(), MergeConfig.load(Path(config)), Path(out), end_of_input=True)
    said = {"cpu": time.process_time() - before, "seconds": time.perf_counter() - begun}
    print(json.dumps({**said, "transactions": result.transactions, "stages": dict(result.stages)}), flush=True)
"""


def tree_of(commit: str, below: Path) -> Path:
    """Return a folder with the tree of a commit, made if it is not there: kernels are kept by their file's path."""
    digest = _git("rev-parse", "--verify", f"{commit}^{{commit}}").decode().strip()
    folder = below / f"tree-{digest[:12]}"
    if not folder.exists():
        part = below / f"{folder.name}.part"
        shutil.rmtree(part, ignore_errors=True)
        (part / "build").mkdir(parents=True)
        there = [name for name in _PARTS if _git("ls-tree", digest, name)]
        subprocess.run(["tar", "-x", "-C", str(part)], input=_git("archive", digest, *there), check=True)
        for name in ("mysql", "env.sh"):
            (part / "build" / name).symlink_to(ROOT / "build" / name)
        part.rename(folder)
    return folder


def _git(*arguments: str) -> bytes:
    return subprocess.run(["git", "-C", str(ROOT), *arguments], check=True, capture_output=True).stdout


def environment(tree: Path) -> dict[str, str]:
    """Return the environment of a process that runs a tree's code."""
    return {**os.environ, "PYTHONPATH": str(tree)}


@dataclass
class Merger:
    """A process that merges whatever configuration it is given."""

    process: "subprocess.Popen[str]"
    folder: Path

    def merge(self, config: Path) -> dict[str, Any]:
        """Merge; returns seconds and those of a core."""
        shutil.rmtree(self.folder, ignore_errors=True)
        assert self.process.stdin is not None and self.process.stdout is not None
        print(json.dumps([str(config), str(self.folder)]), file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the merge of {self.folder.name} has ended with {self.process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        shutil.rmtree(self.folder, ignore_errors=True)
        return answer


@contextlib.contextmanager
def mergers(trees: Mapping[str, Path], out: Path) -> Iterator[dict[str, Merger]]:
    """Yield a process for each tree, by name."""
    with contextlib.ExitStack() as stack:
        found = {}
        for name, tree in trees.items():
            command = [sys.executable, "-c", _PROGRAM]
            pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
            process = stack.enter_context(subprocess.Popen(command, cwd=tree, env=environment(tree), **pipes))
            found[name] = Merger(process, out / f"by-{name}")
        yield found
        for merger in found.values():
            assert merger.process.stdin is not None
            merger.process.stdin.close()


def configured(config: Path, dependencies: str) -> Path:
    """Return a configuration beside a cluster's that says what transactions depend on."""
    path = config.with_name(f"{dependencies}.yaml")
    values = yaml.safe_load(config.read_text())
    path.write_text(yaml.safe_dump({**values, "output": {"dependencies": dependencies}}, sort_keys=False))
    return path


def in_turns(found: Mapping[str, Merger], configs: Mapping[str, Path], rounds: int) -> dict[str, list[float]]:
    """Let all merge in turns; returns the CPU seconds of each. A first round is not counted."""
    cpu: dict[str, list[float]] = {name: [] for name in configs}
    for number in range(rounds + 1):
        order: Sequence[str] = [*configs] if number % 2 else [*configs][::-1]
        for name in order:
            seconds = found[name].merge(configs[name])["cpu"]
            if number:
                cpu[name].append(seconds)
    return cpu
