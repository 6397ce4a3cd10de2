"""What a merge would read and where it would go on, found without running it: nothing is written, no engine starts."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.files.manifest import Manifest, ManifestState
from binlog_merge.files.node_file import IgnoredFile
from binlog_merge.files.output import check_continuation
from binlog_merge.files.publish import file_name
from binlog_merge.pipeline.base.node_input import NodeInput
from binlog_merge.pipeline.discover import find_inputs
from binlog_merge.pipeline.scan.carriers import DEFAULT
from binlog_merge.pipeline.scan.inputs import scan_tasks
from binlog_merge.redaction import redacted
from snapshot_store.tso import ORIGIN


@dataclass(frozen=True, slots=True)
class GoesOn:
    """Where the next run of an output goes on.

    `floor` is the order key below which everything is published, `watermark` the least that may still come, if one is
    known. `file` is the output file that the run writes first; if that file `grows`, `filled` input bytes are in it.
    `nodes` has, by node, the file in which the scan begins and the place up to which earlier runs have read.
    """

    run: int
    floor: str
    watermark: str | None
    end_of_input: bool
    carrier: str | None
    rank: int
    file: str
    grows: bool
    filled: int
    nodes: dict[str, dict[str, Any]]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)


def goes_on(state: ManifestState, basename: str = "binlog") -> GoesOn:
    """Return where the next run of an output goes on, as the manifest says."""
    last, header, file = state.last, state.header, state.open_file
    if state.files:
        basename = state.files[0].name.rpartition(".")[0]
    return GoesOn(
        run=state.run + 1,
        floor=ORIGIN.text() if last is None else str(last.state["floor"]),
        watermark=None if last is None else last.watermark,
        end_of_input=last is not None and last.end_of_input,
        carrier=None if header is None else header.carrier,
        rank=state.rank + 1,
        file=file.name if file is not None else file_name(basename, state.next_number),
        grows=file is not None,
        filled=0 if file is None else file.input_bytes,
        nodes={
            name: {
                "begins_in": node.checkpoint.get("file"),
                "read_to": f"{node.scan_end_file}:{node.scan_end_position}",
            }
            for name, node in (last.nodes if last is not None else {}).items()
        },
    )


@dataclass(frozen=True, slots=True)
class Plan:
    """What a merge would do. `carrier` is None if no file shows one and none is configured.

    `nodes` are the nodes with the files that are read; `tasks` the pieces of the scan stage; `new_bytes` what no run
    has read, which is cut into at most `most_files` output files, the one that grows among them.
    """

    goes_on: GoesOn
    carrier: str | None
    nodes: Sequence[dict[str, Any]]
    tasks: Sequence[dict[str, Any]]
    left_out: Sequence[IgnoredFile]
    max_size: int
    new_bytes: int
    most_files: int

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            **asdict(self),
            "left_out": [{"node": f.node, "file": redacted(f.path), "reason": f.reason} for f in self.left_out],
        }


def plan(config: MergeConfig, directory: Path, partitions: int | None = None) -> Plan:
    """Return what a merge into a directory would do. Raises what the discover stage raises."""
    state = Manifest.load(directory).state
    if state.header is not None:
        config = config.continuing(state.header.settings)
        check_continuation(state.header, config, bool(state.files))
    found = find_inputs(config, state)
    begun = goes_on(state, config.output.basename)
    tasks = scan_tasks(found.nodes, config, found.carrier or DEFAULT, "", partitions, frozenset())
    new = sum(map(_new_bytes, found.nodes))
    room = max(0, config.output.max_size - begun.filled) if begun.grows else 0
    return Plan(
        goes_on=begun,
        carrier=found.carrier,
        nodes=[_node(node) for node in found.nodes],
        tasks=[
            {
                "piece": t.piece,
                "node": t.node,
                "file": redacted(t.file.path),
                "from": t.start,
                "to": min(t.stop, t.size),
            }
            for t in tasks
        ],
        left_out=found.discovery.ignored,
        max_size=config.output.max_size,
        new_bytes=new,
        most_files=begun.grows + -(-max(0, new - room) // config.output.max_size),
    )


def _node(node: NodeInput) -> dict[str, Any]:
    files = [{"file": redacted(f.path), "size": f.size, "in_use": f.in_use} for f in node.files[node.first :]]
    merged = node.files[node.seen[0]].name if node.seen is not None else None
    read_to = None if node.seen is None else f"{merged}:{node.seen[1]}"
    return {"node": node.source_id, "number": node.number, "read_to": read_to, "files": files}


def _new_bytes(node: NodeInput) -> int:
    first, position = node.seen or (node.first, 4)
    return sum(f.size - 4 for f in node.files[first + 1 :]) + max(0, node.files[first].size - position)
