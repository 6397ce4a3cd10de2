"""The command line in this process: what a verb prints where and what it exits with, without starting Python anew.

What only a process of its own can show (signals, the installed program, what it imports) has tests of its own.
"""

import io
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Any

import typer

from binlog_merge.cli.main import run
from binlog_merge.cli.verbs import application


@dataclass(frozen=True)
class Done:
    """A command that has ended, named as `subprocess` names it."""

    returncode: int
    stdout: str
    stderr: str


def command_line(arguments: Sequence[object]) -> Done:
    """Run the arguments of one command."""
    # Verbs that print bytes write to the buffer below the text.
    out = io.TextIOWrapper(io.BytesIO(), "utf-8", errors="replace", newline="\n", write_through=True)
    with redirect_stdout(out), redirect_stderr(io.StringIO()) as err:
        code = run([str(argument) for argument in arguments])
    out.seek(0)
    return Done(code, out.read(), err.getvalue())


def parsed(arguments: Sequence[str]) -> dict[str, Any]:
    """Return the values of a command's parameters without running it; raises what is wrong with the arguments."""
    verbs: Any = typer.main.get_command(application())
    verb = verbs.commands[arguments[0]]
    values: dict[str, Any] = verb.make_context(arguments[0], list(arguments[1:])).params
    return values
