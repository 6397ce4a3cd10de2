"""File patterns to file paths, local or remote."""

import fnmatch
import glob
import re
from pathlib import Path

from binlog_merge.config_values import is_uri
from binlog_merge.errors import IoError
from binlog_merge.files.source import filesystem_of, io_error, local_path

_MAGIC = re.compile(r"[*?\[]")


def expand(pattern: str) -> list[str]:
    """Return the files (not folders) that match, sorted. `*`, `?` and `[a-z]` as in the shell; `**` only locally."""
    local = local_path(pattern)
    if local is None:
        return _expand_remote(pattern)
    paths = glob.glob(local, recursive=True)  # noqa: PTH207 (absolute patterns)
    return sorted(path for path in paths if not Path(path).is_dir())


def _expand_remote(pattern: str) -> list[str]:
    from pyarrow.fs import FileSelector, FileType

    scheme, rest = pattern.split("://", 1)
    parts = rest.split("/")
    first = next((i for i, part in enumerate(parts) if _MAGIC.search(part)), None)
    if first is None:
        filesystem, path = filesystem_of(pattern)
        found = [path] if filesystem.get_file_info(path).type == FileType.File else []
        return [pattern for _ in found]
    filesystem, folder = filesystem_of(f"{scheme}://{'/'.join(parts[:first])}")
    wanted = parts[first:]
    try:
        infos = filesystem.get_file_info(FileSelector(folder, allow_not_found=True, recursive=len(wanted) > 1))
    except OSError as error:
        raise io_error(error, pattern) from error
    names = (info.path[len(folder) :].lstrip("/") for info in infos if info.type == FileType.File)
    return sorted(f"{scheme}://{'/'.join([*parts[:first], name])}" for name in names if _matches(name, wanted))


def _matches(name: str, wanted: list[str]) -> bool:
    segments = name.split("/")
    return len(segments) == len(wanted) and all(map(fnmatch.fnmatchcase, segments, wanted))


def check_readable(pattern: str) -> None:
    """Raise IoError if a pattern without wildcards names something that is there but is not a file."""
    if not is_uri(pattern) and not _MAGIC.search(pattern) and Path(pattern).is_dir():
        raise IoError("is a folder", file=pattern, remedy=f"write the node's files as a pattern: {pattern}/mysql-bin.*")
