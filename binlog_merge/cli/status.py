"""`binlog-merge status`: what capture, merge and serve are doing, and whether it is well."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from binlog_merge.cli.log_lines import Level, LineFormat, LogFormat, LogLevel, say, start_log
from binlog_merge.cli.options import ConfiguredMerged, Output, local_path, option, place_of
from binlog_merge.cli.output import OutputFormat, check_many, print_json, printable
from binlog_merge.errors import EXIT_FOUND, ConfigError

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
  /live           200 while the process works  /leader     200 if this `run` leads, or there is no lease
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
    from binlog_merge.cli.status_text import lines_of

    text = "\n".join(printable(line) for line in lines_of(seen))
    before, after = ("\x1b[H\x1b[J", "") if clear and sys.stdout.isatty() else ("", "\n" if clear else "")
    print(f"{before}{text}{after}", flush=True)
