"""The sections of the configuration file, each checked by itself.

All values are frozen; keys are written with hyphens, an unknown one is an error.
"""

import re
import uuid
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from binlog_merge.config.extract import Extract, Extractor
from binlog_merge.config.values import (
    Duration,
    LocalPath,
    OutputPlace,
    Patterns,
    PlainName,
    QualifiedName,
    Size,
    parse_duration,
)
from binlog_merge.polardbx.names import MarkerTables
from snapshot_store.server import ServerAddress

MAX_NODE_NUMBER = 999_999  # six digits of the order key's text
MAX_SERVER_ID = 2**32 - 1

NodeNumber = Annotated[int, Field(ge=1, le=MAX_NODE_NUMBER)]
ServerId = Annotated[int, Field(ge=1, le=MAX_SERVER_ID)]


def _kebab(name: str) -> str:
    return name.replace("_", "-")


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=_kebab, populate_by_name=True)


def _uuid_text(value: Any) -> str:
    try:
        return str(uuid.UUID(value))
    except (ValueError, AttributeError, TypeError):
        raise ValueError(f"{value!r} is not a UUID") from None


Uuid = Annotated[str, BeforeValidator(_uuid_text)]


def _servers(value: Any) -> Any:
    """Check the URL of a server, or a list of those that may have the node one after the other."""
    urls = value if isinstance(value, list | tuple) else [value]
    if not urls:
        raise ValueError("should not be empty")
    for url in urls:
        if not isinstance(url, str):
            raise ValueError(f"{url!r} is no server: write mysql://user@host:3306")
    addresses = [str(ServerAddress.parse(url)) for url in urls]
    if twice := {address for address in addresses if addresses.count(address) > 1}:
        raise ValueError(f"{', '.join(sorted(twice))} is there twice")
    return value if isinstance(value, str) else tuple(urls)


Servers = Annotated[str | tuple[str, ...], BeforeValidator(_servers)]


class Node(Section):
    """A storage node and where its binlog files are: without `files`, where a capture of its `server` puts them.

    A list of servers: each may take over from another (`capture.servers`).
    """

    source_id: PlainName
    storage_inst_id: PlainName | None = None
    files: Patterns = Field(default=(), min_length=1)
    server: Servers | None = None
    node_number: NodeNumber | None = None
    server_id: ServerId | None = None
    server_uuid: Uuid | None = None

    @model_validator(mode="after")
    def _check_files(self) -> Self:
        if not self.files and self.server is None:
            raise ValueError("key 'files' is missing; or give the `server` whose files `binlog-merge capture` fetches")
        return self

    @property
    def servers(self) -> tuple[str, ...]:
        """Return the URLs of the node's servers."""
        return (self.server,) if isinstance(self.server, str) else self.server or ()

    @property
    def fails_over(self) -> bool:
        """Return whether another server may have the node by itself."""
        return isinstance(self.server, tuple)


ShardMode = Literal["marker", "pessimistic", "optimistic"]


class _Extract(Section):
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


class RouteRule(Section):
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


class CommitTso(Section):
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


def _overdue(value: Any) -> Any:
    try:
        return None if value is None or value == "alike" else parse_duration(value)
    except ValueError:
        raise ValueError(f"{value!r} is neither `alike` nor a duration; write it as 500ms, 30s or 10m") from None


class Markers(Section):
    """The tables that marker transactions write, and what to do where a marker does not come.

    `missing` is about clusters in which there has never been one. `overdue` is how far behind a node's DDL, in
    microseconds of TSO time, its marker may stand; None: until all physical tables have changed alike.
    """

    # pydantic keeps `schema` for itself, so the attribute has another name than the key.
    schema_name: PlainName = Field(default="__cdc__", alias="schema")
    ddl_record: PlainName = "__cdc_ddl_record__"
    instruction: PlainName = "__cdc_instruction__"
    heartbeat: PlainName = "__cdc_heartbeat__"
    missing: Literal["error", "warn"] = "error"
    overdue: Annotated[int | None, BeforeValidator(_overdue)] = None

    def tables(self) -> MarkerTables:
        """Return the names as the scan needs them."""
        return MarkerTables(self.schema_name, self.ddl_record, self.instruction, self.heartbeat)

    def settings(self) -> dict[str, Any]:
        """Return what decides bytes: not whether to stop, and when to warn."""
        return self.model_dump(by_alias=True, exclude={"missing", "overdue"})


class Base(Section):
    """The schemas before the first file: SQL dumps without data, or a schema store made earlier."""

    logical: LocalPath | None = None
    physical: dict[str, LocalPath] = Field(default_factory=dict)
    store: LocalPath | None = None


class Schemas(Section):
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


class Reshape(Section):
    """How rows are written in the shape of the logical table."""

    on_unconvertible: Literal["error", "clamp", "default"] = "error"
    time_zone: Annotated[str, BeforeValidator(_time_zone)] = "+00:00"

    @property
    def offset(self) -> int:
        """Return how many minutes the time zone is ahead of UTC."""
        hours, minutes = self.time_zone[1:].split(":")
        return int(self.time_zone[0] + "1") * (int(hours) * 60 + int(minutes))


class Ddl(Section):
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


class Output(Section):
    """The merged binlog: where it goes and what it says of itself. `heartbeat` is in seconds of TSO time; 0: none."""

    dir: OutputPlace | None = None
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


def _captured(value: Any) -> Any:
    if value is None or value in ("keep", "needed"):
        return {None: None, "keep": None, "needed": 0}[value]
    try:
        return parse_duration(value)
    except ValueError:
        raise ValueError(f"{value!r} is neither `keep` nor `needed` nor an age; write it as 3d or 12h") from None


class Retention(Section):
    """What goes, and when; without these nothing is removed. Ages are in microseconds.

    `age` and `size` are about the output: a closed file goes if it is older, and while the output is larger.
    `past_readers`: also what attached readers still have to get. `schemas`: with the files, schema versions that only
    moments before the first remaining one can see. `captured`: how old captured files get that no run needs.
    """

    age: Annotated[Duration | None, Field(gt=0)] = None
    size: Annotated[Size | None, Field(gt=0)] = None
    past_readers: bool = False
    schemas: bool = False
    captured: Annotated[int | None, BeforeValidator(_captured)] = None

    @model_validator(mode="after")
    def _check_given(self) -> Self:
        if (self.past_readers or self.schemas) and not self.of_output:
            raise ValueError("past-readers and schemas need an age or a size: without them no file is removed")
        return self

    @property
    def of_output(self) -> bool:
        """Return whether output files are removed at some time."""
        return self.age is not None or self.size is not None


def _spark_text(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


SparkValue = Annotated[str, BeforeValidator(_spark_text)]
