"""The options that mean the same in every verb: which merged log, how to print, how much to tell.

A verb that reads a merged log takes `merged: Merged = None`, and `directory: MergedArgument = None` where nothing else
stands on its line; `merged_of` then returns the place. One that has a configuration falls back on its `output.dir`.

Paths on the command line are local ones, or it is said that a URI cannot stand there.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final, TypeVar

import typer

from binlog_merge.cli.output import OutputFormat
from binlog_merge.errors import ConfigError

_ROUNDS: Final = (
    "what goes on writes to a local (or mounted) folder; give that, and `archive: s3://…` in the configuration sends "
    "closed files there. Or let `merge --merged s3://…` run again and again: each goes on where the last one stopped"
)
_PURGED: Final = "set retention.size in the configuration: the next `merge --merged s3://…` removes the oldest files"
_IN_A_STORE: Final = "s3://bucket/path, or the like at gs:// or az://"


def local_path(given: str | Path) -> Path:
    """Return the local path that an argument names, also as file:///…. Raises ConfigError for any other URI."""
    if isinstance(given, Path):
        return given  # a default
    from binlog_merge.config.uri import local_or_refused

    return Path(local_or_refused(given))


def written_folder(given: str | Path) -> Path:
    """Return the local path of an output to which rounds write. Raises ConfigError for a URI."""
    if isinstance(given, Path):
        return given
    from binlog_merge.config.uri import local_or_refused

    return Path(local_or_refused(given, _ROUNDS))


def purged_folder(given: str | Path) -> Path:
    """Return the local path of an output of which files are removed by hand. Raises ConfigError for a URI."""
    if isinstance(given, Path):
        return given
    from binlog_merge.config.uri import local_or_refused

    return Path(local_or_refused(given, _PURGED))


def output_place(given: str | Path) -> str:
    """Return the local path or object-store URI of an output. Raises ConfigError for a URI of another kind."""
    from binlog_merge.config.uri import check_output

    return _checked(check_output, str(given), f"give a local (or mounted) folder, or {_IN_A_STORE}")


def input_file(given: str | Path) -> str:
    """Return the path or URI of a file to read. Raises ConfigError for a URI of a kind that cannot be read."""
    from binlog_merge.config.uri import check_input

    return _checked(check_input, str(given), f"give a local path, or {_IN_A_STORE}")


def _checked(check: Callable[[str], str], given: str, remedy: str) -> str:
    from binlog_merge.errors import ConfigError

    try:
        return check(given)
    except ValueError as error:
        raise ConfigError(str(error), remedy=remedy) from None


SslCa = Annotated[
    Path | None,
    typer.Option(
        "--ssl-ca",
        help="Encrypt, and trust only servers that this CA vouches for.",
        parser=local_path,
        metavar="PATH",
    ),
]


PathOrText = TypeVar("PathOrText", str, Path)

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


def merged_of(directory: PathOrText | None, merged: PathOrText | None) -> PathOrText:
    """Return the merged log that a verb's line names. Raises ConfigError if there are two of them, or none."""
    if directory is not None and merged is not None:
        raise ConfigError("the merged log is named twice", remedy="give --merged DIR, or DIR alone")
    place = directory if directory is not None else merged
    if place is None:
        raise ConfigError("no merged log is named", remedy=f"give --merged DIR, or set {MERGED_ENV}")
    return place
