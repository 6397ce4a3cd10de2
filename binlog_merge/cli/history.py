"""`binlog-merge history`: the life of one row."""

import re
import sys
from collections.abc import Sequence
from typing import Annotated, Any, Final

import typer

from binlog_merge.cli.log_lines import Level, LineFormat, LogFormat, LogLevel, start_log
from binlog_merge.cli.options import Merged, Output, merged_of, option
from binlog_merge.cli.output import OutputFormat, counted, print_document, printable
from binlog_merge.errors import ConfigError

HELP = """Print the life of one row: each change, under every key and table name that it had, and DDL on the table.

\b
  binlog-merge history shop.orders id=4711 --merged merged/
  binlog-merge history shop.order_items order_id=4711 line=2 --merged merged/ -o json

The row is named by its primary key, a COLUMN=VALUE for each column. An update that changes the key is followed in both
directions, and so are RENAME TABLE and an ALTER that gives the key another value (BINARY(4) to BINARY(6)). If several
rows had the key one after the other, the lives of all are printed.

The table is the one that has the name at the end of the log (or at --stop), with those that were dropped under it. What
is left out is named on stderr (in JSON: left_out): tables that had the name and were renamed since, times in which
the primary key had other columns, and what a row does after an ALTER if it is not known what it makes of the key: many
moments become one day, and spaces that pad a CHAR may become part of a BINARY.

The merge does not keep which server and session wrote a row; a log that has the statement (Rows_query) shows it."""


_DECIMAL: Final = re.compile(r"-?\d+\.\d+", re.ASCII)


def history(
    table: Annotated[str, typer.Argument(help="The table.", metavar="SCHEMA.TABLE")],
    key: Annotated[list[str], typer.Argument(help="The primary key.", metavar="COLUMN=VALUE...")],
    merged: Merged = None,
    start: Annotated[str | None, option("--start", "Where to begin; as in `changes`.")] = None,
    stop: Annotated[str | None, option("--stop", "Where to end; as in `changes`.")] = None,
    time_zone: Annotated[
        str, option("--time-zone", "Of times without one, and of a TIMESTAMP in the key.", "ZONE")
    ] = "UTC",
    output: Output = OutputFormat.text,
    log_level: LogLevel = Level.warning,
    log_format: LogFormat = LineFormat.text,
) -> None:
    """Print the life of one row."""
    start_log(log_level, log_format)
    from binlog_merge.ask.life import life_of
    from binlog_merge.files.remote_log import opened_log
    from binlog_merge.log.log import Log
    from binlog_merge.log.question import name_of

    with opened_log(merged_of(None, merged)) as folder:
        name, values = name_of(table), _pairs(key)
        life = life_of(Log(folder), name, values, start=start, stop=stop, time_zone=time_zone)
    for text in (*life.left_out, *life.doubts):
        print(printable(text), file=sys.stderr)
    items = life.items
    if output is OutputFormat.text:
        for item in items:
            print(printable(_line(item, name)))
        print(printable(_end(items, f"{'.'.join(name)} {' '.join(key)}")))
        return
    found = [_values(item) for item in items]
    print_document(
        {
            "table": ".".join(name),
            "key": values,
            "life": found,
            "left_out": list(life.left_out),
            "doubts": list(life.doubts),
        },
        output,
        "life",
    )


def _pairs(texts: Sequence[str]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for name, value in map(_pair, texts):
        if name.lower() in map(str.lower, pairs):
            raise ConfigError(f"{name} is given twice", remedy="ask for one row after the other")
        pairs[name] = value
    return pairs


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ConfigError(f"{text!r} is no part of a key", remedy="write COLUMN=VALUE, like id=4711")
    return name, value


def _line(item: Any, name: tuple[str, str]) -> str:
    from binlog_merge.ask.formats import values_text
    from binlog_merge.ask.life import Change

    if not isinstance(item, Change):
        return f"{_time(item)}  {item.schema}.{item.table}: {' '.join(item.ddl.split())}"
    row = item.record
    lacking = row["before_absent"] or (), row["after_absent"] or ()
    before, after = row["before"], row["after"]
    if row["op"] == "update":
        changed = [name for name in after if before[name] != after[name] and name not in lacking[1]]
        before, after = ({name: side[name] for name in changed} for side in (before, after))
    old, new = ({n: _text(v) for n, v in side.items()} if side is not None else None for side in (before, after))
    text = values_text(old, new, *lacking) or "(no value changed)"
    place = f"{row['commit_time']}  {row['gtid'] or 'ANONYMOUS'}  {row['file']}:{row['position']}"
    table = "" if (row["schema"], row["table"]) == name else f"{row['schema']}.{row['table']}: "
    line = f"{place}  {row['op']:<6}  {table}{text}"
    return line if item.who.statement is None else f"{line}\n{'':<29}{item.who.statement}"


def _text(value: Any) -> str | None:
    from snapshot_store.mysql.sql.names import quote_string

    if isinstance(value, str) and not _DECIMAL.fullmatch(value):
        return quote_string(value)
    return None if value is None else str(value)


def _end(items: Sequence[Any], what: str) -> str:
    from binlog_merge.ask.life import Change

    changes = [item.record for item in items if isinstance(item, Change)]
    if not changes:
        return f"the log has no change of {what}"
    state = "the last one deletes the row" if changes[-1]["op"] == "delete" else "the last one leaves the row there"
    after = len(items) - 1 - max(number for number, item in enumerate(items) if isinstance(item, Change))
    later = f"; {counted(after, 'DDL statement')} after it" if after else ""
    return f"{counted(len(changes), 'change')} of {what}; {state}{later}"


def _time(ddl: Any) -> str:
    """Return when a statement committed: as its TSO says, if it carries a time."""
    from datetime import UTC, datetime, timedelta

    from snapshot_store.tso import carries_time, tso_millis

    clocked = ddl.key is not None and carries_time(ddl.key.commit_tso)
    micros = tso_millis(ddl.key.commit_tso) * 1000 if clocked else ddl.commit_us
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def _values(item: Any) -> dict[str, Any]:
    from binlog_merge.ask.life import Change

    if isinstance(item, Change):
        who = item.who
        return {
            "kind": "change",
            **item.record,
            "server_id": who.server_id,
            "thread_id": None if who.thread_id is None else str(who.thread_id),
            "statement": who.statement,
        }
    return {
        "kind": "ddl",
        "schema": item.schema,
        "table": item.table,
        "order_key": None if item.key is None else item.key.text(),
        "commit_tso": None if item.key is None else str(item.key.commit_tso),
        "commit_time": _time(item),
        "gtid": item.gtid,
        "file": item.file,
        "position": item.position,
        "statement": item.ddl,
    }
