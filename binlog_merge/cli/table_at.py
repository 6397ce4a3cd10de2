"""`binlog-merge table-at`: a table as it was at a moment of a merged log, or what changed in it between two."""

import json
import sys
import tempfile
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from binlog_merge.cli.options import Merged, SslCa, local_path, merged_of, option
from binlog_merge.cli.output import counted, print_json, printable
from binlog_merge.cli.replay_options import TimeZone, time_zone_of
from binlog_merge.errors import ConfigError
from binlog_merge.whole_files import appearing

if TYPE_CHECKING:
    from binlog_merge.log.log import Log
    from binlog_merge.time_travel.bases import Made

HELP = """Show a table as it was: the rows of a base, and the log's changes between the base and a moment.

\b
  binlog-merge table-at shop.orders --merged merged/ --at-tso 7507804165234491392 --base dump.sql
  binlog-merge table-at shop.orders --merged merged/ --at-tso T --base shop.db --to then.parquet
  binlog-merge table-at shop.orders --merged merged/ --at-tso T --base snapshots/ --to mysql://root@10.0.0.7:3306
  binlog-merge table-at shop.orders --merged merged/ --from-tso T1 --to-tso T2 -o jsonl

--at-tso is a TSO, an order key, a time, a GTID or FILE:POS in the merged log; what committed at it counts. A base is a
dump from where the log begins (or with its GTIDs), a DuckDB file that `replay` or `bootstrap` keeps, or a folder of
such files, local or s3://…, of which the nearest is taken: `replay --snapshots` makes them, which makes it fast. A file
taken after the moment is carried back, if the log has whole images (binlog_row_image=FULL) and no statement
between has changed rows. None is needed for a table that the log creates; --base empty: it was there without rows.

--to is a new DuckDB file (.db, .duckdb), which `replay` goes on from, a Parquet file (.parquet) or a MySQL server
without the table; without --to rows are printed. With --from-tso and --to-tso the rows that are not the same after
both are printed, by key: inserted, updated or deleted. That takes the log alone."""


class RowFormat(StrEnum):
    """The choices of -o."""

    text = "text"
    json = "json"
    jsonl = "jsonl"
    csv = "csv"


class Temporal(StrEnum):
    """The choices of --temporal."""

    typed = "typed"
    text = "text"


AtTso = Annotated[str | None, option("--at-tso --at", "The moment.", "PLACE")]
FromTso = Annotated[str | None, option("--from-tso", "The earlier of two moments.", "PLACE")]
ToTso = Annotated[str | None, option("--to-tso", "The later of two moments.", "PLACE")]
BaseOption = Annotated[
    str | None,
    option("--base", "A dump, a DuckDB file, a folder of them (or s3://…), or `empty`.", "PATH"),
]
To = Annotated[str | None, option("--to", "Where the table goes.", "FILE|mysql://…")]
TemporalOption = Annotated[
    Temporal, option("--temporal", "Dates and times with types, or as MySQL's text, which has every value.")
]
PasswordFile = Annotated[
    Path | None,
    option("--password-file", "Holds the server's password.", "PATH", local_path),
]
Rows = Annotated[int, option("--rows", "How many rows the text shows; 0: all.", min=0)]


def table_at(
    table: Annotated[str, typer.Argument(help="The table, as it was called then.", metavar="SCHEMA.TABLE")],
    merged: Merged = None,
    at_tso: AtTso = None,
    from_tso: FromTso = None,
    to_tso: ToTso = None,
    base: BaseOption = None,
    to: To = None,
    temporal: TemporalOption = Temporal.typed,
    time_zone: TimeZone = None,
    rows: Rows = 20,
    password_file: PasswordFile = None,
    ssl_ca: SslCa = None,
    output: Annotated[RowFormat, option("-o --output", "How to print rows.")] = RowFormat.text,
) -> None:
    """Show a table as it was at a moment, or what changed between two."""
    between = from_tso is not None or to_tso is not None
    if between == (at_tso is not None):
        raise ConfigError("give --at-tso, or --from-tso and --to-tso")
    if between and (from_tso is None or to_tso is None or base is not None or to is not None):
        raise ConfigError("--from-tso goes with --to-tso, and without --base and --to")
    from binlog_merge.files.remote_log import opened_log
    from binlog_merge.log.log import Log
    from binlog_merge.log.question import name_of

    name = name_of(table)
    with opened_log(merged_of(None, merged)) as folder:
        log = Log(folder)
        if between:
            ranks = _rank(log, from_tso or "", "--from-tso"), _rank(log, to_tso or "", "--to-tso")
            _print_changes(log, name, ranks, temporal, output)
            return
        rank = _rank(log, at_tso or "", "--at-tso")
        from binlog_merge.time_travel.bases import bases_of
        from binlog_merge.time_travel.table_at import table_at as made_at

        with tempfile.TemporaryDirectory(prefix="binlog-merge-") as work:
            bases = bases_of(base, log, rank, Path(work))
            with made_at(log, name, rank, bases, Path(work), time_zone_of(time_zone)) as made:
                text = temporal is Temporal.text
                if to is not None:
                    _deliver(log, made, to, text, password_file, ssl_ca)
                _report(made, at_tso or "", to, text, rows, output)


def _rank(log: "Log", place: str, option: str) -> int:
    """Return the rank of the last transaction at a place or before. Raises ConfigError and OutsideLog."""
    from binlog_merge.log.log import check_inside
    from binlog_merge.log.place import parse_place

    place_given = parse_place(option, place)
    check_inside(log, place_given)
    return log.through(place_given)


def _deliver(log: "Log", made: "Made", to: str, text: bool, password_file: Path | None, ssl_ca: Path | None) -> None:
    from binlog_merge.log.checkpoint import checkpoints_of
    from binlog_merge.time_travel import delivered

    if to.startswith("mysql://"):
        from binlog_merge.cli.replay_options import address_of
        from binlog_merge.targets.server.mysql import MysqlTarget

        address = address_of("--to", to, password_file)
        delivered.to_server(made, MysqlTarget(address, "", None if ssl_ca is None else str(ssl_ca)))
        return
    path = local_path(to)
    if path.suffix not in (".db", ".duckdb", ".parquet"):
        raise ConfigError(f"--to {to} is no target", remedy="give FILE.db, FILE.parquet, or mysql://user@host:3306")
    if path.exists():
        raise ConfigError("the file is there already", file=str(path), remedy="give --to another name, or remove it")
    with appearing(path) as part:
        if path.suffix == ".parquet":
            delivered.to_parquet(made, part, text)
        else:
            delivered.to_duckdb(made, part, text, checkpoints_of(log, {made.rank})[made.rank])


def _report(made: "Made", at: str, to: str | None, text: bool, most: int, output: RowFormat) -> None:
    """Print the rows, or where they went."""
    from binlog_merge.redaction import redacted
    from binlog_merge.time_travel.delivered import rows_of

    name = f"{made.table.schema}.{made.table.name}"
    title = f"{name} at {at}, after transaction {made.rank}: {counted(made.rows, 'row')}, made from {_sources(made)}"
    for line in (*made.notes, *(f"in doubt: {doubt}" for doubt in made.doubts)):
        print(printable(line), file=sys.stderr)
    if to is not None:
        title += f", written to {redacted(to)}"
    if output is RowFormat.json:
        base = made.base.path and redacted(made.base.path)
        values = {
            "table": name, "rank": made.rank, "base": base, "base_rank": made.base.rank, "to": to and redacted(to),
            "notes": list(made.notes),
        }  # fmt: skip
        listed = [] if to is not None else json.loads(_jsonable(rows_of(made, True).to_pylist()))
        print_json({"error": None, **values, "rows": made.rows, "in_doubt": list(made.doubts), "values": listed})
        return
    if output is RowFormat.text or to is not None:
        print(printable(title))
    if to is not None:
        return
    if output is RowFormat.text:
        shown = rows_of(made, True, most or None)
        _print_table(shown.column_names, [list(row.values()) for row in shown.to_pylist()])
        if most and made.rows > most:
            print(f"and {made.rows - most:,} more; --rows 0 shows all")
        return
    table = rows_of(made, text or output is RowFormat.jsonl)
    _print_rows(table.column_names, (row for batch in table.to_batches() for row in batch.to_pylist()), output)


def _sources(made: "Made") -> str:
    """Say what a table was made from."""
    if made.base.rank:
        return f"a base at transaction {made.base.rank} and the log" + (", backwards" * (made.base.rank > made.rank))
    return "the log alone" if made.base.path is None else "a base from before the log, and the log"


def _print_changes(
    log: "Log", name: tuple[str, str], ranks: tuple[int, int], temporal: Temporal, output: RowFormat
) -> None:
    """Print the rows that differ behind two transactions."""
    from binlog_merge.ask.changes import changes
    from binlog_merge.log.versions import versions_between
    from binlog_merge.time_travel.net_changes import FIELDS, check_rows_kept, net_changes

    before, last = ranks
    if last < before:
        raise ConfigError("--to-tso is before --from-tso", remedy="swap them")
    found: Iterable[dict[str, Any]] = ()
    if last > before:
        versions = versions_between(log, *name, before + 1, last)
        for text in check_rows_kept(log, versions, before + 1, last):
            print(printable(f"in doubt: values that this statement itself has changed: {text}"), file=sys.stderr)
        own = log.cluster_uuid
        reader = changes(
            log.folder, name, start=f"{own}:{before + 1}", stop=f"{own}:{last}", fields=FIELDS, temporal="text",
        )  # fmt: skip
        found = (_held(row) for batch in net_changes(reader, versions.tables()[-1]) for row in batch.to_pylist())
    if output is RowFormat.json:
        print_json({"error": None, "table": ".".join(name), "changes": json.loads(_jsonable(list(found)))})
    elif output is RowFormat.text:
        for row in found:
            print(printable(f"{row['change']}  {_shown(row['before'])}{_arrow(row)}{_shown(row['after'])}"))
    else:
        _print_rows(["change", "before", "after"], found, output)


def _held(row: dict[str, Any]) -> dict[str, Any]:
    """Return a changed row without the columns of which the log has no value."""
    absent = {side: row[f"{side}_absent"] or () for side in ("before", "after")}
    held = {
        side: row[side] and {name: value for name, value in row[side].items() if name not in names}
        for side, names in absent.items()
    }
    return {"change": row["change"], **held}


def _arrow(row: dict[str, Any]) -> str:
    return "  ->  " if row["change"] == "updated" else ""


def _shown(values: dict[str, Any] | None) -> str:
    return "" if values is None else ", ".join(f"{name}={_text(value)}" for name, value in values.items())


def _text(value: Any) -> str:
    if value is None:
        return "NULL"
    return f"0x{value.hex()}" if isinstance(value, bytes) else str(value)


def _print_table(names: list[str], rows: list[list[Any]]) -> None:
    cells = [names, *([_text(value) for value in row] for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(names))]
    for line in cells:
        print(printable("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()))


def _print_rows(names: list[str], rows: Iterable[dict[str, Any]], output: RowFormat) -> None:
    if output is RowFormat.jsonl:
        for row in rows:
            print(_jsonable(row))
        return
    import csv

    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(names)
    for row in rows:
        cells = (_jsonable(value) if isinstance(value, dict) else value for value in row.values())
        writer.writerow("" if value is None else _text(value) for value in cells)


def _jsonable(value: Any) -> str:
    return json.dumps(_plain(value), default=_text, ensure_ascii=False)


def _plain(value: Any) -> Any:
    """Return a value with integers that a reader of JSON may not hold as text."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return str(value) if isinstance(value, int) and not isinstance(value, bool) and abs(value) > 1 << 53 else value
