"""PolarDB-X's XA transaction ids: which coordinator wrote a branch, in which group, and whether readers take it.

    X'<gtrid>',X'<bqual>',<format id>     gtrid  drds-<transaction id, hex>@<unique id of the primary group, hex>
                                          bqual  <GROUP>  or  <GROUP>@<number of the read view, four digits>

A group may have several branches (share read view), so a branch's key is the whole id. Format ids (polardbx-sql
`XAUtils`): 1 an ordinary transaction, 2 a recovery task, 3 an archive transaction (rows whose time to live is over),
4 one that no reader of the binlog takes. The scan kernel reads the same grammar from bytes (`kernels.xid`).
"""

import re
from dataclasses import dataclass
from enum import Enum

PREFIX = b"drds-"
RECOVER_PREFIX = b"POLARDB-X-RECOVER-TASK@"
OWN_GROUP = "__CDC___SINGLE_GROUP"
"""The group of the CDC component's own single tables."""

NORMAL_FORMAT, RECOVER_FORMAT, ARCHIVE_FORMAT, IGNORE_FORMAT = 1, 2, 3, 4
MAX_BQUAL = 64
"""The greatest length in bytes. A longer group name is replaced by its hash, so that it fits with `@` and four digits.
"""


class XidKind(Enum):
    """The kind of transaction that a transaction id belongs to."""

    NORMAL = "normal"
    ARCHIVE = "archive"
    IGNORED = "ignored"  # PolarDB-X's internal work: it never comes out
    FOREIGN = "foreign"  # not PolarDB-X's grammar: an ordinary transaction of another coordinator
    STRANGE = "strange"  # PolarDB-X's grammar, with an unknown format id


@dataclass(frozen=True, slots=True)
class Xid:
    """An XA transaction id in the form in which servers log it."""

    gtrid: bytes
    bqual: bytes
    format_id: int

    @property
    def transaction_id(self) -> int | None:
        """Return the transaction's number, None if the id is not PolarDB-X's."""
        digits = re.match(rb"[0-9a-fA-F]+", self.gtrid[len(PREFIX) :]) if self.gtrid.startswith(PREFIX) else None
        return int(digits[0], 16) & ((1 << 63) - 1) if digits else None

    @property
    def group(self) -> str:
        """Return the group without the number of its read view; for a long group name its hash."""
        return self._parts()[0]

    @property
    def read_view(self) -> int | None:
        """Return the number of the share-read-view branch, None if the group has one branch."""
        return self._parts()[1]

    def _parts(self) -> tuple[str, int | None]:
        text = self.bqual.decode("utf-8", "surrogateescape")
        group, at, number = text.rpartition("@")
        return (group, int(number)) if at and re.fullmatch("[0-9]+", number) else (text, None)

    @property
    def kind(self) -> XidKind:
        """Return the kind of the transaction."""
        if self.gtrid.startswith(RECOVER_PREFIX):
            return XidKind.IGNORED
        if not self.gtrid.startswith(PREFIX) or self.gtrid == PREFIX:
            return XidKind.FOREIGN
        if self.format_id in (RECOVER_FORMAT, IGNORE_FORMAT) or self.bqual.partition(b"@")[0] == OWN_GROUP.encode():
            return XidKind.IGNORED
        if self.format_id == ARCHIVE_FORMAT:
            return XidKind.ARCHIVE
        return XidKind.NORMAL if self.format_id == NORMAL_FORMAT else XidKind.STRANGE

    def text(self) -> str:
        """Return the id as written after XA START, XA END, XA COMMIT and XA ROLLBACK."""
        return f"X'{self.gtrid.hex()}',X'{self.bqual.hex()}',{self.format_id}"


_TEXT = re.compile(r"X'((?:[0-9a-fA-F]{2})*)',X'((?:[0-9a-fA-F]{2})*)',([0-9]+)")


def parse_xid(text: str) -> Xid:
    """Parse the id at the end of an XA statement; raises ValueError on anything else."""
    found = _TEXT.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"not an XA transaction id as servers log it: {text!r}")
    return Xid(bytes.fromhex(found[1]), bytes.fromhex(found[2]), int(found[3]))
