"""Reads what clients send, as leniently as MySQL reads it: an integer may take more bytes than it needs.

Source: mysql-server `mysys/pack.cc` (net_field_length_ll), `sql/protocol_classic.cc` (parse_packet), and
`sql/auth/sql_authentication.cc` (get_56_lenc_string, read_client_connect_attrs).
"""

from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.wire import Reader

_SIZES = {252: 2, 253: 3, 254: 8, 255: 8}


class Sent(Reader):
    """A cursor over a client's packet; bytes behind the last field that is asked for are ignored."""

    __slots__ = ()

    def packed(self, field: str) -> int:
        """Return a length-encoded integer of any form."""
        first = self.u8(field)
        if first < 251:
            return first
        if first not in _SIZES:
            raise self.fail(f"{field} is NULL")
        return self.uint(_SIZES[first], field)

    def text(self, field: str) -> bytes:
        """Return the bytes before the next zero byte, behind which the cursor is then."""
        found = self.ended()
        if found is None:
            raise self.fail(f"the {field} does not end")
        return found

    def ended(self) -> bytes | None:
        """Return the bytes before the next zero byte, as `text` does; None, without moving, if there is none."""
        length = bytes(self.data[self.pos :]).find(b"\0")
        if length < 0:
            return None
        found = bytes(self.take(length))
        self.take(1)
        return found


def attributes_of(data: bytes) -> dict[str, str]:
    """Return a client's attributes; what cannot be read of them is left out, as it is in MySQL."""
    r = Sent(data, "connection attributes")
    found: dict[str, str] = {}
    while r.left():
        try:
            name, value = r.packed_bytes("name"), r.packed_bytes("value")
        except BinlogFormatError:
            break
        found[name.decode("utf-8", "surrogateescape")] = value.decode("utf-8", "surrogateescape")
    return found
