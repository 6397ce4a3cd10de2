"""Where the capture of a node begins, if a merged log says what is still needed of the node's log (`files.needed`).

A host that has nothing fetches from there on, and so does one whose captured files end before that: another host has
merged what follows them. Such files are of no use any more, and would leave a gap. They are moved into a folder beside
the new ones, whose name begins with a dot, and stay there until somebody removes them, or others are set aside.

    captured/dn-1/.set-aside-1/binlog.000003 …
"""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

from binlog_merge.errors import io_error
from binlog_merge.files.captured import RECORD_NAME, Begun
from binlog_merge.files.disk import sync_directory
from binlog_merge.files.needed import Needed, file_number
from binlog_merge.files.removal import REMOVED_NAME
from binlog_merge.files.servers import LogEnd, read_servers, write_servers
from binlog_merge.node_capture.files import NodeFiles, recorded

BEGINNING: Final = 128 << 10
"""How much of a file is fetched before the rest may be left out: what readers know it by (`files.head`) is in there."""
NEAR: Final = 1 << 20
"""What is no longer than this is fetched, although it is not needed: that is sooner done than left out."""

_ASIDE: Final = ".set-aside-"
_NOTES: Final = frozenset({RECORD_NAME, REMOVED_NAME, ".as-of"})


def prepared(directory: Path, needed: Needed, report: Callable[[str], None]) -> Needed | None:
    """Make a node's folder one in which a capture can go on; return `needed` if it is to begin there, else None.

    The caller holds the folder's lock. Raises IoError, and ManifestError for notes that are damaged.
    """
    if _goes_on(directory, needed):
        return needed if _falls_short(directory, needed) else None
    _set_aside(directory, needed, report)
    if needed.before.following:
        write_servers(directory, needed.before.following)
        (directory / needed.before.following[-1].folder).mkdir(exist_ok=True)
        sync_directory(directory)
    return needed


def begun(needed: Needed) -> Begun:
    """Return what the record of a capture is to say that begins as needed."""
    executed = None if needed.before.executed is None else str(needed.before.executed)
    resume, read = needed.resume, needed.read
    return Begun(needed.merged, resume.file, resume.position, read.file, read.position, executed)


def _goes_on(directory: Path, needed: Needed) -> bool:
    """Return whether what is captured of a node has what is needed, or goes on before it in the same file."""
    servers, following = read_servers(directory), needed.before.following
    if servers and _begun_there(directory / servers[-1].folder, needed):
        return True
    if [server.folder for server in servers[: len(following)]] != [server.folder for server in following]:
        return False
    files = NodeFiles(directory / needed.oldest.folder, needed.node)
    paths = files.paths() if files.directory.is_dir() else []
    numbers = [file_number(path.name) for path in paths]
    wanted = file_number(needed.oldest.file)
    if wanted not in numbers:
        return False
    record = recorded(files.directory)
    hole = None if record is None else record.hole
    return hole is None or hole.file != needed.oldest.file or hole.end <= needed.oldest.position


def _begun_there(folder: Path, needed: Needed) -> bool:
    """Return whether a capture has begun with the log of another server, for what is needed."""
    record = recorded(folder)
    place = None if record is None or record.begun is None else (record.begun.resumed_in, record.begun.resumed)
    return place == (needed.resume.file, needed.resume.position)


def _falls_short(directory: Path, needed: Needed) -> bool:
    """Return whether the captured files end with the one that is needed, before that place in it, or are of another
    server.
    """
    path = directory / needed.oldest.folder / needed.oldest.file
    if not path.exists():
        return True
    last = NodeFiles(path.parent, needed.node).paths()[-1]
    return last.name == path.name and path.stat().st_size < needed.oldest.position


def _set_aside(directory: Path, needed: Needed, report: Callable[[str], None]) -> None:
    """Move away what was captured of a node, which leaves its folder as a new one."""
    old = [path for path in directory.iterdir() if not path.name.startswith(".") or path.name in _NOTES]
    if not old:
        return
    earlier = sorted(directory.glob(f"{_ASIDE}*"), key=_number_of)
    aside = directory / f"{_ASIDE}{_number_of(earlier[-1]) + 1 if earlier else 1}"
    try:
        aside.mkdir()
        for path in old:
            shutil.move(path, aside / path.name)
        for path in earlier:  # else a host that comes and goes fills its disk with them
            shutil.rmtree(path)
    except OSError as error:
        raise io_error(error, str(aside)) from error
    sync_directory(directory)
    report(
        f"what was captured here is moved to {aside}: {needed.merged} needs the log from {shown(needed.oldest)} on, "
        "and another host has merged what is between; remove it if nobody else reads it"
        + (f"; what was set aside before is removed: {', '.join(path.name for path in earlier)}" if earlier else "")
    )


def _number_of(aside: Path) -> int:
    number = aside.name.removeprefix(_ASIDE)
    return int(number) if number.isdecimal() else 0


def shown(place: LogEnd) -> str:
    """Return a place of a node's log for people."""
    return f"{place.folder}/{place.file}:{place.position}" if place.folder else f"{place.file}:{place.position}"
