"""Semi-synchronous replication: two more bytes before each event, and the reader's acknowledgements.

    server   | 0x00 | 0xef | 1: acknowledge this event, 0: not | event ... |
    reader   | 0xef | position 8 | file ... |

Source: mysql-server `plugin/semisync/semisync.h` and `semisync_source.cc`.
"""

from dataclasses import dataclass
from typing import Final, Self

from binlog_merge.binlog.wire import Buffer, Reader, pack_uint

MAGIC: Final = 0xEF
NOT_ASKED: Final = bytes([0, MAGIC, 0])
"""What a packet begins with whose event is not to be acknowledged."""
ASKED: Final = bytes([0, MAGIC, 1])


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """A reader has stored everything before this position."""

    position: int
    file: str

    @classmethod
    def parse(cls, payload: Buffer) -> Self:
        r = Reader(payload, "acknowledgement")
        if r.u8("magic number") != MAGIC:
            raise r.fail("the magic number is not 0xef")
        return cls(r.u64("position"), r.rest().decode("utf-8", "surrogateescape"))

    def pack(self) -> bytes:
        return bytes([MAGIC]) + pack_uint(self.position, 8) + self.file.encode("utf-8", "surrogateescape")
