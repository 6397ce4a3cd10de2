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
    """Return whether the GTIDs of a file and of those before it are exactly the PREVIOUS_GTIDS of the next file.

    `skipped` are those of the file's groups before its first piece: an earlier run has read them. Returns False if that
    cannot be known: a file has no PREVIOUS_GTIDS, or transactions without a GTID, or `skipped` is None.
    """
    before, after = executed_before(files[index]), executed_before(files[index + 1])
    own = [p.logged for p in pieces if p.file_index == index]
    if before is None or after is None or skipped is None or any(logged.without or logged.scattered for logged in own):
        return False
    found = before.union(skipped)
    for piece in pieces:
        if piece.file_index <= index:
            found = found.union(piece.logged.all)
    return bool(found) and found == after
