"""What streams a serve has: their names, what comes out of each, and how a reader asks for it.

streams:
  orders:                       shop's orders, without those that were only tried
    tables: ["shop.orders*", "!shop.orders_tmp"]
    rows-query: false
    port: 3310
  lake:                         by a filter file, as merge and replay take it
    filter: lake.toml
    ddl: none
    user: lake
  part:                         four streams part-1 … part-4, each key's changes in one of them
    hash: key
    into: 4
    port: 3320                  and 3321, 3322, 3323
  maria:
    dialect: mariadb
    port: 3330
"""

import hashlib
import json
import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final, Literal
from uuid import UUID, uuid5

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from binlog_merge.config.yaml import YamlDocument, explain, load_yaml
from binlog_merge.errors import ConfigError
from binlog_merge.filters.config import load_filter
from binlog_merge.filters.filter import Filter, FilterSettings

Dialect = Literal["mysql", "mariadb"]
Hash = Literal["table", "key"]
Ddl = Literal["all", "once", "none"]
MOST_PARTS: Final = 64
_LAST_PORT: Final = 65535
_NAME: Final = r"[A-Za-z0-9][A-Za-z0-9_-]{0,47}"
_VERSION: Final = 1
_OF_TABLES: Final = 2
"""Of the function that makes a stream: with another one, streams that have begun would have other bytes."""


class _Stream(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=lambda n: n.replace("_", "-"))
    tables: tuple[str, ...] = ()
    filter: str = ""
    ddl: Ddl = "all"
    rows_query: bool = True
    dialect: Dialect = "mysql"
    hash: Hash | None = None
    into: Annotated[int, Field(ge=2, le=MOST_PARTS)] | None = None
    port: Annotated[int, Field(ge=0, le=65535)] | None = None
    user: str = ""


class _Streams(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    streams: dict[Annotated[str, Field(pattern=f"^{_NAME}$")], _Stream] = {}


@dataclass(frozen=True, slots=True)
class StreamSpec:
    """A stream. `part` of `parts`, from 1, where a hash makes several, which have a `family`; `settings` of its filter,
    None for no filter.

    `port` is None if it has none of its own, `user` the account whose reader gets it, "" for none.
    """

    name: str
    family: str
    settings: FilterSettings | None = None
    ddl: Ddl = "all"
    rows_query: bool = True
    dialect: Dialect = "mysql"
    hash: Hash | None = None
    part: int = 1
    parts: int = 1
    port: int | None = None
    user: str = ""

    @property
    def definition(self) -> str:
        """Return what decides the stream's bytes, as text."""
        chosen = None if self.settings is None else repr(replace(self.settings, folder=Path(), name=""))
        values = {
            "version": _OF_TABLES if self.hash == "table" else _VERSION,
            "filter": chosen,
            "ddl": self.ddl,
            "rows-query": self.rows_query,
            "dialect": self.dialect,
            "hash": self.hash,
            "part": self.part,
            "parts": self.parts,
        }
        return json.dumps(values, sort_keys=True)

    @property
    def digest(self) -> str:
        """Return the hash of the definition."""
        return hashlib.sha256(self.definition.encode()).hexdigest()

    def unmatched(self, tables: Iterable[tuple[str, str]]) -> tuple[str, ...]:
        """Return the rules that choose tables, and match none of these, (schema, table)."""
        if self.settings is None:
            return ()
        there = list(tables)
        rules = [rule for rule in Filter(self.settings).tables.rules if rule.positive]
        return tuple(rule.text for rule in rules if not any(rule.matches(*table) for table in there))

    def uuid(self, cluster: str, removed: int) -> str:
        """Return the UUID of the stream's GTIDs. `removed`: the last transaction that the log had not any more when the
        stream began, since the numbers of a stream depend on where it begins.
        """
        return str(uuid5(UUID(cluster), f"{self.name} {self.digest} {removed}"))


def load_streams(file: Path | None, options: Sequence[str]) -> list[StreamSpec]:
    """Return the streams of a file and of options like `orders tables=shop.* port=3310`. Raises ConfigError."""
    streams: dict[str, StreamSpec] = {}
    given = [] if file is None else [(load_yaml(file, "file of streams"), str(file), file.parent)]
    given += [(_of_option(text), f"--stream {text!r}", Path()) for text in options]
    for document, name, folder in given:
        for spec in _specs(document, name, folder):
            if spec.name in streams:
                raise ConfigError(f"two streams have the name {spec.name}", file=name, remedy="give each its own")
            streams[spec.name] = spec
    _check_apart(streams.values())
    return list(streams.values())


def _of_option(text: str) -> YamlDocument:
    try:
        name, *settings = shlex.split(text) or [""]
    except ValueError as error:  # a quote that is never closed
        raise ConfigError(f"--stream {text!r}: {error}", remedy=_HOW) from None
    values: dict[str, Any] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or key in values:
            raise ConfigError(f"--stream {text!r}: {setting!r} is no setting, or given twice", remedy=_HOW)
        values[key] = value.split(",") if key == "tables" else _plain(value)
    return YamlDocument({"streams": {name: values}}, {}, "option")


_HOW: Final = "write it like --stream 'orders tables=shop.orders*,!shop.tmp port=3310'"


def _plain(value: str) -> Any:
    if re.fullmatch(r"\d+", value):
        return int(value)
    return {"true": True, "false": False}.get(value.lower(), value)


def _specs(document: YamlDocument, name: str, folder: Path) -> Iterable[StreamSpec]:
    try:
        parsed = _Streams.model_validate(document.values)
    except ValidationError as error:
        raise explain(_Streams, error, document, name) from None
    for stream, given in parsed.streams.items():
        if (given.hash is None) != (given.into is None):
            raise ConfigError(f"stream {stream}: hash and into go together", file=name)
        if given.tables and given.filter:
            raise ConfigError(f"stream {stream}: give tables, or a filter file with rules", file=name)
        if given.ddl == "once" and given.hash != "table":
            raise ConfigError(
                f"stream {stream}: ddl: once is for the streams of a hash of tables: where keys are hashed, each "
                "stream needs a statement between its rows",
                file=name,
            )
        if given.port and given.into and given.port + given.into - 1 > _LAST_PORT:
            raise ConfigError(
                f"stream {stream}: {given.into} streams from port {given.port} on go beyond {_LAST_PORT}",
                file=name,
                remedy="give a lower port",
            )
        settings = _settings(given, folder, f"{name}: stream {stream}")
        if settings is not None:
            Filter(settings)  # raises for what is wrong with it
        plain = StreamSpec(
            stream, stream, settings, given.ddl, given.rows_query, given.dialect, port=given.port, user=given.user
        )
        if given.hash is None or given.into is None:
            yield plain
            continue
        for part in range(1, given.into + 1):
            yield replace(
                plain,
                name=f"{stream}-{part}",
                hash=given.hash,
                part=part,
                parts=given.into,
                port=given.port + part - 1 if given.port else given.port,
                user=f"{given.user}-{part}" if given.user else "",
            )


def _settings(given: _Stream, folder: Path, name: str) -> FilterSettings | None:
    if given.filter:
        return load_filter(folder / given.filter)
    return FilterSettings(rules=given.tables, folder=folder, name=name) if given.tables else None


def _check_apart(specs: Iterable[StreamSpec]) -> None:
    """Raise ConfigError if a reader could not tell two streams apart, or not reach one."""
    ports: dict[int, str] = {}
    users: dict[str, str] = {}
    for spec in specs:
        if spec.port is None and not spec.user:
            raise ConfigError(f"stream {spec.name}: no reader can ask for it", remedy="give it a port, a user, or both")
        if spec.port and ports.setdefault(spec.port, spec.name) != spec.name:
            raise ConfigError(f"streams {ports[spec.port]} and {spec.name} have the same port {spec.port}")
        if spec.user and users.setdefault(spec.user, spec.name) != spec.name:
            raise ConfigError(f"streams {users[spec.user]} and {spec.name} have the same user {spec.user}")
