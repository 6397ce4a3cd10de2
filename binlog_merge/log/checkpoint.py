"""A target's position in the log: a rank, with GTID and order key to recognise the log, and where a replay resumes."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from binlog_merge.errors import ConfigError, ReplayStopped
from binlog_merge.log.log import Log
from binlog_merge.log.segments import Segment, segments

ANOTHER: Final = "this is another output of the cluster: go on with the one that the replay began with"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The position after transaction `rank`; `gtid` and `key` are that transaction's, None if not known."""

    rank: int
    gtid: str | None = None
    key: str | None = None

    def check(self, here: "Checkpoint", remedy: str = ANOTHER) -> None:
        """Raise ReplayStopped if the log has another transaction (`here`) at this rank than the target has recorded."""
        if self.key is not None and here.key is not None and self.key != here.key:
            raise ReplayStopped(
                f"the target's transaction {self.rank} has the order key {self.key}, this log's {here.key}",
                remedy=remedy,
            )

    def check_first(self, first: int | None) -> None:
        """Raise ConfigError if a replay is to begin elsewhere (`first`) than after this position."""
        if first is not None and first != self.rank + 1:
            raise ConfigError(
                f"the target has transactions up to {self.rank}; a replay goes on at {self.rank + 1}, not at {first}",
                remedy="leave the start out",
            )


def checkpoints_of(binlog: Log, ranks: Collection[int]) -> dict[int, Checkpoint]:
    """Return the positions after these transactions; of those that the log does not have only the rank is known.

    That also goes for removed ones, but for the last of them, behind which the log begins.

    Raises as reading the log does.
    """
    checkpoints = {rank: Checkpoint(rank) for rank in ranks}
    gone = binlog.state.gone
    wanted = {rank for rank in checkpoints if binlog.state.first_rank <= rank <= binlog.last_rank}
    if gone is not None and gone.last_rank in checkpoints:
        gtid = f"{binlog.cluster_uuid}:{gone.last_rank}" if binlog.with_gtids else None
        checkpoints[gone.last_rank] = Checkpoint(gone.last_rank, gtid, gone.last_key)
    for file in binlog.state.files:
        # The manifest has the last key of each file; a DDL's order key is nowhere else.
        if file.last_rank in wanted and binlog.with_gtids:
            gtid = f"{binlog.cluster_uuid}:{file.last_rank}"
            checkpoints[file.last_rank] = Checkpoint(file.last_rank, gtid, file.last_key)
            wanted.discard(file.last_rank)
    if not wanted:
        return checkpoints
    for piece in segments(binlog, min(wanted), max(wanted)):
        if not isinstance(piece, Segment):
            read = [(piece.begin, piece.statement.key)] if piece.begin.rank in wanted else []
        else:
            numbers = [i for i, rank in enumerate(piece.ranks) if rank in wanted]
            read = [(piece.begin(i), piece.key(i)) for i in numbers]
        for begin, key in read:
            gtid = begin.gtid if ":" in begin.gtid else f"transaction {begin.rank}"
            checkpoints[begin.rank] = Checkpoint(begin.rank, gtid, None if key is None else key.text())
    return checkpoints


def resume(binlog: Log, recorded: Checkpoint, first: int | None, remedy: str = ANOTHER) -> int:
    """Return the rank at which a replay goes on with a target that has recorded a position.

    `first` is where the user wants it to begin, None for wherever it has to. Raises ConfigError if that is elsewhere,
    ReplayStopped if the log does not have what the target has; `remedy` is what to do about another log.
    """
    recorded.check_first(first)
    if recorded.rank > binlog.last_rank:
        raise ReplayStopped(f"the target has {recorded.rank} transactions, the merged binlog {binlog.last_rank}")
    recorded.check(checkpoints_of(binlog, {recorded.rank})[recorded.rank], remedy)
    return recorded.rank + 1
