"""`binlog-merge status`: what capture, merge and serve are doing, and whether it is well."""

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from binlog_merge.cli.log_lines import Level, LineFormat, LogFormat, LogLevel, say, start_log
from binlog_merge.cli.options import ConfiguredMerged, Output, local_path, option, place_of
from binlog_merge.cli.output import OutputFormat, ago, check_many, decimal_size, print_json, printable, seconds_text
from binlog_merge.errors import EXIT_FOUND, ConfigError
from binlog_merge.json_values import unix_time_text
from binlog_merge.observe.status.health import waiting_text
from binlog_merge.observe.status.values import (
    MergedStatus,
    NodeStatus,
    ReaderStatus,
    ReplicaStatus,
    Severity,
    Status,
    Watermark,
)

if TYPE_CHECKING:
    from binlog_merge.config.merge_config import MergeConfig
    from binlog_merge.files.log_folder import LogFolder
    from binlog_merge.observe.status.health import Limits
    from binlog_merge.observe.status.values import Status


HELP = """Show what capture, merge and serve are doing: how far each is, what holds it back, and whether it is healthy.

It only reads what is on disk: the output's manifest, the nodes' files, and small notes that the running commands keep
beside them. So it may be run anywhere those are, at any time, as often as one likes.

\b
  binlog-merge status --config cluster.yaml --merged merged/              once; exit code 1 if it is not healthy
  binlog-merge status --config cluster.yaml --merged merged/ --watch      again and again, until Ctrl-C
  binlog-merge status --config cluster.yaml --merged merged/ -o json      as one JSON object; with --watch -o jsonl
  binlog-merge status --config cluster.yaml --merged merged/ --listen 9464
\b
With --listen it is shown over HTTP until Ctrl-C (exit code 130) or SIGTERM (143):
  /metrics        for Prometheus               /health     200, or 503 with the reasons
  /status.json    what -o json prints          /           a page with the nodes, watermark, lag and throughput

There is no password: --listen PORT is for this machine only, and HOST:PORT for who can reach that address."""


def status(
    config: Annotated[
        Path,
        option("--config -c", "The cluster: its nodes and where they are.", "CLUSTER.YAML", local_path),
    ],
    merged: ConfiguredMerged = None,
    watch: Annotated[bool, option("--watch", "Show it again and again.")] = False,
    interval: Annotated[float, option("--interval", "Seconds from one look to the next, with --watch.", min=0.1)] = 2.0,
    max_lag: Annotated[float, option("--max-lag", "The lag in seconds from which something is late.", min=0)] = 60.0,
    listen: Annotated[
        str | None, option("--listen", "Show it over HTTP; PORT alone: on 127.0.0.1.", "[HOST:]PORT")
    ] = None,
    output: Output = OutputFormat.text,
    log_level: LogLevel = Level.warning,
    log_format: LogFormat = LineFormat.text,
) -> None:
    """Show what capture, merge and serve are doing."""
    start_log(log_level, log_format)
    from binlog_merge.config.merge_config import MergeConfig
    from binlog_merge.files.remote_log import opened_log
    from binlog_merge.observe.status.health import Limits
    from binlog_merge.observe.status.observer import Observer

    if watch and listen is not None:
        raise ConfigError("--watch and --listen contradict each other", remedy="give one of them")
    if watch:
        check_many(output, "--watch")
    cluster = MergeConfig.load(config)
    limits = Limits(max_lag)
    with opened_log(place_of(cluster, merged), schema=False) as folder, folder.following(_say):
        if listen is not None:
            with status_shown(cluster, folder, listen, limits):
                while True:
                    time.sleep(3600)
        observer = Observer(cluster, folder, limits)
        seen = observer.look()
        _print(seen, output, clear=watch)
        while watch:
            time.sleep(interval)
            _print(observer.look(), output, clear=True)
    if not seen.healthy:
        raise typer.Exit(EXIT_FOUND)


@contextmanager
def status_shown(
    config: "MergeConfig", out: "Path | LogFolder", listen: str | None, limits: "Limits | None" = None
) -> Iterator[None]:
    """Show a cluster's status over HTTP, and say where; with `listen` None nowhere. Raises as StatusServer.start."""
    if listen is None:
        yield
        return
    from binlog_merge.observe.status.server import StatusServer

    with StatusServer(config, out, listen, limits) as server:
        say(f"the status of {config.name} is shown at {server.url}", "status is shown", url=server.url)
        yield


def _say(line: str) -> None:
    say(f"binlog-merge: {line}", line)


def _print(seen: "Status", output: OutputFormat, clear: bool) -> None:
    if output is not OutputFormat.text:
        print_json({**seen.to_dict(), "error": None})
        return

    text = "\n".join(printable(line) for line in lines_of(seen))
    before, after = ("\x1b[H\x1b[J", "") if clear and sys.stdout.isatty() else ("", "\n" if clear else "")
    print(f"{before}{text}{after}", flush=True)


def lines_of(status: Status) -> Iterator[str]:
    """Yield the lines of a status."""
    yield f"{status.name}: {_health(status)}"
    texts = {severity: [p.text for p in status.problems if p.severity is severity] for severity in Severity}
    yield from _rows("errors", texts[Severity.error])
    yield from _rows("to look at", texts[Severity.warning])
    if status.merged is not None:
        yield from _merged(status, status.merged)
    decided = [" ".join(f"{one.id}: {one.action} {one.of}".split()) for one in status.decisions]
    more = status.decisions_count - len(decided)
    yield from _rows("decided", [*([f"{more} more, and"] if more > 0 else []), *decided])
    yield from _rows("nodes", _table([_node(name, node, status.at) for name, node in status.nodes.items()]))
    yield from _rows("servers", _table([row for name, node in status.nodes.items() for row in _servers(name, node)]))
    holding = [f"{name}: {node.holds_back}" for name, node in status.nodes.items() if node.holds_back]
    yield from _rows("held back", holding)
    listed = [f"{b.node}  {b.file}:{b.position}  transaction {b.transaction_id}" for b in status.open_branches]
    more = status.open_branches_count - len(listed)
    yield from _rows("prepared", [*listed, f"and {more} more branches"] if listed and more > 0 else listed)
    for serve in status.serves:
        if not serve.silent:
            readers = _table([_reader(reader) for reader in serve.readers])
            yield from _rows("serve", [f"{serve.address}: {_count(len(serve.readers), 'reader')}"])
            asked = _table([_replica(replica) for replica in serve.replicas])
            yield from (f"  {'':<10}   {line}" for line in (*readers, *asked))
    if (archive := status.archive) is not None:
        waiting = f"; {_count(archive.waiting_files, 'file')}, {decimal_size(archive.waiting_bytes)} wait"
        there = f"{_count(archive.files, 'file')}, {decimal_size(archive.bytes)} at {archive.to}"
        since = f"{there}{waiting if archive.waiting_files else ''}{'' if archive.active else '; nothing is sent now'}"
        yield from _rows("archive", [since])
    more = status.warnings_count - len(status.warnings)
    yield from _rows("warnings", [*status.warnings, *([f"and {more} more"] if more > 0 else [])])


def _health(status: Status) -> str:
    if status.healthy:
        return "healthy"
    return "STOPPED" if all(problem.code == "capture-stopped" for problem in status.reasons) else "NOT HEALTHY"


def _merged(status: Status, merged: MergedStatus) -> Iterator[str]:
    size = f"{_count(merged.files, 'file')}, {decimal_size(merged.output_bytes)}"
    counted = f"{merged.transactions:,} transactions ({merged.totals.get('ddl', 0):,} of them DDL) in {size}"
    yield from _rows("merged", [f"{counted}, up to {merged.end}", f"published {ago(status.at - merged.published_at)}"])
    if merged.removed_at is not None:
        gone = f"{_count(merged.removed_files, 'file')}, {decimal_size(merged.removed_bytes)}"
        captured = (
            f"{_count(merged.removed_captured_files, 'captured file')}, {decimal_size(merged.removed_captured_bytes)}"
        )
        both = f"{gone} of the output; {captured}; last {ago(status.at - merged.removed_at)}"
        yield from _rows("removed", [f"{both}; the first file is {merged.first_file}"])
    yield from _rows("watermark", ["end of input" if merged.end_of_input else _watermark(merged.watermark)])
    if merged.held:
        yield from _rows("held", [f"{_count(merged.held, 'branch', 'branches')}, {decimal_size(merged.held_bytes)}"])
    if merged.locks:
        yield from _rows("DDL", [f"{merged.locks:,} of shards wait for other shards: see `binlog-merge ddl locks`"])
    if merged.waiting:
        yield from _rows("waiting", [f"{_count(merged.waiting, 'branch', 'branches')} of shards wait for a DDL"])
    listed = [f"{ddl.table}: {ddl.stage}, {waiting_text(ddl)}" for ddl in merged.waiting_ddl]
    more = merged.locks - len(listed)
    yield from _rows("DDL", [*listed, *([f"and {more} more"] if more > 0 else [])])
    if (rates := status.rates) is not None:
        per_second = f"{rates.transactions:,.1f} transactions/s, {decimal_size(rates.bytes)}/s of input"
        yield from _rows("rate", [f"{per_second} over {rates.seconds:.0f} s"])
    if (ddl := status.last_ddl) is not None:
        sql = " ".join(ddl.sql.split())
        place = f"at {ddl.key} in {ddl.file or 'a file that is gone'}"
        when = "" if ddl.time is None else f", {unix_time_text(ddl.time)}"
        yield from _rows("last DDL", [sql if len(sql) <= 100 else f"{sql[:97]}...", f"{place}{when}"])


def _node(name: str, node: NodeStatus, now: float) -> list[str]:
    captured = "no files" if node.captured is None else f"captured {node.captured}"
    grew = "" if node.captured_at is None else ago(now - node.captured_at)
    read = "not read" if node.read is None else f"read to {node.read}"
    behind = "" if not node.unread_bytes else f"{decimal_size(node.unread_bytes)} behind"
    return [name, captured, grew, read, behind, f"watermark {_watermark(node.watermark)}"]


def _servers(name: str, node: NodeStatus) -> Iterator[list[str]]:
    """Yield the servers of a node that has failed over."""
    for number, server in enumerate(node.servers if len(node.servers) > 1 else ()):
        since = "the first" if server.since is None else f"since {unix_time_text(server.since)}"
        last = number + 1 == len(node.servers)
        ends = "is captured" if last else "left" if server.ends is None else f"left after {server.ends}"
        yield [name if number == 0 else "", server.server_uuid or "not known", server.server or "", since, ends]


def _reader(reader: ReaderStatus) -> list[str]:
    who = f"{reader.peer}, server id {reader.server_id}"
    if not reader.behind_bytes:
        return [who, f"at {reader.sent}", "was sent everything"]
    late = "" if reader.lag_seconds is None else f", {reader.lag_seconds:.1f} s"
    return [who, f"at {reader.sent}", f"{decimal_size(reader.behind_bytes)}{late} behind"]


def _replica(replica: ReplicaStatus) -> list[str]:
    if replica.applies is None:
        return [replica.server, replica.text]
    error = f", error {replica.error}" if replica.error else ""
    return [replica.server, "applies" if replica.applies else f"STOPPED{error}: {replica.text}"]


def _watermark(watermark: Watermark | None) -> str:
    if watermark is None:
        return "none yet"
    if watermark.time is None or watermark.lag_seconds is None:
        return f"{watermark.key}, which carries no time"
    return f"{unix_time_text(watermark.time)}, {seconds_text(watermark.lag_seconds)} behind"


def _count(number: int, noun: str, plural: str = "") -> str:
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def _rows(title: str, values: Sequence[str]) -> list[str]:
    return [f"  {title if i == 0 else '':<10} {value}" for i, value in enumerate(values)]


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows with their columns aligned; a column that is empty everywhere goes."""
    columns = [column for column in zip(*rows, strict=True) if any(column)]
    widths = [max(map(len, column)) for column in columns]
    return [
        "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip()
        for row in zip(*columns, strict=True)
    ]
