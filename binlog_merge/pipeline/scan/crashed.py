"""Finds out whether a file that ends with neither ROTATE nor STOP is complete.

A server that crashes writes neither. After the restart it truncates the file after its last whole transaction, clears
the in-use flag as if it had closed the file (mysql-server, `sql/binlog.cc`, `MYSQL_BIN_LOG::open_binlog`), and begins
the next file, whose PREVIOUS_GTIDS names everything executed before. So GTIDs distinguish a crash from a truncated
copy; without GTIDs nothing does.
"""

from collections.abc import Sequence

from binlog_merge.binlog.gtid_set import GtidSet
from binlog_merge.files.node_file import NodeFile
from binlog_merge.pipeline.scan.executed import executed_before
from binlog_merge.pipeline.scan.values import ScanResult


def nothing_is_missing(
    files: Sequence[NodeFile], pieces: Sequence[ScanResult], index: int, skipped: GtidSet | None
) -> bool:
    """Return whether a file and those before it have all PREVIOUS_GTIDS of the next file, and it has none besides.

    A file before it may have others: what was committing when the next was begun is in no list (`node_capture.held`).
    `skipped` are those of the file's groups before its first piece: an earlier run has read them. Returns False if that
    cannot be known: a file has no PREVIOUS_GTIDS, or transactions without a GTID, or `skipped` is None.
    """
    before, after = executed_before(files[index]), executed_before(files[index + 1])
    own = [p.logged for p in pieces if p.file_index == index]
    if before is None or after is None or skipped is None or any(logged.without or logged.scattered for logged in own):
        return False
    mine = GtidSet.of((*skipped.items(), *(item for logged in own for item in logged.all.items())))
    earlier = (item for p in pieces if p.file_index < index for item in p.logged.all.items())
    found = GtidSet.of((*before.items(), *mine.items(), *earlier))
    return bool(found) and found.contains_set(after) and after.contains_set(mine)
