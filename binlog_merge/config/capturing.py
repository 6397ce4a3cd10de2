"""The sections of the configuration file for `binlog-merge capture`."""

from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field, field_validator

from binlog_merge.config.sections import Section
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

    dir: LocalPath = "captured"
    clock: Annotated[int, BeforeValidator(_off_or_duration)] = 500_000
    lost_after: Duration = 10_000_000

    @field_validator("clock")
    @classmethod
    def _check_clock(cls, value: int) -> int:
        if 0 < value < LEAST_PERIOD:
            raise ValueError("must be at least 50ms, or off")
        return value


class Heartbeat(Section):
    """Statements that `binlog-merge capture` runs on every node's server, one after the other, every `interval` us."""

    interval: Duration = 1_000_000
    statement: Annotated[tuple[str, ...], BeforeValidator(_statements), Field(min_length=1)]

    @field_validator("interval")
    @classmethod
    def _check_interval(cls, value: int) -> int:
        if value < LEAST_PERIOD:
            raise ValueError("must be at least 50ms")
        return value
