"""The command class of every verb: the old names of `--merged`, and which way of naming a merged log counts."""

import sys
from pathlib import Path
from typing import Any, Final

import typer.core

from binlog_merge.cli.log_lines import say

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
    found = list(args)
    for i, word in enumerate(args[:end]):
        name, equals, value = word.partition("=")
        if name in old:
            found[i] = f"--merged{equals}{value}"
            if sys.stderr.isatty():
                say(f"binlog-merge: {name} is now called --merged; the old name goes with release 0.2")
    return found
