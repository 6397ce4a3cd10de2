"""Where a dump begins: a reader's request checked against the published log, with the error messages of MySQL.

Source of the messages: mysql-server `sql/rpl_binlog_sender.cc` and `share/messages_to_clients.txt`.
"""

from dataclasses import dataclass

from binlog_merge.binlog.constants import BINLOG_MAGIC
from binlog_merge.binlog.gtid_set import GtidSet
from binlog_merge.binlog_server.log import LogView
from binlog_merge.log.ranks import RankSet


class NotServed(Exception):  # noqa: N818 (named after what is the case, like the errors of the project)
    """A request that cannot be served; the text is sent to the replica as error 1236."""


@dataclass(frozen=True, slots=True)
class Start:
    """A request: a file (the first if "") and position and, with auto-position, the GTIDs that the reader has."""

    file: str
    position: int
    has: GtidSet | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """Where a dump begins: a file's index, and a position; `resumes`: the reader has the file's beginning."""

    number: int
    position: int
    has: RankSet
    resumes: bool


def place_of(view: LogView, start: Start) -> Place:
    """Return where the dump for a request begins. Raises NotServed."""
    has = RankSet() if start.has is None else view.ranks_of(start.has)
    if start.has is not None:
        _check_gtids(view, start.has, by_file=bool(start.file))
    if start.position < len(BINLOG_MAGIC):
        raise NotServed("Client requested source to start replication from position < 4")
    if start.has is not None and not start.file:
        first = view.file_of(has)
        resumes = first < view.count and view.file(first).first_rank in has
        return Place(first, len(BINLOG_MAGIC), has, resumes)
    number = view.number(start.file) if start.file else view.first
    if number is None:
        raise NotServed("Could not find first log file name in binary log index file")
    if start.position > view.size(number):
        raise NotServed("Client requested source to start replication from position > file size")
    return Place(number, start.position, has, start.position > len(BINLOG_MAGIC))


def _check_gtids(view: LogView, has: GtidSet, by_file: bool) -> None:
    if not view.with_gtids:
        raise NotServed(
            "The replication sender thread cannot start in AUTO_POSITION mode: this server has GTID_MODE = OFF instead "
            "of ON: the merged binlog was made with output.gtid: anonymous."
        )
    ours = GtidSet.of(item for item in has.items() if item[0] == view.sid)
    if not view.executed.contains_set(ours):
        raise NotServed(
            "Replica has more GTIDs than the source has, using the source's SERVER_UUID. This may indicate that the "
            f"merged binlog was made anew, or that another one is served. The replica has '{ours}', the source "
            f"'{view.executed}'."
        )
    if not by_file and not has.contains_set(view.purged):
        missing = RankSet.upto(view.purged_rank) - view.ranks_of(has)
        raise NotServed(
            "Cannot replicate because the source purged required binary logs. Replicate the missing transactions from "
            "elsewhere, or provision a new replica from backup. The GTID set sent by the replica is "
            f"'{has}', and the missing transactions are '{view.gtids_of(missing)}'."
        )
