"""The sections of the configuration file for `binlog-merge capture`."""

from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field, field_validator

from binlog_merge.config.section import Section
from binlog_merge.config.values import Duration, LocalPath, parse_duration

LEAST_PERIOD: Final = 50_000  # microseconds


def _statements(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


def _off_or_duration(value: Any) -> Any:
    return 0 if value is False or value == "off" else parse_duration(value)


class Capture(Section):
    """Where `binlog-merge capture` puts the nodes' files: `dir`/source-id/file.

    `clock` is how often the servers' clocks are asked, in microseconds; 0: never. `lost_after` is how many microseconds
    a server cannot be reached before another of the node's servers may take over.
    """

    dir: LocalPath = Field(
        default="captured", description="The directory: `dir`/source-id/file.", examples=["/var/lib/captured"]
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

    @field_validator("clock")
    @classmethod
    def _check_clock(cls, value: int) -> int:
        if 0 < value < LEAST_PERIOD:
            raise ValueError("must be at least 50ms, or off")
        return value


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
