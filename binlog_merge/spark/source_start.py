"""Where a stream begins, if what it began with was removed from the log meanwhile.

A stream that goes on from its checkpoint does not need the place of its option `start` any more, which may be of
transactions that have been removed since. One that has no checkpoint yet does.
"""

from collections.abc import Mapping

from binlog_merge.errors import OutsideLog
from binlog_merge.log.log import Log
from binlog_merge.log.place import parse_place
from binlog_merge.log.reader import MergedBinlog, NoLongerInLog


def without_removed_start(log: Log, values: Mapping[str, str]) -> tuple[dict[str, str], OutsideLog | None]:
    """Return a stream's options without a start that was removed from the log, and the error that says so."""
    kept = dict(values)
    if "start" in kept:
        try:
            log.between(parse_place("start", kept["start"], kept.get("timezone", "UTC")), None)
        except NoLongerInLog as error:
            del kept["start"]
            return kept, _for_stream(log, error)
    return kept, None


def check_goes_on(binlog: MergedBinlog, first: int) -> None:
    """Raise OutsideLog if the first transaction behind a checkpoint was removed from the log."""
    try:
        binlog.check_there(first)
    except NoLongerInLog as error:
        raise _for_stream(binlog, error) from None


def _for_stream(binlog: MergedBinlog, error: OutsideLog) -> OutsideLog:
    first = f"{binlog.cluster_uuid}:{binlog.state.first_rank}"
    return OutsideLog(
        f"{error.message}; the stream has not read it",
        file=error.file,
        remedy=f"read on with a new checkpointLocation and start {first}, the first transaction that is left: what was "
        "removed before it is missing from the stream's output, and must come from elsewhere (a copy of the table: "
        "`table-at`); keep files for longer than a stream may stand still (`retention`)",
    )
