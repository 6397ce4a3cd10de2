"""Opens the store for a `schema` command, turns its errors into those of the command line, parses moments, and has the
options that several `schema` verbs share.
"""

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from binlog_merge.cli.log_lines import say
from binlog_merge.cli.options import PathOrText, local_path, option, output_place
from binlog_merge.config.uri import is_uri
from binlog_merge.errors import ConfigError
from binlog_merge.redaction import redacted
from binlog_merge.store_errors import as_merge_errors

if TYPE_CHECKING:
    from snapshot_store.names import Moment, NamePattern
    from snapshot_store.store.db import Store as SchemaStore
    from snapshot_store.store.settings import Stop
    from snapshot_store.topology import Topology
    from snapshot_store.tso import OrderKey


STORE_NAME = "schema.duckdb"


def store_path(given: Path) -> Path:
    """Return the store's file: the given file, or that of a merge in the given directory."""
    return given / STORE_NAME if given.is_dir() else given


def store_name(given: str | Path) -> str:
    """Return where a store is, for people."""
    return redacted(str(given)) if is_uri(str(given)) else str(store_path(Path(given)))


@contextmanager
def opened(given: str | Path, read_only: bool = True) -> Iterator["SchemaStore"]:
    """Open a store for a command; errors of the store become errors of the command line.

    That of an output at a URI is copied first, to be read. Raises what is wrong with an object store.
    """
    with _local(given) as folder, _opened(store_path(folder), store_name(given), read_only) as store:
        yield store


def _local(given: str | Path) -> AbstractContextManager[Path]:
    if not is_uri(str(given)):
        return nullcontext(Path(given))
    from binlog_merge.files.remote_log import schema_folder

    return schema_folder(str(given))


@contextmanager
def _opened(path: Path, shown: str, read_only: bool) -> Iterator["SchemaStore"]:
    from snapshot_store.store.db import Store as SchemaStore

    with as_merge_errors(shown):
        if not read_only and not path.parent.is_dir():
            raise ConfigError(f"there is no directory {path.parent}", remedy="make it, or name another store")
        with SchemaStore.open(path, read_only) as store:
            yield store


def names_of(texts: list[str]) -> "list[NamePattern]":
    """Parse table names and patterns."""
    from snapshot_store.names import NamePattern

    try:
        return [NamePattern.parse(text) for text in texts]
    except ValueError as error:
        raise ConfigError(str(error)) from None


def moment_of(option: str, text: str) -> "Moment":
    """Parse a moment: a commit TSO, an order key, or a time."""
    from snapshot_store.names import Moment

    try:
        return Moment.parse(text)
    except ValueError as error:
        raise ConfigError(f"{option}: {error}") from None


def moment_in(store: "SchemaStore", at_tso: str | None, at_time: str | None) -> "Moment":
    """Return the moment of the options; the end of the history if neither is given."""
    from snapshot_store.names import Moment

    if at_tso is not None and at_time is not None:
        raise ConfigError("--at-tso and --at-time say the same", remedy="give one of them")
    if at_tso is None and at_time is None:
        return Moment.latest()
    moment = moment_of("--at-tso", at_tso) if at_tso is not None else moment_of("--at-time", at_time or "")
    check_clock(store, moment)
    return moment


def lines_of(store: "SchemaStore", name: "NamePattern", topology: "Topology") -> "list[tuple[str | None, str, str]]":
    """Return (node, schema, name) of a logical table and of its physical tables.

    Raises UnknownTable if there is neither.
    """
    from snapshot_store.errors import UnknownTable

    lines: list[tuple[str | None, str, str]] = []
    absent: UnknownTable | None = None
    for physical in (False, True):
        try:
            lines += store.find([name], None, physical, topology)
        except UnknownTable as error:
            absent = absent or error
    if absent is not None and not lines:
        raise absent
    return lines


def check_order(begin: "Moment", end: "Moment") -> None:
    """Raise ConfigError if a range ends before it begins."""
    if begin.first > end.after:
        raise ConfigError(f"--from ({begin.text}) is later than --to ({end.text})", remedy="swap them")


def check_clock(store: "SchemaStore", moment: "Moment") -> None:
    """Raise ConfigError for a wall-clock time if the store's TSOs have no time."""
    from snapshot_store.errors import AmbiguousMoment
    from snapshot_store.tso import ORIGIN, carries_time

    last = store.last_key()
    if moment.wall_clock and last != ORIGIN and not carries_time(last.commit_tso):
        raise AmbiguousMoment(
            f"{moment.text} is a time, and this cluster's commit TSOs carry none (the last change is at "
            f"TSO {last.commit_tso})"
        )


def topology_in(store: "SchemaStore", config: Path | None) -> "Topology":
    """Return the routes of a configuration, else those in the store."""
    if config is None:
        return store.topology()
    from binlog_merge.config.merge_config import MergeConfig, topology_of

    return replace(topology_of(MergeConfig.load(config)), hidden=store.topology().hidden)


class SchemaFormat(StrEnum):
    """The choices of -o."""

    text = "text"
    json = "json"
    jsonl = "jsonl"
    sql = "sql"


_HELP = "A schema store of its own, no merged log's"
Store = Annotated[
    Path | None,
    option("--store", f"{_HELP}; default: {STORE_NAME} here.", "FILE", local_path),
]
ReadStore = Annotated[
    str | None,
    option("--store", f"{_HELP}; default: {STORE_NAME} here.", "FILE", output_place),
]
Format = Annotated[
    SchemaFormat,
    option("-o --output", "text; json: one object; jsonl: one object a line; sql: statements, to run elsewhere."),
]
Tables = Annotated[
    list[str],
    typer.Argument(help="Tables as schema.table; * and ? are wildcards, schema may be left out.", metavar="TABLE..."),
]
Node = Annotated[str | None, option("--node", "Ask about this node's tables, by their physical names.")]
Physical = Annotated[bool, option("--physical", "TABLE is logical: ask about the physical tables that make it.")]
AtTso = Annotated[
    str | None,
    option("--at-tso", "At this commit TSO (what commits at it counts), or at a 54-digit order key."),
]
AtTime = Annotated[str | None, option("--at-time", "At this time, 2026-09-21T12:30:00; UTC unless it says otherwise.")]
Config = Annotated[
    Path | None,
    option("--config -c", "Take the routes from here, not from the store.", "CLUSTER.YAML", local_path),
]


def store_of(merged: PathOrText | None, store: PathOrText | None) -> PathOrText | str:
    """Return which store a verb asks: a merged log's, else that of --store. Raises ConfigError if both are named.

    --store also takes the directory of a merged log, as --merged was once called; an old name for release 0.1.
    """
    if merged is not None and store is not None:
        raise ConfigError("--merged and --store both name a schema store", remedy="give one of them")
    if store is not None and Path(store).is_dir() and sys.stderr.isatty():
        say(f"binlog-merge: {store} is the directory of a merged log: that is now given as --merged")
    found = merged if merged is not None else store
    return STORE_NAME if found is None else found


def place(store: "SchemaStore", at_tso: str | None, node: str | None) -> "tuple[OrderKey, Stop | None]":
    """Return the key from which an operator's version applies, and the statement that it replaces, if any.

    At the TSO or the key of the statement at which the last merge stopped, it replaces that statement; at those of
    rows, it applies right before them. Raises SchemaConflict below what a merge has published.
    """
    from binlog_merge.pipeline.coordinate.stores import below_published
    from snapshot_store.tso import ORIGIN, OrderKey

    key = ORIGIN if at_tso is None else moment_of("--at-tso", at_tso).first
    stop, stands_for = store.stop(), None
    if stop is not None and at_tso is not None:
        at = OrderKey.parse(stop.order_key)
        if key in (at, OrderKey(at.commit_tso, 0, 0, 0)):
            if not stop.statement:
                key = at.previous()
            elif stop.node == node:
                key, stands_for = at, stop
    floor = floor_of(store.path)
    if key < floor.previous():
        raise below_published(key, floor, store.path)
    return key, stands_for


def floor_of(path: Path) -> "OrderKey":
    """Return the key below which the output of a store's directory is published; the origin if there is none."""
    from binlog_merge.pipeline.coordinate.stores import published_floor
    from snapshot_store.tso import ORIGIN

    return published_floor(path.parent) if path.name == STORE_NAME else ORIGIN


def free_place(store: "SchemaStore", key: "OrderKey", node: str | None, schema: str, table: str) -> "OrderKey":
    """Return `key`, or the next key if a DDL or a snapshot has a version of the table there, so that ours wins.

    An operator's earlier version at `key` is replaced instead.
    """
    from snapshot_store.history import OPAQUE

    version = store.history_of([(node, schema, table)]).at(schema, table, key._replace(node_seq=key.node_seq + 1), node)
    if version is None or version.key != key or version.origin == OPAQUE or version.origin == "operator":
        return key
    if key.node_seq == 999_999:
        raise ConfigError(f"there is no place left after order key {key.text()}", remedy="give the next TSO")
    return free_place(store, key._replace(node_seq=key.node_seq + 1), node, schema, table)
