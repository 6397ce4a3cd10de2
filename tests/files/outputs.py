"""Records to publish, made up, and runs that publish them, to be killed."""

import hashlib
import zlib
from pathlib import Path

from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.config.nodes import Node
from binlog_merge.files.lock import OutputLock
from binlog_merge.files.manifest import Header, Manifest, NodeState, OutputFile, Publish
from binlog_merge.files.parts import Rendered
from binlog_merge.files.publish import part_path, publish, recover

CONFIG = MergeConfig(version=1, name="n", nodes=(Node(source_id="a", files=("x",)), Node(source_id="b", files=("y",))))


def header(config: MergeConfig = CONFIG, carrier: str | None = "commit-table") -> Header:
    return Header(
        cluster_uuid=config.cluster_uuid(),
        name=config.name,
        node_numbers=config.node_numbers(),
        server_version="9.7.4-binlog-merge",
        fingerprint=config.fingerprint(),
        settings=config.settings(),
        carrier=carrier,
    )


def contents(number: int, length: int) -> bytes:
    return (b"%d" % number * 100_000)[:length]


def output_file(number: int, length: int, *, closed: bool) -> OutputFile:
    return OutputFile(
        name=f"binlog.{number:06d}",
        size=length,
        closed=closed,
        first_key="0" * 54,
        last_key="1" * 54,
        first_rank=number,
        last_rank=number,
        input_bytes=length,
        transactions=1,
        sequence_number=1,
        sha256=hashlib.sha256(contents(number, length)).hexdigest(),
    )


def record(run: int, *files: OutputFile) -> Publish:
    return Publish(
        run=run,
        files=files,
        last_key="1" * 54,
        watermark="2" * 54,
        rank=run,
        totals={"transactions": run},
        nodes={"a": NodeState("mysql-bin.000001", 4711, {"open": [[1, "x"]]})},
        state={"any": ["thing", 1], "floor": "7" * 54},
    )


# Run 1 leaves the second file open; run 2 closes it, longer, and begins a third.
RUNS = {1: ((1, 500, True), (2, 300, False)), 2: ((2, 700, True), (3, 90_000, False))}


def run(directory: Path) -> None:
    """Do the next run of RUNS that is not yet in the manifest, as a merge would."""
    with OutputLock(directory):
        manifest = Manifest.load(directory)
        recover(directory, manifest, "binlog")
        if manifest.state.header is None:
            manifest.append(header())
        number = manifest.state.run + 1
        if number not in RUNS:
            return
        files = [output_file(n, length, closed=closed) for n, length, closed in RUNS[number]]
        rendered = {}
        for n, length, _ in RUNS[number]:
            path = part_path(directory, f"binlog.{n:06d}")
            before = manifest.state.open_file
            published = before.size if before is not None and before.name == f"binlog.{n:06d}" else 0
            rendered[f"binlog.{n:06d}"] = write(path, contents(n, length)[published:])
        publish(directory, manifest, record(number, *files), rendered)


def write(path: Path, data: bytes) -> Rendered:
    """Write a file as a task does."""
    path.write_bytes(data)
    return Rendered(path, len(data), zlib.crc32(data))


def listing(directory: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in sorted(directory.iterdir()) if not p.name.startswith(".")}
