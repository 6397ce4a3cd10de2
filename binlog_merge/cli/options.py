"""The options that mean the same in every verb: which merged log, how to print, how much to tell.

The options of a verb are the fields of a frozen dataclass, annotated with what typer shows of them: `taking` makes a
verb of a function that gets one.

A verb that reads a merged log takes `merged: Merged = None`, and `directory: MergedArgument = None` where nothing else
stands on its line; `merged_of` then returns the place. One that has a configuration falls back on its `output.dir`.

Paths on the command line are local ones, or it is said that a URI cannot stand there.
"""

from collections.abc import Callable, Iterable
from dataclasses import MISSING, fields
from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar, get_type_hints

import typer

from binlog_merge.cli.output import OutputFormat
from binlog_merge.errors import ConfigError

if TYPE_CHECKING:
    from binlog_merge.config.merge_config import MergeConfig

_ROUNDS: Final = (
    "what goes on writes to a local (or mounted) folder; give that, and `archive: s3://…` in the configuration sends "
    "closed files there. Or let `merge --merged s3://…` run again and again: each goes on where the last one stopped"
)
_PURGED: Final = "set retention.size in the configuration: the next `merge --merged s3://…` removes the oldest files"
_IN_A_STORE: Final = "s3://bucket/path, or the like at gs:// or az://"


def option(
    names: str, help: str, metavar: str | None = None, parser: Callable[..., Any] | None = None, **more: Any
) -> Any:
    """Return what typer shows of an option, by its names (with a blank between them)."""
    return typer.Option(*names.split(), help=help, metavar=metavar, parser=parser, **more)


Options = TypeVar("Options")


LEASE_REMEDY: Final = "write `ha: {lease: 10s}` into the configuration, or leave out --standby"
REQUIRED: Final = Parameter.empty


def taking(
    kind: type[Options], names: Iterable[str] = (), **otherwise: tuple[Any, Any]
) -> Callable[[Callable[[Options], None]], Callable[..., None]]:
    """Return what makes a verb of a function, whose line has the fields of a dataclass; the function gets one of it.

    `names` are the fields that the verb has, default: all. `otherwise` are fields that it annotates in its own way,
    each by an annotation, and a default or REQUIRED.
    """

    def made(function: Callable[[Options], None]) -> Callable[..., None]:
        def verb(**given: Any) -> None:
            function(kind(**given))

        hints = get_type_hints(kind, include_extras=True)
        known = {f.name: (hints[f.name], REQUIRED if f.default is MISSING else f.default) for f in fields(kind)}  # type: ignore[arg-type]
        chosen = {name: otherwise.get(name, known[name]) for name in names or known}
        verb.__signature__ = Signature(  # type: ignore[attr-defined]
            [Parameter(name, Parameter.KEYWORD_ONLY, default=d, annotation=a) for name, (a, d) in chosen.items()]
        )
        verb.__annotations__ = {name: annotation for name, (annotation, _) in chosen.items()}
        verb.__doc__ = function.__doc__
        return verb

    return made


def local_path(given: str | Path) -> Path:
    """Return the local path that an argument names, also as file:///…. Raises ConfigError for any other URI."""
    if isinstance(given, Path):
        return given  # a default
    from binlog_merge.config.uri import checked_local

    return Path(checked_local(given))


def written_folder(given: str | Path) -> Path:
    """Return the local path of an output to which rounds write. Raises ConfigError for a URI."""
    if isinstance(given, Path):
        return given
    from binlog_merge.config.uri import checked_local

    return Path(checked_local(given, _ROUNDS))


def purged_folder(given: str | Path) -> Path:
    """Return the local path of an output of which files are removed by hand. Raises ConfigError for a URI."""
    if isinstance(given, Path):
        return given
    from binlog_merge.config.uri import checked_local

    return Path(checked_local(given, _PURGED))


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
    option("--ssl-ca", "Encrypt, and trust only servers that this CA vouches for.", "PATH", local_path),
]


PathOrText = TypeVar("PathOrText", str, Path)

MERGED_ENV: Final = "BINLOG_MERGE_MERGED"
_HELP: Final = "The directory of the merged log"
_STORES: Final = "or s3://… (gs://…, az://…)"
_TSO: Final = "`binlog-merge tso-of --at TIME` tells the TSO of a time in a merged log"
_DEFAULT: Final = "default: output.dir of the configuration."

Merged = Annotated[
    str | None,
    option("--merged", f"{_HELP}, {_STORES}", "DIR", output_place, envvar=MERGED_ENV),
]
"""A merged log that is read, at any place."""

LocalMerged = Annotated[Path | None, option("--merged", f"{_HELP}.", "DIR", local_path, envvar=MERGED_ENV)]
"""A merged log in a local (or mounted) directory."""

NumberingMerged = Annotated[
    Path | None,
    option("--merged", "The merged log that numbers the nodes.", "DIR", local_path),
]
"""A merged log that only adds to an answer: the environment's does not count."""

PurgedMerged = Annotated[Path | None, option("--merged", f"{_HELP}.", "DIR", purged_folder, envvar=MERGED_ENV)]

ConfiguredMerged = Annotated[
    str | None,
    option("--merged", f"{_HELP}, {_STORES}; {_DEFAULT}", "DIR", output_place, envvar=MERGED_ENV),
]
"""The merged log of a configuration, at any place."""

WrittenMerged = Annotated[
    Path | None,
    option("--merged", f"{_HELP}; {_DEFAULT}", "DIR", written_folder, envvar=MERGED_ENV),
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
    option("-o --output", "text for people; json: one object, also on failure; jsonl: one object a line."),
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


def place_of(config: "MergeConfig", merged: str | None) -> str:
    """Return --merged, else output.dir of the configuration: a local path, or a URI."""
    place = merged if merged is not None else config.output.dir
    if place is None:
        raise ConfigError(
            f"the configuration of {config.name} names no merged log",
            remedy="set output.dir there, or give --merged DIR",
        )
    return place


def output_directory(config: "MergeConfig", merged: Path | None) -> Path:
    """Return --merged, else the configuration's output.dir, where it must be a folder. Raises ConfigError for a URI."""
    return written_folder(place_of(config, None if merged is None else str(merged)))
