"""The command `binlog-merge`: its subcommands, its exit codes, and the reporting of errors."""

import io
import logging
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Annotated, NoReturn

import typer

from binlog_merge.cli import (
    bootstrap,
    capture,
    ddl,
    debug,
    demo,
    filter,
    inspect,
    merge,
    password,
    position,
    purge,
    replay,
    serve,
    status,
    verify,
)
from binlog_merge.cli import run as run_verb
from binlog_merge.cli.log_lines import Level, LineFormat, say_error, start_log
from binlog_merge.cli.output import document_of, print_json
from binlog_merge.cli.schema import commands as schema
from binlog_merge.errors import (
    EXIT_CODES,
    EXIT_FOUND,
    EXIT_INTERRUPTED,
    EXIT_TERMINATED,
    ConfigError,
    EngineFailed,
    InternalError,
    IoError,
    MergeError,
)
from binlog_merge.redaction import redacted

HELP = """The global binlog of a distributed MySQL: many nodes' binlogs in, one MySQL-compatible binlog out.

\b
Start here:
  binlog-merge demo                                         merge a small cluster and look at the result
  binlog-merge merge --config cluster.yaml --out merged/    merge your own
  binlog-merge capture --config cluster.yaml                fetch the nodes' binlogs from their servers
  binlog-merge inspect merged/binlog.000001                 look into any binlog file
  binlog-merge schema history shop.orders --store merged/   what a table looked like, when, and why
  binlog-merge filter test --filter F --table shop.orders   what a filter would let through
  binlog-merge replay --from merged/ --to mysql://…         apply a merged binlog to a server
  binlog-merge bootstrap --config cluster.yaml --to URL     fill a target with the rows that a cluster has
  binlog-merge serve merged/                                be the source of a MySQL replica or a CDC tool
  binlog-merge status --config cluster.yaml --out merged/   who is where, what holds back, is it well
  binlog-merge run --config cluster.yaml --out merged/      capture, merge and serve, never stopping
  binlog-merge position-of --tso TSO merged/                where to go on reading after a TSO
  binlog-merge purge merged/ --to binlog.000123             remove the oldest files of a merged log
  binlog-merge ddl locks --out merged/                      which shards' DDL waits, and for whom
  binlog-merge debug plan cluster.yaml --out merged/        what a merge would do; also order keys and blocks

Results go to stdout, progress and errors to stderr. With -o json stdout is exactly one JSON object, also on failure."""

EPILOG = "\b\nExit codes:\n" + "\n".join(f"  {row.exit_code:>3}  {row.code:<24}{row.meaning}" for row in EXIT_CODES)

_NAME = "binlog-merge"
_COMPLETE = "_BINLOG_MERGE_COMPLETE"

app = typer.Typer(
    name=_NAME,
    help=HELP,
    epilog=EPILOG,
    rich_markup_mode=None,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)
app.command("merge", help=merge.HELP, epilog=EPILOG)(merge.merge)
app.command("capture", help=capture.HELP)(capture.capture)
app.command("inspect", help=inspect.HELP)(inspect.inspect)
app.command("replay", help=replay.HELP)(replay.replay)
app.command("bootstrap", help=bootstrap.HELP)(bootstrap.bootstrap)
app.command("serve", help=serve.HELP)(serve.serve)
app.command("password", help=password.HELP)(password.password)
app.command("status", help=status.HELP)(status.status)
app.command("run", help=run_verb.HELP, epilog=EPILOG)(run_verb.run)
app.command("verify", help=verify.HELP)(verify.verify)
app.command("purge", help=purge.HELP)(purge.purge)
app.command("demo", help=demo.HELP)(demo.demo)
app.command("position-of", help=position.POSITION_HELP)(position.position_of)
app.command("tso-of", help=position.TSO_HELP)(position.tso_of)
app.add_typer(schema.app)
app.add_typer(ddl.app)
app.add_typer(filter.app)
app.add_typer(debug.app)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import PackageNotFoundError, version

        try:
            print(f"binlog-merge {version('binlog-merge')}")
        except PackageNotFoundError:
            print("binlog-merge (not installed)")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Print a traceback with every error; may stand anywhere.")
    ] = False,
) -> None:
    pass


class Terminated(BaseException):
    """SIGTERM arrived; like KeyboardInterrupt, it passes every `except Exception`."""


_LATER_SECONDS = 0.05
_STARTS_PROCESS = ("_execute_child", "launch_gateway")
"""The functions that start a process (subprocess) and Java (pyspark)."""


def _terminate(number: int, frame: FrameType | None) -> None:
    """Raise Terminated, but not where it would be lost or do harm: then a moment later.

    A module that tries what it can import may take any exception for a no; Python drops one that is raised by a hook
    of fork; and a Java whose start is not awaited does not notice that its parent has ended.
    """
    if _defers(frame):
        signal.signal(signal.SIGALRM, lambda number, frame: signal.raise_signal(signal.SIGTERM))
        signal.setitimer(signal.ITIMER_REAL, _LATER_SECONDS)
        return
    raise Terminated


def _defers(frame: FrameType | None) -> bool:
    while frame is not None:
        code = frame.f_code
        if code.co_filename.startswith("<frozen importlib") or code.co_name in _STARTS_PROCESS:
            return True
        frame = frame.f_back
    return False


def main() -> NoReturn:
    """Run the command line and exit with a code from EXIT_CODES."""
    if _COMPLETE in os.environ:  # a shell asks what may follow, and typer answers
        app(prog_name=_NAME)
    signal.signal(signal.SIGTERM, _terminate)
    logging.getLogger().addFilter(_tells_something)
    sys.exit(run(sys.argv[1:]))


def _tells_something(record: logging.LogRecord) -> bool:
    """Return whether to log a record of the root logger: py4j logs a traceback there when it is interrupted."""
    return not record.getMessage().endswith("while sending command.")


def run(arguments: Sequence[str]) -> int:
    """Run a command line and return its exit code. Errors are printed here and nowhere else."""
    _prepare_output()
    start_log(Level.warning, LineFormat.text)
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
    debug = "--debug" in arguments
    arguments = [a for a in arguments if a != "--debug"] or ["--help"]
    command = typer.main.get_command(app)
    try:
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
        if debug:
            sys.stderr.write(redacted(traceback.format_exc()))
        failure = _merge_error(error)
        say_error(failure)
        if _wants_json(arguments):
            try:
                print_json(document_of(result=failure.result, error=failure))
            except OSError:
                _let_stdout_go()
        return failure.exit_code
    return 0


def _let_stdout_go() -> None:
    """Redirect stdout to /dev/null, so that the interpreter's last flush does not fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _wants_json(arguments: Sequence[str]) -> bool:
    apart = any(a in ("-o", "--output") and b == "json" for a, b in pairwise(arguments))
    return apart or any(a in ("-ojson", "-o=json", "--output=json") for a in arguments)


class _Interrupted(MergeError):  # noqa: N818
    code, exit_code = "interrupted", EXIT_INTERRUPTED
    default_remedy = "what was published stays valid; run it again to go on"


class _Terminated(_Interrupted):
    code, exit_code = "terminated", EXIT_TERMINATED


def _merge_error(error: BaseException) -> MergeError:
    if isinstance(error, MergeError) and not isinstance(error, EngineFailed):
        return error
    error = _stopped_by(error) or error
    if isinstance(error, MergeError):
        return error
    if isinstance(error, KeyboardInterrupt | typer.Abort | Terminated):
        stopped = (
            _Terminated("stopped by SIGTERM") if isinstance(error, Terminated) else _Interrupted("stopped by Ctrl-C")
        )
        stopped.result = getattr(error, "result", None)
        return stopped
    if isinstance(error, OSError):  # of stdout, where no verb has named a file
        return IoError(error.strerror or str(error), file=None if error.filename is None else str(error.filename))
    # typer's own errors (a wrong option, a missing argument) know how to say what is wrong.
    format_message = getattr(error, "format_message", None)
    if callable(format_message):
        return ConfigError(str(format_message()), remedy="see binlog-merge --help")
    return InternalError(f"{type(error).__name__}: {_gist(str(error))}")


def _stopped_by(error: BaseException) -> BaseException | None:
    """Return the signal's exception that caused an error, None if none did: closing after a signal may fail."""
    found: BaseException | None = error
    while found is not None and not isinstance(found, KeyboardInterrupt | Terminated):
        found = found.__context__
    return found


def _gist(text: str) -> str:
    """Return the first line of an error's text; of an executor's error, the traceback's last line with the message."""
    lines = [line for line in text.splitlines() if line.strip()]
    if "Traceback (most recent call last):" not in lines:
        return lines[0] if lines else ""
    traceback = lines[lines.index("Traceback (most recent call last):") + 1 :]
    return next((line for line in traceback if not line.startswith(" ")), lines[0])


if __name__ == "__main__":
    main()
