"""The output of commands on stderr: lines for people, and the log of `--log-level` and `--log-format`.

The product's modules log by Python's `logging`, to loggers of their own names: an event, and its values as `extra`.
The only handler is here. With `--log-format json` every line on stderr is a JSON object.

How much a command tells is said by --quiet and --verbose, which stand anywhere on the line, as --debug does.
"""

import json
import logging
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Final, TextIO

from binlog_merge.cli.options import option
from binlog_merge.cli.output import printable
from binlog_merge.errors import MergeError
from binlog_merge.json_values import unix_time_text
from binlog_merge.redaction import redacted, redacted_values


class Level(StrEnum):
    """The choices of --log-level."""

    debug = "debug"
    info = "info"
    warning = "warning"
    error = "error"


class LineFormat(StrEnum):
    """The choices of --log-format."""

    text = "text"
    json = "json"


LogLevel = Annotated[
    Level, option("--log-level", "Log on stderr; info: stages, connections, retries; debug: tasks too.")
]
LogFormat = Annotated[
    LineFormat, option("--log-format", "How to log; json: all that goes to stderr is one object a line.")
]

_LOGGER = logging.getLogger("binlog_merge")
_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
"""The attributes of every record; the others are the event's values."""


class _Handler(logging.StreamHandler[TextIO]):
    """Writes to the current `sys.stderr`."""

    def __init__(self, formatter: logging.Formatter) -> None:
        logging.Handler.__init__(self)
        self.setFormatter(formatter)

    @property
    def stream(self) -> TextIO:  # type: ignore[override]
        return sys.stderr


class _PlainFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return redacted(super().format(record))


class _TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        values = " ".join(f"{name}={_word(value)}" for name, value in _values(record).items())
        line = f"{unix_time_text(record.created)} {record.levelname} {record.name}: {record.getMessage()} {values}"
        return printable(redacted(line.rstrip())).replace("\n", "\\n")


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        document = {
            "time": unix_time_text(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": redacted(record.getMessage()),
            "fields": redacted_values(_values(record)),
        }
        return json.dumps(document, default=str)


def _values(record: logging.LogRecord) -> dict[str, Any]:
    return {name: value for name, value in vars(record).items() if name not in _OWN}


def _word(value: object) -> str:
    """Return a value as a single word; as a JSON string if it is a text with spaces, quotes or `=`."""
    text = str(value)
    return text if text and not set(text) & set(' "=\n') else json.dumps(text, ensure_ascii=False)


def start_log(level: Level, form: LineFormat) -> None:
    """Start logging for the product's modules; the handler of an earlier call is removed.

    At the levels warning and error only the text is printed. -vv logs what `info` does.
    """
    if verbosity() > 1 and level in (Level.warning, Level.error):
        level = Level.info
    for earlier in [handler for handler in _LOGGER.handlers if isinstance(handler, _Handler)]:
        _LOGGER.removeHandler(earlier)
    quiet = level in (Level.warning, Level.error)
    text = _PlainFormatter() if quiet else _TextFormatter()
    _LOGGER.addHandler(_Handler(_JsonFormatter() if form is LineFormat.json else text))
    _LOGGER.setLevel(level.upper())


def logs_json() -> bool:
    """Return whether stderr is for machines."""
    return any(isinstance(handler.formatter, _JsonFormatter) for handler in _LOGGER.handlers)


def say(line: str, event: str | None = None, level: int = logging.INFO, **values: object) -> None:
    """Print a line for people on stderr, whatever the log's level; in a JSON log `event` (else the line) and values.

    With --quiet only warnings and errors are printed.
    """
    if level < logging.WARNING and is_quiet():
        return
    if not logs_json():
        # One write: threads say lines at the same time.
        print(printable(redacted(line)) + "\n", end="", file=sys.stderr, flush=True)
        return
    own = {"name": _LOGGER.name, "levelno": level, "levelname": logging.getLevelName(level), "msg": event or line}
    _LOGGER.handle(logging.makeLogRecord({**values, **own}))


def say_error(error: MergeError) -> None:
    """Print an error for people; in a JSON log as an event with the values of `-o json`."""
    values: Mapping[str, Any] = error.to_dict()
    say(f"binlog-merge: {error}", error.message, logging.ERROR, **values)


_VERBOSE: Final = re.compile(r"-v+")


@dataclass(frozen=True, slots=True)
class Voice:
    """`quiet`: results, warnings and errors only. `verbose`: 1 lists what is otherwise counted, 2 logs the stages."""

    quiet: bool = False
    verbose: int = 0
    debug: bool = False


_voice = Voice()
"""That of the process's one command; all its threads ask for it."""


def voice_of(arguments: Sequence[str]) -> tuple[Voice, list[str]]:
    """Return the voice that a line asks for, and the line without these words. What is behind `--` is left alone."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    quiet, verbose, debug, rest = False, 0, False, []
    for word in arguments[:end]:
        if word in ("-q", "--quiet"):
            quiet = True
        elif word == "--verbose" or _VERBOSE.fullmatch(word):
            verbose += 1 if word == "--verbose" else len(word) - 1
        elif word == "--debug":
            debug = True
        else:
            rest.append(word)
    return Voice(quiet, verbose, debug), [*rest, *arguments[end:]]


def speak(voice: Voice) -> None:
    """Let this voice hold for the command."""
    global _voice
    _voice = voice


def is_quiet() -> bool:
    """Return whether a command prints no progress and no notes."""
    return _voice.quiet


def verbosity(own: int = 0) -> int:
    """Return how much more than usual a command tells; `own` is what its own option -v counted."""
    return own + _voice.verbose
