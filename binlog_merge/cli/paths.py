"""Paths on the command line: local ones, what is said where a URI cannot stand, and options that several verbs have."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final

import typer

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
