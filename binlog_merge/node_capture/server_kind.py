"""The kinds of servers that a node may have, and what a capture does otherwise for each.

MYSQL      its files are what is captured; it may begin within one; its clock is noted
MARIADB    its files are kept beside their translation, which is made of whole files; it logs no commit times
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from binlog_merge.binlog.constants import EventType

RAW_NAME: Final = ".mariadb"  # patterns with * do not match a hidden folder


@dataclass(frozen=True, slots=True)
class ServerKind:
    """What differs between servers.

    `raw`: in which folder their files are kept if it is the translation that is merged, which needs them whole.
    `logs_times`: of commits, so that what its clock says helps. `tells_ends`: each event says where it ends.
    `sent_again`: events behind the format description that each dump from within a file brings again, as copies; a dump
    from one of them on cannot be asked for.
    """

    name: str
    raw: str = ""
    logs_times: bool = True
    tells_ends: bool = True
    sent_again: frozenset[int] = frozenset()

    @property
    def is_translated(self) -> bool:
        """Return whether it is a translation of its files that is merged."""
        return bool(self.raw)

    def folder(self, of_server: Path) -> Path:
        """Return the folder of the files as they are on the server, which is made if it is one of its own."""
        folder = of_server / self.raw
        if self.raw:
            folder.mkdir(parents=True, exist_ok=True)
        return folder

    def ends_at(self, log_pos: int, end: int) -> bool:
        """Return whether an event that ends at a place may have this as its end."""
        return log_pos == end & 0xFFFFFFFF or not (log_pos or self.tells_ends)


MYSQL: Final = ServerKind("MySQL")
MARIADB: Final = ServerKind(
    "MariaDB",
    raw=RAW_NAME,
    logs_times=False,
    tells_ends=False,  # since 11.7, unless binlog_legacy_event_pos is on
    sent_again=frozenset({EventType.MARIADB_START_ENCRYPTION_EVENT}),
)


def kind_of(version: str) -> ServerKind:
    """Return the kind of a server by the version that it tells when one connects."""
    return MARIADB if MARIADB.name.lower() in version.lower() else MYSQL
