"""`binlog-merge sql`: ask a merged log in DuckDB's SQL."""

import csv
import math
import sys
from datetime import timedelta
from typing import Annotated, Any

import typer

from binlog_merge.cli.log_lines import Level, LineFormat, LogFormat, LogLevel, start_log
from binlog_merge.cli.options import Merged, merged_of, option
from binlog_merge.cli.output import json_line, print_document, printable
from binlog_merge.errors import ConfigError
from binlog_merge.json_values import json_text

HELP = """Ask a merged log in DuckDB's SQL; nothing is copied.

\b
  binlog-merge sql "SELECT op, count(*) FROM changes('shop.orders') GROUP BY op" --merged merged/
  binlog-merge sql "SELECT commit_time, after.price FROM changes('shop.orders', where := 'id = 4711')" --merged merged/
  binlog-merge sql "SELECT kind, count(*), sum(bytes) FROM transactions GROUP BY kind" --merged merged/

changes('SCHEMA.TABLE') has the columns op, commit_tso, commit_time, gtid, order_key, file, position, row, before,
after, before_absent, after_absent; before and after are structs of the table's columns (after.price). It takes start,
stop, where, op and as_of as the verb `changes` does (start := '2026-11-24'), which narrow down what is read; of the
columns only those are decoded that the query needs. transactions, ddl and schemas are the log's transactions, its
statements, and the versions of its tables."""


def sql(
    question: Annotated[str, typer.Argument(help="A query, or - to read it from standard input.", metavar="SQL")],
    merged: Merged = None,
    output: Annotated[str, option("-o --output", "text, json, jsonl or csv.", "FORMAT")] = "text",
    log_level: LogLevel = Level.warning,
    log_format: LogFormat = LineFormat.text,
) -> None:
    """Ask a merged log in SQL."""
    start_log(log_level, log_format)
    if output not in ("text", "json", "jsonl", "csv"):
        raise ConfigError(f"-o {output}: there is no such format", remedy="give text, json, jsonl or csv")
    from binlog_merge.ask.query import ask
    from binlog_merge.files.remote_log import opened_log
    from binlog_merge.log.log import Log

    with opened_log(merged_of(None, merged)) as folder:
        answer = ask(Log(folder), sys.stdin.read() if question == "-" else question)
        rows = ([_plain(value) for value in row] for batch in answer.batches for row in _tuples(batch))
        if output == "json":
            print_document({"columns": answer.columns, "rows": list(rows)}, output)
        elif output == "jsonl":
            for row in rows:
                print(json_line(dict(zip(answer.columns, row, strict=True))))
        elif output == "csv":
            writer = csv.writer(sys.stdout, lineterminator="\n")
            writer.writerow(answer.columns)
            writer.writerows([_text(value) for value in row] for row in rows)
        else:
            _print_table(answer.columns, rows)


def _tuples(batch: Any) -> Any:
    return zip(*map(_values, batch.schema.names, batch.columns), strict=True)


def _values(name: str, column: Any) -> Any:
    try:
        return column.to_pylist()
    except (OverflowError, ValueError) as error:  # Python's dates end with the year 9999
        raise ConfigError(
            f"column {name} has a {column.type} that cannot be printed: {error}",
            remedy="let the query make a text of it: CAST(… AS VARCHAR)",
        ) from None


def _plain(value: Any) -> Any:
    """Return a value with texts in place of intervals, which TIME columns are, and of what is no number in JSON."""
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if type(value) in (list, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, tuple):  # pyarrow's MonthDayNano
        from binlog_merge.binlog.temporal import time_text

        months, days, nanos = value
        time = time_text(timedelta(microseconds=nanos // 1000), 6 if nanos % 1_000_000_000 else 0)
        return " ".join([*([f"{months} months"] if months else []), *([f"{days} days"] if days else []), time])
    return value


def _text(value: Any) -> str:
    if value is None:
        return ""
    found = json_text(value)
    return value if isinstance(value, str) else found.strip('"')


def _print_table(columns: Any, rows: Any) -> None:
    """Print rows as a table; the widths are those of the first thousand."""
    from itertools import chain, islice

    shown = ([("NULL" if v is None else _text(v)).replace("\n", "\\n") for v in row] for row in rows)
    head = list(islice(shown, 1000))
    widths = [max(len(text) for text in texts) for texts in zip(columns, *head, strict=True)]
    for row in chain([columns], head, shown):
        print(printable("  ".join(f"{text:<{width}}" for text, width in zip(row, widths, strict=True)).rstrip()))
