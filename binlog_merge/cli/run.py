"""`binlog-merge run`: capture, merge and serve of a cluster as one supervised command."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from binlog_merge.cli.log_lines import Level, LineFormat, LogFormat, LogLevel, is_quiet, start_log, verbosity
from binlog_merge.cli.merge import check_java, output_directory, spark_options
from binlog_merge.cli.options import Output, WrittenMerged, local_path
from binlog_merge.cli.output import OutputFormat, print_json, size_of
from binlog_merge.cli.replay_options import password_of
from binlog_merge.cli.run_commands import ComponentLines
from binlog_merge.errors import (
    EXIT_INTERRUPTED,
    EXIT_TERMINATED,
    FINAL_EXITS,
    ConfigError,
)

if TYPE_CHECKING:
    from binlog_merge.cli.run_commands import RunOptions
    from binlog_merge.cli.supervisor import Supervisor
    from binlog_merge.config.merge_config import MergeConfig

LOCK_NAME = ".run.lock"


def _ranges(numbers: tuple[int, ...]) -> str:
    """Return sorted numbers as text, three or more in a row as a range: `2, 11-24, 26`."""
    rows: list[list[int]] = []
    for number in numbers:
        if rows and rows[-1][-1] == number - 1:
            rows[-1].append(number)
        else:
            rows.append([number])
    return ", ".join(f"{row[0]}-{row[-1]}" if len(row) > 2 else ", ".join(map(str, row)) for row in rows)


FINAL_CODES = _ranges(FINAL_EXITS)
"""The exit codes that end `run`, for people."""


HELP = f"""Capture, merge and serve a cluster, until it is stopped.

It runs three commands as processes of its own, and each is started again if it dies, after a pause that grows from one
second to a minute:

\b
  binlog-merge capture --stop-never --together --retry-seconds inf    fetches the binlogs of nodes that have a `server`
  binlog-merge merge --stop-never                                     merges what is new, as it comes
  binlog-merge serve                                                  serves the merged binlog to replicas
\b
  binlog-merge run --config cluster.yaml --merged merged/ --password-file nodes.pw
  binlog-merge run --config cluster.yaml --merged merged/ --host 0.0.0.0 --serve-password-file rep.pw
  binlog-merge run --config cluster.yaml --merged merged/ --no-capture    where the nodes' files come by other means

A command that hangs is killed and started again: it gives a sign of life each second, and merge those of its Java; see
--hangs-after. The configuration and the filter are read once, here: an edit counts from the next start of `run` on.

All that they print goes to stderr, each line with the name of its command; with --log-format json one object a line,
with the key `component`.

Ctrl-C and SIGTERM stop the three, each after a whole transaction; what has not ended after --grace seconds is killed.
The exit code is 0 if all ended in time, else 130 or 143. When a command ends with an exit code that no restart
can help, the others are stopped too, and that code is the exit code. These are {FINAL_CODES},
and 70 if it comes five times in a row. One that has worked is started again after a 2, too: what it was told was right.

When this command is killed itself, the three die with it. A second one for the same output is refused (25)."""

Config = Annotated[
    Path,
    typer.Option(
        "--config", "-c", help="The cluster: nodes, routes, output.", metavar="CLUSTER.YAML", parser=local_path
    ),
]


def run(
    config: Config,
    merged: WrittenMerged = None,
    no_capture: Annotated[
        bool, typer.Option("--no-capture", help="Do not fetch binlogs: the nodes' files come by other means.")
    ] = False,
    no_serve: Annotated[bool, typer.Option("--no-serve", help="Do not serve the merged binlog.")] = False,
    password_file: Annotated[
        Path | None,
        typer.Option(
            "--password-file",
            help="capture: holds the servers' password; else the URL's, or MYSQL_PWD.",
            parser=local_path,
            metavar="PATH",
        ),
    ] = None,
    ssl_ca: Annotated[
        Path | None,
        typer.Option(
            "--ssl-ca",
            help="capture: encrypt, and trust only servers that this CA vouches for.",
            parser=local_path,
            metavar="PATH",
        ),
    ] = None,
    start_file: Annotated[
        list[str] | None,
        typer.Option(
            "--start-file",
            help="capture: where a node without captured files begins; default: its server's first file.",
            metavar="[SOURCE_ID=]FILE",
        ),
    ] = None,
    min_interval: Annotated[
        float | None,
        typer.Option("--min-interval", min=0, help="merge: the least time between two rounds.", metavar="SECONDS"),
    ] = None,
    in_driver: Annotated[
        int | None,
        typer.Option(
            "--in-driver",
            parser=size_of,
            help="merge: what a stage may read without a Spark job; default: 16MiB.",
            metavar="SIZE",
        ),
    ] = None,
    filter_file: Annotated[
        Path | None,
        typer.Option(
            "--filter", help="merge: what comes out; `filter` of the configuration.", metavar="FILE", parser=local_path
        ),
    ] = None,
    check_rows: Annotated[
        bool, typer.Option("--check-rows", help="merge: walk all rows before they come out.")
    ] = False,
    master: Annotated[str | None, typer.Option("--master", help="merge: the Spark master.", metavar="URL")] = None,
    conf: Annotated[
        list[str] | None,
        typer.Option("--conf", help="merge: a Spark option, K=V; may be given again.", metavar="K=V"),
    ] = None,
    host: Annotated[
        str | None, typer.Option("--host", help="serve: the address to listen on; default: 127.0.0.1.")
    ] = None,
    port: Annotated[
        int | None, typer.Option("--port", min=0, max=65535, help="serve: the port; default: 3307.")
    ] = None,
    user: Annotated[str | None, typer.Option("--user", help="serve: the one user that there is; default: rep.")] = None,
    serve_password_file: Annotated[
        Path | None,
        typer.Option(
            "--serve-password-file", help="serve: holds the user's password.", parser=local_path, metavar="PATH"
        ),
    ] = None,
    tls_cert: Annotated[
        Path | None,
        typer.Option(
            "--tls-cert", help="serve: offer TLS with this certificate (PEM).", metavar="FILE", parser=local_path
        ),
    ] = None,
    tls_key: Annotated[
        Path | None, typer.Option("--tls-key", help="serve: the certificate's key.", metavar="FILE", parser=local_path)
    ] = None,
    serve_option: Annotated[
        list[str] | None,
        typer.Option(
            "--serve-option",
            help="serve: another of its options, without dashes: users=FILE, tls-required; may be given again.",
            metavar="NAME[=VALUE]",
        ),
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option(
            "--listen",
            help="Show the status over HTTP, as `status --listen` does; PORT alone: on 127.0.0.1.",
            metavar="[HOST:]PORT",
        ),
    ] = None,
    max_lag: Annotated[
        float, typer.Option("--max-lag", min=0, help="With --listen: the lag in seconds from which something is late.")
    ] = 60.0,
    grace: Annotated[
        float, typer.Option("--grace", min=0, help="How long the three may take to end.", metavar="SECONDS")
    ] = 60.0,
    hangs_after: Annotated[
        float,
        typer.Option(
            "--hangs-after",
            min=0,
            help="How long one of the three may give no sign of life before it is killed, and started again; "
            "0: for ever.",
            metavar="SECONDS",
        ),
    ] = 300.0,
    longest_pause: Annotated[
        float | None,
        typer.Option(
            "--longest-pause",
            min=0,
            help="The longest pause before what may pass is tried again; default: 60 before one of the three is "
            "started again, 15 before merge tries a round again.",
            metavar="SECONDS",
        ),
    ] = None,
    output: Output = OutputFormat.text,
    log_level: LogLevel = Level.warning,
    log_format: LogFormat = LineFormat.text,
) -> None:
    """Capture, merge and serve a cluster, until it is stopped."""
    start_log(log_level, log_format)
    from binlog_merge.cli.run_commands import RunOptions, components, error_of
    from binlog_merge.cli.supervisor import Notice, Policy, Supervisor
    from binlog_merge.config import held
    from binlog_merge.config.merge_config import MergeConfig
    from binlog_merge.files.lock import OutputLock

    with held.holding():
        held.hold([config])
        cluster = MergeConfig.load(config)
        held.hold(file for file in (filter_file, cluster.filter) if file is not None)
        directory = output_directory(cluster, merged)
        captured = any(node.server is not None for node in cluster.nodes)
        options = RunOptions(
            config=config,
            merged=directory,
            capture=captured and not no_capture,
            serve=not no_serve,
            password_file=password_file,
            ssl_ca=ssl_ca,
            start_file=tuple(start_file or ()),
            min_interval=min_interval,
            in_driver=in_driver,
            longest_pause=longest_pause,
            filter_file=filter_file,
            check_rows=check_rows,
            master=master,
            conf=tuple(conf or ()),
            host=host,
            port=port,
            user=user,
            serve_password_file=serve_password_file,
            tls_cert=tls_cert,
            tls_key=tls_key,
            serve_options=tuple(serve_option or ()),
            log_level=log_level,
            log_format=log_format,
            quiet=is_quiet(),
            verbose=verbosity(),
        )
        _check(options)
        lines = ComponentLines(log_format is LineFormat.json)

        def tell(notice: Notice) -> None:
            lines.own(notice.text, notice.event, notice.values, notice.wrong)

        with OutputLock(directory, "run", LOCK_NAME):
            if not captured and not no_capture:
                lines.own("no node has a `server`: nothing is captured", "nothing captured", {})
            policy = Policy(silence=hangs_after or None)
            if longest_pause is not None:
                policy = replace(policy, longest_pause=longest_pause)
            supervisor = Supervisor(components(options), lines.line, tell, grace, policy)
            with _stopped_by_signals(supervisor), _status_shown(cluster, directory, listen, max_lag, lines, supervisor):
                code = supervisor.run()
        if output is not OutputFormat.text:
            starts = {name: {"starts": count} for name, count in supervisor.starts().items()}
            print_json({"error": error_of(code), "merged": str(directory), "exit_code": code, "components": starts})
        raise typer.Exit(code)


def _check(options: "RunOptions") -> None:
    """Raise the errors that can be found before anything is started."""
    spark_options(list(options.conf))
    check_java()
    for file in (options.password_file, options.serve_password_file):
        if file is not None:
            password_of(file)
    given = {
        "capture": (options.password_file, options.ssl_ca, options.start_file or None),
        "serve": (
            *(options.host, options.port, options.user),
            *(options.serve_password_file, options.tls_cert, options.tls_key, options.serve_options or None),
        ),
    }
    for name, runs in (("capture", options.capture), ("serve", options.serve)):
        if not runs and any(value is not None for value in given[name]):
            raise ConfigError(
                f"options of {name} are given, and {name} does not run", remedy=f"see {name} in binlog-merge run --help"
            )


@contextmanager
def _status_shown(
    cluster: "MergeConfig",
    directory: Path,
    listen: str | None,
    max_lag: float,
    lines: ComponentLines,
    supervisor: "Supervisor",
) -> Iterator[None]:
    """Show the cluster's status over HTTP, if that is wanted."""
    if listen is None:
        yield
        return
    from binlog_merge.observe.status.health import Limits
    from binlog_merge.observe.status.server import StatusServer
    from binlog_merge.observe.status.values import ComponentStatus

    def components() -> tuple[ComponentStatus, ...]:
        return tuple(ComponentStatus(**asdict(one)) for one in supervisor.standing())

    with StatusServer(cluster, directory, listen, Limits(max_lag), components) as server:
        lines.own(f"the status is shown at {server.url}", "status is shown", {"url": server.url})
        yield


@contextmanager
def _stopped_by_signals(supervisor: "Supervisor") -> Iterator[None]:
    """Turn SIGTERM and Ctrl-C into an orderly end."""

    def stop(number: int, frame: FrameType | None) -> None:
        supervisor.stop(EXIT_INTERRUPTED if number == signal.SIGINT else EXIT_TERMINATED)

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
