"""The options that mean the same in every verb: which merged log, how to print, how much to tell.

A verb that reads a merged log takes `merged: Merged = None`, and `directory: MergedArgument = None` where nothing else
stands on its line; `merged_of` then returns the place. One that has a configuration falls back on its `output.dir`.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final, TypeVar

import typer

from binlog_merge.cli.output import OutputFormat
from binlog_merge.cli.paths import local_path, output_place, purged_folder, written_folder
from binlog_merge.errors import ConfigError

Place = TypeVar("Place", str, Path)

MERGED_ENV: Final = "BINLOG_MERGE_MERGED"
_HELP: Final = "The directory of the merged log"
_STORES: Final = "or s3://… (gs://…, az://…)"
_TSO: Final = "`binlog-merge tso-of --at TIME` tells the TSO of a time in a merged log"
_DEFAULT: Final = "default: output.dir of the configuration."

Merged = Annotated[
    str | None,
    typer.Option("--merged", envvar=MERGED_ENV, help=f"{_HELP}, {_STORES}", metavar="DIR", parser=output_place),
]
"""A merged log that is read, at any place."""

LocalMerged = Annotated[
    Path | None, typer.Option("--merged", envvar=MERGED_ENV, help=f"{_HELP}.", metavar="DIR", parser=local_path)
]
"""A merged log in a local (or mounted) directory."""

NumberingMerged = Annotated[
    Path | None,
    typer.Option("--merged", help="The merged log that numbers the nodes.", metavar="DIR", parser=local_path),
]
"""A merged log that only adds to an answer: the environment's does not count."""

PurgedMerged = Annotated[
    Path | None, typer.Option("--merged", envvar=MERGED_ENV, help=f"{_HELP}.", metavar="DIR", parser=purged_folder)
]

ConfiguredMerged = Annotated[
    str | None,
    typer.Option(
        "--merged", envvar=MERGED_ENV, help=f"{_HELP}, {_STORES}; {_DEFAULT}", metavar="DIR", parser=output_place
    ),
]
"""The merged log of a configuration, at any place."""

WrittenMerged = Annotated[
    Path | None,
    typer.Option("--merged", envvar=MERGED_ENV, help=f"{_HELP}; {_DEFAULT}", metavar="DIR", parser=written_folder),
]
"""The merged log of a configuration, where it is a local folder to which a process writes on and on."""

MergedArgument = Annotated[
    str | None, typer.Argument(help="The same as --merged.", metavar="DIR", parser=output_place, show_default=False)
]
PurgedArgument = Annotated[
    Path | None, typer.Argument(help="The same as --merged.", metavar="DIR", parser=purged_folder, show_default=False)
]

Output = Annotated[
    OutputFormat,
    typer.Option(
        "-o", "--output", help="text for people; json: one object, also on failure; jsonl: one object a line."
    ),
]


def commit_tso(option: str) -> Callable[[str | int], int]:
    """Return what parses the commit TSO that an option gives. It raises ConfigError, also for digits of a date."""

    def parsed(given: str | int) -> int:
        from snapshot_store.names import LAST, check_no_date

        text = str(given).strip()
        if not (text.isascii() and text.isdigit()) or int(text) > LAST.commit_tso:
            raise ConfigError(f"{option}: {text!r} is not a commit TSO", remedy=_TSO)
        try:
            check_no_date(text)
        except ValueError:
            raise ConfigError(
                f"{option}: {text!r} reads as a date, and a commit TSO is wanted",
                remedy=f"{_TSO}; if it is a TSO, write 0{text}",
            ) from None
        return int(text)

    return parsed


def merged_of(directory: Place | None, merged: Place | None) -> Place:
    """Return the merged log that a verb's line names. Raises ConfigError if there are two of them, or none."""
    if directory is not None and merged is not None:
        raise ConfigError("the merged log is named twice", remedy="give --merged DIR, or DIR alone")
    place = directory if directory is not None else merged
    if place is None:
        raise ConfigError("no merged log is named", remedy=f"give --merged DIR, or set {MERGED_ENV}")
    return place
