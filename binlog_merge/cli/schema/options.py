"""The options that several `schema` verbs share."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from binlog_merge.cli.paths import local_path, output_place


class SchemaFormat(StrEnum):
    """The choices of -o."""

    text = "text"
    json = "json"
    sql = "sql"


Store = Annotated[
    Path,
    typer.Option(
        "--store", help="The schema store: a file, or a merge's output directory.", metavar="FILE", parser=local_path
    ),
]
ReadStore = Annotated[
    str,
    typer.Option(
        "--store",
        help="The schema store: a file, or a merge's output directory, also s3://… (gs://…, az://…)",
        metavar="FILE",
        parser=output_place,
    ),
]
Format = Annotated[SchemaFormat, typer.Option("-o", "--output", help="How to print the answer.")]
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
DEFAULT_STORE = Path("schema.duckdb")
READ_STORE = str(DEFAULT_STORE)
