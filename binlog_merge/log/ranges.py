"""The first and last transaction of a replay, given as GTID or as commit TSO."""

import re
from typing import Final

from binlog_merge.errors import ConfigError, OutsideLog
from binlog_merge.log.reader import Begin, End, MergedBinlog, OrderedBy, Statement, removed_before
from snapshot_store.tso import LOGICAL_BITS, carries_time, tso_millis

_GTID = re.compile(r"(?:([0-9a-fA-F-]{36}):)?(\d{1,18})")


def rank_of(binlog: MergedBinlog, option: str, text: str) -> int:
    """Return the rank that a GTID, or its number alone, names. Raises ConfigError if `text` is no GTID of the log."""
    match = _GTID.fullmatch(text.strip())
    if match is None or int(match[2]) == 0:
        raise ConfigError(f"{option} {text!r} is no GTID; write {binlog.cluster_uuid}:1, or 1")
    if match[1] is not None and match[1].lower() != binlog.cluster_uuid:
        raise ConfigError(f"{option}: {match[1]} is another cluster; this one's GTIDs begin with {binlog.cluster_uuid}")
    return int(match[2])


def check_first(binlog: MergedBinlog, first: int, option: str) -> int:
    """Return `first`, the rank with which a replay begins. Raises OutsideLog if it is after the end of the log.

    `option` is the user's option with its value, for the message.
    """
    if first > binlog.last_rank + 1:
        raise OutsideLog(
            f"{option} is behind the log, which ends with transaction {binlog.last_rank}", remedy=_MERGE_ON
        )
    return first


def start_rank_at(binlog: MergedBinlog, option: str, tso: int) -> int:
    """Return the rank of the first transaction that committed at this TSO or later; last rank + 1 if none did.

    Raises OutsideLog if a transaction not merged yet may have committed before, and what `first_rank_at` raises.
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
    """Return the rank of the first transaction that committed at this TSO or later; last rank + 1 if none did.

    A DDL without an order key in the output is compared by its commit time. Raises ConfigError if that does not decide
    whether the DDL is before or after the TSO.
    """
    begin: Begin | None = None
    undecided: Begin | None = None
    clocked = carries_time(tso)
    for item in binlog.items(_first_rank_to_look_at(binlog, tso)):
        if isinstance(item, Begin):
            begin = item
        elif isinstance(item, OrderedBy) and begin is not None:
            # Commit times decide about a DDL only if they are the physical part of the TSOs.
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
    """Return the first rank of the first file that may hold the TSO. Raises OutsideLog if that was removed."""
    gone = binlog.state.gone
    if gone is not None and gone.last_key is not None and int(gone.last_key[:19]) >= tso:
        raise removed_before(binlog.folder.place(), gone, f"TSO {tso}")
    for file in binlog.state.files:
        if int(file.last_key[:19]) >= tso:
            return file.first_rank
    return binlog.last_rank + 1


def _is_after(begin: Begin, tso: int) -> bool | None:
    """Return whether a transaction's commit time is after a TSO; None if its millisecond contains the TSO."""
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
