"""Whether a file that ends with neither ROTATE nor STOP is whole.

A server that crashes writes neither. When it comes back it cuts the file behind its last whole transaction, clears the
in-use flag as if it had closed the file (mysql-server, `sql/binlog.cc`, `MYSQL_BIN_LOG::open_binlog`), and begins the
next one, whose PREVIOUS_GTIDS names everything that was executed before. So GTIDs tell a crash from a copy that was
cut; without them nothing does.
"""

from collections.abc import Sequence

from binlog_merge.files.directory import NodeFile
from binlog_merge.pipeline.scan.executed import executed_before
from binlog_merge.pipeline.scan.values import ScanResult


def nothing_is_missing(files: Sequence[NodeFile], pieces: Sequence[ScanResult], index: int) -> bool:
    """Tell whether the GTIDs of a file, and those before it, are what the next file says was executed.

    False where that is not known: a file without PREVIOUS_GTIDS, or with transactions without a GTID.
    """
    before, after = executed_before(files[index]), executed_before(files[index + 1])
    own = [p.logged for p in pieces if p.file_index == index]
    if before is None or after is None or any(logged.without or logged.scattered for logged in own):
        return False
    found = before
    for piece in pieces:
        if piece.file_index <= index:
            found = found.union(piece.logged.all)
    return bool(found) and found == after
