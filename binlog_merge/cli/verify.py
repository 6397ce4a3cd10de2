"""`binlog-merge verify`: whether a merged binlog is whole, in order, and what it says it is."""

from pathlib import Path
from typing import Annotated

import typer

from binlog_merge.cli.output import OutputFormat, document_of, print_json, printable

HELP = """Look through a merged binlog from end to end: files, checksums, GTIDs, order, rows, and the tables' shapes.

Stops at the first thing that is not as it should be and says where it is; its exit code says of which kind.

\b
  binlog-merge verify merged/
  binlog-merge verify merged/ -o json"""


def verify(
    directory: Annotated[Path, typer.Argument(help="A merge's output directory.", metavar="MERGED_DIR")],
    output: Annotated[
        OutputFormat, typer.Option("-o", "--output", help="How to print the answer.")
    ] = OutputFormat.text,
) -> None:
    """Look through a merged binlog."""
    from binlog_merge.replay.reader import MergedBinlog
    from binlog_merge.replay.verify import verify as look_through
    from binlog_merge.replay.walk import history_of

    found = look_through(MergedBinlog(directory), history_of(directory))
    if output is OutputFormat.json:
        print_json(document_of(out=str(directory), result=found))
        return
    values = found.to_dict()
    rows = sum(found.rows.values())
    shapes = "every table map fits the schema history" if found.shapes else "there is no schema history to compare with"
    lines = [
        f"{directory} is whole and in order",
        f"  files      {values['files']}, {values['size']:,} bytes, {values['events']} events",
        f"  contents   {values['transactions']} transactions, {values['statements']} statements, {rows} rows",
        f"  shapes     {shapes}",
    ]
    print("\n".join(printable(line) for line in lines), flush=True)
