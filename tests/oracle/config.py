"""What the oracle reads of a case's cluster.yaml, and the names that come out."""

import json
import re
import uuid
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import yaml

from tests.oracle.binlog import OracleError
from tests.oracle.ddl import Catalog, Name, parse_dump

_UNITS = {"": 1, "b": 1, "k": 2**10, "kib": 2**10, "kb": 10**3, "m": 2**20, "mib": 2**20, "mb": 10**6, "g": 2**30,
          "gib": 2**30, "gb": 10**9}  # fmt: skip
_SYSTEM = ("mysql", "sys", "information_schema", "performance_schema")


@dataclass(frozen=True)
class Node:
    source_id: str
    number: int
    files: tuple[Path, ...]
    physical: Catalog | None  # its base dump, where there is one


@dataclass(frozen=True)
class Cluster:
    nodes: tuple[Node, ...]  # by number
    routes: tuple[dict[str, str], ...]
    hidden: tuple[str, ...]  # schemas that never come out
    marker_schema: str
    ddl_record: str
    commit_table: Name
    carrier: str
    logical: Catalog
    cluster_uuid: bytes
    server_id: int
    max_size: int
    anonymous: bool
    basename: str
    clamp: bool = False
    heartbeat: int = 0  # seconds; PolarDB-X's heartbeats come out in multiples of them
    case_sensitive: bool = False

    def logical_name(self, name: Name) -> Name | None:
        """Return where a physical table goes; None if it never comes out.

        A rule for tables beats one for schemas; then plain names beat wildcards.
        """
        schema, table = name
        if schema in _SYSTEM or schema.startswith(self.marker_schema):
            return None
        if any(self._fits(schema, pattern) for pattern in self.hidden):
            return None
        found: dict[tuple[bool, bool], set[Name]] = {}
        for r in self.routes:
            if self._fits(schema, r["schema-pattern"]) and self._fits(table, r.get("table-pattern", "*")):
                wild = re.search(r"[*?\[]", r["schema-pattern"] + r.get("table-pattern", ""))
                rank = ("table-pattern" in r, not wild)
                found.setdefault(rank, set()).add((r["target-schema"], r.get("target-table", table)))
        targets = found[max(found)] if found else {name}
        if len(targets) > 1:
            raise OracleError(f"{schema}.{table} is routed to {sorted(targets)}")
        return next(iter(targets))

    def _fits(self, name: str, pattern: str) -> bool:
        """Tell whether a name fits a pattern; DM's do not tell case apart by default."""
        return fnmatchcase(name, pattern) if self.case_sensitive else fnmatchcase(name.lower(), pattern.lower())


def _size(value: int | str) -> int:
    if isinstance(value, int):
        return value
    digits = value.strip().rstrip("KMGTBikmgtb ")
    return int(digits) * _UNITS[value.strip()[len(digits) :].strip().lower()]


def _numbers(nodes: list[dict[str, Any]]) -> dict[str, int]:
    """Give 1, 2, 3… in source-id order around the numbers that are set."""
    numbers = {n["source-id"]: n["node-number"] for n in nodes if n.get("node-number") is not None}
    free = (i for i in range(1, len(nodes) + len(numbers) + 1) if i not in set(numbers.values()))
    return numbers | {s: next(free) for s in sorted(n["source-id"] for n in nodes) if s not in numbers}


def load(path: Path) -> Cluster:
    """Read cluster.yaml and the dumps it names; relative paths are seen from its folder."""
    folder, raw = path.parent, yaml.safe_load(path.read_text())
    tso, markers, base, output = (raw.get(key) or {} for key in ("commit-tso", "markers", "base", "output"))
    if tso.get("local-tso", "inherit") != "inherit" or base.get("store"):
        raise NotImplementedError("local-tso: use and base.store are not modelled")
    ids = [n["source-id"] for n in raw["nodes"]]
    numbers = _numbers(raw["nodes"])
    dumps = {node: parse_dump((folder / p).read_text()) for node, p in (base.get("physical") or {}).items()}
    nodes = []
    for entry in raw["nodes"]:
        patterns = [entry["files"]] if isinstance(entry["files"], str) else entry["files"]
        files = {f for p in patterns for f in folder.glob(p)}
        binlogs = sorted((f for f in files if f.suffix != ".index"), key=lambda f: (int(f.suffix[1:]), f.name))
        if not binlogs:
            raise OracleError(f"node {entry['source-id']}: no files")
        nodes.append(
            Node(entry["source-id"], numbers[entry["source-id"]], tuple(binlogs), dumps.get(entry["source-id"]))
        )
    if output.get("cluster-uuid"):
        cluster = uuid.UUID(output["cluster-uuid"])
    else:
        space = uuid.uuid5(uuid.NAMESPACE_OID, "binlog-merge")
        cluster = uuid.uuid5(space, json.dumps([raw["name"], sorted(ids)]))
    schema, table = tso.get("commit-table", "__cdc__.__commit_ts__").split(".")
    return Cluster(
        nodes=tuple(sorted(nodes, key=lambda n: n.number)),
        routes=tuple({k: v for k, v in r.items() if v is not None} for r in raw.get("routes") or ()),
        hidden=tuple(raw.get("ignore-schemas") or ()),
        case_sensitive=bool(raw.get("case-sensitive")),
        marker_schema=markers.get("schema", "__cdc__"),
        ddl_record=markers.get("ddl-record", "__cdc_ddl_record__"),
        commit_table=(schema, table),
        carrier=tso.get("carrier", "auto"),
        logical=parse_dump((folder / base["logical"]).read_text()) if base.get("logical") else Catalog(),
        cluster_uuid=cluster.bytes,
        server_id=output.get("server-id", 9001),
        max_size=_size(output.get("max-size", 512 * 2**20)),
        anonymous=output.get("gtid", "on") in ("anonymous", False),
        basename=output.get("basename", "binlog"),
        heartbeat=int(str(output.get("heartbeat") or "0").rstrip("s")) if output.get("heartbeat") != "off" else 0,
        clamp=(raw.get("reshape") or {}).get("on-unconvertible") == "clamp",
    )
