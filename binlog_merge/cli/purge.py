"""`binlog-merge purge`: removes the oldest files of a merged log by hand, as PURGE BINARY LOGS does."""

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from binlog_merge.cli.options import Output, PurgedArgument, PurgedMerged, merged_of, option
from binlog_merge.cli.output import OutputFormat, counted, print_document, printable
from binlog_merge.errors import ConfigError, ManifestError, NotArchived, ReadersBehind

if TYPE_CHECKING:
    from binlog_merge.files.manifest import ManifestState, OutputFile

HELP = """Remove the oldest files of a merged log, as MySQL's PURGE BINARY LOGS does.

\b
  binlog-merge purge merged/ --to binlog.000123                  keep binlog.000123 and what follows
  binlog-merge purge merged/ --before 2026-11-20T00:00:00Z       keep from the first file written at that time or later
  binlog-merge purge merged/ --to binlog.000123 --dry-run        only say what would go

The last file always stays. What a reader that is attached to `serve` still has to get is refused (52), unless --force
says so. Removed transactions count as purged: a replica that lacks one gets MySQL's error 1236. A merge that is running
is told by `retention` in its configuration instead (25); that also removes captured files."""

To = Annotated[str | None, option("--to", "The first file to keep.", "FILE")]
Before = Annotated[
    str | None,
    option("--before", "Remove files written last before this time; UTC without an offset.", "TIME"),
]
DryRun = Annotated[bool, option("--dry-run", "Remove nothing, say what would be.")]
Force = Annotated[bool, option("--force", "Also what attached readers still have to get.")]


def purge(
    directory: PurgedArgument = None,
    merged: PurgedMerged = None,
    to: To = None,
    before: Before = None,
    dry_run: DryRun = False,
    force: Force = False,
    output: Output = OutputFormat.text,
) -> None:
    """Remove the oldest files of a merged log."""
    from binlog_merge.files.lock import OutputLock
    from binlog_merge.files.manifest import Manifest
    from binlog_merge.files.publish import recover
    from binlog_merge.files.removal import remove

    place = merged_of(directory, merged)
    if (to is None) == (before is None):
        raise ConfigError("give either --to or --before", remedy="--to FILE keeps FILE and what follows")
    moment = None if before is None else _moment(before)
    if Manifest.load(place).state.header is None:
        raise ManifestError("no merge has written here", file=str(place), remedy="give the place of a merged log")
    if dry_run:
        state = Manifest.load(place).state
        files = _chosen(place, state, to, moment, force)
    else:
        with OutputLock(place, "purge"):
            manifest = Manifest.load(place)
            recover(place, manifest, "binlog")
            files = _chosen(place, manifest.state, to, moment, force)
            remove(place, manifest, files, {})
            state = manifest.state
    _report(place, files, [f for f in state.files if f not in files], dry_run, output)


def _chosen(
    directory: Path, state: "ManifestState", to: str | None, moment: float | None, force: bool
) -> "tuple[OutputFile, ...]":
    """Return the files to remove. Raises ReadersBehind if attached readers need some of them."""
    from binlog_merge.files.archived import read_note, removable
    from binlog_merge.files.removal import attached_readers, before_file, for_readers, older_than

    chosen = before_file(state, Path(to).name) if to is not None else older_than(directory, state, moment or 0.0)
    free = removable(directory, chosen)
    if len(free) < len(chosen):
        left = chosen[len(free)]
        raise NotArchived(f"{left.name} is not archived yet", file=str(directory / left.name))
    archived = read_note(directory) is not None
    choice = for_readers(chosen, () if force or archived else attached_readers(directory))
    if choice.kept:
        readers = ", ".join(map(str, choice.readers))
        raise ReadersBehind(
            f"{choice.kept[0].name} still has to be sent to {readers}",
            file=str(directory / choice.kept[0].name),
            remedy=f"wait, or `--to {choice.kept[0].name}`, or stop the reader; --force removes it all the same",
        )
    return choice.files


def _moment(text: str) -> float:
    try:
        moment = datetime.fromisoformat(re.sub(r"\s+", "T", text.strip(), count=1))
    except ValueError:
        raise ConfigError(f"--before {text!r} is no time", remedy="write it as 2026-11-20T00:00:00Z") from None
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()


def _report(
    directory: Path, files: "tuple[OutputFile, ...]", left: "list[OutputFile]", dry_run: bool, output: OutputFormat
) -> None:
    size = sum(file.size for file in files)
    first = left[0].name if left else None
    if output is not OutputFormat.text:
        names = [file.name for file in files]
        values = {"merged": str(directory), "dry_run": dry_run, "files": names, "bytes": size, "first_file": first}
        print_document(values, output)
        return
    done = "would be removed" if dry_run else "removed"
    for file in files:
        print(
            printable(f"{done}: {file.name}  {file.size:,} bytes, transactions {file.first_rank} to {file.last_rank}")
        )
    print(printable(f"{counted(len(files), 'file')}, {size:,} bytes {done}; the log begins with {first or 'nothing'}"))
