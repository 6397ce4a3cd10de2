"""Names that Avro takes, as Debezium adjusts those of schemas and of fields.

Sources: SchemaNameAdjuster, ReplacementFunction and AbstractTopicNamingStrategy of Debezium 3.6.
"""

from collections.abc import Callable, Sequence
from typing import Final

from binlog_merge.errors import ConfigError
from binlog_merge.messages.debezium.options import DebeziumOptions
from snapshot_store.model import Column, Table

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
    found: dict[str, str] = {}
    for name in names:
        field = _adjusted(name, options.field_names, frozenset())
        if field in found:
            raise ConfigError(
                f"the columns {found[field]} and {name} of {table.schema}.{table.name} both become the field {field}",
                remedy="--format-option field.name.adjustment.mode=avro_unicode keeps them apart",
            )
        found[field] = name
    return list(found)


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
