"""The verbs of the command line and the modules that have them. A command imports those of its own verb alone."""

import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import typer
import typer.core

from binlog_merge.cli.log_lines import say
from binlog_merge.cli.options import option
from binlog_merge.errors import EXIT_CODES

_OUT: Final = ("--out",)
_FROM: Final = ("--from",)
RENAMED: Final = {
    "merge": _OUT,
    "run": _OUT,
    "status": _OUT,
    "demo": _OUT,
    "ddl locks": ("--out", "--store"),
    "ddl resolve": ("--out", "--store"),
    "debug plan": _OUT,
    "debug order-key": _OUT,
    "replay": _FROM,
    "verify": _FROM,
    "bootstrap": _FROM,
}
"""What --merged was called, by verb. The old names go with release 0.2."""


class Verb(typer.core.TyperCommand):
    """A verb of the command line."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse a verb's line. A merged log of the environment counts only where the line itself names none."""
        path = ctx.command_path
        old = RENAMED.get(path) or RENAMED.get(path.partition(" ")[2], ())  # without, or with, the program's name
        rest = super().parse_args(ctx, [*_renamed(args, old)])
        named = any(ctx.params.get(name) is not None for name in ("directory", "store"))
        named = named or (isinstance(path := ctx.params.get("path"), Path) and path.is_dir())  # of `debug plan`
        source = ctx.get_parameter_source("merged")
        if named and source is not None and source.name == "ENVIRONMENT":
            ctx.params["merged"] = None
        return rest


def _renamed(args: list[str], old: tuple[str, ...]) -> list[str]:
    """Return a line with --merged for its old names, and say so to whoever sits at a terminal."""
    end = args.index("--") if "--" in args else len(args)
    renamed = list(args)
    for i, word in enumerate(args[:end]):
        name, equals, value = word.partition("=")
        if name in old:
            renamed[i] = f"--merged{equals}{value}"
            if sys.stderr.isatty():
                say(f"binlog-merge: {name} is now called --merged; the old name goes with release 0.2")
    return renamed


HELP = """The global binlog of a distributed MySQL: many nodes' binlogs in, one MySQL-compatible binlog out.

\b
Make a merged log:
  binlog-merge demo                                             merge a small cluster and look at the result
  binlog-merge merge --config cluster.yaml --merged merged/     merge your own
  binlog-merge capture --config cluster.yaml                    fetch the nodes' binlogs from their servers
  binlog-merge from-mariadb raw/ --to nodes/shard-1             make a MariaDB's binlogs ready for a merge
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
  binlog-merge takeover --config cluster.yaml --merged s3://…   hand over to the `run` on another host
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


class _Module(NamedTuple):
    """Where a verb is: a module of `binlog_merge.cli`, its function ("": that of the module's name), and its help."""

    name: str
    function: str = ""
    text: str = "HELP"
    has_exit_codes: bool = False


_VERBS: Final = {
    "merge": _Module("merge", has_exit_codes=True),
    "capture": _Module("capture"),
    "inspect": _Module("inspect"),
    "changes": _Module("changes"),
    "history": _Module("history"),
    "stats": _Module("stats"),
    "sql": _Module("sql"),
    "replay": _Module("replay"),
    "bootstrap": _Module("bootstrap"),
    "serve": _Module("serve"),
    "password": _Module("password"),
    "from-mariadb": _Module("from_mariadb"),
    "status": _Module("status"),
    "run": _Module("run", has_exit_codes=True),
    "report": _Module("report"),
    "verify": _Module("verify"),
    "purge": _Module("purge"),
    "takeover": _Module("takeover"),
    "demo": _Module("demo"),
    "warm": _Module("warm"),
    "position-of": _Module("position", "position_of", "POSITION_HELP"),
    "tso-of": _Module("position", "tso_of", "TSO_HELP"),
    "list": _Module("list_files"),
    "flashback": _Module("flashback"),
    "table-at": _Module("table_at"),
}
_GROUPS: Final = {
    "schema": "schema.commands",
    "topology": "topology",
    "ddl": "ddl",
    "filter": "filter",
    "debug": "debug",
}
"""Groups of verbs, and the modules whose `app` they are."""


def application(word: str | None = None) -> typer.Typer:
    """Return the command line, with all verbs or, if `word` is one of them, with that one."""
    app = typer.Typer(
        name="binlog-merge",
        help=HELP,
        epilog=EPILOG,
        rich_markup_mode=None,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
    )
    app.callback()(_options)
    for name in (word,) if word in _VERBS or word in _GROUPS else (*_VERBS, *_GROUPS):
        if name in _GROUPS:
            app.add_typer(_module(_GROUPS[name]).app)
            continue
        verb = _VERBS[name]
        module = _module(verb.name)
        epilog = EPILOG if verb.has_exit_codes else None
        function = getattr(module, verb.function or verb.name)
        app.command(name, cls=Verb, help=getattr(module, verb.text), epilog=epilog)(function)
    return app


def _module(name: str) -> Any:
    return import_module(f"binlog_merge.cli.{name}")


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import PackageNotFoundError, version

        try:
            print(f"binlog-merge {version('binlog-merge')}")
        except PackageNotFoundError:
            print("binlog-merge (not installed)")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    quiet: Annotated[
        bool, option("--quiet -q", "Print no progress and no notes; may stand anywhere, as the next two.")
    ] = False,
    verbose: Annotated[
        bool, option("--verbose -v", "List what is otherwise only counted; -vv: log the stages, too.")
    ] = False,
    debug: Annotated[bool, option("--debug", "Print a traceback with every error.")] = False,
) -> None:
    pass
