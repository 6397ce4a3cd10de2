"""The GTIDs executed before a binlog file."""

from typing import Final

from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.gtid_set import GtidSet
from binlog_merge.files.directory import NodeFile
from binlog_merge.pipeline.base.logged import MOST_SPANS

_MOST_BYTES: Final = 24 * MOST_SPANS


def executed_before(file: NodeFile) -> GtidSet | None:
    """Return a file's PREVIOUS_GTIDS, None if it has none, cannot be parsed, or has too many intervals to use."""
    if file.previous_gtids is None or len(file.previous_gtids) > _MOST_BYTES:
        return None
    try:
        return GtidSet.parse(file.previous_gtids)
    except BinlogFormatError:
        return None
