"""`binlog-merge inspect`: shows the events of binlog files."""

from typing import Annotated

import typer

from binlog_merge.binlog.constants import BINLOG_MAGIC
from binlog_merge.cli.log_lines import verbosity
from binlog_merge.cli.options import Output, input_file, option
from binlog_merge.cli.output import OutputFormat, print_stream
from binlog_merge.log.inspection import inspect_file, records_of

MAX_POSITION = (1 << 63) - 1

HELP = """Show what stands in binlog files, event by event.

The text is that of mysqlbinlog, all of it as comments, with times in UTC; -v adds the rows, -vv the columns' names and
types. With -o jsonl each event is a JSON object on its line, with json all are the list `events` of one object. Events
inside a compressed transaction are shown too, at the position of their payload.

\b
  binlog-merge inspect merged/binlog.000001 -v | less
  binlog-merge inspect binlog.000007 --start-position 1537 --stop-position 2722 -o jsonl"""

Files = Annotated[list[str], typer.Argument(help="Binlog files.", metavar="FILE...", parser=input_file)]
StartPosition = Annotated[
    int,
    option("--start-position", "Begin at this position of the first file: an event's.", min=4, max=MAX_POSITION),
]
StopPosition = Annotated[
    int | None,
    option("--stop-position", "Stop before the event at or after this position of the last.", min=4, max=MAX_POSITION),
]
Verbose = Annotated[
    int, typer.Option("--verbose", "-v", count=True, help="Show rows; twice: columns' names and types.")
]


def inspect(
    files: Files,
    start_position: StartPosition = 4,
    stop_position: StopPosition = None,
    verbose: Verbose = 0,
    output: Output = OutputFormat.text,
) -> None:
    """Show what stands in binlog files, event by event."""
    last = len(files) - 1
    ranges = [
        (file, start_position if i == 0 else len(BINLOG_MAGIC), stop_position if i == last else None)
        for i, file in enumerate(files)
    ]
    verbose = verbosity(verbose)
    if output is OutputFormat.text:
        for file, start, stop in ranges:
            for line in inspect_file(file, start, stop, verbose):
                print(line)
        return
    print_stream((record for place in ranges for record in records_of(*place, verbose)), "events", output)
