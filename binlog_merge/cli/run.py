"""`binlog-merge run`: capture, merge and serve of a cluster as one supervised command."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from types import FrameType
from typing import TYPE_CHECKING

import typer

from binlog_merge.cli.log_lines import LineFormat, start_log
from binlog_merge.cli.merge import check_java, spark_options
from binlog_merge.cli.options import LEASE_REMEDY, place_of, taking
from binlog_merge.cli.output import OutputFormat, print_json
from binlog_merge.cli.replay_options import password_of
from binlog_merge.cli.run_commands import ComponentLines, RunOptions, components, error_of
from binlog_merge.errors import (
    EXIT_INTERRUPTED,
    EXIT_TERMINATED,
    FINAL_EXITS,
    ConfigError,
)
from binlog_merge.redaction import redacted

if TYPE_CHECKING:
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

When this command is killed itself, the three die with it. A second one for the same output is refused (25), unless
there is a lease: `ha: {{lease: 10s}}` in the configuration, the default where the merged log is in an object store.
Then several run, on hosts of their own, and one of them leads: it captures and merges. The others serve, too, and wait,
with all loaded; one of them takes over when the leader has given no sign for the lease's time, ends, or hands over
(`binlog-merge takeover`). One that has lost the lease waits like the others. With --standby it is never the first."""


@taking(RunOptions)
def run(options: RunOptions) -> None:
    """Capture, merge and serve a cluster, until it is stopped."""
    start_log(options.log_level, options.log_format)
    from binlog_merge.cli.supervisor import Notice, Policy, Supervisor
    from binlog_merge.config import held
    from binlog_merge.config.merge_config import MergeConfig
    from binlog_merge.config.uri import is_uri

    with held.holding():
        held.hold([options.config])
        cluster = MergeConfig.load(options.config)
        held.hold(file for file in (options.filter_file, cluster.filter) if file is not None)
        place = place_of(cluster, options.merged)
        lease = cluster.ha.lease_seconds(is_uri(place)) is not None
        captured = any(node.server is not None for node in cluster.nodes)
        chosen = replace(options, merged=place, no_capture=options.no_capture or not captured)
        _check(chosen, lease)
        lines = ComponentLines(options.log_format is LineFormat.json)

        def tell(notice: Notice) -> None:
            lines.own(notice.text, notice.event, notice.values, notice.wrong)

        with _alone(place, lease):
            if not captured and not options.no_capture:
                lines.own("no node has a `server`: nothing is captured", "nothing captured", {})
            policy = Policy(silence=options.hangs_after or None)
            if options.longest_pause is not None:
                policy = replace(policy, longest_pause=options.longest_pause)
            supervisor = Supervisor(components(chosen, lease), lines.line, tell, options.grace, policy)
            with (
                _stopped_by_signals(supervisor),
                _status_shown(cluster, place, options.listen, options.max_lag, lines, supervisor),
            ):
                code = supervisor.run()
        if options.output is not OutputFormat.text:
            starts = {name: {"starts": count} for name, count in supervisor.starts().items()}
            print_json({"error": error_of(code), "merged": redacted(place), "exit_code": code, "components": starts})
        raise typer.Exit(code)


@contextmanager
def _alone(place: str, lease: bool) -> Iterator[None]:
    """Refuse a second `run` of an output on this machine; with a lease it waits, or another waits for it."""
    from binlog_merge.config.uri import is_uri
    from binlog_merge.files.lock import OutputLock
    from binlog_merge.files.output import working_folder
    from binlog_merge.files.publish import output_directory

    if lease:
        if not is_uri(place):
            output_directory(place)
        yield
        return
    folder = working_folder(place)
    with OutputLock(folder.with_suffix(".run") if is_uri(place) else folder, "run", LOCK_NAME):
        yield


def _check(options: RunOptions, lease: bool) -> None:
    """Raise the errors that can be found before anything is started."""
    if options.standby and not lease:
        raise ConfigError("--standby, and there is no lease to wait for", remedy=LEASE_REMEDY)
    spark_options(options.conf)
    check_java()
    for file in (options.password_file, options.serve_password_file):
        if file is not None:
            password_of(file)
    given = {
        "capture": (options.password_file, options.ssl_ca, options.start_file),
        "serve": (
            *(options.host, options.port, options.user),
            *(options.serve_password_file, options.tls_cert, options.tls_key, options.serve_option),
        ),
    }
    for name, runs in (("capture", not options.no_capture), ("serve", not options.no_serve)):
        if not runs and any(value is not None for value in given[name]):
            raise ConfigError(
                f"options of {name} are given, and {name} does not run", remedy=f"see {name} in binlog-merge run --help"
            )


@contextmanager
def _status_shown(
    cluster: "MergeConfig",
    place: str,
    listen: str | None,
    max_lag: float,
    lines: ComponentLines,
    supervisor: "Supervisor",
) -> Iterator[None]:
    """Show the cluster's status over HTTP, if that is wanted."""
    if listen is None:
        yield
        return
    from binlog_merge.files.remote_log import opened_log
    from binlog_merge.observe.status.health import Limits
    from binlog_merge.observe.status.server import StatusServer
    from binlog_merge.observe.status.values import ComponentStatus

    def components() -> tuple[ComponentStatus, ...]:
        return tuple(ComponentStatus(**asdict(one)) for one in supervisor.standing())

    def told(line: str) -> None:
        lines.own(line, line, {}, wrong=True)

    with (
        opened_log(place, schema=False, awaited=True) as folder,
        folder.following(told),
        StatusServer(cluster, folder, listen, Limits(max_lag), components, supervisor.leads) as server,
    ):
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
