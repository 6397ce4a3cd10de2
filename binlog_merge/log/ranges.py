"""The first and last transaction of a replay, given as GTID or as commit TSO."""

import re
from typing import Any, Final

import numpy as np

from binlog_merge.binlog.kernels import log_index as x
from binlog_merge.errors import ConfigError, OutsideLog
from binlog_merge.log.chunks import CLOCKED, UNKNOWN_US, Chunks, chunks_of, transactions_from
from binlog_merge.log.index import key_of
from binlog_merge.log.reader import MergedBinlog, removed_before
from snapshot_store.tso import LOGICAL_BITS, OrderKey, carries_time, tso_millis

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
            f"{option} is after the end of the log, which ends with transaction {binlog.last_rank}", remedy=_MERGE_ON
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
                f"{option} {tso} is after the end of the log, which is known to be whole up to TSO {whole}",
                remedy=_MERGE_ON,
            )
    return rank


_MERGE_ON: Final = "merge on, then begin"


def first_rank_at(binlog: MergedBinlog, tso: int) -> int:
    """Return the rank of the first transaction that committed at this TSO or later; last rank + 1 if none did.

    A DDL without an order key in the output is compared by its commit time. Raises ConfigError if that does not decide
    whether the DDL is before or after the TSO.
    """
    return first_rank_from(binlog, OrderKey(tso, 0, 0, 0))


def first_rank_from(binlog: MergedBinlog, limit: OrderKey, of_rows: bool = False) -> int:
    """Return the rank of the first transaction whose order key is at least `limit`; see `first_rank_at`.

    With `of_rows` it is the first such transaction of rows: DDL does not matter.
    """
    tso = limit.commit_tso
    undecided: tuple[str, Any] | None = None
    clocked = carries_time(tso)
    first = _first_rank_to_look_at(binlog, limit)
    for file in (file for file in binlog.state.files if file.last_rank >= first):
        if (
            undecided is None and not of_rows and OrderKey.parse(file.first_key) >= limit
        ):  # the manifest has the key of a DDL, too
            return file.first_rank
        path = binlog.folder.place(file.name)
        chunks = chunks_of(binlog, file)
        begin = _chunk_to_begin_with(chunks, limit)
        clocked &= bool(chunks.rows[:begin, CLOCKED].all())
        for rows in transactions_from(binlog, file, chunks, begin):
            for row in rows:
                key = key_of(row)
                if key is not None:
                    # Commit times decide about a DDL only if they are the physical part of the TSOs.
                    clocked &= key.seq > 0 or row[x.X_COMMIT_US] // 1000 == tso_millis(key.commit_tso)
                    if key < limit:
                        undecided = None
                        continue
                    if key == limit:  # what stands before it in the log is before it
                        return int(row[x.X_RANK])
                    return int(row[x.X_RANK]) if undecided is None else _at_ddl(binlog, *undecided, limit)
                if of_rows:
                    continue
                after = _is_after(int(row[x.X_COMMIT_US]), limit) if clocked else None
                if after:
                    return int(row[x.X_RANK]) if undecided is None else _at_ddl(binlog, *undecided, limit)
                if after is None and undecided is None:
                    undecided = path, row.copy()
    return binlog.last_rank + 1 if undecided is None else _at_ddl(binlog, *undecided, limit)


def _first_rank_to_look_at(binlog: MergedBinlog, limit: OrderKey) -> int:
    """Return the first rank of the first file that may hold the key. Raises OutsideLog if that was removed."""
    gone = binlog.state.gone
    if gone is not None and gone.last_key is not None and OrderKey.parse(gone.last_key) >= limit:
        raise removed_before(binlog.folder.place(), gone, f"TSO {limit.commit_tso}")
    for file in binlog.state.files:
        if OrderKey.parse(file.last_key) >= limit:
            return file.first_rank
    return binlog.last_rank + 1


def _chunk_to_begin_with(chunks: Chunks, limit: OrderKey) -> int:
    """Return the number of the chunk with the last key below a limit, or of one before it with DDL that may be after.

    What a DDL before that key leaves open does not matter: the key says that it is before the limit, too.
    """
    number = chunks.last_before(limit)
    times = chunks.rows[:number, UNKNOWN_US]
    late = np.flatnonzero(times >= tso_millis(limit.commit_tso) * 1000)
    return int(late[0]) if len(late) else number


def _is_after(commit_us: int, limit: OrderKey) -> bool | None:
    """Return whether a DDL with a commit time is at a key or after it; None if its millisecond contains the key."""
    millis = commit_us // 1000
    if (millis + 1) << LOGICAL_BITS <= limit.commit_tso:
        return False
    return True if OrderKey(millis << LOGICAL_BITS, 0, 0, 0) >= limit else None


def _at_ddl(binlog: MergedBinlog, path: str, row: Any, limit: OrderKey) -> int:
    """Return the rank of a DDL whose key a limit is, as no transaction has that key. Raises ConfigError for a TSO."""
    its_tso = int(row[x.X_COMMIT_US]) // 1000 << LOGICAL_BITS
    if limit > OrderKey(its_tso, 0, 0, 0) and limit.commit_tso == its_tso:
        return int(row[x.X_RANK])
    gtid = f"{binlog.cluster_uuid}:{row[x.X_RANK]}"
    raise ConfigError(
        f"the DDL {gtid} may have committed before or after TSO {limit.commit_tso}: its own TSO is not in the output",
        file=path,
        position=int(row[x.X_AT]),
        remedy="give a GTID instead",
    )
