"""The options that several `schema` verbs share."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from binlog_merge.cli.log_lines import say
from binlog_merge.cli.options import PathOrText, local_path, output_place
from binlog_merge.cli.schema.store import STORE_NAME
from binlog_merge.errors import ConfigError


class SchemaFormat(StrEnum):
    """The choices of -o."""

    text = "text"
    json = "json"
    jsonl = "jsonl"
    sql = "sql"


_HELP = "A schema store of its own, no merged log's"
Store = Annotated[
    Path | None,
    typer.Option("--store", help=f"{_HELP}; default: {STORE_NAME} here.", metavar="FILE", parser=local_path),
]
ReadStore = Annotated[
    str | None,
    typer.Option("--store", help=f"{_HELP}; default: {STORE_NAME} here.", metavar="FILE", parser=output_place),
]
Format = Annotated[
    SchemaFormat,
    typer.Option(
        "-o", "--output", help="text; json: one object; jsonl: one object a line; sql: statements, to run elsewhere."
    ),
]
Tables = Annotated[
    list[str],
    typer.Argument(help="Tables as schema.table; * and ? are wildcards, schema may be left out.", metavar="TABLE..."),
]
Node = Annotated[str | None, typer.Option("--node", help="Ask about this node's tables, by their physical names.")]
Physical = Annotated[
    bool, typer.Option("--physical", help="TABLE is logical: ask about the physical tables that make it.")
]
AtTso = Annotated[
    str | None,
    typer.Option("--at-tso", help="At this commit TSO (what commits at it counts), or at a 54-digit order key."),
]
AtTime = Annotated[
    str | None, typer.Option("--at-time", help="At this time, 2026-09-21T12:30:00; UTC unless it says otherwise.")
]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "-c",
        help="Take the routes from here, not from the store.",
        metavar="CLUSTER.YAML",
        parser=local_path,
    ),
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
