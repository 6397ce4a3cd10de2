"""What the commands do, as functions for programs and notebooks: capture, inspect, replay, serve and verify.

`merge` and `transactions` are those of `spark`. Nothing is printed; errors are MergeErrors, with the exit codes and
remedies of the command line. Each function imports what it needs when it is called.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote, urlsplit

from binlog_merge.errors import ConfigError

if TYPE_CHECKING:
    from binlog_merge.config.merge_config import MergeConfig
    from binlog_merge.filters.filter import Filter
    from binlog_merge.log.log import Log
    from binlog_merge.log.replay_options import ReplayOptions, ReplayResult
    from binlog_merge.node_capture.nodes import CaptureResult
    from binlog_merge.verification.whole import Verified


class Address(NamedTuple):
    """Where a merged log is served."""

    host: str
    port: int


def capture(
    config: "MergeConfig",
    into: str | Path | None = None,
    *,
    nodes: Sequence[str] = (),
    password: str | None = None,
    ssl_ca: str | None = None,
    follow: bool = False,
    stop: Event | None = None,
    retry_seconds: float = 60.0,
    report: Callable[[str, str], None] = lambda node, text: None,
) -> "CaptureResult":
    """Fetch the nodes' binlogs from their servers, byte for byte; a later call goes on where the files end.

    `into` is the directory for a folder a node; default: `capture.dir` of the configuration. `nodes` are source-ids;
    none: all that have a `server`. `password` is for all servers; default: that of their URLs, or MYSQL_PWD. It returns
    when the files have what the servers had; with `follow` it goes on until `stop` is set. `report` gets a node and a
    line. Raises the MergeError of the first node that failed, when all have ended, with a CaptureResult as `result`.
    """
    from binlog_merge.mariadb_nodes.folder import translating
    from binlog_merge.node_capture.node import CaptureOptions
    from binlog_merge.node_capture.nodes import capture as fetch

    options = CaptureOptions(follow, retry_seconds, ssl_ca, lost_after=config.capture.lost_after / 1e6)
    place = Path(into or config.capture.dir)
    return fetch(config, place, options, nodes, password, report=report, stop=stop, translating=translating)


def inspect(
    file: str | Path, *, start: int = 4, stop: int | None = None, rows: bool = False
) -> Iterator[dict[str, Any]]:
    """Yield the events of a binlog file, a local one or one at s3:// (gs://, az://), as plain values.

    They are the objects of `binlog-merge inspect -o jsonl`, with numbers as they are; see docs/reference/json.md.
    Events that begin in [`start`, `stop`) are read, in bytes. With `rows` events of rows have these by column name.
    Raises MergeError at the first event that is cut or damaged, with file and position.
    """
    from binlog_merge.log.inspection import records_of

    return records_of(file, start, stop, int(rows))


def verify(merged: str | Path) -> "Verified":
    """Look through a merged log from end to end: files, checksums, GTIDs, order, rows, and the tables' shapes.

    Returns what was counted. Raises the MergeError of the first fault, with its place.
    """
    from binlog_merge.files.remote_log import opened_log
    from binlog_merge.log.log import Log
    from binlog_merge.log.replay_options import history_of
    from binlog_merge.verification.whole import verify as look_through

    with opened_log(merged) as folder:
        return look_through(Log(folder), history_of(folder.directory))


def replay(
    merged: str | Path,
    to: str,
    *,
    password: str | None = None,
    ssl_ca: str | None = None,
    start_tso: int | None = None,
    stop_tso: int | None = None,
    filter_file: str | Path | None = None,
    workers: int = 1,
    batch: int = 100,
    retry_seconds: float = 60.0,
    temporal_text: bool = False,
    zero_dates: str = "stop",
    system_zone: str | None = None,
) -> "ReplayResult":
    """Apply a merged log to a target, exactly once: from where the target is, to the end of what is published.

    `to` is mysql://user@host:port, duckdb:///FILE, or parquet:///DIR. `start_tso` is inclusive and only for a target
    without a position, `stop_tso` exclusive. `filter_file` is TOML of TiCDC or YAML of DM. `workers` sessions of a
    server apply rows in parallel, `batch` transactions share a commit. `temporal_text` has dates and times as MySQL's
    text, for DuckDB and Parquet; without it `zero_dates` says what becomes of dates that no calendar has: `null`,
    `stop`, for Parquet also `text`, or a rule for one column: `born=null`. `system_zone` is what SYSTEM was for the
    servers that ran the DDL, for DuckDB. Raises MergeError, with what was applied before as its `result`.
    """
    from binlog_merge.files.remote_log import opened_log
    from binlog_merge.log.log import Log
    from binlog_merge.log.place import Place
    from binlog_merge.log.question import zero_dates_of
    from binlog_merge.log.replay_options import ReplayOptions

    with opened_log(merged) as folder:
        binlog = Log(folder)
        start = None if start_tso is None else Place.at_tso("start_tso", start_tso)
        between = binlog.between(start, None if stop_tso is None else Place.at_tso("stop_tso", stop_tso))
        options = ReplayOptions(
            first_rank=None if start is None else between.first,
            last_rank=None if stop_tso is None else between.last,
            filter=None if filter_file is None else _filter(Path(filter_file)),
            batch=batch,
            retry_seconds=retry_seconds,
            workers=workers,
            system_zone=system_zone,
            zero_dates=zero_dates_of("zero_dates", zero_dates),
        )
        scheme = urlsplit(to).scheme
        if scheme == "parquet":
            return _to_parquet(binlog, _path(to), options, temporal_text)
        if scheme == "duckdb":
            return _to_duckdb(binlog, _path(to), options, temporal_text)
        return _to_server(binlog, to, password, ssl_ca, options)


@contextmanager
def serve(
    merged: str | Path,
    *,
    host: str = "127.0.0.1",
    port: int = 3307,
    user: str = "rep",
    password: str = "",
    report: Callable[[str], None] = lambda line: None,
) -> Iterator[Address]:
    """Serve a merged log over MySQL's protocol while the `with` block runs, from a thread; yield its Address.

    Port 0 is any free one. Beyond this machine a password is needed. `report` gets lines for an operator: readers that
    come and go, damage that was found. Raises ConfigError and ServerRefused if it cannot listen, NothingWritten where
    nothing is merged; at the end of the block what ended the serving before.
    """
    from binlog_merge.binlog_server.log import PublishedLog
    from binlog_merge.binlog_server.server import BinlogServer, ServeOptions
    from binlog_merge.files.remote_log import opened_log

    failed: list[BaseException] = []
    ended = Event()

    def run() -> None:
        try:
            server.run()
        except Exception as error:  # for the thread of the block; closing ends it by an error, too
            if not ended.is_set():
                failed.append(error)

    with opened_log(merged, schema=False) as folder, folder.following(report):
        with BinlogServer(PublishedLog(folder), ServeOptions(host, port, user, password), report) as server:
            thread = Thread(target=run, daemon=True, name="serve")
            thread.start()
            try:
                yield Address(*server.address)
            finally:
                ended.set()
                server.close()
                thread.join()
        if failed:
            raise failed[0]


def _filter(path: Path) -> "Filter":
    from binlog_merge.filters.config import load_filter
    from binlog_merge.filters.filter import verify

    return verify(load_filter(path))


def _path(url: str) -> Path:
    parts = urlsplit(url)
    if parts.netloc or not parts.path.strip("/"):
        raise ConfigError(f"{url!r} names no local path", remedy="write duckdb:///FILE, or parquet:///DIR")
    return Path(unquote(parts.path))


def _to_server(
    binlog: "Log", url: str, password: str | None, ssl_ca: str | None, options: "ReplayOptions"
) -> "ReplayResult":
    from binlog_merge.targets.server.mysql import MysqlTarget
    from binlog_merge.targets.server.run import replay
    from snapshot_store.server import ServerAddress

    if options.filter is not None and options.filter.settings.column_selectors:
        raise ConfigError("column-selectors: a MySQL server gets whole rows", remedy="leave the selectors out")
    try:
        address = ServerAddress.parse(url, password)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    return replay(binlog, MysqlTarget(address, binlog.cluster_uuid, ssl_ca), options)


def _columns(options: "ReplayOptions") -> Callable[[str, str], Any]:
    chosen = options.filter
    return (lambda schema, table: None) if chosen is None else chosen.columns


def _to_parquet(binlog: "Log", folder: Path, options: "ReplayOptions", text: bool) -> "ReplayResult":
    from binlog_merge.targets.parquet import ParquetTarget, capture

    columns = _columns(options)
    with ParquetTarget(folder, binlog.cluster_uuid, text, columns, zero_dates=options.zero_dates) as target:
        return capture(binlog, target, options)


def _to_duckdb(binlog: "Log", path: Path, options: "ReplayOptions", text: bool) -> "ReplayResult":
    from binlog_merge.log.replay_options import history_of
    from binlog_merge.tables.load import load
    from binlog_merge.tables.target import DuckdbTarget

    with DuckdbTarget(path, binlog.cluster_uuid, text, _columns(options)) as target:
        return load(binlog, target, history_of(binlog.directory), options)
