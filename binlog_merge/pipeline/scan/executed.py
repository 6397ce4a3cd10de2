"""The GTIDs executed before a binlog file, and those whose groups in it are read elsewhere."""

from typing import Final

from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.gtid_set import GtidSet
from binlog_merge.files.node_file import NodeFile
from binlog_merge.pipeline.base.logged import MOST_SPANS

_MOST_BYTES: Final = 24 * MOST_SPANS


def executed_before(file: NodeFile) -> GtidSet | None:
    """Return a file's PREVIOUS_GTIDS, None if it has none, cannot be parsed, or has too many intervals to use.

    For a file of a server after the node's first one they include all that was captured before.
    """
    before = _previous(file)
    return before if before is None or file.earlier is None else before.union(file.earlier)


def elsewhere(file: NodeFile) -> GtidSet:
    """Return the GTIDs whose groups are left out where they are in a file: the logs of earlier servers have them."""
    return GtidSet() if file.earlier is None else file.earlier.minus(_previous(file) or GtidSet())


def _previous(file: NodeFile) -> GtidSet | None:
    if file.previous_gtids is None or len(file.previous_gtids) > _MOST_BYTES:
        return None
    try:
        return GtidSet.parse(file.previous_gtids)
    except BinlogFormatError:
        return None
