"""`binlog-merge verify`: checks that a merged binlog is sound, and that a server has its rows."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from binlog_merge.cli.log_lines import Level, LineFormat, LogFormat, LogLevel, start_log
from binlog_merge.cli.options import Merged, MergedArgument, Output, SslCa, commit_tso, local_path, merged_of, option
from binlog_merge.cli.output import OutputFormat, document_of, print_json, printable
from binlog_merge.errors import EXIT_FOUND, EXIT_UNJUDGED, ConfigError
from binlog_merge.redaction import redacted

if TYPE_CHECKING:
    from binlog_merge.files.log_folder import LogFolder
    from binlog_merge.log.log import Log
    from binlog_merge.verification.against import Comparison
    from binlog_merge.verification.compare import RowDifference, TableComparison
    from binlog_merge.verification.whole import Verified

HELP = """Look through a merged binlog from end to end: files, checksums, GTIDs, order, rows, and the tables' shapes.

Stops at the first fault and says where it is; the exit code says of which kind.

With --against, compare a server with what the log says instead: rows and checksums of every table at the server's own
position (a replay's, or a replica's executed GTIDs) or at the one given, and the rows that differ, found by the hash of
their keys. The tables are made anew from the log. Of a table that was there before it, each row that the log names is
judged by its images: it must be as the last one says, or gone; rows that the log never names cannot be judged, unless
--base says what the table had. With --nodes the other side is the cluster itself: each logical table is the physical
ones of all nodes together; nothing may write to them meanwhile. Exit code 1: something
differs; 3: nothing does, as far as it can be judged, but not all of it can; 0: all was judged, and is the same.

\b
  binlog-merge verify merged/
  binlog-merge verify --merged merged/ --against mysql://root@10.0.0.7:3306
  binlog-merge verify --merged merged/ --against mysql://root@10.0.0.7 --base dump.sql
  binlog-merge verify --merged merged/ --against mysql://root@10.0.0.7 --nodes cluster.yaml --node dn-1=mysql://root@dn1
"""


def verify(
    directory: MergedArgument = None,
    merged: Merged = None,
    against: Annotated[str | None, option("--against", "Compare this server: mysql://user@host:port.", "URL")] = None,
    base: Annotated[
        str | None,
        option(
            "--base",
            "What the tables had where the log begins: a dump (a file or directory of SQL), a DuckDB file, a "
            "server (mysql://…), or `empty`.",
            "WHAT",
        ),
    ] = None,
    nodes: Annotated[
        Path | None,
        option("--nodes", "Compare it with the nodes of this configuration.", "FILE", local_path),
    ] = None,
    node: Annotated[list[str] | None, option("--node", "Where a node's server is.", "SOURCE_ID=URL")] = None,
    password_file: Annotated[
        Path | None,
        option("--password-file", "Holds the servers' password.", "PATH", local_path),
    ] = None,
    ssl_ca: SslCa = None,
    stop_gtid: Annotated[str | None, option("--stop-gtid", "The last transaction that the server has.", "GTID")] = None,
    stop_tso: Annotated[
        int | None,
        option("--stop-tso", "The server has what committed before this TSO.", "TSO", commit_tso("--stop-tso")),
    ] = None,
    filter_file: Annotated[
        Path | None,
        option("--filter", "The filter of the replay that wrote to the server.", "FILE", local_path),
    ] = None,
    rows: Annotated[int, option("--rows", "How many differing rows of a table to show.", min=0)] = 20,
    work: Annotated[
        Path | None,
        option("--work", "Where to make the log's tables meanwhile.", "DIR", local_path),
    ] = None,
    output: Output = OutputFormat.text,
    log_level: LogLevel = Level.warning,
    log_format: LogFormat = LineFormat.text,
) -> None:
    """Look through a merged binlog, or compare a server with it."""
    start_log(log_level, log_format)
    place = merged_of(directory, merged)
    if against is None and (nodes is not None or node or base is not None):
        raise ConfigError("--nodes, --node and --base go with --against")
    shown = redacted(place)
    from binlog_merge.files.remote_log import opened_log

    with opened_log(place) as folder:
        if against is None:
            _look_through(folder, shown, output)
            return
        from binlog_merge.cli.replay_options import address_of, filter_of, range_of
        from binlog_merge.log.log import Log
        from binlog_merge.verification.against import compare_with_nodes, compare_with_server

        binlog = Log(folder)
        server, ca = address_of("--against", against, password_file), None if ssl_ca is None else str(ssl_ca)
        if nodes is None:
            _, rank = range_of(binlog, (None, None), (stop_gtid, stop_tso))
            chosen = filter_of(filter_file, False)
            with _opened(base, binlog, password_file, ca) as known:
                found = compare_with_server(
                    binlog, server, ssl_ca=ca, rank=rank, chosen=chosen, most_rows=rows, work=work, base=known
                )
        else:
            if base is not None:
                raise ConfigError("--base goes without --nodes: the nodes have all rows, those from before the log too")
            addresses = {name: address_of("--node", url, password_file) for name, url in map(_named, node or ())}
            found = compare_with_nodes(binlog, server, nodes, addresses, ssl_ca=ca, most_rows=rows)
    if output is not OutputFormat.text:
        print_json(document_of(merged=shown, result=found))
    else:
        print("\n".join(printable(line) for line in _lines(found, str(server))), flush=True)
    if not found.same or not found.whole:
        raise typer.Exit(EXIT_UNJUDGED if found.same else EXIT_FOUND)


@contextmanager
def _opened(text: str | None, binlog: "Log", password_file: Path | None, ca: str | None) -> Iterator[Any]:
    """Yield the base of --base, None without the option."""
    from binlog_merge.cli.replay_options import address_of
    from binlog_merge.verification.against import rank_of_server
    from binlog_merge.verification.base import DuckdbBase, Empty, ServerBase, is_duckdb
    from binlog_merge.verification.base_dump import DumpBase
    from binlog_merge.verification.compare_sides import ServerSide

    if text is None or text == "empty":
        yield None if text is None else Empty()
    elif text.startswith("mysql://"):
        with ServerSide([address_of("--base", text, password_file)], ca) as server:
            yield ServerBase(server, rank_of_server(server, binlog))
    elif text.startswith("duckdb:") or is_duckdb(Path(text)):
        yield DuckdbBase.of(Path(text.removeprefix("duckdb://").removeprefix("duckdb:")), binlog.cluster_uuid)
    else:
        yield DumpBase.of(Path(text), binlog.cluster_uuid)


def _named(text: str) -> tuple[str, str]:
    name, given, url = text.partition("=")
    if not given:
        raise ConfigError(f"--node {text!r}: write SOURCE_ID=mysql://user@host:port")
    return name, url


def _look_through(folder: "LogFolder", shown: str, output: OutputFormat) -> None:
    from binlog_merge.log.log import Log
    from binlog_merge.log.replay_options import history_of
    from binlog_merge.verification.whole import verify as look_through

    found = look_through(Log(folder), history_of(folder.directory))
    if output is not OutputFormat.text:
        print_json(document_of(merged=shown, result=found))
        return
    print("\n".join(lines_of(found, shown)), flush=True)


def lines_of(found: "Verified", directory: str) -> list[str]:
    """Return the lines about a verified log."""
    values = found.to_dict()
    rows = sum(found.rows.values())
    shapes = "every table map fits the schema history" if found.shapes else "there is no schema history to compare with"
    whole = f"what this run wrote into {directory}" if found.some else directory
    lines = [
        f"{whole} is whole and in order",
        f"  files      {values['files']}, {values['size']:,} bytes, {values['events']} events",
        f"  contents   {values['transactions']} transactions, {values['statements']} statements, {rows} rows",
        f"  shapes     {shapes}",
        *(f"  keys       {text}" for text in values["collisions"]),
    ]
    if values["collisions"]:
        lines.append("  a server that applies the log stops at the first of these, with error 1062")
    if values["cascading"]:
        names = ", ".join(values["cascading"])
        lines.append(f"  keys       not looked at of {names}, whose rows a foreign key's CASCADE may remove unseen")
    return [printable(line) for line in lines]


def _lines(found: "Comparison", server: str) -> list[str]:
    same = "holds what it should" if found.same else "differs"
    in_part = sum(not table.whole for table in found.tables)
    if found.same and in_part:
        same += f", as far as it can be judged: {in_part} of {len(found.tables)} tables cannot be judged whole"
    lines = [f"{server} {same}" + (f", at transaction {found.rank}" if found.rank is not None else "")]
    for table in found.tables:
        lines += _table_lines(table)
    lines += [f"  {name}  is not of the log" for name in found.others]
    return lines + ([_BASE] if in_part else [])


_BASE = "  --base says what tables had before the log: a dump, a DuckDB file, a server; or `empty`, that it was nothing"


def _table_lines(table: "TableComparison") -> list[str]:
    if table.problem:
        return [f"  {table.name}  {table.problem}"]
    line = f"  {table.name}  {table.right[0]} rows, checksum {table.right[1]:08x}"
    if table.partly:
        wrong = f" but for {'these' if table.rows else 'some'}" if table.different else ""
        line = f"  {table.name}  {table.right[0]} rows; those that the log names are as they should be{wrong}"
        line += f"; it was there before the log, which does not name {table.unnamed} of them"
        line += f", nor all columns of {table.unsaid} others" if table.unsaid else ""
        line += f"; {table.note}" if table.note else ""
    elif not table.same:
        line += f"; should be {table.left[0]} rows, checksum {table.left[1]:08x}"
    return [line] + [f"    {_row_text(row)}" for row in table.rows]


def _row_text(row: "RowDifference") -> str:
    key = ", ".join(f"{name}={_short(text)}" for name, text in row.key.items())
    if not row.left or not row.right:
        return f"{key}: " + ("is missing" if row.left else "should not be there")
    if not row.columns:
        return f"{key}: {row.right} times, should be {row.left} times"
    return f"{key}: " + ", ".join(f"{n} is {_short(b)}, should be {_short(a)}" for n, (a, b) in row.columns.items())


def _short(text: Any) -> str:
    if text is None:
        return "NULL"
    return text if len(text) <= 60 else text[:60] + "…"
