"""Expands file patterns to paths, local or remote."""

import glob
import os
import re
import stat
from pathlib import Path

from binlog_merge.config.uri import local_path
from binlog_merge.errors import CHECK_PATH, IoError
from binlog_merge.files.remote import MAGIC, list_files
from binlog_merge.files.source import not_a_file

_LIKE_A_BINLOG = re.compile(r"\.\d{6,18}$")


GONE, FOLDER = "nothing", "a folder"


def expand(pattern: str) -> list[str]:
    """Return the paths that match, sorted; folders only if they are named like a binlog. Local patterns may hold `**`.

    `*`, `?` and `[a-z]` are as in the shell. `kind_of` distinguishes files from other kinds.
    """
    local = local_path(pattern)
    if local is None:
        return list_files(pattern)
    paths = glob.glob(local, recursive=True)  # noqa: PTH207 (absolute patterns)
    return sorted(path for path in paths if not Path(path).is_dir() or _LIKE_A_BINLOG.search(path))


def has_magic(path: str) -> bool:
    """Return whether a path is a pattern."""
    return MAGIC.search(path) is not None


def kind_of(path: str) -> str | None:
    """Return the kind of a matched path that is not a file: "a FIFO", say, or GONE; None for a file."""
    local = local_path(path)
    if local is None:
        return None  # object stores hold files only
    try:
        return not_a_file(Path(local).stat().st_mode)
    except FileNotFoundError:
        return None if Path(local).is_symlink() else GONE
    except OSError:
        return None  # opening it reports the reason


def why_nothing(pattern: str) -> str:
    """Return why no file matches: the folder is missing, is not a folder, or holds none."""
    local = local_path(pattern)
    if local is not None:
        parents = Path(local).parents
        folder = next((p for p in parents if not MAGIC.search(str(p))), Path("/"))
        try:
            is_folder = stat.S_ISDIR(folder.stat().st_mode)
        except OSError as error:
            return f"no binlog file matches {pattern}: {folder}: {error.strerror}"
        if not is_folder:
            return f"no binlog file matches {pattern}: {folder} is not a folder"
    return f"no binlog file matches {pattern}"


def check_readable(pattern: str) -> None:
    """Raise IoError if a pattern names a folder, or if a folder that it searches cannot be listed.

    (`glob` itself treats a folder that cannot be listed as empty.)
    """
    local = local_path(pattern)
    if local is None:
        return
    if not MAGIC.search(local) and kind_of(local) == FOLDER:
        raise IoError("is a folder", file=pattern, remedy=f"write the node's files as a pattern: {pattern}/mysql-bin.*")
    path = Path(local)
    listed = [str(part.parent) for part in reversed((path, *path.parents)) if MAGIC.search(part.name)]
    for folder in (folder for part in listed for folder in glob.glob(part, recursive=True)):  # noqa: PTH207
        try:
            os.scandir(folder).close()
        except (FileNotFoundError, NotADirectoryError):
            pass  # `why_nothing` reports this
        except OSError as error:
            raise IoError(f"the folder cannot be listed: {error.strerror}", file=folder, remedy=CHECK_PATH) from error
