"""The configuration of a merge: one YAML file, in DM's words, checked before anything runs.

All values are frozen. Paths are resolved against the file's folder on load, so the value means the same from any
directory. What decides the output's bytes is kept apart (`settings`), since continuing an output with other settings
must be refused.
"""

import hashlib
import json
import os
import re
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator, model_validator

from binlog_merge.config_errors import explain
from binlog_merge.config_values import (
    Duration,
    Patterns,
    PlainName,
    QualifiedName,
    Size,
    is_uri,
    parse_duration,
    resolve_glob,
    resolve_path,
)
from binlog_merge.config_yaml import YamlDocument, load_yaml
from binlog_merge.errors import ConfigError
from binlog_merge.polardbx.names import MarkerTables
from binlog_merge.shard.routes import Extract, Extractor

CLUSTER_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_OID, "binlog-merge")

MAX_NODE_NUMBER = 999_999  # six digits of the order key's text
MAX_SERVER_ID = 2**32 - 1

NodeNumber = Annotated[int, Field(ge=1, le=MAX_NODE_NUMBER)]
ServerId = Annotated[int, Field(ge=1, le=MAX_SERVER_ID)]


def _kebab(name: str) -> str:
    return name.replace("_", "-")


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=_kebab, populate_by_name=True)


def _uuid_text(value: Any) -> str:
    try:
        return str(uuid.UUID(value))
    except (ValueError, AttributeError, TypeError):
        raise ValueError(f"{value!r} is not a UUID") from None


Uuid = Annotated[str, BeforeValidator(_uuid_text)]


class Node(_Section):
    """A storage node and where its binlog files are."""

    source_id: PlainName
    storage_inst_id: PlainName | None = None
    files: Patterns = Field(min_length=1)
    node_number: NodeNumber | None = None
    server_id: ServerId | None = None
    server_uuid: Uuid | None = None


ShardMode = Literal["marker", "pessimistic", "optimistic"]


class _Extract(_Section):
    target_column: PlainName

    @model_validator(mode="after")
    def _check_regexp(self) -> Self:
        self.extractor()
        return self

    def extractor(self) -> Extractor:
        """Return what takes the value out of a name."""
        values = self.model_dump()
        return Extractor(next(v for k, v in values.items() if k != "target_column"), self.target_column)


class ExtractTable(_Extract):
    """Part of a physical table's name as a column of the logical table."""

    table_regexp: str


class ExtractSchema(_Extract):
    """Part of a physical schema's name as a column of the logical table."""

    schema_regexp: str


class ExtractSource(_Extract):
    """Part of a node's source-id as a column of the logical table."""

    source_regexp: str


class RouteRule(_Section):
    """Which physical tables make a logical table; DM's `routes`. Patterns know `*`, `?` and `[a-z]`."""

    schema_pattern: PlainName
    table_pattern: PlainName | None = None
    target_schema: PlainName
    target_table: PlainName | None = None
    shard_mode: ShardMode | None = None
    extract_table: ExtractTable | None = None
    extract_schema: ExtractSchema | None = None
    extract_source: ExtractSource | None = None

    @model_validator(mode="after")
    def _check_pair(self) -> Self:
        if self.target_table is not None and self.table_pattern is None:
            raise ValueError("target-table needs a table-pattern")
        self.extract()
        return self

    def extract(self) -> Extract | None:
        """Return what the route writes into columns of the logical table."""
        rules = (self.extract_table, self.extract_schema, self.extract_source)
        return Extract(*(None if r is None else r.extractor() for r in rules)) if any(rules) else None

    def settings(self) -> dict[str, Any]:
        """Return the route as plain values; what was added to routes later only where it is set."""
        values = self.model_dump(by_alias=True)
        always = ("schema-pattern", "table-pattern", "target-schema", "target-table")
        return {name: value for name, value in values.items() if name in always or value is not None}


Carrier = Literal[
    "auto", "commit-table", "original-commit-timestamp", "original-commit-timestamp-us", "gtid", "polardbx", "gtid-time"
]


class CommitTso(_Section):
    """Where the commit TSO of a transaction is found."""

    carrier: Carrier = "auto"
    commit_table: QualifiedName = "__cdc__.__commit_ts__"
    local_tso: Literal["inherit", "use"] = "inherit"
    max_disorder: Annotated[int, Field(ge=0, lt=2**63)] = 0
    max_step_back: Duration = 1_000_000
    on_step_back: Literal["warn", "error"] = "warn"

    @property
    def commit_table_name(self) -> tuple[str, str]:
        """Return the commit table as (schema, table)."""
        schema, table = self.commit_table.split(".")
        return schema, table


class Markers(_Section):
    """The tables that marker transactions write."""

    # pydantic keeps `schema` for itself, so the attribute has another name than the key.
    schema_name: PlainName = Field(default="__cdc__", alias="schema")
    ddl_record: PlainName = "__cdc_ddl_record__"
    instruction: PlainName = "__cdc_instruction__"
    heartbeat: PlainName = "__cdc_heartbeat__"

    def tables(self) -> MarkerTables:
        """Return the names as the scan needs them."""
        return MarkerTables(self.schema_name, self.ddl_record, self.instruction, self.heartbeat)


class Base(_Section):
    """The schemas before the first file: SQL dumps without data, or a schema store made earlier."""

    logical: str | None = None
    physical: dict[str, str] = Field(default_factory=dict)
    store: str | None = None


class Schemas(_Section):
    """What to do where a shape is not known for certain."""

    not_understood: Literal["stop", "opaque"] = "stop"


def _time_zone(value: Any) -> Any:
    found = re.fullmatch(r"([+-])(\d{1,2}):([0-5]\d)", value) if isinstance(value, str) else None
    if found is None:
        raise ValueError(f"{value!r} is no offset from UTC; write it in quotes as MySQL does: '+08:00'")
    minutes = int(f"{found[1]}1") * (int(found[2]) * 60 + int(found[3]))
    if not -839 <= minutes <= 840:
        raise ValueError(f"{value!r} is beyond what MySQL allows, -13:59 to +14:00")
    return f"{found[1]}{int(found[2]):02d}:{found[3]}"


class Reshape(_Section):
    """How rows are written in the shape of the logical table."""

    on_unconvertible: Literal["error", "clamp", "default"] = "error"
    time_zone: Annotated[str, BeforeValidator(_time_zone)] = "+00:00"

    @property
    def offset(self) -> int:
        """Return how many minutes the time zone is ahead of UTC."""
        hours, minutes = self.time_zone[1:].split(":")
        return int(self.time_zone[0] + "1") * (int(hours) * 60 + int(minutes))


class Ddl(_Section):
    """How DDL comes out; `private` is the form of statements that only PolarDB-X knows."""

    private: Literal["query", "rows-query", "drop"] = "query"


def _gtid_word(value: Any) -> Any:
    # YAML 1.1 reads an unquoted on/off as true/false.
    return {True: "on", False: "anonymous"}[value] if isinstance(value, bool) else value


def _interval(value: Any) -> Any:
    microseconds = 0 if value is False or value == "off" else parse_duration(value)
    if microseconds % 1_000_000:
        raise ValueError(f"{value!r} is no number of whole seconds; write it as 30s")
    return microseconds // 1_000_000


class Output(_Section):
    """The merged binlog: where it goes and what it says of itself. `heartbeat` is in seconds of TSO time; 0: none."""

    dir: str | None = None
    basename: str = "binlog"
    max_size: Annotated[Size, Field(gt=0)] = 512 * 1024**2
    server_id: ServerId = 9001
    cluster_uuid: Uuid | None = None
    gtid: Annotated[Literal["on", "anonymous"], BeforeValidator(_gtid_word)] = "on"
    cts: Literal["begin", "end", "both"] = "begin"
    heartbeat: Annotated[int, BeforeValidator(_interval)] = 0

    @field_validator("basename")
    @classmethod
    def _check_basename(cls, value: str) -> str:
        # The name goes into ROTATE events and the index file, and a replica makes a file of it.
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}", value) or ".." in value:
            raise ValueError("may contain letters, digits, _ - and . only, and does not begin with a dot")
        return value

    @field_validator("dir")
    @classmethod
    def _check_dir(cls, value: str | None) -> str | None:
        if value is not None and is_uri(value):
            raise ValueError("must be a local (or mounted) directory: the output is published by rename and fsync")
        return value


def _spark_text(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


SparkValue = Annotated[str, BeforeValidator(_spark_text)]


class MergeConfig(_Section):
    """One cluster to merge. `MergeConfig.load(path)` is the way to make one."""

    version: Literal[1]
    name: PlainName
    nodes: tuple[Node, ...] = Field(min_length=1)
    routes: tuple[RouteRule, ...] = ()
    shard_mode: ShardMode = "marker"
    shard_doubts: Literal["warn", "error"] = "warn"
    online_ddl: bool = True
    topology: Literal["auto", "markers", "routes"] = "auto"
    ignore_schemas: tuple[PlainName, ...] = ()
    commit_tso: CommitTso = Field(default_factory=CommitTso)
    markers: Markers = Field(default_factory=Markers)
    base: Base = Field(default_factory=Base)
    reshape: Reshape = Field(default_factory=Reshape)
    schemas: Schemas = Field(default_factory=Schemas)
    ddl: Ddl = Field(default_factory=Ddl)
    filter: str | None = None
    output: Output = Field(default_factory=Output)
    spark: dict[str, SparkValue] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check_nodes(self) -> Self:
        ids = [node.source_id for node in self.nodes]
        if twice := sorted({i for i in ids if ids.count(i) > 1}):
            raise ValueError(f"nodes: source-id {', '.join(twice)} is given twice")
        numbers = [node.node_number for node in self.nodes if node.node_number is not None]
        if again := sorted({n for n in numbers if numbers.count(n) > 1}):
            raise ValueError(f"nodes: node-number {', '.join(map(str, again))} is given twice")
        if strangers := sorted(set(self.base.physical) - set(ids)):
            raise ValueError(f"base.physical: no node has the source-id {', '.join(strangers)}")
        return self

    @model_validator(mode="after")
    def _check_shards(self) -> Self:
        modes: dict[tuple[str, str | None], ShardMode] = {}
        for route in self.routes:
            target = (route.target_schema, route.target_table)
            mode = route.shard_mode or self.shard_mode
            if route.target_table is not None and modes.setdefault(target, mode) != mode:
                raise ValueError(
                    f"routes: {'.'.join(map(str, target))} is {modes[target]} by one route and {mode} by another: "
                    "all shards of a table have one shard-mode"
                )
        if self.coordinates and self.topology == "markers":
            raise ValueError(
                "topology: markers, but with a shard-mode other than marker only routes say where tables lie"
            )
        return self

    @property
    def coordinates(self) -> bool:
        """Tell whether DDL of some tables is coordinated without markers."""
        return any(mode != "marker" for mode in (self.shard_mode, *(r.shard_mode or "marker" for r in self.routes)))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "MergeConfig":
        """Read and check a configuration file. Raises ConfigError that names file, line and the nearest known key."""
        absolute = Path(path).absolute()
        return cls.from_document(load_yaml(absolute), absolute.parent, str(path))

    @classmethod
    def from_document(cls, document: YamlDocument, folder: Path, name: str) -> "MergeConfig":
        """Check parsed YAML; relative paths are seen from `folder`, `name` stands for the file in errors."""
        try:
            config = cls.model_validate(document.values, by_alias=True, by_name=False)
        except ValidationError as error:
            raise explain(cls, error, document, name) from None
        return config._resolved(folder.absolute())

    def _resolved(self, folder: Path) -> "MergeConfig":
        def path(value: str | None) -> str | None:
            return None if value is None else resolve_path(value, folder)

        nodes = tuple(
            node.model_copy(update={"files": tuple(resolve_glob(f, folder) for f in node.files)}) for node in self.nodes
        )
        base = self.base.model_copy(
            update={
                "logical": path(self.base.logical),
                "physical": {node: resolve_path(p, folder) for node, p in self.base.physical.items()},
                "store": path(self.base.store),
            }
        )
        output = self.output.model_copy(update={"dir": path(self.output.dir)})
        return self.model_copy(update={"nodes": nodes, "base": base, "output": output, "filter": path(self.filter)})

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
                    remedy="remove node-number from the configuration, or choose another --out",
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

    def cluster_uuid(self) -> str:
        """Return the UUID of the output's GTIDs: the configured one, or one derived from name and source-ids."""
        if self.output.cluster_uuid is not None:
            return self.output.cluster_uuid
        text = json.dumps([self.name, sorted(node.source_id for node in self.nodes)])
        return str(uuid.uuid5(CLUSTER_NAMESPACE, text))

    def settings(self) -> dict[str, Any]:
        """Return everything configured that decides the output's bytes, as flat plain values by key.

        Not in it: where files are, the Spark options, and what the manifest checks by itself (node numbers, cluster
        UUID, carrier). `reshape.on-unconvertible` is a cure for a merge that stopped. `commit-tso.max-disorder` moves
        only the watermark, and raising it is the cure for a late
        transaction; `schemas.not-understood` says only whether to stop, and changing it is a cure too. Base schemas
        count by content, so the files may move.
        """
        values: dict[str, Any] = {
            "name": self.name,
            "routes": sorted(json.dumps(r.settings(), sort_keys=True) for r in self.routes),
            "ignore-schemas": sorted(set(self.ignore_schemas)),
            "commit-tso.commit-table": self.commit_tso.commit_table,
            "commit-tso.local-tso": self.commit_tso.local_tso,
            "base.logical": _digest(self.base.logical),
        }
        values |= {f"markers.{key}": value for key, value in self.markers.model_dump(by_alias=True).items()}
        values |= {f"base.physical.{node}": _digest(path) for node, path in sorted(self.base.physical.items())}
        if self.reshape.offset:
            values["reshape.time-zone"] = self.reshape.time_zone
        if self.topology != "auto":
            values["topology"] = self.topology
        if self.shard_mode != "marker":
            values["shard-mode"] = self.shard_mode
        if self.coordinates and not self.online_ddl:
            values["online-ddl"] = False
        if self.ddl.private != "query":
            values["ddl.private"] = self.ddl.private
        if self.filter is not None:
            values["filter"] = _digest(self.filter)
        if self.output.cts != "begin":
            values["output.cts"] = self.output.cts
        if self.output.heartbeat:
            values["output.heartbeat"] = self.output.heartbeat
        output = self.output.model_dump(by_alias=True)
        values |= {f"output.{key}": output[key] for key in ("basename", "max-size", "server-id", "gtid")}
        return values

    def fingerprint(self) -> str:
        """Return the sha256 of `settings()`, kept in the manifest."""
        return fingerprint_of(self.settings())


def fingerprint_of(settings: Mapping[str, Any]) -> str:
    """Return the sha256 of settings in their one canonical text form."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return one line per setting that differs, in words: "output.max-size was 512, is now 1024"."""
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
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError as error:
        raise ConfigError(f"cannot read the base schema: {error.strerror}", file=path) from error
