"""Which transactions a replay begins and ends with: by GTID, or by commit TSO."""

import re
from typing import Final

from binlog_merge.errors import ConfigError, OutsideLog
from binlog_merge.log.reader import Begin, End, MergedBinlog, OrderedBy, Statement
from snapshot_store.tso import LOGICAL_BITS, carries_time, tso_millis

_GTID = re.compile(r"(?:([0-9a-fA-F-]{36}):)?(\d{1,18})")


def rank_of(binlog: MergedBinlog, option: str, text: str) -> int:
    """Return the rank that a GTID, or its number alone, names. Raises ConfigError."""
    found = _GTID.fullmatch(text.strip())
    if found is None or int(found[2]) == 0:
        raise ConfigError(f"{option} {text!r} is no GTID; write {binlog.cluster_uuid}:1, or 1")
    if found[1] is not None and found[1].lower() != binlog.cluster_uuid:
        raise ConfigError(f"{option}: {found[1]} is another cluster; this one's GTIDs begin with {binlog.cluster_uuid}")
    return int(found[2])


def check_first(binlog: MergedBinlog, first: int, said: str) -> int:
    """Return the rank that a replay begins with, as `said`. Raises OutsideLog where the log does not reach it."""
    if first > binlog.last_rank + 1:
        raise OutsideLog(f"{said} is behind the log, which ends with transaction {binlog.last_rank}", remedy=_MERGE_ON)
    return first


def start_rank_at(binlog: MergedBinlog, option: str, tso: int) -> int:
    """Return the rank of the first transaction that committed at this TSO or later, one behind the last if none did.

    Raises OutsideLog where one that is still to be merged may have committed before, and what `first_rank_at` raises.
    """
    rank, last = first_rank_at(binlog, tso), binlog.state.last
    if rank > binlog.last_rank and last is not None:
        whole = max([int(file.last_key[:19]) for file in binlog.state.files], default=0)
        whole = max(whole, int(last.watermark[:19]) if last.watermark else 0)
        if tso > whole + 1:
            raise OutsideLog(
                f"{option} {tso} is behind the log, which is known to be whole up to TSO {whole}", remedy=_MERGE_ON
            )
    return rank


_MERGE_ON: Final = "merge on, then begin"


def first_rank_at(binlog: MergedBinlog, tso: int) -> int:
    """Return the rank of the first transaction that committed at this TSO or later, one behind the last if none did.

    A DDL whose own TSO the output does not say is placed by its commit time. Raises ConfigError where that leaves open
    on which side it belongs: nothing is guessed.
    """
    begin: Begin | None = None
    undecided: Begin | None = None
    clocked = carries_time(tso)
    for item in binlog.items(_first_rank_to_look_at(binlog, tso)):
        if isinstance(item, Begin):
            begin = item
        elif isinstance(item, OrderedBy) and begin is not None:
            # Commit times tell on which side a DDL is only where they are the TSOs' own.
            clocked &= item.key.seq > 0 or begin.commit_us // 1000 == tso_millis(item.key.commit_tso)
            if item.key.commit_tso < tso:
                undecided = None
            else:
                return begin.rank if undecided is None else _open(undecided, tso)
        elif isinstance(item, Statement) and begin is not None:
            after = _is_after(begin, tso) if clocked else None
            if after:
                return begin.rank if undecided is None else _open(undecided, tso)
            if after is None and undecided is None:
                undecided = begin
        elif isinstance(item, End):
            begin = None
    return binlog.last_rank + 1 if undecided is None else _open(undecided, tso)


def _first_rank_to_look_at(binlog: MergedBinlog, tso: int) -> int:
    """Return the beginning of the first file that may hold the TSO."""
    for file in binlog.state.files:
        if int(file.last_key[:19]) >= tso:
            return file.first_rank
    return binlog.last_rank + 1


def _is_after(begin: Begin, tso: int) -> bool | None:
    """Tell on which side of a TSO a commit time lies, None if it may be either."""
    millis = begin.commit_us // 1000
    if (millis + 1) << LOGICAL_BITS <= tso:
        return False
    return True if millis << LOGICAL_BITS >= tso else None


def _open(begin: Begin, tso: int) -> int:
    raise ConfigError(
        f"the DDL {begin.gtid} may have committed before or after TSO {tso}: its own TSO is not in the output",
        file=begin.file,
        position=begin.position,
        remedy="give --start-gtid or --stop-gtid instead",
    )
