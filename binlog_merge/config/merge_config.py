"""The configuration of a merge: a YAML file with DM's terms, checked before anything runs.

All values are frozen. Paths are resolved against the file's folder on load, so the value means the same from any
directory. The settings that determine the output's bytes are available separately (`settings`), since continuing an
output with other settings must be refused.

`topology_of` builds the topology from a configuration's routes.
"""

import glob
import hashlib
import json
import os
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from binlog_merge.config import held
from binlog_merge.config.nodes import CaseOfNames, Node, read_server_note
from binlog_merge.config.routes import CopyRule, RouteRule, ShardMode
from binlog_merge.config.sections import (
    Archive,
    Base,
    Capture,
    CommitTso,
    Ddl,
    Heartbeat,
    HighAvailability,
    Markers,
    Output,
    Reshape,
    Retention,
    Schemas,
    SparkValue,
)
from binlog_merge.config.values import LocalPath, PlainName, QualifiedName, Section, resolve_glob, resolve_path
from binlog_merge.config.yaml import YamlDocument, explain, load_yaml
from binlog_merge.errors import ConfigError
from snapshot_store.topology import SYSTEM_SCHEMAS, Copy, Route, Topology

CLUSTER_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_OID, "binlog-merge")


class MergeConfig(Section):
    """The configuration of a cluster to merge; made by `MergeConfig.load(path)`."""

    version: Literal[1] = Field(description="The version of the file's format.", examples=["1"])
    name: PlainName = Field(
        description="The cluster's name. The output belongs to it, and the UUID of its GTIDs is made from it and "
        "the source-ids.",
        examples=["orders-prod"],
    )
    nodes: tuple[Node, ...] = Field(min_length=1, description="The nodes, at least one.")
    routes: tuple[RouteRule, ...] = Field(
        default=(), description="Which physical tables make up a logical one. A table without a route keeps its name."
    )
    copies: tuple[CopyRule, ...] = Field(
        default=(), description="Tables that every node has in full, as reference tables: those of one node come out."
    )
    shard_mode: ShardMode = Field(
        default="marker",
        description="How the logical DDL is found: announced by markers, or derived from the shards' DDL.",
        examples=["pessimistic"],
    )
    shard_doubts: Literal["warn", "error"] = Field(
        default="error",
        description="What to do where shards and logical table would hold different data: stop, or warn and continue.",
        examples=["warn"],
    )
    log_doubts: Literal["warn", "error"] = Field(
        default="error",
        description="What to do at transactions that occur twice or are missing: stop, or warn and continue.",
        examples=["warn"],
    )
    key_doubts: Literal["warn", "error"] = Field(
        default="error",
        description=(
            "What to do with rows that a key refuses in any order, of two shards or of one distributed transaction: "
            "stop before them, or let them out and warn."
        ),
        examples=["warn"],
    )
    online_ddl: bool = Field(
        default=True,
        description="Recognize the tables of gh-ost, pt-online-schema-change, spirit and Vitess by what these write, "
        "without markers: their copies are ALTERs of the tables copied, and do not come out themselves.",
        examples=["false"],
    )
    topology: Literal["auto", "markers", "routes"] = Field(
        default="auto",
        description="Where tables are: as PolarDB-X's markers announce, as `routes` say, or markers if there are any.",
        examples=["routes"],
    )
    case_sensitive: bool = Field(
        default=False,
        description="Whether patterns of `routes`, `ignore-schemas` and `ignore-transactions` are case-sensitive.",
        examples=["true"],
    )
    lower_case_table_names: CaseOfNames | None = Field(
        default=None,
        description="`lower-case-table-names` of the nodes that do not say it themselves. By default what `capture` "
        "was told by each server, else 0.",
        examples=["1"],
    )
    ignore_schemas: tuple[PlainName, ...] = Field(
        default=(),
        description="Schemas that are left out of the output, beside `mysql`, `sys` and the markers' schema.",
        examples=["[scratch, idle]"],
    )
    ignore_transactions: tuple[QualifiedName, ...] = Field(
        default=(),
        description="Tables, or patterns of some: a transaction that changes one of them is left out with all its "
        "rows. For tools that copy rows from node to node and note in each such transaction how far they are.",
        examples=["[_vt.vreplication, _vt.copy_state]"],
    )
    commit_tso: CommitTso = Field(
        default_factory=CommitTso, description="Where a transaction's commit TSO is found, and how far to trust it."
    )
    markers: Markers = Field(
        default_factory=Markers, description="The tables that announce DDL, and what to do where a marker is missing."
    )
    base: Base = Field(
        default_factory=Base,
        description="The schemas where the binlogs begin. None is needed if they begin with the CREATE TABLEs.",
    )
    reshape: Reshape = Field(
        default_factory=Reshape, description="How rows are written that do not have the shape of their logical table."
    )
    schemas: Schemas = Field(
        default_factory=Schemas, description="What to do where a table's definition is not known for certain."
    )
    ddl: Ddl = Field(default_factory=Ddl, description="How DDL is written.")
    filter: LocalPath | None = Field(
        default=None,
        description="A filter file in TiCDC's or DM's format: which tables, rows and statements are written.",
        examples=["changefeed.toml"],
    )
    check_rows: Literal["auto", "always"] = Field(
        default="auto",
        description="Check the cells of rows without a checksum (`auto`), or of all rows (`always`).",
        examples=["always"],
    )
    capture: Capture = Field(
        default_factory=Capture, description="Where `capture` keeps the binlogs of nodes with a `server`."
    )
    heartbeat: Heartbeat | None = Field(
        default=None,
        description="Statements that `capture --stop-never` runs on every node, so that idle nodes hold nobody back.",
    )
    output: Output = Field(default_factory=Output, description="The merged log.")
    ha: HighAvailability = Field(
        default_factory=HighAvailability, description="Who writes, where several stand by to do it."
    )
    retention: Retention = Field(default_factory=Retention, description="When files are removed. Without it none is.")
    archive: Archive | None = Field(
        default=None,
        description="Where closed files of the output are sent. A text is short for `archive.to`.",
        examples=["s3://bucket/archive"],
    )
    spark: dict[str, SparkValue] = Field(
        default_factory=dict, description="Options of Spark, by name.", examples=["{spark.driver.memory: 2g}"]
    )

    @model_validator(mode="after")
    def _check_nodes(self) -> Self:
        ids = [node.source_id for node in self.nodes]
        if twice := sorted({i for i in ids if ids.count(i) > 1}):
            raise ValueError(f"nodes: source-id {', '.join(twice)} is given twice")
        numbers = [node.node_number for node in self.nodes if node.node_number is not None]
        if again := sorted({n for n in numbers if numbers.count(n) > 1}):
            raise ValueError(f"nodes: node-number {', '.join(map(str, again))} is given twice")
        if self.archive is not None and self.retention.schemas:
            raise ValueError("retention.schemas: archived files are read with the schemas they had; leave it out")
        if strangers := sorted(set(self.base.physical) - set(ids)):
            raise ValueError(f"base.physical: no node has the source-id {', '.join(strangers)}")
        return self

    @model_validator(mode="after")
    def _check_shards(self) -> Self:
        modes: dict[tuple[str, str | None], ShardMode] = {}
        keys: dict[tuple[str, str | None], tuple[str, ...]] = {}
        for route in self.routes:
            target = (route.target_schema, route.target_table)
            mode = route.shard_mode or self.shard_mode
            if route.target_table is not None and modes.setdefault(target, mode) != mode:
                raise ValueError(
                    f"routes: {'.'.join(map(str, target))} is {modes[target]} by one route and {mode} by another: "
                    "all shards of a table have one shard-mode"
                )
            if route.target_table is not None and keys.setdefault(target, route.keys()) != route.keys():
                raise ValueError(
                    f"routes: {'.'.join(map(str, target))} has {', '.join(keys[target]) or 'no column'} with key: true "
                    f"by one route and {', '.join(route.keys()) or 'none'} by another: all shards have the same"
                )
        for i, route in enumerate(self.routes):
            route.check(f"routes[{i}]", [node.source_id for node in self.nodes], self.shard_mode)
        for i, copy in enumerate(self.copies):
            copy.check(f"copies[{i}]", [node.source_id for node in self.nodes])
        if self.coordinates and self.topology == "markers":
            raise ValueError(
                "topology: markers, but with a shard-mode other than marker only routes say where tables lie"
            )
        return self

    @property
    def coordinates(self) -> bool:
        """Return whether DDL of some tables is coordinated without markers."""
        return any(mode != "marker" for mode in (self.shard_mode, *(r.shard_mode or "marker" for r in self.routes)))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "MergeConfig":
        """Read and check a configuration file. Raises ConfigError that names file, line and the nearest known key."""
        absolute = Path(path).absolute()
        return cls.from_document(load_yaml(absolute, name=str(path)), absolute.parent, str(path))

    @classmethod
    def from_document(cls, document: YamlDocument, folder: Path, name: str) -> "MergeConfig":
        """Check parsed YAML; relative paths are resolved against `folder`, `name` is the file's name in errors."""
        try:
            config = cls.model_validate(document.values, by_alias=True, by_name=False)
        except ValidationError as error:
            raise explain(cls, error, document, name) from None
        return config._resolved(folder.absolute())

    def _resolved(self, folder: Path) -> "MergeConfig":
        def path(value: str | None) -> str | None:
            return None if value is None else resolve_path(value, folder)

        places = {"dir": resolve_path(self.capture.dir, folder), "archive": path(self.capture.archive)}
        capture = self.capture.model_copy(update=places)

        def files(node: Node) -> tuple[str, ...]:
            if not node.files:
                return (_captured_glob(capture.dir, node),)
            return tuple(resolve_glob(pattern, folder) for pattern in node.files)

        nodes = tuple(node.model_copy(update={"files": files(node)}) for node in self.nodes)
        base = self.base.model_copy(
            update={
                "logical": path(self.base.logical),
                "physical": {node: resolve_path(p, folder) for node, p in self.base.physical.items()},
                "store": path(self.base.store),
            }
        )
        output = self.output.model_copy(update={"dir": path(self.output.dir)})
        changed = {"nodes": nodes, "base": base, "capture": capture, "output": output, "filter": path(self.filter)}
        if self.archive is not None:
            changed["archive"] = self.archive.model_copy(update={"to": path(self.archive.to)})
        return self.model_copy(update=changed)

    def captured_folders(self) -> dict[str, Path]:
        """Return the folders of the nodes whose files a capture fetches, by source-id: not those with own `files`."""
        captured = (node for node in self.nodes if node.files == (_captured_glob(self.capture.dir, node),))
        return {node.source_id: Path(self.capture.dir) / node.source_id for node in captured}

    def with_captured_settings(self) -> "MergeConfig":
        """Return the configuration with what a capture was told by each server, where nothing is said.

        Raises ConfigError for a damaged note.
        """
        folders = self.captured_folders()

        def told(node: Node) -> Node:
            said = node.lower_case_table_names
            said = self.lower_case_table_names if said is None else said
            if said is None and node.source_id in folders:
                said = read_server_note(folders[node.source_id])
            return node.model_copy(update={"lower_case_table_names": said})

        return self.model_copy(update={"nodes": tuple(told(node) for node in self.nodes)})

    def continuing(self, begun_with: Mapping[str, Any]) -> "MergeConfig":
        """Return the configuration for a log that was begun with these `settings()`.

        A log keeps its `output.dependencies` where the configuration does not say which.
        """
        if "dependencies" in self.output.model_fields_set:
            return self
        kept = begun_with.get("output.dependencies", "commit-order")
        return self.model_copy(update={"output": self.output.model_copy(update={"dependencies": kept})})

    def folding(self) -> frozenset[str]:
        """Return the nodes whose names of tables and databases are in lower case, by source-id."""
        named = self.with_captured_settings().nodes
        return frozenset(node.source_id for node in named if node.lower_case_table_names)

    def node(self, source_id: str) -> Node:
        """Return a node by its source-id; raises KeyError."""
        for node in self.nodes:
            if node.source_id == source_id:
                return node
        raise KeyError(source_id)

    def node_numbers(self, known: Mapping[str, int] | None = None) -> dict[str, int]:
        """Return the number of every node, which breaks ties in the order key.

        Numbers are given 1, 2, 3… in sorted source-id order around those set explicitly. `known` are the numbers an
        output was begun with: they stay, and a node that joins later gets the next one after them.
        """
        numbers = dict(known or {})
        for node in sorted(self.nodes, key=lambda n: n.source_id):
            if node.node_number is None:
                continue
            if numbers.get(node.source_id, node.node_number) != node.node_number:
                raise ConfigError(
                    f"node-number {node.node_number} differs from {numbers[node.source_id]}, "
                    "with which this output was begun",
                    node=node.source_id,
                    remedy="remove node-number from the configuration, or choose another --merged",
                )
            numbers[node.source_id] = node.node_number
        if len(set(numbers.values())) < len(numbers):
            raise ConfigError(f"two nodes would have the same number: {numbers}", remedy="choose another node-number")
        taken, number = set(numbers.values()), max((known or {}).values(), default=0)
        for source_id in sorted(node.source_id for node in self.nodes if node.source_id not in numbers):
            number += 1
            while number in taken:
                number += 1
            numbers[source_id] = number
        return numbers

    def copied_from(self, rule: CopyRule) -> str:
        """Return the source-id of the node whose copy of a table comes out."""
        if rule.source is not None:
            return rule.source
        numbers = self.node_numbers()
        return min(numbers, key=lambda name: numbers[name])

    def cluster_uuid(self) -> str:
        """Return the UUID of the output's GTIDs: the configured one, or one derived from name and source-ids."""
        if self.output.cluster_uuid is not None:
            return self.output.cluster_uuid
        text = json.dumps([self.name, sorted(node.source_id for node in self.nodes)])
        return str(uuid.uuid5(CLUSTER_NAMESPACE, text))

    def settings(self) -> dict[str, Any]:
        """Return all settings that determine the output's bytes, as flat plain values by key.

        Left out are paths of files, Spark options, what the manifest checks by itself (node numbers, cluster UUID,
        carrier), and `check-rows`, which changes nothing. Also left out are settings that a user changes to continue
        after a stop: `reshape.on-unconvertible`; `lower-case-table-names`; `commit-tso.max-disorder`, which moves only
        the watermark and is raised after a late transaction; `schemas.not-understood` and `log-doubts`, which decide
        only whether to stop; `retention`, `archive`.
        Base schemas count by content, so the files may move.
        """
        values: dict[str, Any] = {
            "name": self.name,
            "routes": sorted(json.dumps(r.settings(), sort_keys=True) for r in self.routes),
            "ignore-schemas": sorted(set(self.ignore_schemas)),
            "commit-tso.commit-table": self.commit_tso.commit_table,
            "commit-tso.local-tso": self.commit_tso.local_tso,
            "base.logical": _digest(self.base.logical),
        }
        values |= {f"markers.{key}": value for key, value in self.markers.settings().items()}
        values |= {f"base.physical.{node}": _digest(path) for node, path in sorted(self.base.physical.items())}
        if self.copies:
            # With the node that is meant: one that joins later, and sorts before it, does not take its place.
            values["copies"] = sorted(
                f"{c.schema_pattern}.{c.table_pattern} from {self.copied_from(c)}" for c in self.copies
            )
        if self.reshape.offset:
            values["reshape.time-zone"] = self.reshape.time_zone
        if self.topology != "auto":
            values["topology"] = self.topology
        if self.shard_mode != "marker":
            values["shard-mode"] = self.shard_mode
        if self.coordinates and not self.online_ddl:
            values["online-ddl"] = False
        if self.ignore_transactions:
            values["ignore-transactions"] = sorted(set(self.ignore_transactions))
        if self.case_sensitive:
            values["case-sensitive"] = True
        if self.ddl.private != "query":
            values["ddl.private"] = self.ddl.private
        if self.filter is not None:
            values["filter"] = _digest(self.filter)
        if self.output.cts != "begin":
            values["output.cts"] = self.output.cts
        if self.output.dependencies != "commit-order":  # as of all logs that were begun before there was another one
            values["output.dependencies"] = self.output.dependencies
        if self.output.heartbeat:
            values["output.heartbeat"] = self.output.heartbeat
        output = self.output.model_dump(by_alias=True)
        values |= {f"output.{key}": output[key] for key in ("basename", "max-size", "server-id", "gtid")}
        return values

    def fingerprint(self) -> str:
        """Return the sha256 of `settings()`, kept in the manifest."""
        return fingerprint_of(self.settings())


def _captured_glob(folder: str, node: Node) -> str:
    return f"{glob.escape(folder)}/{glob.escape(node.source_id)}/*"


def fingerprint_of(settings: Mapping[str, Any]) -> str:
    """Return the sha256 of settings in their canonical text form."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return a text for each setting that differs: "output.max-size was 512, is now 1024"."""
    return [
        f"{key} was {before.get(key)!r}, is now {now.get(key)!r}"
        for key in sorted({*before, *now})
        if before.get(key) != now.get(key)
    ]


def config_schema() -> dict[str, Any]:
    """Return the JSON schema of the configuration file, for editors."""
    return MergeConfig.model_json_schema(by_alias=True)


def _digest(path: str | None) -> str | None:
    if path is None:
        return None
    try:
        return hashlib.sha256(held.read(path)).hexdigest()
    except OSError as error:
        raise ConfigError(f"cannot read the base schema: {error.strerror}", file=path) from error


def topology_of(config: MergeConfig) -> Topology:
    """Return the topology of a configuration: its routes, and the schemas that are never in the output."""
    routes = tuple(route_of(rule, config) for rule in config.routes)
    commit_schema, _ = config.commit_tso.commit_table_name
    ignored = {*SYSTEM_SCHEMAS, config.markers.schema_name, commit_schema, *config.ignore_schemas}
    if config.markers.schema_name.startswith("__"):
        ignored.add(f"{config.markers.schema_name}_*")  # under their physical names
    fold = not config.case_sensitive
    copies = (Copy(c.schema_pattern, c.table_pattern, config.copied_from(c), fold) for c in config.copies)
    transactions = frozenset(config.ignore_transactions)
    return Topology(routes, frozenset(ignored), (), fold, tuple(copies), config.folding(), transactions)


def route_of(rule: RouteRule, config: MergeConfig) -> Route:
    """Return a route of a configuration."""
    return Route(
        rule.schema_pattern,
        rule.table_pattern or "",
        rule.target_schema,
        rule.target_table or "",
        rule.source_pattern or "*",
        fold=not config.case_sensitive,
    )
