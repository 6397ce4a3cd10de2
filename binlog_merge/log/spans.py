"""Where a range of a merged log begins and ends, each said as a place (`place`).

A GTID names a transaction, and a range includes the one with which it begins and the one with which it ends. A range
that begins with a GTID set begins with what a server with this set lacks; one that ends with a set ends with its last
transaction. All others are moments: a range begins with the first transaction at or after one, and ends before the
first one at or after it. A time is compared with TSOs, to the millisecond, where these carry time, else with commit
times.
"""

from binlog_merge.binlog.kernels import log_index as x
from binlog_merge.errors import ConfigError, OutsideLog
from binlog_merge.log.chunks import US, chunks_of, transactions_from
from binlog_merge.log.place import FORMS, Place
from binlog_merge.log.places_in_log import below, executed, log_of
from binlog_merge.log.ranges import check_first, first_rank_from, rank_of, start_rank_at
from binlog_merge.log.reader import MergedBinlog, removed_before
from snapshot_store.tso import LOGICAL_BITS, OrderKey, carries_time


def ranks_between(binlog: MergedBinlog, start: Place | None, stop: Place | None) -> tuple[int, int]:
    """Return the ranks of the first and the last transaction of a range; no more than the log has.

    The first one is greater than the last one if the range has no transaction. Raises ConfigError for what the log
    cannot have, and OutsideLog for what it does not have any more, or not yet.
    """
    first = binlog.state.first_rank if start is None else _first(binlog, start)
    if stop is None:
        return first, binlog.last_rank
    if stop.kind == "gtid":
        last = min(_rank_of(binlog, stop), binlog.last_rank)
    elif stop.kind == "gtids":
        last = executed(binlog.state, stop)
    else:
        last = _first_from(binlog, stop) - 1
    gone = binlog.state.gone
    if (
        gone is not None
        and stop.kind in ("gtid", "gtids")
        and last <= gone.last_rank
        and (start is None or last < first - 1)
    ):
        raise removed_before(binlog.folder.place(), gone, str(stop))
    if start is not None and last < first - 1:
        raise ConfigError(f"{stop} is before {start}", remedy="a range begins before it ends")
    return first, last


def _first(binlog: MergedBinlog, start: Place) -> int:
    if start.kind == "gtid":
        first = check_first(binlog, _rank_of(binlog, start), str(start))
    elif start.kind == "gtids":
        first = executed(binlog.state, start) + 1
    elif start.kind == "tso" and start.moment is not None and not _keys_at_ends(binlog):
        first = start_rank_at(binlog, start.option, start.moment.first.commit_tso)
    else:
        first = _first_from(binlog, start)
    binlog.check_there(first)
    return first


def _rank_of(binlog: MergedBinlog, place: Place) -> int:
    return rank_of(binlog, place.option, f"{place.uuid}:{place.number}")


def _first_from(binlog: MergedBinlog, place: Place) -> int:
    """Return the rank of the first transaction at or after a moment; last rank + 1 if there is none."""
    if place.kind == "position":
        return _at_position(binlog, place)
    if place.kind == "time":
        return _at_time(binlog, place.micros)
    assert place.moment is not None
    return _from_key(binlog, place.moment.first)


def _from_key(binlog: MergedBinlog, key: OrderKey) -> int:
    """Return the rank of the first transaction whose key is at least this one; last rank + 1 if there is none.

    Where keys stand at the ends of transactions only (`output.cts: end`), they are looked for there.
    """
    return below(log_of(binlog), key) + 1 if _keys_at_ends(binlog) else first_rank_from(binlog, key)


def _keys_at_ends(binlog: MergedBinlog) -> bool:
    header = binlog.state.header
    return header is not None and header.settings.get("output.cts") == "end" and bool(binlog.state.files)


def _at_time(binlog: MergedBinlog, micros: int) -> int:
    """Return the rank of the first transaction at or after a time: by its TSO if that carries time, to the millisecond.

    Else by commit times, which need not grow from transaction to transaction.
    """
    files = binlog.state.files
    if files and carries_time(int(files[-1].last_key[:19])):
        return _from_key(binlog, OrderKey(-(-micros // 1000) << LOGICAL_BITS, 0, 0, 0))
    for file in files:
        chunks = chunks_of(binlog, file)
        late = (chunks.rows[:, US] >= micros).nonzero()[0]
        for rows in transactions_from(binlog, file, chunks, int(late[0])) if len(late) else ():
            found = rows[rows[:, x.X_COMMIT_US] >= micros]
            if len(found):
                return int(found[0, x.X_RANK])
    return binlog.last_rank + 1


def _at_position(binlog: MergedBinlog, place: Place) -> int:
    files = binlog.state.files
    file = next((file for file in files if file.name == place.file), None)
    if file is None:
        gone = binlog.state.gone
        if gone is not None and gone.last_name is not None and place.file <= gone.last_name:
            raise removed_before(binlog.folder.place(), gone, str(place))
        names = f": its files are {files[0].name} to {files[-1].name}" if files else ""
        raise ConfigError(f"{place.option}: the log has no file {place.file}{names}", remedy=f"give {FORMS}")
    if place.number > file.size:
        raise OutsideLog(
            f"{place.option}: {file.name} ends at {file.size}",
            file=binlog.folder.place(file.name),
            position=place.number,
            remedy="give a position in the file; `binlog-merge inspect` shows them",
        )
    chunks = chunks_of(binlog, file)
    for rows in transactions_from(binlog, file, chunks, chunks.of_position(place.number)):
        found = rows[rows[:, x.X_AT] >= place.number]
        if len(found):
            return int(found[0, x.X_RANK])
    return file.last_rank + 1
