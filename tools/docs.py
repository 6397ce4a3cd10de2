"""Run the examples of README.md and docs/, and put their output under them: `.venv/bin/python -m tools.docs [PAGE …]`.

`--reference` instead of pages only makes the generated parts of all pages anew (`tools/reference.py`), in seconds.
A test runs them too, and compares. They run in a folder of their own, which has `fixtures` and is empty otherwise. A
page begins there anew, or behind the pages that it names: `<!-- examples after: ../tutorial.md -->`.
"""

import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tools import reference

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
_BLOCK = re.compile(
    r"^```console\n(?P<console>.*?)^```$|^```python\n(?P<code>.*?)^```$(?:\n\n```text\n(?P<printed>.*?)^```$)?",
    re.DOTALL | re.MULTILINE,
)
_COMMAND = re.compile(r"^\$ (?P<command>(?:.*\\\n)*.*)\n(?P<output>(?:(?!\$ ).*\n)*)", re.MULTILINE)
_AFTER = re.compile(r"^<!-- examples after: (.+?) -->$", re.MULTILINE)


@dataclass(frozen=True)
class Example:
    """A command, or Python, and the output printed under it; None where a page shows none."""

    command: str | None
    code: str | None
    output: str | None


def examples(text: str) -> Iterator[Example]:
    """Yield the console and Python examples of a page in order."""
    for block in _BLOCK.finditer(text):
        if block["code"] is not None:
            yield Example(None, block["code"], block["printed"])
            continue
        for match in _COMMAND.finditer(block["console"]):
            yield Example(match["command"].replace("\\\n", ""), None, match["output"])


def before(page: Path) -> list[Path]:
    """Return the pages whose examples have to run before those of a page, as it names them."""
    return [(page.parent / name).resolve() for name in _AFTER.findall(page.read_text())]


def prepare(place: Path) -> None:
    """Give an empty folder what every example may read."""
    (place / "fixtures").symlink_to(ROOT / "fixtures")
    (place / "build").mkdir()


class Done(Protocol):
    """A command that has ended."""

    stdout: str
    stderr: str


def installed(place: Path) -> Callable[[Sequence[str]], Done]:
    """Return what runs the installed program in a folder."""
    program = Path(sys.executable).with_name("binlog-merge")
    return lambda arguments: subprocess.run(
        [program, *arguments], cwd=place, capture_output=True, text=True, timeout=600, check=False
    )


def run(command: str, program: Callable[[Sequence[str]], Done], place: Path = ROOT) -> str:
    """Return what a command prints: stdout, and the error if there is one."""
    words = shlex.split(command)
    assert words[0] == "binlog-merge", command
    done = program(words[1:])
    error = done.stderr[done.stderr.find("binlog-merge: ") :] if "binlog-merge: " in done.stderr else ""
    return (done.stdout + error).replace(f"{place}/", "").replace(f"{ROOT}/", "")


def comparable(output: str) -> list[str]:
    """Return output lines without what differs from run to run and from one making of the fixtures to the next."""
    return [re.sub(r"0x[0-9a-f]+|\d[\d.,:]*", "N", line).rstrip() for line in output.strip().splitlines()]


def updated(text: str, place: Path) -> str:
    """Return a page with fresh output under every example, and its generated parts as they are."""

    def block(match: re.Match[str]) -> str:
        if match["code"] is None:
            fresh = _COMMAND.sub(command, match["console"])
            return f"```console\n{fresh}```"
        done = subprocess.run(
            [sys.executable, "-c", match["code"]], cwd=place, capture_output=True, text=True, check=True
        )
        shown = "" if match["printed"] is None else f"\n\n```text\n{done.stdout.strip()}\n```"
        return f"```python\n{match['code']}```{shown}"

    def command(match: re.Match[str]) -> str:
        output = run(match["command"].replace("\\\n", ""), installed(place), place)
        return f"$ {match['command']}\n{output.rstrip()}\n"

    return reference.filled(_BLOCK.sub(block, text))


def main(names: Sequence[str]) -> None:
    """Write the named pages anew, or all; those that they name are run before them. `--reference`: run no example."""
    if list(names) == ["--reference"]:
        for page in PAGES:
            page.write_text(reference.filled(page.read_text()))
        return
    wanted = [Path(name).resolve() for name in names] or PAGES
    with tempfile.TemporaryDirectory() as folder:
        place, done = Path(folder).resolve(), set[Path]()
        prepare(place)

        def update(page: Path) -> None:
            if page in done:
                return
            done.add(page)
            for earlier in before(page):
                update(earlier)
            fresh = updated(page.read_text(), place)
            if page in wanted:
                page.write_text(fresh)

        for page in wanted:
            update(page)


if __name__ == "__main__":
    main(sys.argv[1:])
