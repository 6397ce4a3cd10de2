"""The transactions of a merged log around a place, and whether the log reaches it."""

from dataclasses import dataclass

from binlog_merge.errors import OutsideLog
from binlog_merge.log.log import Log
from binlog_merge.log.place import Place, name_of, time_of_key
from binlog_merge.log.reader import removed_before
from binlog_merge.log.transactions import Transaction
from snapshot_store.tso import OrderKey


@dataclass(frozen=True, slots=True)
class Around:
    """A position in the log: the transaction before it, the one it is inside of, and the next one."""

    file: str
    position: int
    last: Transaction | None
    inside: Transaction | None
    following: Transaction | None


def find_place(log: Log, place: Place) -> Around:
    """Return the position after everything at a place or before. Raises OutsideLog."""
    check_inside(log, place)
    through = log.through(place)
    last, following = log.at_rank(through), log.at_rank(through + 1)
    if last is not None:
        return Around(last.file, last.end, last, None, following)
    gone = log.state.gone
    if gone is not None and through < gone.last_rank:
        raise removed_before(log.folder.place(), gone, str(place))
    if following is None or gone is None:
        raise OutsideLog("no transaction of the log is that early")
    return Around(following.file, following.start, None, None, following)


def check_inside(log: Log, place: Place) -> None:
    """Raise OutsideLog for a moment that the log does not reach; of other places that is not asked."""
    if place.moment is None:
        return
    moment, first, whole = place.moment, OrderKey.parse(log.files[0].first_key), log.whole_up_to
    gone, limit = log.state.gone, moment.after.previous()
    if limit < first and gone is not None and gone.last_key is not None and log.files[0].first_rank > 1:
        return  # what was removed is refused where the place is looked for
    if moment.wall_clock and not time_of_key(whole):
        return
    if limit < first:
        raise OutsideLog(f"{name_of(moment.first)} is before the log, which begins at {name_of(first)}")
    end = OrderKey.parse(log.files[-1].last_key)
    # What the watermark has not passed may still come, but for the log's last transaction itself.
    known = whole if whole == end else whole.previous()
    if moment.first > known and moment.first.commit_tso != end.commit_tso:
        raise OutsideLog(
            f"{name_of(moment.first)} is after the end of the log, which is known to be whole up to {name_of(whole)}",
            remedy="merge on, then ask again",
        )


def find_transaction(log: Log, place: Place) -> Around:
    """Return the transactions around a position. Raises ConfigError for an invalid one, OutsideLog before the first."""
    before = log.before(place)
    last, following, inside = log.at_rank(before), log.at_rank(before + 1), None
    if following is not None and following.file == place.file and following.start < place.number:
        inside, following = following, log.at_rank(before + 2)
    if last is None:
        raise OutsideLog(
            f"no transaction stands before {place.file}:{place.number}",
            file=log.folder.place(place.file),
            position=place.number,
        )
    return Around(place.file, place.number, last, inside, following)
