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
from typing import Annotated, NoReturn

import typer

from binlog_merge.cli import (
    bootstrap,
    capture,
    changes,
    ddl,
    debug,
    demo,
    filter,
    flashback,
    history,
    inspect,
    list_files,
    merge,
    password,
    position,
    purge,
    replay,
    report,
    serve,
    sql,
    stats,
    status,
    table_at,
    topology,
    verify,
    warm,
)
from binlog_merge.cli import run as run_verb
from binlog_merge.cli.log_lines import Level, LineFormat, say_error, start_log
from binlog_merge.cli.output import begin, print_failure, wanted_output
from binlog_merge.cli.schema import commands as schema
from binlog_merge.cli.start import Terminated, heed_signals, raised
from binlog_merge.cli.verb import Verb
from binlog_merge.cli.voice import speak, taken
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
Make a merged log:
  binlog-merge demo                                             merge a small cluster and look at the result
  binlog-merge merge --config cluster.yaml --merged merged/     merge your own
  binlog-merge capture --config cluster.yaml                    fetch the nodes' binlogs from their servers
  binlog-merge run --config cluster.yaml --merged merged/       capture, merge and serve, until it is stopped

\b
Let others read it:
  binlog-merge serve merged/                                    be the source of a MySQL replica or a CDC tool
  binlog-merge replay --merged merged/ --to mysql://…           apply it to a server, a DuckDB file, Parquet
  binlog-merge bootstrap --config cluster.yaml --to URL         fill a target with the rows that a cluster has
  binlog-merge position-of --at PLACE merged/                   where to go on reading after a TSO, a time, a GTID

\b
Ask it:
  binlog-merge inspect merged/binlog.000001                     look into any binlog file
  binlog-merge changes merged/ --table shop.orders              what happened to its rows: text, JSON, CSV, Parquet, SQL
  binlog-merge history shop.orders id=4711 --merged merged/     the life of one row
  binlog-merge stats merged/                                    rows, bytes and transactions by table and minute
  binlog-merge sql "SELECT …" --merged merged/                  SQL: changes('shop.orders'), transactions, ddl, schemas
  binlog-merge table-at shop.orders --merged merged/ …          a table as it was, and what changed between two moments
  binlog-merge flashback merged/ --table shop.orders …          undo changes, as SQL or as a binlog
  binlog-merge schema history shop.orders --merged merged/      what a table looked like, when, and why
  binlog-merge topology show shop.orders --merged merged/       which physical tables make up a table, at any moment
  binlog-merge list merged/                                     the files of a merged log, and what stands in each
  binlog-merge report merged/ -o report.html                    one page: lanes, DDL, watermark, skew, faults

\b
Look after it:
  binlog-merge status --config cluster.yaml --merged merged/    how far each is, what holds it back, is it healthy
  binlog-merge verify merged/                                   check every file, event and row
  binlog-merge purge merged/ --to binlog.000123                 remove the oldest files
  binlog-merge ddl locks --merged merged/                       which shards' DDL waits, and for whom
  binlog-merge filter test --filter F --table shop.orders       what a filter would let through
  binlog-merge warm                                             prepare an image, so that commands start at once
  binlog-merge debug plan cluster.yaml --merged merged/         what a merge would do; also order keys and blocks

\b
DIR of --merged is a merged log's directory, the same in all verbs; BINLOG_MERGE_MERGED in the environment will do.
Results go to stdout; progress, notes and errors to stderr. With -o json stdout is exactly one JSON object, also on
failure; with -o jsonl it is one object a line, the last one with `error` on failure. Integers that may exceed 2^53 are
strings in JSON, times are RFC 3339 in UTC; `binlog-merge debug json-schema VERB` prints a document's JSON Schema."""

EPILOG = "\b\nExit codes:\n" + "\n".join(f"  {row.exit_code:>3}  {row.code:<24}{row.meaning}" for row in EXIT_CODES)

_NAME = "binlog-merge"
_OTHERS = 0o027
"""What other accounts of the machine may not do with files that a command makes: they hold rows."""
_COMPLETE = "_BINLOG_MERGE_COMPLETE"
_VALUE_ERROR = re.compile(r"(^|: )Value error, ")
"""What pydantic, which typer parses with, writes before a reason."""

app = typer.Typer(
    name=_NAME,
    help=HELP,
    epilog=EPILOG,
    rich_markup_mode=None,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)
app.command("merge", cls=Verb, help=merge.HELP, epilog=EPILOG)(merge.merge)
app.command("capture", cls=Verb, help=capture.HELP)(capture.capture)
app.command("inspect", cls=Verb, help=inspect.HELP)(inspect.inspect)
app.command("changes", cls=Verb, help=changes.HELP)(changes.changes)
app.command("history", cls=Verb, help=history.HELP)(history.history)
app.command("stats", cls=Verb, help=stats.HELP)(stats.stats)
app.command("sql", cls=Verb, help=sql.HELP)(sql.sql)
app.command("replay", cls=Verb, help=replay.HELP)(replay.replay)
app.command("bootstrap", cls=Verb, help=bootstrap.HELP)(bootstrap.bootstrap)
app.command("serve", cls=Verb, help=serve.HELP)(serve.serve)
app.command("password", cls=Verb, help=password.HELP)(password.password)
app.command("status", cls=Verb, help=status.HELP)(status.status)
app.command("run", cls=Verb, help=run_verb.HELP, epilog=EPILOG)(run_verb.run)
app.command("report", cls=Verb, help=report.HELP)(report.report)
app.command("verify", cls=Verb, help=verify.HELP)(verify.verify)
app.command("purge", cls=Verb, help=purge.HELP)(purge.purge)
app.command("demo", cls=Verb, help=demo.HELP)(demo.demo)
app.command("warm", cls=Verb, help=warm.HELP)(warm.warm)
app.command("position-of", cls=Verb, help=position.POSITION_HELP)(position.position_of)
app.command("tso-of", cls=Verb, help=position.TSO_HELP)(position.tso_of)
app.command("list", cls=Verb, help=list_files.HELP)(list_files.list_files)
app.command("flashback", cls=Verb, help=flashback.HELP)(flashback.flashback)
app.command("table-at", cls=Verb, help=table_at.HELP)(table_at.table_at)
app.add_typer(schema.app)
app.add_typer(topology.app)
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
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print no progress and no notes; may stand anywhere, as the next two.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="List what is otherwise only counted; -vv: log the stages, too.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Print a traceback with every error.")] = False,
) -> None:
    pass


def main() -> NoReturn:
    """Run the command line and exit with a code from EXIT_CODES."""
    if _COMPLETE in os.environ:  # a shell asks what may follow, and typer answers
        app(prog_name=_NAME)
    heed_signals()
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
    voice, arguments = taken(arguments)
    speak(voice)
    start_log(Level.warning, LineFormat.text)
    arguments = arguments or ["--help"]
    try:
        command = typer.main.get_command(app)
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
        return IoError(error.strerror or str(error), file=None if error.filename is None else str(error.filename))
    # typer's own errors (a wrong option, a missing argument) know how to say what is wrong.
    format_message = getattr(error, "format_message", None)
    if callable(format_message):
        said = _VALUE_ERROR.sub(r"\1", str(format_message()))
        verb = getattr(getattr(error, "ctx", None), "command_path", _NAME)
        return ConfigError(said, remedy=f"see {verb} --help")
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
