"""The sections of the configuration file, but for nodes and routes.

First those about the meaning of binlogs (commit TSOs, markers, schemas, shapes, DDL), then those of the merged log:
where it goes, what it says of itself, when its files are removed, and where closed ones are sent. Last, `capture`.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from binlog_merge.config.uri import OUTPUT_SCHEMES, is_uri, scheme_of
from binlog_merge.config.values import (
    Duration,
    LocalPath,
    OutputPlace,
    PlainName,
    QualifiedName,
    Section,
    ServerId,
    Size,
    Uuid,
    parse_duration,
)
from binlog_merge.polardbx.names import MarkerTables

Carrier = Literal[
    "auto", "commit-table", "original-commit-timestamp", "original-commit-timestamp-us", "gtid", "polardbx", "gtid-time"
]


class CommitTso(Section):
    """Where the commit TSO of a transaction is found."""

    carrier: Carrier = Field(
        default="auto",
        description="Where binlogs have the commit TSO. `auto`: whatever the first committed transactions carry.",
        examples=["gtid-time"],
    )
    commit_table: QualifiedName = Field(
        default="__cdc__.__commit_ts__",
        description="`carrier: commit-table`: the table into which the coordinator writes it.",
        examples=["cdc.commit_ts"],
    )
    local_tso: Literal["inherit", "use"] = Field(
        default="inherit",
        description="A TSO carried by a transaction of one branch: ignore it (`inherit`), or order by it (`use`).",
        examples=["use"],
    )
    max_disorder: Annotated[int, Field(ge=0, lt=2**63)] = Field(
        default=0,
        description="`local-tso: use`: how far back such a TSO may go, as a difference of TSOs.",
        examples=["4194304000"],
    )
    max_step_back: Duration = Field(
        default=1_000_000,
        description="`carrier: gtid-time`: how far a node's clock may step back without a warning, and while it is "
        "idle.",
        examples=["5s"],
    )
    on_step_back: Literal["warn", "error"] = Field(
        default="warn",
        description="`carrier: gtid-time`: what to do if it steps back further: warn, or stop before the "
        "transactions that follow.",
        examples=["error"],
    )

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
    schema_name: PlainName = Field(
        default="__cdc__", alias="schema", description="The schema of the marker tables.", examples=["cdc"]
    )
    ddl_record: PlainName = Field(
        default="__cdc_ddl_record__", description="The table with markers of DDL.", examples=["ddl_record"]
    )
    instruction: PlainName = Field(
        default="__cdc_instruction__", description="The table with instructions (PolarDB-X).", examples=["instruction"]
    )
    heartbeat: PlainName = Field(
        default="__cdc_heartbeat__", description="The table with heartbeats.", examples=["heartbeat"]
    )
    missing: Literal["error", "warn"] = Field(
        default="error",
        description="What to do at DDL that changes rows in a cluster that has never written a marker: stop, or warn.",
        examples=["warn"],
    )
    overdue: Annotated[int | None, BeforeValidator(_overdue)] = Field(
        default=None,
        description="When to warn of DDL without a marker: when all shards have it (`alike`), or some time after it.",
        examples=["10m"],
    )

    def tables(self) -> MarkerTables:
        """Return the names as the scan needs them."""
        return MarkerTables(self.schema_name, self.ddl_record, self.instruction, self.heartbeat)

    def settings(self) -> dict[str, Any]:
        """Return what decides bytes: not whether to stop, and when to warn."""
        return self.model_dump(by_alias=True, exclude={"missing", "overdue"})


class Base(Section):
    """The schemas before the first file: SQL dumps without data, or a schema store made earlier."""

    logical: LocalPath | None = Field(
        default=None, description="The logical tables: a dump of `mysqldump --no-data`.", examples=["base/logical.sql"]
    )
    physical: dict[str, LocalPath] = Field(
        default_factory=dict,
        description="The physical tables of each node, by source-id.",
        examples=["{dn-1: base/dn-1.sql}"],
    )
    store: LocalPath | None = Field(
        default=None,
        description="A schema store with all of these, as `schema import --nodes` makes it.",
        examples=["base.duckdb"],
    )


class Schemas(Section):
    """What to do where a shape is not known for certain."""

    not_understood: Literal["stop", "opaque"] = Field(
        default="stop",
        description="Where a DDL is not understood or rows fit no definition: stop, or trust the table maps.",
        examples=["opaque"],
    )


def _time_zone(value: Any) -> Any:
    match = re.fullmatch(r"([+-])(\d{1,2}):([0-5]\d)", value) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f"{value!r} is no offset from UTC; write it in quotes as MySQL does: '+08:00'")
    minutes = int(f"{match[1]}1") * (int(match[2]) * 60 + int(match[3]))
    if not -839 <= minutes <= 840:
        raise ValueError(f"{value!r} is beyond what MySQL allows, -13:59 to +14:00")
    return f"{match[1]}{int(match[2]):02d}:{match[3]}"


class Reshape(Section):
    """How rows are written in the shape of the logical table."""

    on_unconvertible: Literal["error", "clamp", "default"] = Field(
        default="error",
        description="A value that its logical column cannot hold: stop, store the nearest (`clamp`), or the "
        "column's default.",
        examples=["clamp"],
    )
    time_zone: Annotated[str, BeforeValidator(_time_zone)] = Field(
        default="+00:00",
        description="The time zone of the sessions that run DDL: for `NOW()` in defaults, and TIMESTAMP to other "
        "types.",
        examples=['"+08:00"'],
    )

    @property
    def offset(self) -> int:
        """Return how many minutes the time zone is ahead of UTC."""
        hours, minutes = self.time_zone[1:].split(":")
        return int(self.time_zone[0] + "1") * (int(hours) * 60 + int(minutes))


class Ddl(Section):
    """How DDL comes out; `private` is the form of statements that only PolarDB-X knows."""

    private: Literal["query", "rows-query", "drop"] = Field(
        default="query",
        description="DDL that only PolarDB-X understands: a comment in a query event, in a Rows_query event, or "
        "nothing.",
        examples=["drop"],
    )


def _spark_text(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


SparkValue = Annotated[str, BeforeValidator(_spark_text)]


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

    dir: OutputPlace | None = Field(
        default=None,
        description="The directory of the merged log, or a URL of an object store. `--merged` overrides it.",
        examples=["merged"],
    )
    basename: str = Field(default="binlog", description="The name of its files before the dot.", examples=["mysql-bin"])
    max_size: Annotated[Size, Field(gt=0)] = Field(
        default=512 * 1024**2,
        description="How many input bytes a file takes before the next one begins. A transaction never spans files.",
        examples=["1GiB"],
    )
    server_id: ServerId = Field(
        default=9001, description="The server id of the merged log, which its replicas see.", examples=["9001"]
    )
    cluster_uuid: Uuid | None = Field(
        default=None,
        description="The UUID of its GTIDs. By default it is derived from `name` and the source-ids.",
        examples=["11111111-2222-3333-4444-555555555555"],
    )
    gtid: Annotated[Literal["on", "anonymous"], BeforeValidator(_gtid_word)] = Field(
        default="on",
        description="Number transactions with GTIDs, or write `anonymous` ones, for replicas with `gtid_mode=OFF`.",
        examples=["anonymous"],
    )
    cts: Literal["begin", "end", "both"] = Field(
        default="begin",
        description="Where a transaction has its order key: at its beginning; `end` and `both` are not for MySQL "
        "replicas.",
        examples=["begin"],
    )
    dependencies: Literal["writeset", "commit-order"] = Field(
        default="writeset",
        description="Which transactions a replica with several workers may apply side by side: `writeset`, those whose "
        "rows have no key in common; `commit-order`, none. A log keeps the one that it was begun with.",
        examples=["commit-order"],
    )
    heartbeat: Annotated[int, BeforeValidator(_interval)] = Field(
        default=0, description="How often to write PolarDB-X's heartbeats, in seconds of TSO time.", examples=["30s"]
    )

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

    age: Annotated[Duration | None, Field(gt=0)] = Field(
        default=None, description="Remove a closed file of the output when it is older.", examples=["7d"]
    )
    size: Annotated[Size | None, Field(gt=0)] = Field(
        default=None, description="Remove the oldest closed files while the output is larger.", examples=["200GB"]
    )
    past_readers: bool = Field(
        default=False,
        description="Also remove files that attached readers of `serve` have not got yet.",
        examples=["true"],
    )
    schemas: bool = Field(
        default=False,
        description="With the files, remove schema versions that only earlier moments can see.",
        examples=["true"],
    )
    captured: Annotated[int | None, BeforeValidator(_captured)] = Field(
        default=None,
        description="Remove captured files that no run needs and that are older; `needed`: at once; `keep`: never.",
        examples=["3d"],
    )

    @model_validator(mode="after")
    def _check_given(self) -> Self:
        if (self.past_readers or self.schemas) and not self.of_output:
            raise ValueError("past-readers and schemas need an age or a size: without them no file is removed")
        return self

    @property
    def of_output(self) -> bool:
        """Return whether output files are removed at some time."""
        return self.age is not None or self.size is not None


class Archive(Section):
    """A folder, or a place in an object store, and how files are compressed there; a text alone is the place."""

    to: OutputPlace = Field(description="A directory, or a URL of an object store.", examples=["s3://bucket/archive"])
    compress: Literal["none", "zstd"] = Field(
        default="none", description="How files are compressed there.", examples=["zstd"]
    )

    @model_validator(mode="before")
    @classmethod
    def _of_text(cls, value: Any) -> Any:
        return {"to": value} if isinstance(value, str) else value


LEAST_PERIOD: Final = 50_000  # microseconds


def _statements(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


def _off_or_duration(value: Any) -> Any:
    return 0 if value is False or value == "off" else parse_duration(value)


class Capture(Section):
    """Where `binlog-merge capture` puts the nodes' files: `dir`/source-id/file.

    `archive` is where closed files are kept as well; a URL as `dir` is short for it. `clock` is how often the servers'
    clocks are asked, in microseconds; 0: never. `lost_after` is how many microseconds a server cannot be reached before
    another of the node's servers may take over.
    """

    dir: LocalPath = Field(
        default="captured", description="The directory: `dir`/source-id/file.", examples=["/var/lib/captured"]
    )
    archive: OutputPlace | None = Field(
        default=None,
        description="Where closed captured files are kept as well, for nodes that purge their binlogs early: a "
        "directory, or a URL of an object store. Such a URL as `dir` is short for it.",
        examples=["s3://bucket/captured"],
    )
    clock: Annotated[int, BeforeValidator(_off_or_duration)] = Field(
        default=500_000,
        description="How often to ask the servers for their clocks, or `off`: see how-to/idle-nodes.md.",
        examples=["1s"],
    )
    lost_after: Duration = Field(
        default=10_000_000,
        description="How long a server cannot be reached before another one of the node may take over.",
        examples=["30s"],
    )

    @model_validator(mode="before")
    @classmethod
    def _of_url(cls, value: Any) -> Any:
        place = value.get("dir") if isinstance(value, Mapping) else None
        if not isinstance(place, str) or not is_uri(place) or scheme_of(place) not in OUTPUT_SCHEMES:
            return value
        if "archive" in value:
            raise ValueError("dir: a URL is short for `archive`, which is given, too: let dir be a local directory")
        return {**{key: one for key, one in value.items() if key != "dir"}, "archive": value["dir"]}

    @field_validator("clock")
    @classmethod
    def _check_clock(cls, value: int) -> int:
        if 0 < value < LEAST_PERIOD:
            raise ValueError("must be at least 50ms, or off")
        return value


LEAST_LEASE: Final = 1_000_000  # microseconds
_LEASE: Final = 10_000_000


class HighAvailability(Section):
    """Who writes where several `run`s of one configuration stand by: see how-to/two-hosts.md.

    `lease` is in microseconds, 0: there is none. None: as long as LEASE for an output in an object store, else none.
    `give_up_after` is in microseconds, 0: never.
    """

    lease: Annotated[int | None, BeforeValidator(_off_or_duration)] = Field(
        default=None,
        description="How long a merge that writes may be silent before one that waits takes over, or `off`. By default "
        "10s where the merged log is in an object store, `off` where it is a folder.",
        examples=["5s"],
    )
    give_up_after: Annotated[int, BeforeValidator(_off_or_duration)] = Field(
        default=60_000_000,
        description="How long a merge that leads may lack a node, or room on its disk, before it hands over to one "
        "that waits and lacks less, or `off`.",
        examples=["2min"],
    )

    @field_validator("lease", "give_up_after")
    @classmethod
    def _check_lease(cls, value: int | None) -> int | None:
        if value is not None and 0 < value < LEAST_LEASE:
            raise ValueError("must be at least 1s, or off")
        return value

    def lease_seconds(self, in_store: bool) -> float | None:
        """Return the lease's time in seconds for an output in an object store, or a folder; None if there is none."""
        lease = (_LEASE if in_store else 0) if self.lease is None else self.lease
        return lease / 1e6 or None


class Heartbeat(Section):
    """Statements that `binlog-merge capture` runs on every node's server, one after the other, every `interval` us."""

    interval: Duration = Field(default=1_000_000, description="How often the statements run.", examples=["5s"])
    statement: Annotated[tuple[str, ...], BeforeValidator(_statements), Field(min_length=1)] = Field(
        description="A statement or a list of them; `{id}` becomes a new id each time.",
        examples=["CALL cluster.heartbeat('{id}')"],
    )

    @field_validator("interval")
    @classmethod
    def _check_interval(cls, value: int) -> int:
        if value < LEAST_PERIOD:
            raise ValueError("must be at least 50ms")
        return value
