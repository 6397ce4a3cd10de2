"""The GTIDs executed before a binlog file, and those whose groups in it are read elsewhere.

They tell whether a file that ends with neither ROTATE nor STOP is complete. A server that crashes writes neither. After
the restart it truncates the file after its last whole transaction, clears the in-use flag as if it had closed the file
(mysql-server, `sql/binlog.cc`, `MYSQL_BIN_LOG::open_binlog`), and begins the next file, whose PREVIOUS_GTIDS names
everything executed before. So GTIDs distinguish a crash from a truncated copy; without GTIDs nothing does.
"""

from collections.abc import Sequence
from typing import Final

from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.gtid_set import GtidSet
from binlog_merge.files.node_file import NodeFile
from binlog_merge.pipeline.base.logged import MOST_SPANS
from binlog_merge.pipeline.scan.values import ScanResult

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


def nothing_is_missing(
    files: Sequence[NodeFile], pieces: Sequence[ScanResult], index: int, skipped: GtidSet | None
) -> bool:
    """Return whether a file and those before it have all PREVIOUS_GTIDS of the next file, and it has none besides.

    A file before it may have others: what was committing when the next was begun is in no list
    (`node_capture.captured_gtids`). `skipped` are those of the file's groups before its first piece: an earlier run
    has read them. Returns False if that cannot be known: a file has no PREVIOUS_GTIDS, or transactions without a
    GTID, or `skipped` is None.
    """
    before, after = executed_before(files[index]), executed_before(files[index + 1])
    own = [p.logged for p in pieces if p.file_index == index]
    if before is None or after is None or skipped is None or any(logged.without or logged.scattered for logged in own):
        return False
    mine = GtidSet.of((*skipped.items(), *(item for logged in own for item in logged.all.items())))
    earlier = (item for p in pieces if p.file_index < index for item in p.logged.all.items())
    found = GtidSet.of((*before.items(), *mine.items(), *earlier))
    return bool(found) and found.contains_set(after) and after.contains_set(mine)
