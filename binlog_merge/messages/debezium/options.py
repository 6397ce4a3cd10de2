"""Debezium's properties that decide about messages, under its own names."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from binlog_merge.errors import ConfigError
from snapshot_store.model import Column, Table

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


_LETTERS: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
_DIGITS: Final = frozenset("0123456789")
_IN_TOPICS: Final = _LETTERS | _DIGITS | frozenset("._-")
_MOST_TOPIC: Final = 249


def topic_of(table: Table, options: DebeziumOptions) -> str:
    """Return the topic of a table, which the names of its schemas begin with."""
    name = f"{options.topic_prefix}.{table.schema}.{table.name}"
    return "".join(c if c in _IN_TOPICS else "_" for c in _utf16(name))[:_MOST_TOPIC]


def schema_name(name: str, options: DebeziumOptions) -> str:
    """Return a schema's name by `schema.name.adjustment.mode`."""
    return _adjusted(name, options.schema_names, frozenset("."))


def field_names(table: Table, columns: Sequence[Column], options: DebeziumOptions) -> list[str]:
    """Return the fields of columns by `field.name.adjustment.mode`. Raises ConfigError where two become one."""
    names = [column.name for column in columns]
    if options.field_names == "none":
        return names
    fields: dict[str, str] = {}
    for name in names:
        field = _adjusted(name, options.field_names, frozenset())
        if field in fields:
            raise ConfigError(
                f"the columns {fields[field]} and {name} of {table.schema}.{table.name} both become the field {field}",
                remedy="--format-option field.name.adjustment.mode=avro_unicode keeps them apart",
            )
        fields[field] = name
    return list(fields)


def _adjusted(name: str, mode: str, more: frozenset[str]) -> str:
    if mode == "none" or not name:
        return name
    first = _LETTERS if mode == "avro_unicode" else _LETTERS | {"_"}
    replace: Callable[[str], str] = _unicode if mode == "avro_unicode" else lambda c: "_"
    rest, units = first | _DIGITS | more, _utf16(name)
    begin = units[0] if units[0] in first else replace(units[0])
    if mode == "avro" and units[0].isdecimal():
        begin += units[0]
    return begin + "".join(c if c in rest else replace(c) for c in units[1:])


def _unicode(c: str) -> str:
    digits = f"{ord(c):x}"
    return f"_u{'00' if len(digits) <= 2 else ''}{digits}"


def _utf16(text: str) -> list[str]:
    """Return the characters as Java counts them: one beyond U+FFFF is two."""
    data = text.encode("utf-16-be", "surrogatepass")
    return [chr(int.from_bytes(data[at : at + 2], "big")) for at in range(0, len(data), 2)]
