"""The end of runs: whatever the runs are, the manifest says of the files what one run would have said."""

import shutil
import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from binlog_merge.files.manifest import Manifest, ManifestState
from binlog_merge.pipeline.base.runner import Files
from binlog_merge.pipeline.base.state import NO_BOUND, Inputs, Job
from binlog_merge.pipeline.gather.driver import gather_files
from binlog_merge.pipeline.gather.rows import Rows
from binlog_merge.pipeline.gather.values import GatherResult, GatherTask
from binlog_merge.pipeline.order.cutting import cut_files
from binlog_merge.pipeline.order.driver import Ordered
from binlog_merge.pipeline.publish import publish_run
from binlog_merge.pipeline.values import Run, WrittenRun
from snapshot_store.history import SchemaHistory
from snapshot_store.topology import Topology
from snapshot_store.tso import OrderKey
from tests.files.outputs import header
from tests.pipeline.coordinate.test_coordinating import config_of
from tests.pipeline.logs import assembled
from tests.pipeline.order.test_cutting import MOST, TRANSACTIONS, Transaction, part

ANY: Any = None


def gather(task: GatherTask) -> GatherResult:
    """Write an output file of which every branch is its key and size."""
    text = ""
    keys: list[OrderKey] = []
    size = count = 0
    for path, start, stop in task.runs:
        rows = Rows.load(path, start, stop)
        for i in range(len(rows)):
            keys.append(rows.key(i))
            size += rows.size(i)
            count += int(rows.first[i])
            text += f"{rows.key(i).commit_tso}:{rows.size(i)} "
    path = Path(f"{task.path}.{task.name}")
    path.write_text(text)
    first, last = (keys[0], keys[-1]) if keys else (None, None)
    return GatherResult(
        task.name, str(path), task.begins + len(text), zlib.crc32(text.encode()), task.rank + count,
        task.sequence + count, first, last, 0, size, count, len(keys), 0, 0, 0, 0, task.next_name is not None,
    )  # fmt: skip


class Gathers:
    """A runner that gathers in its own way."""

    slots = 1
    exchange = Files()

    def start(self) -> None:
        pass

    def run(self, name: str, function: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
        return [gather(task) for task in tasks]


def one_run(out: Path, found: list[Transaction], begin: int, text: str = "P1 C1=3") -> ManifestState:
    """Merge some transactions into an output as its next run."""
    job = Job(Gathers(), config_of(output={"max-size": f"{MOST}B"}), out, None, None, True, None, lambda *_: None)
    output = job.config.output.model_copy(update={"max_size": MOST, "dependencies": "commit-order"})
    job.config = job.config.model_copy(update={"output": output})
    job.work.mkdir(exist_ok=True)
    manifest = Manifest.load(out)
    if manifest.state.header is None:
        manifest.append(header())
    node = assembled(text)
    inputs = Inputs(manifest, header(), ANY, [node.input], "commit-table")
    nothing: Any = dict.fromkeys(("places", "modes", "holds", "seen")) | {"ddl": (), "ddl_done": {}, "pending": ()}
    coordination: Any = SimpleNamespace(history=SchemaHistory(), topology=Topology(), **nothing)
    ordered = Ordered([part(found, out / ".part-of-the-order", begin)])
    cuts = cut_files(manifest.state, MOST, ordered.parts)
    written = WrittenRun(NO_BOUND, ordered, gather_files(job, inputs, coordination, ordered, cuts))
    known: Any = SimpleNamespace(ddls={}, announced=SimpleNamespace(state=lambda *_: {}))
    run = Run(job, inputs, [node], known, ANY, ANY, {}, frozenset(), coordination, NO_BOUND)
    publish_run(run, written, OrderKey(begin + len(found), 0, 0, 0), None)
    return Manifest.load(out).state


def runs(out: Path, found: list[Transaction], places: list[int]) -> ManifestState:
    """Merge transactions in runs that end at these places."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    bounds = [0, *sorted(min(at, len(found)) for at in places), len(found)]
    for a, b in pairwise(bounds):
        one_run(out, found[a:b], a)
    return Manifest.load(out).state


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(TRANSACTIONS, st.lists(st.integers(0, 12), max_size=3))
def test_runs_cannot_be_seen_in_what_is_published(tmp_path: Path, found: list[Transaction], places: list[int]) -> None:
    whole, state = runs(tmp_path / "whole", found, []), runs(tmp_path / "runs", found, places)
    assert [replace(f, tail=None) for f in state.files] == [replace(f, tail=None) for f in whole.files]
    for file in whole.files:
        assert (tmp_path / "runs" / file.name).read_bytes() == (tmp_path / "whole" / file.name).read_bytes()
    assert state.rank == whole.rank == len(found)
    assert [(a.last_rank + 1, a.closed) for a, _ in pairwise(state.files)] == [
        (b.first_rank, True) for _, b in pairwise(state.files)
    ]
    assert sum(f.input_bytes for f in state.files) == sum(sum(t) for t in found)
    assert state.last is not None and whole.last is not None
    assert (state.last.totals, state.last.last_key) == (whole.last.totals, whole.last.last_key)
    assert not list((tmp_path / "runs" / ".work").iterdir())


def test_a_run_that_changes_nothing_leaves_no_record(tmp_path: Path) -> None:
    state = one_run(tmp_path, [[5], [6]], 0)
    assert one_run(tmp_path, [], 2) == state and state.run == 1
    assert one_run(tmp_path, [], 2, "P1 C1=3 L").run == 2, "a node has been read further"
    assert one_run(tmp_path, [[3]], 2, "P1 C1=3 L").run == 3
