"""The options of `binlog-merge run`, the command lines of the three processes that it supervises, and their one log."""

import json
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final

from binlog_merge.cli.child import Component
from binlog_merge.cli.log_lines import Level, LineFormat, LogFormat, LogLevel, is_quiet, verbosity
from binlog_merge.cli.options import MERGED_ENV, ConfiguredMerged, Output, local_path, option
from binlog_merge.cli.output import OutputFormat, printable, size_of
from binlog_merge.config import held
from binlog_merge.config.uri import is_uri
from binlog_merge.errors import EXIT_CODES, InternalError
from binlog_merge.files.lease import new_name
from binlog_merge.heartbeat import CAPTURED, HOLDER
from binlog_merge.json_values import utc_text

Config = Annotated[
    Path,
    option("--config -c", "The cluster: nodes, routes, output.", "CLUSTER.YAML", local_path),
]


@dataclass(frozen=True)
class RunOptions:
    """The options of `run`; None: not given, so that the command that it is handed to has its own default."""

    config: Config
    merged: ConfiguredMerged = None
    standby: Annotated[
        bool,
        option(
            "--standby",
            "Where several run with a lease: wait until another has led, and take over when that one is gone.",
        ),
    ] = False
    no_capture: Annotated[
        bool, option("--no-capture", "Do not fetch binlogs: the nodes' files come by other means.")
    ] = False
    no_serve: Annotated[bool, option("--no-serve", "Do not serve the merged binlog.")] = False
    password_file: Annotated[
        Path | None,
        option(
            "--password-file", "capture: holds the servers' password; else the URL's, or MYSQL_PWD.", "PATH", local_path
        ),
    ] = None
    ssl_ca: Annotated[
        Path | None,
        option("--ssl-ca", "capture: encrypt, and trust only servers that this CA vouches for.", "PATH", local_path),
    ] = None
    start_file: Annotated[
        list[str] | None,
        option(
            "--start-file",
            "capture: where a node without captured files begins; default: its server's first file.",
            "[SOURCE_ID=]FILE",
        ),
    ] = None
    min_interval: Annotated[
        float | None,
        option("--min-interval", "merge: the least time between two rounds.", "SECONDS", min=0),
    ] = None
    in_driver: Annotated[
        int | None,
        option("--in-driver", "merge: what a stage may read without a Spark job; default: 16MiB.", "SIZE", size_of),
    ] = None
    filter_file: Annotated[
        Path | None,
        option("--filter", "merge: what comes out; `filter` of the configuration.", "FILE", local_path),
    ] = None
    check_rows: Annotated[bool, option("--check-rows", "merge: walk all rows before they come out.")] = False
    master: Annotated[str | None, option("--master", "merge: the Spark master.", "URL")] = None
    conf: Annotated[
        list[str] | None,
        option("--conf", "merge: a Spark option, K=V; may be given again.", "K=V"),
    ] = None
    host: Annotated[str | None, option("--host", "serve: the address to listen on; default: 127.0.0.1.")] = None
    port: Annotated[int | None, option("--port", "serve: the port; default: 3307.", min=0, max=65535)] = None
    user: Annotated[str | None, option("--user", "serve: the one user that there is; default: rep.")] = None
    serve_password_file: Annotated[
        Path | None,
        option("--serve-password-file", "serve: holds the user's password.", "PATH", local_path),
    ] = None
    tls_cert: Annotated[
        Path | None,
        option("--tls-cert", "serve: offer TLS with this certificate (PEM).", "FILE", local_path),
    ] = None
    tls_key: Annotated[Path | None, option("--tls-key", "serve: the certificate's key.", "FILE", local_path)] = None
    serve_option: Annotated[
        list[str] | None,
        option(
            "--serve-option",
            "serve: another of its options, without dashes: users=FILE, tls-required; may be given again.",
            "NAME[=VALUE]",
        ),
    ] = None
    listen: Annotated[
        str | None,
        option(
            "--listen", "Show the status over HTTP, as `status --listen` does; PORT alone: on 127.0.0.1.", "[HOST:]PORT"
        ),
    ] = None
    max_lag: Annotated[
        float, option("--max-lag", "With --listen: the lag in seconds from which something is late.", min=0)
    ] = 60.0
    grace: Annotated[float, option("--grace", "How long the three may take to end.", "SECONDS", min=0)] = 60.0
    hangs_after: Annotated[
        float,
        option(
            "--hangs-after",
            "How long one of the three may give no sign of life before it is killed, and started again; 0: for ever.",
            "SECONDS",
            min=0,
        ),
    ] = 300.0
    longest_pause: Annotated[
        float | None,
        option(
            "--longest-pause",
            "The longest pause before what may pass is tried again; default: 60 before one of the three is "
            "started again, 15 before merge tries a round again.",
            "SECONDS",
            min=0,
        ),
    ] = None
    output: Output = OutputFormat.text
    log_level: LogLevel = Level.warning
    log_format: LogFormat = LineFormat.text


def components(options: RunOptions, lease: bool = False) -> list[Component]:
    """Return the commands to run, in the order in which they start; all with the settings that are held now.

    With a `lease` capture works while merge leads.
    """
    commands = {"merge": _merge(options)}
    if not options.no_capture:
        commands = {"capture": _capture(options), **commands}
    if not options.no_serve:
        commands["serve"] = _serve(options)
    # -P: a file in the current directory must not stand in for a module.
    program = (sys.executable, "-P", "-m", "binlog_merge.cli.main")
    environment = dict(held.environment())
    if is_uri(str(options.merged)):
        environment[MERGED_ENV] = str(options.merged)  # not where `ps` shows it: it may have a key of the store
    leads = {HOLDER: new_name()} if lease else {}
    if "capture" in commands:
        leads[CAPTURED] = "1"
    log: tuple[str, ...] = ("--log-level", options.log_level.value, "--log-format", options.log_format.value)
    log += ("--quiet",) * is_quiet() + ("--verbose",) * verbosity()
    return [
        Component(
            verb,
            (*program, verb, *log, *arguments),
            held.descriptors(),
            {**environment, **leads} if verb == "merge" else environment,
            says_who_leads=lease and verb == "merge",
            waits_for_lead=lease and verb == "capture",
        )
        for verb, arguments in commands.items()
    ]


def error_of(code: int) -> dict[str, Any] | None:
    """Return the `error` of a run's document: what its exit code means, None for 0. The log has the component's own."""
    if code == 0:
        return None
    row = next(row for row in EXIT_CODES if row.exit_code == code)
    error = InternalError(row.meaning, remedy="the log on stderr says which command it was, where, and what to do")
    return {**error.to_dict(), "code": row.code, "exit_code": code}


def _capture(options: RunOptions) -> tuple[str, ...]:
    return (
        *(f"--config={options.config}", *_merged(options)),
        *("--stop-never", "--together", "--retry-seconds", "inf"),
        *_given("--password-file", options.password_file),
        *_given("--ssl-ca", options.ssl_ca),
        *_each("--start-file", options.start_file),
    )


def _merge(options: RunOptions) -> tuple[str, ...]:
    return (
        *(f"--config={options.config}", *_merged(options), "--stop-never"),
        *(("--standby",) if options.standby else ()),
        *_given("--min-interval", options.min_interval),
        *_given("--in-driver", options.in_driver),
        *_given("--longest-pause", options.longest_pause),
        *_given("--filter", options.filter_file),
        *(("--check-rows",) if options.check_rows else ()),
        *_given("--master", options.master),
        *_each("--conf", options.conf),
    )


def _serve(options: RunOptions) -> tuple[str, ...]:
    return (
        *_given("--host", options.host),
        *_given("--port", options.port),
        *_given("--user", options.user),
        *_given("--password-file", options.serve_password_file),
        *_given("--tls-cert", options.tls_cert),
        *_given("--tls-key", options.tls_key),
        *(f"--{option.lstrip('-')}" for option in options.serve_option or ()),
        *(() if is_uri(str(options.merged)) else ("--", str(options.merged))),  # whatever it begins with
    )


def _merged(options: RunOptions) -> tuple[str, ...]:
    return () if is_uri(str(options.merged)) else (f"--merged={options.merged}",)


def _given(option: str, value: object) -> tuple[str, ...]:
    """Return an option as one word, so that a value may begin with a dash; nothing for None."""
    return () if value is None else (f"{option}={value}",)


def _each(option: str, values: Sequence[str] | None) -> tuple[str, ...]:
    return tuple(word for value in values or () for word in _given(option, value))


OWN: Final = "run"
_WIDTH: Final = len("capture")


def text_line(component: str, line: str) -> str:
    """Return a component's line for people."""
    return f"{component:<{_WIDTH}} | {printable(line)}"


def json_line(component: str, line: str, now: datetime) -> str:
    """Return a component's line for machines: its JSON object with the component's name; other lines become one.

    A component's log lines are objects already; its results, and what Java prints, are not.
    """
    try:
        document = json.loads(line)
    except ValueError:
        document = None
    if isinstance(document, dict):
        return json.dumps({**document, "component": component})
    return event_line(component, line, {}, "info", now)


def event_line(component: str, event: str, fields: Mapping[str, Any], level: str, now: datetime) -> str:
    """Return an event as an object with the keys of `--log-format json`, and the component's name."""
    time = utc_text(now, "milliseconds")
    document = {"time": time, "level": level, "logger": "binlog_merge", "event": event, "fields": dict(fields)}
    return json.dumps({**document, "component": component}, default=str)


class ComponentLines:
    """Writes lines of components, and its own, to stderr; any thread may call it."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._lock = threading.Lock()

    def line(self, component: str, line: str) -> None:
        """Write a line that a component has printed."""
        self._write(json_line(component, line, datetime.now(UTC)) if self._as_json else text_line(component, line))

    def own(self, text: str, event: str, values: Mapping[str, Any], wrong: bool = False) -> None:
        """Write what `run` itself did: the text for people, or the event and its values for machines."""
        level = "warning" if wrong else "info"
        now = datetime.now(UTC)
        self._write(event_line(OWN, event, values, level, now) if self._as_json else text_line(OWN, text))

    def _write(self, line: str) -> None:
        with self._lock:
            sys.stderr.write(line + "\n")
            sys.stderr.flush()
