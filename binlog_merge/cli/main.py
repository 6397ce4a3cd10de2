"""The command `binlog-merge`: its subcommands, its exit codes, and the reporting of errors."""

import io
import logging
import os
import re
import signal
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import typer

from binlog_merge import without_pandas
from binlog_merge.cli.log_lines import Level, LineFormat, say_error, speak, start_log, voice_of
from binlog_merge.cli.output import begin, print_failure, wanted_output
from binlog_merge.cli.signals import Terminated, heed_signals, raised
from binlog_merge.cli.verbs import application
from binlog_merge.errors import (
    EXIT_FOUND,
    EXIT_INTERRUPTED,
    EXIT_TERMINATED,
    ConfigError,
    EngineFailed,
    InternalError,
    IoError,
    MergeError,
    io_remedy,
)
from binlog_merge.redaction import redacted

_NAME = "binlog-merge"
_OTHERS = 0o027
"""What other accounts of the machine may not do with files that a command makes: they hold rows."""
_COMPLETE = "_BINLOG_MERGE_COMPLETE"
_VALUE_ERROR = re.compile(r"(^|: )Value error, ")
"""What pydantic, which typer parses with, writes before a reason."""


def main() -> NoReturn:
    """Run the command line and exit with a code from EXIT_CODES."""
    if _COMPLETE in os.environ:  # a shell asks what may follow, and typer answers
        application()(prog_name=_NAME)
    heed_signals()
    without_pandas.refuse()
    logging.getLogger().addFilter(_tells_something)
    code = run(sys.argv[1:])
    signal.setitimer(signal.ITIMER_REAL, 0)  # of a signal that is heeded too late
    sys.exit(code)


def _tells_something(record: logging.LogRecord) -> bool:
    """Return whether to log a record of the root logger: py4j logs a traceback there when it is interrupted."""
    return not record.getMessage().endswith("while sending command.")


def run(arguments: Sequence[str]) -> int:
    """Run a command line and return its exit code. Errors are printed here and nowhere else."""
    _prepare_output()
    os.umask(os.umask(_OTHERS) | _OTHERS)
    code = _run(arguments)
    try:
        sys.stdout.flush()
    except BrokenPipeError:  # the reader (head, less) has seen enough
        _let_stdout_go()
    except OSError as error:
        _let_stdout_go()
        if code in (0, EXIT_FOUND):  # else an error was printed already
            say_error(_merge_error(error))
            return IoError.exit_code
    return code


def _prepare_output() -> None:
    """Make stdout accept every text: as UTF-8 or, on a terminal with another encoding, with \\uNNNN for the rest.

    Output for machines must not depend on the caller's locale.
    """
    sys.stdout = sys.stdout or Path(os.devnull).open("w")  # noqa: SIM115 (None where the caller has closed it)
    sys.stderr = sys.stderr or Path(os.devnull).open("w")  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding=None if sys.stdout.isatty() else "utf-8", errors="backslashreplace")


def _run(arguments: Sequence[str]) -> int:
    begin()
    voice, arguments = voice_of(arguments)
    speak(voice)
    start_log(Level.warning, LineFormat.text)
    arguments = arguments or ["--help"]
    try:
        command = typer.main.get_command(application(arguments[0]))
        # Not command.main(): it turns Ctrl-C and a closed pipe into exits of its own.
        with command.make_context(_NAME, arguments) as context:
            command.invoke(context)
            sys.stdout.flush()
    except typer.Exit as done:
        return done.exit_code
    except BrokenPipeError:  # the reader (head, less) has seen enough
        _let_stdout_go()
        return 0
    except (Exception, KeyboardInterrupt, Terminated) as error:
        if voice.debug:
            sys.stderr.write(redacted(traceback.format_exc()))
        failure = _merge_error(error)
        say_error(failure)
        try:
            print_failure(failure, wanted_output(arguments))
        except OSError:
            _let_stdout_go()
        return failure.exit_code
    return 0


def _let_stdout_go() -> None:
    """Redirect stdout to /dev/null, so that the interpreter's last flush does not fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


_QUERY_INTERRUPTED = "Query interrupted"
"""What DuckDB raises a RuntimeError with if a signal's handler has raised something during a query."""


class _Interrupted(MergeError):  # noqa: N818
    code, exit_code = "interrupted", EXIT_INTERRUPTED
    default_remedy = "what was published stays valid; run it again to go on"


class _Terminated(_Interrupted):
    code, exit_code = "terminated", EXIT_TERMINATED


def _merge_error(error: BaseException) -> MergeError:
    if isinstance(error, MergeError) and not isinstance(error, EngineFailed):
        return error
    error = _stopped_by(error) or (raised[-1]() if raised and _QUERY_INTERRUPTED in str(error) else error)
    if isinstance(error, MergeError):
        return error
    if isinstance(error, KeyboardInterrupt | typer.Abort | Terminated):
        stopped = (
            _Terminated("stopped by SIGTERM") if isinstance(error, Terminated) else _Interrupted("stopped by Ctrl-C")
        )
        stopped.result = getattr(error, "result", None)
        return stopped
    if isinstance(error, OSError):  # of stdout, where no verb has named a file
        file = None if error.filename is None else str(error.filename)
        return IoError(error.strerror or str(error), file=file, remedy=io_remedy(error))
    # typer's own errors (a wrong option, a missing argument) know how to say what is wrong.
    format_message = getattr(error, "format_message", None)
    if callable(format_message):
        said = _VALUE_ERROR.sub(r"\1", str(format_message()))
        verb = getattr(getattr(error, "ctx", None), "command_path", _NAME)
        return ConfigError(said, remedy=f"see {verb} --help")
    return InternalError(f"{type(error).__name__}: {_gist(str(error))}")


def _stopped_by(error: BaseException) -> BaseException | None:
    """Return the signal's exception that caused an error, None if none did: closing after a signal may fail."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, KeyboardInterrupt | Terminated):
        cause = cause.__context__
    return cause


def _gist(text: str) -> str:
    """Return the first line of an error's text; of an executor's error, the traceback's last line with the message."""
    lines = [line for line in text.splitlines() if line.strip()]
    if "Traceback (most recent call last):" not in lines:
        return lines[0] if lines else ""
    traceback = lines[lines.index("Traceback (most recent call last):") + 1 :]
    return next((line for line in traceback if not line.startswith(" ")), lines[0])


if __name__ == "__main__":
    main()
