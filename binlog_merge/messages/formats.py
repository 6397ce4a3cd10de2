"""The formats by name: where each is made, and its options."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib import import_module
from typing import Any, Final

import numpy as np

from binlog_merge.errors import ConfigError
from binlog_merge.log.log import Log
from binlog_merge.log.question import Selection
from binlog_merge.messages import json_text as j
from binlog_merge.messages.message import Format, Message, options_of
from binlog_merge.messages.read import Ddl, Reading, placing_of
from binlog_merge.messages.rows import TableRows

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


def pieces(log: Log, selection: Selection, form: str, options: Mapping[str, str]) -> Iterator[bytes]:
    """Yield the lines of what is asked. Raises what reading the log does, ConfigError, UnsupportedInput."""
    maker = format_of(form, options)
    left = selection.limit
    reading = replace(reading_of(log, selection), placing=placing_of(maker))
    for piece in reading.pieces():
        if isinstance(piece, Ddl):
            yield b"".join(_line(message, maker.keyed) for message in maker.ddl(piece, time.time_ns()))
            continue
        for rows in piece.tables:
            if left is not None and left < len(rows):
                rows = rows.first(left)
            yield b"".join(_line(message, maker.keyed) for message in maker.before(rows))
            yield _lines(maker, rows)
            if left is not None:
                left -= len(rows)
                if left <= 0:
                    return


def reading_of(log: Log, selection: Selection) -> Reading:
    """Return what a selection asks, for messages."""
    return Reading(
        log,
        selection.first,
        selection.last,
        selection.wants,
        selection.ops,
        selection.where,
        None if selection.whole else selection.shape.names,
        only=selection.name,
        known={selection.name: selection.versions},
    )


def _lines(maker: Format, rows: TableRows) -> bytes:
    encoded = maker.rows(rows, time.time_ns())
    values = encoded.values
    if maker.keyed:
        values = j.joined(['{"key":', encoded.keys, ',"value":', values, "}"])
    whole = j.joined([values.drop_null(), "\n"])
    offsets = np.frombuffer(whole.buffers()[1], np.int64)[whole.offset :]
    data = whole.buffers()[2]
    return b"" if data is None else data[int(offsets[0]) : int(offsets[len(whole)])].to_pybytes()


def _line(message: Message, keyed: bool) -> bytes:
    if message.value is None:
        return b""
    return b'{"key":%s,"value":%s}\n' % (message.key, message.value) if keyed else message.value + b"\n"
