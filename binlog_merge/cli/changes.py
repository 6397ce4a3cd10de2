"""`binlog-merge changes`: the changes of a table's rows, in commit order, in many formats."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from binlog_merge.cli.log_lines import Level, LineFormat, LogFormat, LogLevel, start_log
from binlog_merge.cli.options import Merged, MergedArgument, local_path, merged_of, option
from binlog_merge.errors import CHECK_PATH, ConfigError, IoError
from binlog_merge.whole_files import appearing

if TYPE_CHECKING:
    from binlog_merge.log.log import Log
    from binlog_merge.log.question import Selection


Pieces = Callable[["Log", "Selection"], Iterator[bytes]]


@dataclass(frozen=True, slots=True)
class ChangeFormat:
    """A format: the function that turns a selection into pieces of output, as MODULE:NAME.

    With `typed` dates and times come in Arrow's types, else as MySQL's text; `binary` output is no text. `messages`
    are those of another maker's format, which has options.
    """

    made_by: str
    typed: bool = False
    binary: bool = False
    messages: bool = False

    def pieces(self) -> Pieces:
        """Return the function, whose module is loaded now."""
        module, _, name = self.made_by.partition(":")
        found: Pieces = getattr(import_module(module), name)
        return found


FORMATS: Final[dict[str, ChangeFormat]] = {
    "text": ChangeFormat("binlog_merge.ask.formats:text_pieces"),
    "jsonl": ChangeFormat("binlog_merge.ask.formats:json_pieces"),
    "json": ChangeFormat("binlog_merge.ask.formats:document_pieces"),
    "csv": ChangeFormat("binlog_merge.ask.formats:csv_pieces"),
    "parquet": ChangeFormat("binlog_merge.ask.formats:parquet_pieces", typed=True, binary=True),
    "sql": ChangeFormat("binlog_merge.time_travel.sql_script:pieces"),
    **dict.fromkeys(
        ("debezium", "canal", "maxwell", "open-protocol", "simple"),
        ChangeFormat("binlog_merge.messages.message:pieces", messages=True),
    ),
}


HELP = f"""Print the changes of a table's rows, in commit order: what happened to order 4711.

\b
  binlog-merge changes merged/ --table shop.orders --where "id = 4711"
  binlog-merge changes merged/ --table shop.orders --op delete --start 2026-11-24 --stop 2026-11-25
  binlog-merge changes merged/ --table shop.orders --columns id,price -o csv > prices.csv
  binlog-merge changes merged/ --table shop.orders -o parquet --to orders.parquet

--where is a condition of MySQL's SQL on the table's columns, with MySQL's meaning; a row is printed if its values
before or after the change satisfy it. A column that the table did not have then is NULL in it.

--start and --stop take a GTID (both ends are included), or a commit TSO, an order key of 54 digits, a time like
2026-11-24T10:00:00Z, or a position like binlog.000003:158: from the first transaction there on, up to the last one
before. With a GTID set a range begins after it, or ends with it. Only the files and transactions of the range are
read, and of a condition on the primary key only what may have such rows: the first such question makes an index, which
is kept beside the log.

Formats (-o): {", ".join(FORMATS)}. In jsonl, json and csv a decimal is a string, bytes are 0x…, dates and times
are MySQL's text, and before_absent and after_absent name the columns of which the log has no value: the row image does
not hold them, or the table had no such column then."""


def changes(
    table: Annotated[str, option("--table", "The table.", "SCHEMA.TABLE")],
    directory: MergedArgument = None,
    merged: Merged = None,
    where: Annotated[str | None, option("--where", "Only rows that satisfy this, before or after.", "SQL")] = None,
    op: Annotated[list[str] | None, option("--op", "Only these: insert, update, delete.", "OP[,OP]")] = None,
    start: Annotated[str | None, option("--start", "Where to begin.", "PLACE")] = None,
    stop: Annotated[str | None, option("--stop", "Where to end.", "PLACE")] = None,
    columns: Annotated[list[str] | None, option("--columns", "Only these columns of the table.", "NAME[,NAME]")] = None,
    as_of: Annotated[str | None, option("--as-of", "The table's columns as of this TSO.", "TSO")] = None,
    limit: Annotated[int | None, option("--limit", "End after so many changes.", min=1)] = None,
    time_zone: Annotated[
        str,
        option("--time-zone", "Of TIMESTAMP columns in --where, and of times without one.", "ZONE"),
    ] = "UTC",
    temporal: Annotated[
        str | None, option("--temporal", "Parquet: dates and times `typed`, or as MySQL's `text`.")
    ] = None,
    zero_dates: Annotated[
        str | None,
        option(
            "--zero-dates",
            "Parquet: dates like 0000-00-00 are `null`, make `text` of their columns, or `stop` it; of one column "
            "born=null.",
            "RULE",
        ),
    ] = None,
    to: Annotated[
        Path | None,
        option("--to", "Write to this file.", "FILE", local_path),
    ] = None,
    format_option: Annotated[
        list[str] | None,
        option(
            "--format-option", "Of -o debezium and other messages: decimal.handling.mode=string, say.", "NAME=VALUE"
        ),
    ] = None,
    output: Annotated[str, option("-o --output", f"The format: {', '.join(FORMATS)}.", "FORMAT")] = "text",
    log_level: LogLevel = Level.warning,
    log_format: LogFormat = LineFormat.text,
) -> None:
    """Print the changes of a table's rows."""
    start_log(log_level, log_format)
    place, form = merged_of(directory, merged), FORMATS.get(output)
    if form is None:
        raise ConfigError(f"-o {output}: there is no such format", remedy=f"give one of {', '.join(FORMATS)}")
    if temporal not in (None, "text", "typed") or (temporal == "typed" and not form.typed):
        raise ConfigError(f"--temporal {temporal} does not go with -o {output}", remedy="give typed or text to parquet")
    if zero_dates is not None and not form.typed:
        raise ConfigError(f"--zero-dates does not go with -o {output}, whose dates are text", remedy="leave it out")
    options = _message_options(form, output, format_option or [])
    from binlog_merge.files.remote_log import opened_log
    from binlog_merge.log.log import Log
    from binlog_merge.log.question import Question, select, zero_dates_of

    with opened_log(place) as folder:
        question = Question(
            table,
            start,
            stop,
            where,
            _listed(op),
            _listed(columns),
            as_of,
            time_zone,
            temporal_text=not form.typed or temporal == "text",
            zero_dates=zero_dates_of("--zero-dates", zero_dates or "stop"),
            limit=limit,
            option="--",
        )
        log = Log(folder)
        selection = select(log, question)
        with _opened(to, form.binary) as write:
            pieces: Any = form.pieces()
            for piece in pieces(log, selection, output, options) if form.messages else pieces(log, selection):
                write(piece)


def _message_options(form: ChangeFormat, name: str, given: list[str]) -> dict[str, str]:
    """Return the options of a message format, checked before the log is opened. Raises ConfigError."""
    if not form.messages:
        if given:
            raise ConfigError(f"--format-option is not for -o {name}", remedy="leave it out")
        return {}
    from binlog_merge.messages.message import format_of, given_options

    options = given_options(given)
    format_of(name, options)
    return options


def _listed(given: list[str] | None) -> list[str] | None:
    """Return the names of an option that may be repeated, and may have several of them with commas."""
    return None if given is None else [name.strip() for text in given for name in text.split(",")]


def _print(piece: bytes) -> None:
    sys.stdout.write(piece.decode("utf-8", "surrogateescape"))


@contextmanager
def _opened(path: Path | None, binary: bool) -> Iterator[Callable[[bytes], Any]]:
    """Yield what writes pieces. A file appears when all is in it. Raises ConfigError and IoError."""
    if path is None:
        if binary and sys.stdout.isatty():
            raise ConfigError("a terminal shows no binary format", remedy="give --to FILE, or redirect the output")
        yield sys.stdout.buffer.write if binary else _print
        sys.stdout.flush()
        return
    if path.is_dir():  # the root has no name, either
        raise IoError("Is a directory", file=str(path), remedy=CHECK_PATH)
    with appearing(path) as part, part.open("wb") as file:
        yield file.write
        file.flush()
