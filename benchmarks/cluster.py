"""What a cluster costs: two workers that share nothing but an S3 server merge from there to there.

    python -m benchmarks.cluster [--size 2GB] [--rounds 3] [--out build/bench]

Beside it, in each round and on the same files: plain processes that merge on local files, and what the store alone
takes, when as many processes read the input as often as a merge does and put as much as it puts. All of them, and the
S3 server, share this machine's cores. spark-submit starts the merges, in one application, from the archive of packages;
the first one loads kernels and is not counted. Bytes must be the same everywhere.
"""

import argparse
import contextlib
import json
import logging
import os
import shutil
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from hashlib import file_digest
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TextIO

import yaml

from benchmarks.generate import Generated, generate, parse_size
from benchmarks.measure import rate, spread
from benchmarks.ranges import Ranges
from benchmarks.runner import ProcessRunner
from benchmarks.schedule import Workload
from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.files.objects import Objects
from binlog_merge.files.source import open_source
from binlog_merge.pipeline.run import run_merge
from tests.object_store import KEY, SECRET, Store, object_store
from tests.spark.cluster import Cluster
from tests.spark.submitting import Submitter, packed

WORKERS = 2
READS = 2  # scan and gather each read all of the input
_RANGE = 16 << 20
_PROGRAM = """
import json, os, time
from pathlib import Path
from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.spark.job import merge
from binlog_merge.spark.session import create_session

spark = create_session()
with open(os.environ["ASKED"]) as asked, open(os.environ["ANSWERS"], "w") as answers:
    for out in asked:
        config, begun = MergeConfig.load(os.environ["CONFIG"]), time.perf_counter()
        result = merge(spark, config, out.strip(), end_of_input=True)
        said = {"seconds": time.perf_counter() - begun, "stages": dict(result.stages)}
        print(json.dumps(said), file=answers, flush=True)
spark.stop()
"""


@dataclass
class Application:
    """A submitted driver that merges into each output it is asked for."""

    asked: TextIO
    answers: TextIO

    def merge(self, out: str) -> dict[str, Any]:
        """Merge into a URI; returns seconds and stages."""
        print(out, file=self.asked, flush=True)
        answer: dict[str, Any] = json.loads(self.answers.readline())
        return answer


@contextlib.contextmanager
def application(folder: Path, config: Path) -> Iterator[Application]:
    """Start master, workers and driver."""
    asked, answers = folder / "asked", folder / "answers"
    for path in (asked, answers):
        os.mkfifo(path)
    (folder / "cluster-work").mkdir()
    with Cluster(folder / "cluster-work") as cluster:
        for _ in range(WORKERS):
            cluster.add_worker(cores=1)
        with Submitter(cluster, folder, packed(folder / "packages.tar.gz"), program=_PROGRAM) as submitter:
            environment = {"ASKED": str(asked), "ANSWERS": str(answers), "CONFIG": str(config)}
            submitted = submitter.start([], **environment)
            try:
                with asked.open("w") as questions, answers.open() as replies:
                    yield Application(questions, replies)
            except ValueError:  # no answer came
                sys.stderr.write(submitted.said()[-5000:])
                raise


def run(folder: Path, size: int, rounds: int) -> dict[str, Any]:
    """Measure; returns seconds, ratios and the stages of the cluster's merges."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # the S3 server's, which says each request
    shutil.rmtree(folder, ignore_errors=True)
    made = generate(folder / "cluster", Workload(size=size))
    os.environ |= {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET}
    try:
        with ProcessRunner(WORKERS) as native, object_store(front=Ranges) as store, _pool() as pool:
            config = _stored(made, store, folder)
            with application(folder, config) as app:
                return _measured(made, folder, store, rounds, native, app, pool)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _pool() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(WORKERS, get_context("spawn"))


def _stored(made: Generated, store: Store, folder: Path) -> Path:
    """Put a cluster's files into the store; returns the path of a configuration that reads them there."""
    values = yaml.safe_load(Path(made.config).read_text())
    for node in values["nodes"]:
        home = f"logs/{node['source-id']}"
        for path in sorted((Path(made.folder) / "nodes" / node["source-id"]).glob("binlog.0*")):
            Objects(store.uri(home)).overwrite(path.name, path)
        node["files"] = [store.uri(f"{home}/binlog.*")]
    config = Path(made.folder) / "stored.yaml"
    config.write_text(yaml.safe_dump(values))
    return config


def _measured(
    made: Generated,
    folder: Path,
    store: Store,
    rounds: int,
    native: ProcessRunner,
    app: Application,
    pool: ProcessPoolExecutor,
) -> dict[str, Any]:
    seconds: dict[str, list[float]] = {"native": [], "store": [], "cluster": []}
    stages: list[dict[str, float]] = []
    inputs = [uri for node in MergeConfig.load(Path(made.folder) / "stored.yaml").nodes for uri in _listed(node.files)]
    for number in range(rounds + 1):
        os.sync()
        local = folder / "merged"
        shutil.rmtree(local, ignore_errors=True)
        begun = time.perf_counter()
        run_merge(native, MergeConfig.load(made.config), local, end_of_input=True)
        taken = {"native": time.perf_counter() - begun}
        files = sorted(local.glob("binlog.0*"))
        begun = time.perf_counter()
        for done in (pool.map(_read, inputs * READS), pool.map(_put, [(store.uri("alone"), str(f)) for f in files])):
            list(done)
        taken["store"] = time.perf_counter() - begun
        out = f"merged-{number}"
        answer = app.merge(store.uri(out))
        taken["cluster"] = answer["seconds"]
        _check(store, out, files)
        _removed(store, f"{out}/", "alone/")
        if number:
            stages.append(answer["stages"])
            for name, each in taken.items():
                seconds[name].append(each)
    by_round = list(zip(seconds["native"], seconds["store"], seconds["cluster"], strict=True))
    return {
        "workers": WORKERS,
        **{name: rate(made.bytes, each) for name, each in seconds.items()},
        "stages": {name: round(statistics.median(s[name] for s in stages), 3) for name in stages[0]},
        "cluster_to_native": spread([n / c for n, _, c in by_round]),
        "cluster_to_native_and_store": spread([(n + s) / c for n, s, c in by_round]),
    }


def _listed(patterns: Sequence[str]) -> list[str]:
    from binlog_merge.files.globs import expand

    return [uri for pattern in patterns for uri in expand(pattern)]


def _read(uri: str) -> None:
    buffer = bytearray(_RANGE)
    with open_source(uri) as source:
        for offset in range(0, source.size, _RANGE):
            source.read_into(memoryview(buffer), offset)


def _put(where: tuple[str, str]) -> None:
    uri, path = where
    Objects(uri).overwrite(Path(path).name, Path(path))


def _check(store: Store, out: str, files: Sequence[Path]) -> None:
    """The cluster must have written what the processes wrote."""
    objects = Objects(store.uri(out))
    for path in files:
        if not objects.is_same(path.name, path):
            with path.open("rb") as file:
                raise AssertionError(f"{path.name} differs; sha256 here {file_digest(file, 'sha256').hexdigest()}")
    names = {name for name in objects.below() if name.startswith("binlog.0")}
    if names != {path.name for path in files}:
        raise AssertionError(f"the cluster has written {sorted(names)}")


def _removed(store: Store, *prefixes: str) -> None:
    for prefix in prefixes:
        objects = Objects(store.uri(prefix))
        objects.delete(list(objects.below()))


def main() -> None:
    """Read the command line, run, print the result."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--size", type=parse_size, default=parse_size("2GB"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", default="build/bench", type=Path)
    arguments = parser.parse_args()
    print(json.dumps(run(arguments.out.resolve() / "s3", arguments.size, arguments.rounds), indent=1))


if __name__ == "__main__":
    main()
