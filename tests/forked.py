"""Processes that are forked from one that has everything loaded: they start in a moment, and a failpoint may kill them.

What is about the start of the program itself starts Python anew.
"""

import multiprocessing
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from binlog_merge.cli import main as cli
from binlog_merge.files.failpoint import VARIABLE
from tests.command_line import Done

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["tests.merge_e2e.preloaded", __name__])


def forked(function: Callable[..., object], *arguments: Any, failpoint: str = "") -> int:
    """Call a function of a module in a process of its own; return its exit code: -9 if the failpoint has killed it."""
    environment = {**os.environ, VARIABLE: failpoint}
    process = _context.Process(target=_call, args=(environment, function, arguments))
    process.start()
    process.join(240)
    if process.is_alive():
        process.kill()
        process.join()
        raise AssertionError(f"{arguments}: it does not end")
    assert process.exitcode is not None
    return process.exitcode


def forked_command(arguments: Sequence[object], failpoint: str = "") -> Done:
    """Run the arguments of one command in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder, "out"), Path(folder, "err")
        code = forked(_command, [str(argument) for argument in arguments], out, err, failpoint=failpoint)
        return Done(code, out.read_text(), err.read_text())


def _call(environment: Mapping[str, str], function: Callable[..., object], arguments: Sequence[Any]) -> None:
    os.environ.clear()  # it is the first test's that has forked anything
    os.environ.update(environment)
    function(*arguments)


def _command(words: Sequence[str], out: Path, err: Path) -> None:
    for path, number in ((out, 1), (err, 2)):
        with path.open("wb") as file:
            os.dup2(file.fileno(), number)
    sys.argv = ["binlog-merge", *words]
    cli.main()
