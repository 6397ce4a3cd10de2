"""Debezium's properties that decide about messages, under its own names."""

from dataclasses import dataclass, field
from typing import Any, Final

VERSION: Final = "3.6.3.Final"
"""The version whose messages these are, and what `source.version` says."""


def _choice(name: str, default: str, *more: str) -> Any:
    return field(default=default, metadata={"name": name, "choices": (default, *more)})


def _flag(name: str, default: bool) -> Any:
    return field(default=default, metadata={"name": name})


@dataclass(frozen=True, slots=True)
class DebeziumOptions:
    """The defaults are Debezium's, but for the schemas: `schemas.enable` is that of both converters."""

    topic_prefix: str = field(default="binlog", metadata={"name": "topic.prefix"})
    decimal: str = _choice("decimal.handling.mode", "precise", "string", "double")
    time: str = _choice(
        "time.precision.mode", "adaptive_time_microseconds", "connect", "isostring", "microseconds", "nanoseconds"
    )
    binary: str = _choice("binary.handling.mode", "bytes", "base64", "base64-url-safe", "hex")
    bigint_unsigned: str = _choice("bigint.unsigned.handling.mode", "long", "precise")
    schema_names: str = _choice("schema.name.adjustment.mode", "none", "avro", "avro_unicode")
    field_names: str = _choice("field.name.adjustment.mode", "none", "avro", "avro_unicode")
    schemas: bool = _flag("schemas.enable", False)
    tombstones: bool = _flag("tombstones.on.delete", True)
    schema_changes: bool = _flag("include.schema.changes", True)
    transactions: bool = _flag("provide.transaction.metadata", False)
    topic_transaction: str = field(default="transaction", metadata={"name": "topic.transaction"})
