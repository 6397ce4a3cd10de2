"""A glance at the nodes' folders that says in a few microseconds whether anything may have changed."""

import time
from collections.abc import Sequence
from pathlib import Path

from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.config.uri import local_path
from binlog_merge.files.globs import has_magic
from binlog_merge.files.intact import Stamp, stamp_of
from binlog_merge.files.node_file import Discovery

LOOK_EVERY = 1.0
"""Seconds after which folders are looked through even if nothing seems to have changed: times of files are coarse."""


class Glance:
    """Compares the stamps of folders, of each node's last file and of some other files with those of the last look.

    Knows nothing of remote folders, and of patterns that may match in several folders: there it says so each time.
    """

    def __init__(self, config: MergeConfig, others: Sequence[Path]) -> None:
        self._others = tuple(f"{path}{suffix}" for path in others for suffix in ("", ".wal"))
        self._folders = _folders(config)
        self._found: Discovery | None = None
        self._stamps: tuple[Stamp | None, ...] = ()
        self._looked = 0.0

    def is_same(self, found: Discovery) -> bool:
        """Return whether nothing has changed since the last call that returned False, when `found` was there."""
        if self._folders is None:
            return False
        last = (local_path(files[-1].path) or "." for files in found.nodes.values())
        stamps = tuple(map(stamp_of, (*self._folders, *last, *self._others)))
        now = time.monotonic()
        if found is self._found and stamps == self._stamps and now - self._looked < LOOK_EVERY:
            return True
        self._found, self._stamps, self._looked = found, stamps, now
        return False


def _folders(config: MergeConfig) -> tuple[str, ...] | None:
    """Return the folders of the nodes' files; None if they are remote or may be several for one pattern."""
    found: dict[Path, None] = {}
    for node in config.nodes:
        for pattern in node.files:
            local = local_path(pattern)
            if local is None or has_magic(str(Path(local).parent)):
                return None
            found[Path(local).parent] = None
    return tuple(map(str, found))
