"""Cuts the bytes of a connection into the packets of a dump, without parsing their payloads.

    | payload length 3 | sequence 1 | payload ... |      a payload of 2^24-1 bytes goes on in the next packet

Each event is a packet, and this is Python: so a read takes many packets, and only a packet cut by a read is copied.
https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_basic_packets.html
"""

from collections.abc import Callable, Iterator
from typing import Final

_HEADER_LEN: Final = 4
_MOST: Final = (1 << 24) - 1
_CHUNK: Final = 1 << 18


def payloads(some: Callable[[int], bytes], exactly: Callable[[int], bytes]) -> Iterator[memoryview]:
    """Yield payloads in order, joined if they are split over several packets, until the connection ends.

    `some` returns at most so many bytes, as soon as there are any; `exactly` waits for all, and returns fewer only at
    the end of the connection. A payload cut by the end is not yielded.
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
