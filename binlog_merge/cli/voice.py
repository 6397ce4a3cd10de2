"""How much a command tells: the words --quiet and --verbose, which stand anywhere on the line, as --debug does."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_VERBOSE: Final = re.compile(r"-v+")


@dataclass(frozen=True, slots=True)
class Voice:
    """`quiet`: results, warnings and errors only. `verbose`: 1 lists what is otherwise counted, 2 logs the stages."""

    quiet: bool = False
    verbose: int = 0
    debug: bool = False


_voice = Voice()
"""That of the process's one command; all its threads ask for it."""


def taken(arguments: Sequence[str]) -> tuple[Voice, list[str]]:
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
