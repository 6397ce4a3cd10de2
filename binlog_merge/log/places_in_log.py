"""The transactions of a merged log around a place (`place`).

A position inside a transaction is a place before it. Where ranges begin and end is said in `spans`.

Finding a place takes a bisection over the manifest's files, one over a file's chunks (`chunks`), a walk through a chunk
from GTID event to GTID event, and a bisection over its transactions.
"""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from binlog_merge.binlog.gtid_set import format_sid
from binlog_merge.binlog.kernels import log_index as x
from binlog_merge.errors import ConfigError, OutsideLog
from binlog_merge.files.log_folder import LogFolder
from binlog_merge.files.manifest import ManifestState, OutputFile
from binlog_merge.log.chunks import US, chunks_of, transactions_from
from binlog_merge.log.file_transactions import MergedLog, boundaries
from binlog_merge.log.place import Place
from binlog_merge.log.ranks import RankSet
from binlog_merge.log.reader import MergedBinlog
from snapshot_store.tso import OrderKey, carries_time, tso_millis


@dataclass(frozen=True, slots=True)
class Bounds:
    """The ranks of the transactions around a place: the last one before it, and the last one up to and including it."""

    before: int
    through: int


def bounds_of(log: MergedLog, place: Place) -> Bounds:
    """Return the ranks around a place. Raises ConfigError for a place that the log cannot have."""
    if place.kind == "position":
        before = _ended_by(log, place)
        return Bounds(before, before)
    if place.kind == "gtid":
        rank = _rank_of(log, place)
        return Bounds(rank - 1, rank)
    if place.kind == "gtids":
        rank = executed(log.state, place)
        return Bounds(rank, rank)
    assert place.moment is not None
    if place.kind == "time" and not carries_time(OrderKey.parse(log.files[-1].last_key).commit_tso):
        micros = tso_millis(place.moment.first.commit_tso) * 1000
        return Bounds(_committed_before(log, micros), _committed_before(log, micros + 1000))
    return Bounds(below(log, place.moment.first), below(log, place.moment.after))


def uuid_of(log: MergedLog) -> str:
    """Return the UUID of the log's GTIDs."""
    return "" if log.state.header is None else log.state.header.cluster_uuid


def whole_up_to(log: MergedLog) -> OrderKey:
    """Return the greatest key up to which the log is known to have every transaction."""
    end = OrderKey.parse(log.files[-1].last_key)
    last = log.state.last
    return max(end, OrderKey.parse(last.watermark)) if last is not None and last.watermark else end


def name_of(key: OrderKey) -> str:
    """Return a key's TSO for people, with its time if it carries one."""
    time = time_of_key(key)
    return f"TSO {key.commit_tso}" + (f" ({time})" if time else "")


def time_of_key(key: OrderKey) -> str | None:
    """Return the time in a key's TSO as RFC 3339, None if it carries none."""
    return time_text(tso_millis(key.commit_tso) * 1000) if carries_time(key.commit_tso) else None


def time_text(micros: int) -> str:
    """Return a time given in µs since 1970 as RFC 3339, with milliseconds."""
    moment = datetime.fromtimestamp(micros // 1000 / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _rank_of(log: MergedLog, place: Place) -> int:
    uuid = uuid_of(log)
    if place.uuid != uuid:
        raise ConfigError(f"{place}: another server's GTID; this log's begin with {uuid}")
    if place.number > log.state.rank:
        raise OutsideLog(
            f"{place} is after the end of the log, which ends with {uuid}:{log.state.rank}",
            remedy="merge on, then ask again",
        )
    return place.number


def executed(state: ManifestState, place: Place) -> int:
    """Return the rank up to which a GTID set has everything. Raises ConfigError for a set with gaps, and OutsideLog."""
    uuid = "" if state.header is None else state.header.cluster_uuid
    items = () if place.gtids is None else place.gtids.items()
    ours = [(first, end - 1) for sid, tag, first, end in items if not tag and format_sid(sid) == uuid]
    ranks = RankSet(tuple(sorted(ours)))
    option = place.option
    if not ours:
        raise ConfigError(f"{option}: no GTID of the set is of this log; its GTIDs begin with {uuid}")
    if ranks.low != len(ranks):
        raise ConfigError(
            f"{option}: the set has gaps, {uuid}:{ranks}, so it is no single place",
            remedy=f"give a GTID; everything up to {uuid}:{ranks.low} is in the set" if ranks.low else "give a GTID",
        )
    if ranks.low > state.rank:
        raise OutsideLog(f"{option}: the set goes up to {uuid}:{ranks.low}, the log to {uuid}:{state.rank}")
    return ranks.low


def _ended_by(log: MergedLog, place: Place) -> int:
    """Return the rank of the last transaction that ends at a position or before. Raises ConfigError."""
    file = log.file(place.file, place.option)
    shown = log.folder.place(file.name)
    if not 4 <= place.number <= file.size:
        raise ConfigError(f"{file.name} ends at {file.size}: there is no position {place.number}", file=shown)
    walked = log.walked(file)
    number = walked.ended_by(place.number)
    begin = walked.end(number - 1) if number else 4
    stop = walked.end(number) if number < len(walked) else file.size
    if place.number in (begin, stop):
        return file.first_rank + number - 1
    before = begin
    for before_or_at in boundaries(walked.path, begin, stop):
        if before_or_at == place.number:
            return file.first_rank + number - 1
        if before_or_at > place.number:
            break
        before = before_or_at
    raise ConfigError(
        f"position {place.number} of {file.name} is inside an event, which begins at {before}",
        file=shown,
        position=place.number,
        remedy="give a position where an event begins; `binlog-merge inspect` shows them as `# at`",
    )


def below(log: MergedLog, key: OrderKey) -> int:
    """Return the rank of the last transaction before `key`; a DDL of unknown key counts with what follows it."""
    files = log.files
    number = bisect_left(files, True, key=lambda file: OrderKey.parse(file.last_key) >= key)
    if number == len(files):
        return log.state.rank
    file = files[number]
    if OrderKey.parse(file.first_key) >= key:
        return file.first_rank - 1

    def reached(at: int) -> bool:
        found = _next_key(log, file, at)
        return found is None or found >= key

    return file.first_rank + _first(file.last_rank - file.first_rank + 1, reached) - 1


def _next_key(log: MergedLog, file: OutputFile, at: int) -> OrderKey | None:
    """Return the first known key of a file's transactions from a number on."""
    for number in range(at, file.last_rank - file.first_rank + 1):
        key = log.transaction(file, number).key
        if key is not None:
            return key
    return None


def _committed_before(log: MergedLog, micros: int) -> int:
    """Return the rank of the last transaction before the first that committed at a time or later.

    Commit times of different nodes may be out of order; as mysqlbinlog does, it stops at the first that is late enough.
    """
    files = log.files
    later = bisect_left(files, True, key=lambda file: log.walked(file).commit_us(0) >= micros)
    if later == 0:
        return files[0].first_rank - 1
    file = files[later - 1]
    chunks = chunks_of(log.binlog, file)
    late = (chunks.rows[:, US] >= micros).nonzero()[0]
    for rows in transactions_from(log.binlog, file, chunks, int(late[0])) if len(late) else ():
        found = rows[rows[:, x.X_COMMIT_US] >= micros]
        if len(found):
            return int(found[0, x.X_RANK]) - 1
    return file.last_rank


def _first(count: int, is_so: Callable[[int], bool]) -> int:
    """Return the first number for which `is_so`, which stays true once it is; `count` if there is none below."""
    return bisect_left(range(count), True, key=is_so)


def log_of(binlog: MergedBinlog | LogFolder) -> MergedLog:
    """Return the places of a log that is open otherwise, too. Raises OutsideLog if nothing is published."""
    return MergedLog(binlog.folder if isinstance(binlog, MergedBinlog) else binlog)
