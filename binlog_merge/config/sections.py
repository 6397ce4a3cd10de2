"""The sections of the configuration file about the meaning of binlogs: commit TSOs, markers, schemas, shapes, DDL."""

import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from binlog_merge.config.section import Section
from binlog_merge.config.values import Duration, LocalPath, PlainName, QualifiedName, parse_duration
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
    found = re.fullmatch(r"([+-])(\d{1,2}):([0-5]\d)", value) if isinstance(value, str) else None
    if found is None:
        raise ValueError(f"{value!r} is no offset from UTC; write it in quotes as MySQL does: '+08:00'")
    minutes = int(f"{found[1]}1") * (int(found[2]) * 60 + int(found[3]))
    if not -839 <= minutes <= 840:
        raise ValueError(f"{value!r} is beyond what MySQL allows, -13:59 to +14:00")
    return f"{found[1]}{int(found[2]):02d}:{found[3]}"


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
