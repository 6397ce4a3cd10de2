"""Generate the binlogs of a busy cluster's nodes, with what it takes to merge them.

    python -m benchmarks.generate OUT [--size 2GB] [--nodes 4] [--mode identity|trim|pad] [--unkind]

writes OUT/cluster.yaml, OUT/base/*.sql and OUT/nodes/<node>/binlog.NNNNNN. The files pass `mysqlbinlog
--verify-binlog-checksum` and can be applied to servers that have the base schemas, but for updates and deletes, whose
rows were never inserted. The same arguments give the same bytes.
"""

import argparse
import json
import re
import struct
import time
import uuid
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from benchmarks import kernel as k
from benchmarks.schedule import FIRST_MILLIS, Ints, Sizes, Workload, schedule
from benchmarks.tables import (
    MODES,
    SHAPES,
    cell_pools,
    logical_dump,
    physical_dump,
    physical_tables,
    table_map,
)
from binlog_merge.binlog.constants import BINLOG_MAGIC, EventType
from binlog_merge.binlog.control import FormatDescription
from binlog_merge.binlog.header import pack_event
from binlog_merge.pipeline.base.pieces import view
from snapshot_store.ddl import parse_dump
from snapshot_store.model import Table

BUFFER = 64 << 20
VERSION = "9.7.4"
# flags2, sql_mode, auto_increment, catalog, charsets, default collation of utf8mb4: as MySQL 9.7 writes them.
STATUS = bytes.fromhex("000000000001 2000a04500000000 0603737464 04ff00ff00ff00 12ff00".replace(" ", ""))


@dataclass(frozen=True, slots=True)
class Generated:
    """What was written. `files` are the nodes' binlogs, node by node."""

    folder: str
    files: tuple[str, ...]
    bytes: int
    groups: int
    rows: int
    seconds: float

    @property
    def config(self) -> str:
        """Return the path of cluster.yaml."""
        return str(Path(self.folder) / "cluster.yaml")


def source_id(node: int) -> str:
    """Return a node's name."""
    return f"dn-{node + 1}"


def generate(folder: str | Path, workload: Workload) -> Generated:
    """Write a cluster into `folder`, which may not hold another."""
    begun = time.perf_counter()
    root = Path(folder)
    (root / "base").mkdir(parents=True)
    shapes = [SHAPES[name] for name in workload.shapes]
    (root / "base" / "logical.sql").write_text(logical_dump(shapes, workload.mode))
    for node in range(workload.nodes):
        dump = physical_dump(shapes, workload.mode, node, workload.tables_per_shape)
        (root / "base" / f"{source_id(node)}.sql").write_text(dump)
        (root / "nodes" / source_id(node)).mkdir(parents=True)
    (root / "cluster.yaml").write_text(yaml.safe_dump(cluster(workload), sort_keys=False))
    tables = physical_tables((root / "base" / f"{source_id(0)}.sql").read_text(), 0)
    pools = cell_pools(tables, workload.seed)
    weights = [s.weight / workload.tables_per_shape for s in shapes for _ in range(workload.tables_per_shape)]
    groups = schedule(workload, Sizes(pools.mean, _statement_bytes(tables)), weights)
    with ProcessPoolExecutor(2, get_context("forkserver")) as pool:
        jobs = [pool.submit(write_node, str(root), workload, node, groups[node]) for node in range(workload.nodes)]
        written = [job.result() for job in jobs]
    files = tuple(name for w in written for name in w[0])
    done = Generated(
        str(root), files, sum(Path(f).stat().st_size for f in files), sum(w[1] for w in written),
        sum(w[2] for w in written), round(time.perf_counter() - begun, 2),
    )  # fmt: skip
    (root / "made-with.json").write_text(json.dumps({"workload": asdict(workload), "made": asdict(done)}, indent=1))
    return done


def _statement_bytes(tables: Sequence[Table]) -> float:
    """Return the mean bytes of a table map event and a rows event without rows."""
    return 23 + 36 + sum(len(table_map(t, 0).pack()) for t in tables) / len(tables)


def cluster(workload: Workload) -> dict[str, Any]:
    """Return the configuration of the generated cluster."""
    nodes = [source_id(node) for node in range(workload.nodes)]
    return {
        "version": 1,
        "name": "generated",
        "nodes": [{"source-id": n, "files": [f"nodes/{n}/binlog.*"]} for n in nodes],
        "routes": [
            {"schema-pattern": "shop_*", "table-pattern": f"{s}_*", "target-schema": "shop", "target-table": s}
            for s in workload.shapes
        ],
        "commit-tso": {"carrier": "commit-table", "commit-table": "__cdc__.__commit_ts__"},
        "base": {"logical": "base/logical.sql", "physical": {n: f"base/{n}.sql" for n in nodes}},
    }


def write_node(root: str, workload: Workload, node: int, groups: Ints) -> tuple[list[str], int, int]:
    """Write one node's files; returns their names, and how many groups and rows are in them."""
    description = describe_node(root, workload, node)
    reg = np.zeros(k.REGISTERS, np.int64)
    reg[k.GNO] = reg[k.XID] = 1
    reg[k.ROW_ID] = node << 40
    buffer = np.empty(max(BUFFER, int(k.most_room(description, groups))), np.uint8)
    names: list[str] = []
    while True:
        folder = Path(root) / "nodes" / source_id(node)
        name = folder / f"binlog.{len(names) + 1:06d}"
        names.append(str(name))
        more = _write_file(name, description, groups, buffer, reg, workload.file_size)
        if not more:
            return names, int(reg[k.GROUPS]), int(reg[k.ROWS])


def describe_node(root: str, workload: Workload, node: int) -> k.Node:
    """Return the kernel's view of a node, from its base schema."""
    dump = (Path(root) / "base" / f"{source_id(node)}.sql").read_text()
    tables = physical_tables(dump, node)
    pools = cell_pools(tables, workload.seed)
    commit = parse_dump(dump).tables["__cdc__", "__commit_ts__"]
    bodies = [table_map(t, 0).pack() for t in (*tables, commit)]
    spans = np.array([(sum(map(len, bodies[:i])), len(b)) for i, b in enumerate(bodies)], np.int64)
    number = lambda data: np.frombuffer(data, np.uint8).copy()  # noqa: E731
    return k.Node(
        server_id=101 + node,
        sid=number(_sid(node)),
        status=number(STATUS),
        bqual=number(f"SHOP_{node:06d}_GROUP@0".encode()),
        maps=number(b"".join(bodies)),
        map_spans=spans,
        tables_per_shape=workload.tables_per_shape,
        tables=pools.tables,
        columns=pools.columns,
        cells=pools.cells,
        data=pools.data,
        widest=pools.widest,
    )


def _sid(node: int) -> bytes:
    return uuid.UUID(f"51276e0b-e562-11f1-8ed4-02fc{node + 1:08x}").bytes


def _write_file(
    name: Path, node: k.Node, groups: Ints, buffer: "np.ndarray[Any, Any]", reg: "np.ndarray[Any, Any]", limit: int
) -> bool:
    """Write one file; returns whether another follows."""
    with name.open("wb") as file:
        head = file_head(int(node.server_id), node.sid.tobytes(), int(reg[k.GNO]), FIRST_MILLIS // 1000)
        file.write(head)
        reg[k.BASE], reg[k.SEQUENCE] = len(head), 1
        while True:
            reg[k.OUT] = 0
            k.write_groups(node, groups, buffer, reg, limit)
            file.write(view(buffer)[: int(reg[k.OUT])])
            reg[k.BASE] += reg[k.OUT]
            if reg[k.NEXT_GROUP] >= len(groups) or reg[k.BASE] >= limit:
                break
        body = struct.pack("<Q", 4) + f"{name.stem}.{int(name.suffix[1:]) + 1:06d}".encode()
        stamp, server_id, position = FIRST_MILLIS // 1000, int(node.server_id), int(reg[k.BASE])
        file.write(pack_event(EventType.ROTATE_EVENT, body, timestamp=stamp, server_id=server_id, position=position))
    return bool(reg[k.NEXT_GROUP] < len(groups))


def file_head(server_id: int, sid: bytes, gno: int, timestamp: int) -> bytes:
    """Return magic, FORMAT_DESCRIPTION and PREVIOUS_GTIDS of a file whose first group has the number `gno`."""
    position = len(BINLOG_MAGIC)
    event = pack_event(
        EventType.FORMAT_DESCRIPTION_EVENT, FormatDescription(VERSION).pack(), timestamp=timestamp, server_id=server_id,
        position=position,
    )  # fmt: skip
    earlier = struct.pack("<Q16sQQQ", 1, sid, 1, 1, gno) if gno > 1 else struct.pack("<Q", 0)
    previous = pack_event(
        EventType.PREVIOUS_GTIDS_LOG_EVENT, earlier, timestamp=timestamp, server_id=server_id, flags=0x80,
        position=position + len(event),
    )  # fmt: skip
    return BINLOG_MAGIC + event + previous


def parse_size(text: str) -> int:
    """Read 512MB, 2GB, 1GiB or a plain number of bytes."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMG]?)(i?)B?", text.strip(), re.IGNORECASE)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size like 512MB or 1GiB")
    step = 1024 if match[3] else 1000
    return int(float(match[1]) * step ** " KMG".index(match[2].upper() or " "))


def workload_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that describe a workload."""
    parser.add_argument("--size", type=parse_size, default=Workload.size, help="bytes of all nodes together (2GB)")
    parser.add_argument("--nodes", type=int, default=Workload.nodes)
    parser.add_argument("--unkind", action="store_true", help="out of order, heavy-tailed, skewed")
    parser.add_argument("--distributed", type=float, default=Workload.distributed, help="share of XA transactions")
    parser.add_argument("--shapes", default=",".join(Workload.shapes), help=f"of {', '.join(SHAPES)}")
    parser.add_argument("--seed", type=int, default=Workload.seed)


def workload_of(arguments: argparse.Namespace) -> Workload:
    """Return the workload that the options describe."""
    return Workload(
        size=arguments.size, nodes=arguments.nodes, unkind=arguments.unkind, distributed=arguments.distributed,
        shapes=tuple(arguments.shapes.split(",")), seed=arguments.seed,
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.generate", description=__doc__.splitlines()[0])
    parser.add_argument("out")
    parser.add_argument("--mode", choices=MODES, default="identity")
    workload_arguments(parser)
    arguments = parser.parse_args()
    workload = replace(workload_of(arguments), mode=arguments.mode)
    print(json.dumps(asdict(generate(arguments.out, workload)), indent=1))


if __name__ == "__main__":
    main()
