"""Run the README's examples and put their output under them: `.venv/bin/python tools/readme.py`.

A test runs them too, and compares.
"""

import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from binlog_merge.errors import EXIT_CODES

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
_CONSOLE = re.compile(r"```console\n\$ (?P<command>.*?)\n(?P<output>.*?)```\n", re.DOTALL)
_CODES = re.compile(r"(<!-- exit codes -->\n).*?(<!-- end -->\n)", re.DOTALL)


@dataclass(frozen=True)
class Example:
    """A command of the README and the output printed under it."""

    command: str
    output: str


def examples(text: str) -> Iterator[Example]:
    """Yield the console examples in order."""
    for match in _CONSOLE.finditer(text):
        yield Example(match["command"], match["output"])


class Done(Protocol):
    """A command that has ended."""

    stdout: str
    stderr: str


def installed(arguments: Sequence[str]) -> Done:
    """Run the installed program."""
    command = [Path(sys.executable).with_name("binlog-merge"), *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)


def run(command: str, program: Callable[[Sequence[str]], Done] = installed) -> str:
    """Return what a command prints: stdout, and the error if there is one."""
    words = shlex.split(command)
    assert words[0] == "binlog-merge", command
    done = program(words[1:])
    error = done.stderr[done.stderr.find("binlog-merge: ") :] if "binlog-merge: " in done.stderr else ""
    return (done.stdout + error).replace(f"{ROOT}/", "")


def comparable(output: str) -> list[str]:
    """Return output lines without what differs from run to run and from one making of the fixtures to the next."""
    return [re.sub(r"0x[0-9a-f]+|\d[\d.,:]*", "N", line).rstrip() for line in output.strip().splitlines()]


def exit_codes() -> str:
    """Return the table of exit codes."""
    rows = [f"| {code.exit_code} | `{code.code}` | {code.meaning} |" for code in EXIT_CODES]
    return "\n".join(["| code | name | meaning |", "|---|---|---|", *rows, ""])


def updated(text: str) -> str:
    """Return the README with fresh output under every example and the exit codes as they are."""
    text = _CONSOLE.sub(lambda m: f"```console\n$ {m['command']}\n{run(m['command']).rstrip()}\n```\n", text)
    return _CODES.sub(lambda m: f"{m[1]}{exit_codes()}{m[2]}", text)


if __name__ == "__main__":
    (ROOT / "build" / "shop.db").unlink(missing_ok=True)
    README.write_text(updated(README.read_text()))
