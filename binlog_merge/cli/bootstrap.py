"""`binlog-merge bootstrap`: fills a target with the rows that a running cluster has, so that a replay goes on there."""

import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from binlog_merge.cli.log_lines import Level, LineFormat, LogFormat, LogLevel, say, start_log
from binlog_merge.cli.options import ConfiguredMerged, Output, SslCa, local_path, option, place_of
from binlog_merge.cli.output import OutputFormat, document_of, print_json, printable
from binlog_merge.cli.replay import path_of
from binlog_merge.cli.replay_options import Temporal, TimeZone, address_of, password_of, time_zone_of
from binlog_merge.errors import ConfigError, UnsupportedInput
from binlog_merge.redaction import redacted

if TYPE_CHECKING:
    from binlog_merge.bootstrap.duckdb_file import DuckdbFile
    from binlog_merge.bootstrap.mysql_server import MysqlServer
    from binlog_merge.bootstrap.parties import Result
    from binlog_merge.config.merge_config import MergeConfig
    from binlog_merge.log.log import Log

HELP = """Fill a MySQL server or a DuckDB file with the rows that a running cluster has, also those from before its log.

The rows are read from the nodes in chunks, while they are written to and `capture` and `merge` (or `run`) go on beside
it: nothing is locked, nothing is written to the nodes. What the cluster changes meanwhile is then applied from the
merged log. In the end the target is exactly what the cluster was at one transaction of the log, which is printed; from
there `replay` goes on, or a replica that begins after that GTID. Killed at any moment, run it again: it goes on. Until
it has ended, replay and verify refuse a server, and a DuckDB file is called FILE.bootstrap.

\b
  binlog-merge run --config cluster.yaml --merged merged/         capture and merge, in another terminal
  binlog-merge bootstrap --config cluster.yaml --to duckdb:///data/shop.db
  binlog-merge bootstrap --config cluster.yaml --to mysql://root@10.0.0.7:3306
  binlog-merge replay --merged merged/ --to duckdb:///data/shop.db  and so on from there
  binlog-merge verify --merged merged/ --against mysql://root@10.0.0.7 --base /data/shop.db

The nodes need gtid_mode=ON and binlog_row_image=FULL, their user SELECT and REPLICATION CLIENT. Tables without a key
are refused. A table that is altered while it is copied is copied again."""


def bootstrap(
    config: Annotated[
        Path,
        option("--config -c", "The cluster: its nodes, their servers, the routes.", "CLUSTER.YAML", local_path),
    ],
    to: Annotated[
        str,
        option("--to", "mysql://user@host:port, mysql://…/?socket=PATH, or duckdb:///FILE.", "URL"),
    ],
    merged: ConfiguredMerged = None,
    password_file: Annotated[
        Path | None,
        option("--password-file", "Holds the nodes' password; else the URL's, or MYSQL_PWD.", "PATH", local_path),
    ] = None,
    to_password_file: Annotated[
        Path | None,
        option("--to-password-file", "Holds the target's password.", "PATH", local_path),
    ] = None,
    ssl_ca: SslCa = None,
    chunk_rows: Annotated[
        int, option("--chunk-rows", "The most rows of a SELECT on a node.", min=1, max=1_000_000)
    ] = 10_000,
    wait: Annotated[
        float,
        option("--wait", "How many seconds to wait for a merge, or for a DDL, that does not come on.", min=0),
    ] = 600.0,
    workers: Annotated[int, option("--workers", "Sessions of a server that apply the log.", min=1, max=64)] = 1,
    temporal: Annotated[
        Temporal,
        option("--temporal", "DuckDB: dates and times typed, or as MySQL's text (0000-00-00)."),
    ] = Temporal.typed,
    time_zone: TimeZone = None,
    output: Output = OutputFormat.text,
    log_level: LogLevel = Level.warning,
    log_format: LogFormat = LineFormat.text,
) -> None:
    """Fill a target with the rows that a running cluster has."""
    start_log(log_level, log_format)
    from binlog_merge.bootstrap.parties import Options
    from binlog_merge.bootstrap.plan import RoutedTables
    from binlog_merge.bootstrap.published import awaited, captured_nodes
    from binlog_merge.bootstrap.run import bootstrap as run
    from binlog_merge.config.merge_config import MergeConfig
    from binlog_merge.files.remote_log import opened_log
    from binlog_merge.store_errors import as_merge_errors

    cluster = MergeConfig.load(config)
    place = _log_of(cluster, merged)
    password = None if password_file is None else password_of(password_file)
    ca = None if ssl_ca is None else str(ssl_ca)
    nodes = captured_nodes(cluster, password, ca)
    zone = time_zone_of(time_zone)
    begun = time.monotonic()
    with ExitStack() as stack:
        binlog = awaited(stack.enter_context(opened_log(place)), wait, lambda text: say(text, text))
        _check_routed(cluster, binlog)
        if to.startswith("duckdb:"):
            target: DuckdbFile | MysqlServer = stack.enter_context(_file(to, binlog.cluster_uuid, temporal, zone))
        else:
            target = stack.enter_context(_server(to, binlog.cluster_uuid, to_password_file, ca, workers))
        options = Options(chunk_rows, wait, zone)
        stack.enter_context(as_merge_errors(None))
        result = run(binlog, RoutedTables.of(cluster), nodes, target, options, lambda text: say(text, text))
    if output is not OutputFormat.text:
        print_json(document_of(merged=redacted(place), result=result))
    else:
        print("\n".join(printable(line) for line in _lines(result, to, time.monotonic() - begun)), flush=True)


def _log_of(cluster: "MergeConfig", merged: str | None) -> str:
    place = place_of(cluster, merged)
    if cluster.filter is not None:
        raise ConfigError(
            "the log is filtered (`filter` in the configuration), and the nodes' rows are not",
            remedy="bootstrap from a log without a filter, and filter what is replayed from it",
        )
    return place


def _check_routed(cluster: "MergeConfig", binlog: "Log") -> None:
    header = binlog.state.header
    if header is not None and header.carrier == "polardbx" and cluster.topology != "routes":
        raise UnsupportedInput(
            "PolarDB-X's markers say where its tables are, and a bootstrap knows only routes",
            remedy="dump the cluster through a compute node as of a TSO, and replay from there: --start-tso",
        )


def _file(url: str, cluster: str, temporal: Temporal, zone: str | None) -> "DuckdbFile":
    from binlog_merge.bootstrap.duckdb_file import DuckdbFile

    path = path_of(url, "no file: write duckdb:///FILE")
    return DuckdbFile(path, cluster, temporal is Temporal.text, zone)


def _server(url: str, cluster: str, password_file: Path | None, ca: str | None, workers: int) -> "MysqlServer":
    from binlog_merge.bootstrap.mysql_server import MysqlServer
    from binlog_merge.targets.server.mysql import MysqlTarget

    return MysqlServer(MysqlTarget(address_of("--to", url, password_file), cluster, ca), workers)


_DOUBTED: Final = (
    "a distributed transaction inserts a row and deletes the same one, which is taken to be gone; it is still there if "
    "it moved, unchanged, from one node to another"
)


def _lines(result: "Result", to: str, seconds: float) -> list[str]:
    place = result.place
    gtid = f", GTID {place.gtid}" if place.gtid else ""
    lines = [f"{redacted(to)} is exactly the cluster at transaction {place.rank}{gtid}"]
    if place.key:
        lines.append(f"  {'order key':<12} {place.key}")
    if not result.rounds:
        return [*lines, f"  {'nothing to do':<12} it was there already; `replay` goes on"]
    rows = [f"{table}  {number:,} rows read" for table, number in sorted(result.rows.items())]
    for title, values in (
        ("tables", rows),
        ("copied again", result.again),
        ("doubted", [f"{table}: {_DOUBTED}" for table in result.doubted]),
        ("not in log", [f"{shard}: the log has no such table, add it to `base`" for shard in result.not_in_log]),
        ("views", [f"{view} is not made" for view in result.views]),
        ("took", [f"{seconds:.1f} s, {result.rounds} {'round' if result.rounds == 1 else 'rounds'}"]),
    ):
        lines += [f"  {title if i == 0 else '':<12} {value}" for i, value in enumerate(values)]
    return lines
