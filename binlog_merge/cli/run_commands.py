"""The command lines of the three processes that `binlog-merge run` supervises, and their one log."""

import json
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from binlog_merge.cli.child import Component
from binlog_merge.cli.log_lines import Level, LineFormat
from binlog_merge.cli.output import printable
from binlog_merge.config import held
from binlog_merge.errors import EXIT_CODES, InternalError
from binlog_merge.json_values import utc_text


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options of `run` that it hands on; None or empty: not given, so the command's own default holds."""

    config: Path
    merged: Path
    capture: bool = True
    serve: bool = True
    password_file: Path | None = None
    ssl_ca: Path | None = None
    start_file: tuple[str, ...] = ()
    min_interval: float | None = None
    in_driver: int | None = None
    longest_pause: float | None = None
    filter_file: Path | None = None
    check_rows: bool = False
    master: str | None = None
    conf: tuple[str, ...] = ()
    host: str | None = None
    port: int | None = None
    user: str | None = None
    serve_password_file: Path | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    serve_options: tuple[str, ...] = ()
    log_level: Level = Level.warning
    log_format: LineFormat = LineFormat.text
    quiet: bool = False
    verbose: int = 0


def components(options: RunOptions) -> list[Component]:
    """Return the commands to run, in the order in which they start; all with the settings that are held now."""
    commands = {"merge": _merge(options)}
    if options.capture:
        commands = {"capture": _capture(options), **commands}
    if options.serve:
        commands["serve"] = _serve(options)
    # -P: a file in the current directory must not stand in for a module.
    program = (sys.executable, "-P", "-m", "binlog_merge.cli.main")
    log: tuple[str, ...] = ("--log-level", options.log_level.value, "--log-format", options.log_format.value)
    log += ("--quiet",) * options.quiet + ("--verbose",) * options.verbose
    return [
        Component(verb, (*program, verb, *log, *arguments), held.descriptors(), held.environment())
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
        *(f"--config={options.config}", "--stop-never", "--together", "--retry-seconds", "inf"),
        *_given("--password-file", options.password_file),
        *_given("--ssl-ca", options.ssl_ca),
        *_each("--start-file", options.start_file),
    )


def _merge(options: RunOptions) -> tuple[str, ...]:
    return (
        *(f"--config={options.config}", f"--merged={options.merged}", "--stop-never"),
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
        *(f"--{option.lstrip('-')}" for option in options.serve_options),
        *("--", str(options.merged)),  # whatever it begins with
    )


def _given(option: str, value: object) -> tuple[str, ...]:
    """Return an option as one word, so that a value may begin with a dash; nothing for None."""
    return () if value is None else (f"{option}={value}",)


def _each(option: str, values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(word for value in values for word in _given(option, value))


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
