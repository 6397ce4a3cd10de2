"""The packets of a dump, cut out of what a connection reads: payloads in, payloads out, nothing is looked into.

    | payload length 3 | sequence 1 | payload ... |      a payload of 2^24-1 bytes goes on in the next packet

A packet for each event, in Python: so a read brings many of them, and none is copied but those that a read cuts.
https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_basic_packets.html
"""

from collections.abc import Callable, Iterator
from typing import Final

_HEADER_LEN: Final = 4
_MOST: Final = (1 << 24) - 1
_CHUNK: Final = 1 << 18


def payloads(some: Callable[[int], bytes], exactly: Callable[[int], bytes]) -> Iterator[memoryview]:
    """Yield payloads in order, joined where they come in several packets. Ends where the connection does.

    `some` returns at most so many bytes, as soon as there are any, `exactly` waits for all; both return fewer at the
    end of the connection only. A payload that the end cuts is not yielded.
    """
    parts: list[memoryview] = []
    rest = b""
    while chunk := some(_CHUNK):
        data = rest + chunk if rest else chunk
        view, at, size = memoryview(data), 0, len(data)
        while size - at >= _HEADER_LEN:
            length = data[at] | data[at + 1] << 8 | data[at + 2] << 16
            at += _HEADER_LEN
            end = at + length
            payload = view[at:end]
            if end > size:
                payload = memoryview(bytes(payload) + exactly(end - size))
                if len(payload) < length:
                    return
            at = end
            if length == _MOST:
                parts.append(payload)
            elif parts:
                whole = memoryview(b"".join((*parts, payload)))
                parts = []
                yield whole
            else:
                yield payload
        rest = data[at:]
