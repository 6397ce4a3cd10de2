"""`binlog-merge topology`: which physical tables on which nodes made up a logical table."""

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from binlog_merge.cli.options import Merged, merged_of, option
from binlog_merge.cli.output import OutputFormat, print_document, printable
from binlog_merge.cli.schema.store import AtTime, AtTso, Config, moment_in, names_of, opened, topology_in
from binlog_merge.cli.verbs import Verb
from binlog_merge.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

    from snapshot_store.names import Moment, NamePattern
    from snapshot_store.store.db import Store
    from snapshot_store.tso import OrderKey

HELP = """Which physical tables, on which nodes, make up a logical table; at any moment.

\b
  binlog-merge topology show shop.orders --merged merged/
  binlog-merge topology show shop.orders --merged merged/ --at-tso 7507804165234491392 -o json"""

SHOW_HELP = """Show the physical tables of logical tables at a moment; at the end of the log unless told.

\b
  binlog-merge topology show shop.orders --merged merged/
  binlog-merge topology show 'shop.*' --merged merged/ --at-time 2026-09-21T12:30:00

In a PolarDB-X cluster its markers say which tables belong together, and since when; elsewhere the routes of the
configuration do, and the physical tables are those that existed at the moment. What commits at the TSO counts."""

app = typer.Typer(
    name="topology",
    help=HELP,
    rich_markup_mode=None,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)


@dataclass(frozen=True, slots=True)
class Placed:
    """A physical table of a logical one; `since` is when it came to belong to it, None where only routes say so."""

    logical: tuple[str, str]
    node: str
    schema: str
    table: str
    since: "OrderKey | None"


@app.callback()
def _alone() -> None:
    pass


@app.command("show", cls=Verb, help=SHOW_HELP)
def show(
    tables: Annotated[
        list[str], typer.Argument(help="Logical tables as schema.table, with * and ? for patterns.", metavar="TABLE...")
    ],
    merged: Merged = None,
    at_tso: AtTso = None,
    at_time: AtTime = None,
    config: Config = None,
    output: Annotated[OutputFormat, option("-o --output", "Text, or one JSON object.")] = OutputFormat.text,
) -> None:
    """Show the physical tables of logical tables at a moment."""
    with opened(merged_of(None, merged)) as store:
        moment = moment_in(store, at_tso, at_time)
        placed = placed_in(store, names_of(tables), moment, config)
    if output is not OutputFormat.text:
        print_document({"at": moment.text, "tables": _values(placed)}, output, "tables")
        return
    for line in _lines(placed, moment.text):
        print(printable(line))


def placed_in(
    store: "Store", wanted: "list[NamePattern]", moment: "Moment", config: "Path | None" = None
) -> list[Placed]:
    """Return the physical tables of logical tables at a moment, sorted. Raises ConfigError for a table without any."""
    from binlog_merge.polardbx import placements

    spans = placements.from_json(store.note(placements.NOTE)) if config is None else []
    if spans:
        every = [
            Placed(span.logical, *physical, span.after) for physical, span in placements.placed_at(spans, moment.key)
        ]
    else:
        topology, every = topology_in(store, config), []
        for version in store.history_at(moment.key).versions:
            if version.node is None or (version.table is None and not version.opaque):
                continue
            logical = topology.logical_name(version.node, version.schema, version.name, moment.key)
            if logical is not None:
                every.append(Placed(logical, version.node, version.schema, version.name, None))
    placed_there = [placed for placed in every if any(pattern.matches(*placed.logical) for pattern in wanted)]
    for pattern in wanted:
        if not any(pattern.matches(*placed.logical) for placed in placed_there):
            known = sorted({".".join(placed.logical) for placed in every})[:5]
            raise ConfigError(
                f"no physical table belongs to {pattern} at {moment.text}",
                remedy=f"those of {', '.join(known)} do" if known else "no table had any then",
            )
    return sorted(placed_there, key=lambda placed: (placed.logical, placed.node, placed.schema, placed.table))


def _values(found: list[Placed]) -> list[dict[str, Any]]:
    tables: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for placed in found:
        since = None if placed.since is None else placed.since.text()
        tables.setdefault(placed.logical, []).append(
            {"node": placed.node, "schema": placed.schema, "table": placed.table, "since": since}
        )
    return [{"schema": name[0], "table": name[1], "physical": physical} for name, physical in tables.items()]


def _lines(found: list[Placed], at: str) -> list[str]:
    from snapshot_store.names import since

    counts = Counter(placed.logical for placed in found)
    nodes = Counter(logical for logical, _ in {(placed.logical, placed.node) for placed in found})
    lines = []
    for logical, count in counts.items():
        of = "physical table" if count == 1 else "physical tables"
        on = "node" if nodes[logical] == 1 else "nodes"
        lines.append(f"{'.'.join(logical)} at {at}: {count} {of} on {nodes[logical]} {on}")
        for placed in (each for each in found if each.logical == logical):
            begun = "" if placed.since is None else f"  since {since(placed.since)}"
            lines.append(f"  {placed.node}  {placed.schema}.{placed.table}{begun}")
    return lines
