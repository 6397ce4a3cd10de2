"""The formats by name: where each is made, and its options."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

from binlog_merge.errors import ConfigError
from binlog_merge.messages.message import Format, options_of

FORMATS: Final = {
    "debezium": ("debezium.events:Debezium", "debezium.options:DebeziumOptions"),
    "canal": ("canal:Canal", "canal:CanalOptions"),
    "maxwell": ("maxwell:Maxwell", "maxwell:MaxwellOptions"),
    "open-protocol": ("open_protocol:OpenProtocol", "open_protocol:OpenProtocolOptions"),
    "simple": ("simple:Simple", "simple:SimpleOptions"),
}
"""Name -> the class that makes messages, and that of its options; both in this package."""


def format_of(name: str, given: Mapping[str, str]) -> Format:
    """Return a format with options. Raises ConfigError."""
    if name not in FORMATS:
        raise ConfigError(f"there is no message format {name}", remedy=f"give one of {', '.join(FORMATS)}")
    made, options = (_found(place) for place in FORMATS[name])
    found: Format = made(options_of(options, name, given))
    return found


def given_options(texts: list[str]) -> dict[str, str]:
    """Return options from texts NAME=VALUE. Raises ConfigError."""
    found = {}
    for text in texts:
        name, equal, value = text.partition("=")
        if not equal or not name:
            raise ConfigError(f"--format-option {text!r} is not NAME=VALUE", remedy="decimal.handling.mode=string, say")
        found[name] = value
    return found


def _found(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(f"binlog_merge.messages.{module}"), name)
