"""`binlog-merge from-mariadb`: translates a MariaDB's binlogs, and dumps of its tables, so that they can be merged."""

import time
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from binlog_merge.cli.input import text_of
from binlog_merge.cli.log_lines import say
from binlog_merge.cli.options import Output, local_path, option
from binlog_merge.cli.output import OutputFormat, counted, print_document, printable, size_text
from binlog_merge.cli.signals import Terminated
from binlog_merge.errors import ConfigError
from binlog_merge.store_errors import as_merge_errors

if TYPE_CHECKING:
    from binlog_merge.mariadb_nodes.folder import Translated

HELP = """Translate the binlogs of a MariaDB, as a MySQL would have written them, so that they can be merged.

\b
  binlog-merge from-mariadb /var/log/mysql --to nodes/shard-1               a folder of files
  binlog-merge from-mariadb 'raw/mysql-bin.*' --to nodes/shard-1 --stop-never
  mariadb-dump --no-data --databases shop | binlog-merge from-mariadb --dump - > shard-1.sql

Give the new folder to a merge as the node's `files`. Run it again, or leave it running with --stop-never: it goes on
where it was. GTIDs, XA, DDL, compressed events and columns become MySQL's. What has no meaning in MySQL (accounts,
sequences) is left out and named; DDL that MySQL does not know passes, and a merge stops there and says what to do.

Where the binlogs begin behind the CREATE TABLEs, translate a dump of the tables with --dump, for `base.physical`."""

_EVERY: Final = 0.2
_MOST_NOTES: Final = 1000
"""Notes at the end of a JSON document: the last ones, after --stop-never for a long time."""

Files = Annotated[list[str], typer.Argument(help="Binlog files, folders of them, or patterns.", metavar="FILE...")]
To = Annotated[
    Path | None, option("--to", "The folder for the translated files, one for each node.", "DIR", local_path)
]
Dump = Annotated[
    bool, option("--dump", "FILE is what mariadb-dump --no-data printed, - for stdin: print it for MySQL.")
]
StopNever = Annotated[bool, option("--stop-never", "Go on as the files grow, until Ctrl-C or SIGTERM.")]


def from_mariadb(
    files: Files,
    to: To = None,
    stop_never: StopNever = False,
    dump: Dump = False,
    output: Output = OutputFormat.text,
) -> None:
    """Translate the binlogs of a MariaDB, or a dump of its tables."""
    if dump:
        if to is not None or stop_never or len(files) != 1:
            raise ConfigError("--dump takes one FILE alone, and prints", remedy="leave --to and --stop-never out")
        _print_dump(files[0])
        return
    if to is None:
        raise ConfigError("--to is missing", remedy="give --to the folder for the translated files")
    _translate(files, to, stop_never, output)


def _print_dump(file: str) -> None:
    from binlog_merge.mariadb_nodes.dumps import mysql_dump

    with as_merge_errors(file):
        print(mysql_dump(text_of(Path(file)), lambda text: say(f"note: {printable(text)}")), end="")


def _translate(files: list[str], to: Path, stop_never: bool, output: OutputFormat) -> None:
    from binlog_merge.mariadb_nodes.folder import FolderTranslation

    notes = deque[str](maxlen=_MOST_NOTES)

    def note(text: str) -> None:
        notes.append(text)
        say(f"note: {printable(text)}")

    translation = FolderTranslation([str(local_path(file)) for file in files], to, note)
    found = translation.advance()
    if stop_never:
        found = _followed(translation, found)
    for file in found if not stop_never else ():
        if file.left:
            note(f"{file.source}:{file.read}: the last {counted(file.left, 'byte')} are no whole event, or not yet")
    if output is OutputFormat.text:
        read, written = sum(file.read for file in found), sum(file.written for file in found)
        print(f"{counted(len(found), 'file')} in {printable(to)}: {size_text(read)} read, {size_text(written)} written")
        return
    print_document({"to": str(to), "files": [_plain(file) for file in found], "notes": list(notes)}, output)


def _followed(translation: Any, found: "list[Translated]") -> "list[Translated]":
    """Go on until a signal; return what is translated then."""
    try:
        while True:
            time.sleep(_EVERY)
            found = translation.advance()
    except (KeyboardInterrupt, Terminated):
        return found


def _plain(file: "Translated") -> dict[str, Any]:
    return {
        "name": file.name,
        "source": file.source,
        "read": str(file.read),
        "written": str(file.written),
        "ended": file.ended,
        "left": str(file.left),
    }
