"""What a format makes of rows and statements, and the options that it takes."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from importlib import import_module
from typing import Any, ClassVar, Final, Protocol, TypeVar

import numpy as np

from binlog_merge.errors import ConfigError
from binlog_merge.filters.ddl import actions_of
from binlog_merge.log.log import Log
from binlog_merge.log.question import Selection
from binlog_merge.messages import json_text as j
from binlog_merge.messages.read import Ddl, Reading, placing_of
from binlog_merge.messages.rows import TableRows
from snapshot_store.ddl import ParsedDdl
from snapshot_store.errors import SnapshotStoreError


@dataclass(frozen=True, slots=True, eq=False)
class Schemas:
    """The schemas of Kafka Connect of keys and values, in JsonConverter's form; the same object for the same messages.

    `key` is None where messages have no key.
    """

    key: Mapping[str, Any] | None
    value: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Encoded:
    """Messages of rows: `rows` are the rows' numbers, ascending; a null value is a tombstone, a null key no key.

    `schemas` are those of a format that has any. `aside` is a mask of messages that stand beside those of rows, of the
    beginnings and ends of transactions, whose schemas are `aside_schemas`.
    """

    keys: Any
    values: Any
    rows: Any
    schemas: Schemas | None = None
    aside: Any = None
    aside_schemas: Schemas | None = None

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, slots=True)
class Message:
    """A message that stands alone: of a statement, or of a table's definition.

    `kind` is ddl or schema; `schema` and `table` choose the topic.
    """

    kind: str
    schema: str
    table: str
    key: bytes | None
    value: bytes | None
    schemas: Schemas | None = None


class Format(Protocol):
    """Makes messages. It may hold what readers must have been told before (`simple`: a table's definition).

    `keyed`: a value does not say whose it is without its key.
    """

    name: ClassVar[str]
    keyed: ClassVar[bool]

    def before(self, rows: TableRows) -> Sequence[Message]:
        """Return the messages that must come before rows of a definition."""

    def rows(self, rows: TableRows, now_ns: int) -> Encoded:
        """Return the messages of rows. Raises UnsupportedInput for rows that the format cannot carry."""

    def ddl(self, ddl: Ddl, now_ns: int) -> Sequence[Message]:
        """Return the messages of a statement."""


Options = TypeVar("Options")


def options_of(kind: type[Options], form: str, given: Mapping[str, str]) -> Options:
    """Return a format's options; their names have dashes or dots where the fields have underscores.

    A field's metadata has its `name` and its `choices`; a bool is true or false. Raises ConfigError.
    """
    known = {field.metadata.get("name", field.name): field for field in fields(kind)}  # type: ignore[arg-type]
    values: dict[str, Any] = {}
    for name, text in given.items():
        if name not in known:
            raise ConfigError(
                f"-o {form} has no option {name}",
                remedy="it has " + ", ".join(known) if known else "give none",
            )
        field = known[name]
        choices = field.metadata.get("choices", ("true", "false") if field.type in (bool, "bool") else None)
        if choices is not None and text not in choices:
            raise ConfigError(f"option {name}={text} of -o {form}", remedy=f"give one of {', '.join(choices)}")
        values[field.name] = text == "true" if field.type in (bool, "bool") else text
    return kind(**values)


MULTI: Final = "ActionMultiSchemaChange"
"""TiDB's name of an ALTER of several actions."""

_NUMBERS: Final = {
    "ActionCreateSchema": 1, "ActionDropSchema": 2, "ActionCreateTable": 3, "ActionDropTable": 4, "ActionAddColumn": 5,
    "ActionDropColumn": 6, "ActionAddIndex": 7, "ActionDropIndex": 8, "ActionAddForeignKey": 9,
    "ActionDropForeignKey": 10, "ActionTruncateTable": 11, "ActionModifyColumn": 12, "ActionRebaseAutoID": 13,
    "ActionRenameTable": 14, "ActionSetDefaultValue": 15, "ActionModifyTableComment": 17, "ActionRenameIndex": 18,
    "ActionAddTablePartition": 19, "ActionDropTablePartition": 20, "ActionCreateView": 21,
    "ActionModifyTableCharsetAndCollate": 22, "ActionTruncateTablePartition": 23, "ActionDropView": 24,
    "ActionModifySchemaCharsetAndCollate": 26, "ActionAddPrimaryKey": 32, "ActionDropPrimaryKey": 33,
    "ActionAlterIndexVisibility": 41, "ActionExchangeTablePartition": 42, "ActionAddCheckConstraint": 43,
    "ActionDropCheckConstraint": 44, "ActionAlterCheckConstraint": 45, "ActionRenameTables": 47, MULTI: 61,
    "ActionReorganizePartition": 64, "ActionAlterTablePartitioning": 71, "ActionRemovePartitioning": 72,
}  # fmt: skip
"""pingcap/tidb's ActionType (`pkg/parser/model/ddl.go`)."""

_CANAL: Final = {
    "ActionCreateTable": "CREATE", "ActionDropTable": "ERASE", "ActionTruncateTable": "TRUNCATE",
    "ActionRenameTable": "RENAME", "ActionRenameTables": "RENAME", "ActionAddIndex": "CINDEX",
    "ActionAddForeignKey": "CINDEX", "ActionAddPrimaryKey": "CINDEX", "ActionDropIndex": "DINDEX",
    "ActionDropForeignKey": "DINDEX", "ActionDropPrimaryKey": "DINDEX", "ActionCreateSchema": "QUERY",
    "ActionDropSchema": "QUERY", "ActionModifySchemaCharsetAndCollate": "QUERY", "ActionCreateView": "QUERY",
    "ActionDropView": "QUERY",
}  # fmt: skip
"""Where it is not ALTER: pingcap/tiflow, `convertDdlEventType` of canal-json, `getDDLType` of the simple protocol."""

CREATES: Final = ("ActionCreateTable",)
RENAMES: Final = ("ActionRenameTable", "ActionRenameTables")


def action_of(ddl: ParsedDdl) -> str:
    """Return TiDB's name of what a statement does, "" if it does nothing to tables or is not understood."""
    actions = _actions(ddl)
    return actions[0] if len(actions) == 1 else MULTI if actions else ""


def _actions(ddl: ParsedDdl) -> tuple[str, ...]:
    return () if isinstance(ddl.result, SnapshotStoreError) else actions_of(ddl.result)


def canal_kind(ddl: ParsedDdl) -> str:
    """Return canal's event type of a statement: what all its actions are, else ALTER; QUERY if it is about no table."""
    kinds = {_CANAL.get(action, "ALTER") for action in _actions(ddl)} or {"QUERY"}
    return kinds.pop() if len(kinds) == 1 else "ALTER"


def tidb_number(ddl: ParsedDdl) -> int:
    """Return TiDB's number of what a statement does, 0 if it has none."""
    return _NUMBERS.get(action_of(ddl), 0)


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
    options = {}
    for text in texts:
        name, equal, value = text.partition("=")
        if not equal or not name:
            raise ConfigError(f"--format-option {text!r} is not NAME=VALUE", remedy="decimal.handling.mode=string, say")
        options[name] = value
    return options


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
