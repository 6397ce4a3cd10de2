"""Positions in the log as a target records them: a rank, with GTID and order key to recognise the log."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from binlog_merge.errors import ReplayStopped
from binlog_merge.log.reader import MergedBinlog
from binlog_merge.log.segments import Segment, segments

_ANOTHER: Final = "this is another output of the cluster: go on with the one that the replay began with"


@dataclass(frozen=True, slots=True)
class Place:
    """The position after transaction `rank`; `gtid` and `key` are that transaction's, None if not known."""

    rank: int
    gtid: str | None = None
    key: str | None = None


def places_of(binlog: MergedBinlog, ranks: Collection[int]) -> dict[int, Place]:
    """Return the positions after these transactions; of those that the log does not have only the rank is known.

    That also goes for removed ones, but for the last of them, behind which the log begins.

    Raises as reading the log does.
    """
    found = {rank: Place(rank) for rank in ranks}
    gone = binlog.state.gone
    wanted = {rank for rank in found if binlog.state.first_rank <= rank <= binlog.last_rank}
    if gone is not None and gone.last_rank in found:
        gtid = f"{binlog.cluster_uuid}:{gone.last_rank}" if binlog.with_gtids else None
        found[gone.last_rank] = Place(gone.last_rank, gtid, gone.last_key)
    for file in binlog.state.files:
        # The manifest has the last key of each file; a DDL's order key is nowhere else.
        if file.last_rank in wanted and binlog.with_gtids:
            gtid = f"{binlog.cluster_uuid}:{file.last_rank}"
            found[file.last_rank] = Place(file.last_rank, gtid, file.last_key)
            wanted.discard(file.last_rank)
    if not wanted:
        return found
    for piece in segments(binlog, min(wanted), max(wanted)):
        if not isinstance(piece, Segment):
            read = [(piece.begin, piece.statement.key)] if piece.begin.rank in wanted else []
        else:
            numbers = [i for i, rank in enumerate(piece.ranks) if rank in wanted]
            read = [(piece.begin(i), piece.key(i)) for i in numbers]
        for begin, key in read:
            gtid = begin.gtid if ":" in begin.gtid else f"transaction {begin.rank}"
            found[begin.rank] = Place(begin.rank, gtid, None if key is None else key.text())
    return found


def check_place(recorded: Place, here: Place) -> None:
    """Raise ReplayStopped if the log has another transaction at a rank than the target has recorded."""
    if recorded.key is not None and here.key is not None and recorded.key != here.key:
        raise ReplayStopped(
            f"the target's transaction {recorded.rank} has the order key {recorded.key}, this log's {here.key}",
            remedy=_ANOTHER,
        )
