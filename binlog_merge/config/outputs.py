"""The sections of the merged log: where it goes, what it says of itself, and when its files are removed."""

import re
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from binlog_merge.config.section import Section, ServerId, Uuid
from binlog_merge.config.values import Duration, OutputPlace, Size, parse_duration


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
    dependencies: Literal["commit-order", "writeset"] = Field(
        default="commit-order",
        description="Which transactions a replica with several workers may apply side by side: `commit-order`, none; "
        "`writeset`, those whose rows have no key in common.",
        examples=["writeset"],
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
