"""`binlog-merge schema`: its subcommands, with export and fold of a whole store."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from binlog_merge.cli.options import LocalMerged, Merged, Output, local_path, option
from binlog_merge.cli.output import OutputFormat, print_document, printable
from binlog_merge.cli.schema import ask as schema_ask
from binlog_merge.cli.schema import imports as schema_import
from binlog_merge.cli.schema.store import (
    ReadStore,
    Store,
    floor_of,
    moment_of,
    opened,
    store_name,
    store_of,
    store_path,
)
from binlog_merge.cli.verbs import Verb
from binlog_merge.errors import ConfigError

HELP = """What did a table look like then, and why: ask the schema history of a cluster.

A merge keeps the history in its output directory, as schema.duckdb: every version of every logical and physical table,
with its order key, its DDL and where that was read. `import` makes such a store from a dump or a server.

\b
  binlog-merge schema show shop.orders --merged merged/ --at-time 2026-09-21T12:30:00
  binlog-merge schema history 'shop.*' --merged merged/
  binlog-merge schema skew --merged merged/ --at-tso 7507804165234491392
  binlog-merge schema check --merged merged/

A moment is a commit TSO, an order key of 54 digits, or a time; what commits at it counts."""

_EXPORT = (
    """Write a store into a new directory, a Parquet file per table: to hand on, or to look into with other tools."""
)


def export(
    folder: Annotated[
        Path, typer.Argument(help="A directory that is not there yet.", metavar="DIR", parser=local_path)
    ],
    merged: Merged = None,
    store: ReadStore = None,
    output: Output = OutputFormat.text,
) -> None:
    """Write a store as Parquet files."""
    place = store_of(merged, store)
    with opened(place) as one:
        one.export_parquet(folder)
    if output is not OutputFormat.text:
        print_document({"store": store_name(place), "folder": str(folder)}, output)
    else:
        print(printable(f"{store_name(place)} exported to {folder}"))


_FOLD = """Forget what only moments before a checkpoint can see. Not to be undone: keep a copy of the file.

What is in force at the checkpoint stays, with its version numbers; questions about later moments are answered as
before, questions about earlier ones are refused."""


def fold(
    at_tso: Annotated[str, option("--at-tso", "The checkpoint: a commit TSO or an order key.")],
    merged: LocalMerged = None,
    store: Store = None,
    output: Output = OutputFormat.text,
) -> None:
    """Forget what only moments before a checkpoint can see."""
    from snapshot_store.tso import ORIGIN

    checkpoint = moment_of("--at-tso", at_tso)
    place = Path(store_of(merged, store))
    with opened(place, read_only=False) as one:
        floor = floor_of(one.path)
        if ORIGIN < floor < checkpoint.first:
            raise ConfigError(
                f"the merge goes on from order key {floor.text()} and needs what is in force there",
                file=str(one.path),
                remedy="give that key, or an earlier moment",
            )
        removed = one.fold(checkpoint.first)
    if output is not OutputFormat.text:
        print_document({"store": str(store_path(place)), "removed": removed}, output)
    else:
        print(printable(f"{store_path(place)} folded at {checkpoint.text}: {removed} versions removed"))


app = typer.Typer(
    name="schema",
    help=HELP,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)
VERBS: tuple[tuple[str, Callable[..., None], str], ...] = (
    *schema_ask.VERBS,
    *schema_import.VERBS,
    ("export", export, _EXPORT),
    ("fold", fold, _FOLD),
)
for _name, _function, _help in VERBS:
    app.command(_name, cls=Verb, help=_help)(_function)


@app.callback(invoke_without_command=True)
def _help_if_alone(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())
