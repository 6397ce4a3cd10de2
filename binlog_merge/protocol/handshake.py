"""The connection phase as values: greeting, handshake response, and authentication.

    server  greeting: version, capabilities, 20 random bytes (the nonce)
    client  SSL request, then the rest over TLS                     if both support it
    client  handshake response: capabilities, user, proof, plugin
    server  auth switch request, client proof                       if it names no plugin, or one not known here
    server  1 3 (caching_sha2_password: nothing more to prove), OK; or 1045
    server  1 4, client password                                    if the server has only a salted hash of it

How the last is hidden without TLS says `serve.login`. Source:
https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_connection_phase.html.
"""

import hashlib
import secrets
import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Self

from binlog_merge.binlog.wire import Buffer, Reader, pack_packed_bytes, pack_uint
from binlog_merge.protocol.compression import USUAL_ZSTD_LEVEL, Algorithm
from binlog_merge.protocol.packets import SERVER_STATUS_AUTOCOMMIT, UTF8MB4, Capability, Sent, attributes_of
from snapshot_store.mysql.text.charsets import charset_of
from snapshot_store.mysql.text.codecs import is_utf8, text_or_bytes

PROTOCOL_VERSION: Final = 10
_CAPABILITIES_LEN: Final = 4
_FIXED_LEN: Final = 32
NONCE_LEN: Final = 20
CACHING_SHA2: Final = "caching_sha2_password"
NATIVE: Final = "mysql_native_password"
FAST_AUTH_SUCCESS: Final = b"\x01\x03"
OFFERED: Final = (
    Capability.CLIENT_LONG_PASSWORD
    | Capability.CLIENT_LONG_FLAG
    | Capability.CLIENT_CONNECT_WITH_DB
    | Capability.CLIENT_COMPRESS
    | Capability.CLIENT_PROTOCOL_41
    | Capability.CLIENT_TRANSACTIONS
    | Capability.CLIENT_SECURE_CONNECTION
    | Capability.CLIENT_PLUGIN_AUTH
    | Capability.CLIENT_CONNECT_ATTRS
    | Capability.CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA
    | Capability.CLIENT_ZSTD_COMPRESSION_ALGORITHM
)
_NONCE_BYTES: Final = (string.ascii_letters + string.digits).encode()


def new_nonce() -> bytes:
    """Return 20 random bytes from 1 to 127; some clients would truncate others."""
    return bytes(secrets.choice(_NONCE_BYTES) for _ in range(NONCE_LEN))


@dataclass(frozen=True, slots=True)
class Greeting:
    """HandshakeV10: the first packet, the server's."""

    server_version: str
    connection_id: int
    nonce: bytes
    capabilities: Capability = OFFERED
    plugin: str = CACHING_SHA2

    @classmethod
    def parse(cls, payload: Buffer) -> Self:
        r = Reader(payload, "greeting")
        if r.u8("protocol version") != PROTOCOL_VERSION:
            raise r.fail(f"the protocol's version is not {PROTOCOL_VERSION}")
        version = _read_text(r, "server version")
        connection_id, nonce = r.u32("connection id"), bytes(r.take(8, "nonce"))
        r.take(1, "filler")
        low = r.u16("capabilities")
        r.take(3, "character set and status")
        capabilities = Capability(r.u16("capabilities") << 16 | low)
        if r.u8("length of the nonce") != NONCE_LEN + 1:
            raise r.fail(f"the nonce is not {NONCE_LEN} bytes")
        r.take(10, "reserved")
        nonce += bytes(r.take(NONCE_LEN - 8, "nonce"))
        r.take(1, "end of the nonce")
        plugin = _read_text(r, "plugin")
        r.done()
        return cls(version, connection_id, nonce, capabilities, plugin)

    def pack(self) -> bytes:
        flags = int(self.capabilities)
        return b"".join(
            (
                bytes([PROTOCOL_VERSION]),
                _text(self.server_version),
                pack_uint(self.connection_id & 0xFFFFFFFF, 4),
                self.nonce[:8] + b"\0",
                pack_uint(flags & 0xFFFF, 2),
                bytes([UTF8MB4]),
                pack_uint(SERVER_STATUS_AUTOCOMMIT, 2),
                pack_uint(flags >> 16, 2),
                bytes([NONCE_LEN + 1]) + bytes(10),
                self.nonce[8:] + b"\0",
                _text(self.plugin),
            )
        )


@dataclass(frozen=True, slots=True)
class SslRequest:
    """SSLRequest: the first fields of a handshake response, sent before TLS begins, and they count then.

    A client may send all of its response, or nothing but the capabilities.
    """

    capabilities: Capability
    max_packet: int = 1 << 24
    charset: int = UTF8MB4

    @classmethod
    def parse(cls, payload: Buffer) -> Self:
        r = Sent(payload, "SSL request")
        if len(r.data) == _CAPABILITIES_LEN:
            return cls(Capability(r.u32("capabilities")))
        return cls._read(r)

    @classmethod
    def _read(cls, r: Sent) -> Self:
        request = cls(Capability(r.u32("capabilities")), r.u32("greatest packet"), r.u8("character set"))
        r.take(23, "reserved")
        return request

    @classmethod
    def is_one(cls, payload: Buffer) -> bool:
        """Return whether a client's first packet asks for TLS: its length does not tell."""
        view = memoryview(payload)
        flags = int.from_bytes(view[:_CAPABILITIES_LEN], "little")
        return (len(view) == _CAPABILITIES_LEN or len(view) >= _FIXED_LEN) and bool(flags & Capability.CLIENT_SSL)

    def pack(self) -> bytes:
        return pack_uint(int(self.capabilities), 4) + pack_uint(self.max_packet, 4) + bytes([self.charset]) + bytes(23)


@dataclass(frozen=True, slots=True)
class HandshakeResponse:
    """HandshakeResponse41. `proof` is computed by the client's `plugin` from password and nonce.

    `plugin` is mysql_native_password for old clients, which know no plugins, and "" for those that know them and name
    none. Attributes describe the client: a MySQL replica
    has `_client_replication_channel_name`, mysqlbinlog does not. `zstd_level` is sent with zstd compression alone.
    """

    capabilities: Capability
    user: str
    proof: bytes
    database: str = ""
    plugin: str = NATIVE
    attributes: Mapping[str, str] = field(default_factory=dict)
    max_packet: int = 1 << 24
    charset: int = UTF8MB4
    zstd_level: int = USUAL_ZSTD_LEVEL

    @property
    def algorithm(self) -> Algorithm | None:
        """Return the compression that the client wants, zlib where it offers both, as MySQL takes it."""
        if self.capabilities & Capability.CLIENT_COMPRESS:
            return Algorithm.ZLIB
        return Algorithm.ZSTD if self.capabilities & Capability.CLIENT_ZSTD_COMPRESSION_ALGORITHM else None

    @classmethod
    def parse(cls, payload: Buffer, asked: SslRequest | None = None) -> Self:
        """Parse the packet; anything behind its fields is ignored. `asked` is the request for TLS before it."""
        r = Sent(payload, "handshake response")
        own = SslRequest._read(r)
        head = asked or own
        flags = head.capabilities
        if not flags & Capability.CLIENT_PROTOCOL_41:
            raise r.fail("the client speaks the protocol from before MySQL 4.1")
        user = r.text("user")
        if flags & Capability.CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA:
            proof = r.packed_bytes("proof")
        else:
            proof = bytes(r.take(r.u8("length of the proof"), "proof"))
        database = r.text("database") if flags & Capability.CLIENT_CONNECT_WITH_DB else b""
        named = r.ended() or b""  # it is there whether or not the flag is set; without its end it counts as none
        plugin = _str(named) if flags & Capability.CLIENT_PLUGIN_AUTH else NATIVE
        attributes: dict[str, str] = {}
        if flags & Capability.CLIENT_CONNECT_ATTRS and r.left():
            attributes = attributes_of(r.packed_bytes("attributes"))
        zstd = flags & Capability.CLIENT_ZSTD_COMPRESSION_ALGORITHM and r.left()
        level = r.u8("level of zstd") if zstd else USUAL_ZSTD_LEVEL
        user = user[1:-1] if len(user) > 1 and user[:1] == user[-1:] == b"'" else user
        read, charset = _reader(head.charset), head.charset
        return cls(flags, read(user), proof, read(database), plugin, attributes, head.max_packet, charset, level)

    @classmethod
    def parse_change(cls, body: Buffer, before: Self) -> Self:
        """Parse COM_CHANGE_USER of a client that has logged in with the response `before`."""
        flags = before.capabilities
        r = Sent(body, "change of user")
        user = r.text("user")
        proof = bytes(r.take(r.u8("length of the proof"), "proof"))
        ended = r.ended()
        database = r.rest() if ended is None else ended
        charset = r.u16("character set") if r.left() > 1 else before.charset
        plugin = _str(r.ended() or b"") if flags & Capability.CLIENT_PLUGIN_AUTH else NATIVE
        attributes: dict[str, str] = {}
        if flags & Capability.CLIENT_CONNECT_ATTRS and r.left():
            attributes = attributes_of(r.packed_bytes("attributes"))
        read = _reader(charset)
        return replace(
            before,
            user=read(user),
            proof=proof,
            database=read(database),
            plugin=plugin,
            attributes={**before.attributes, **attributes},
            charset=charset,
        )

    def pack(self) -> bytes:
        flags = self.capabilities
        attributes = b"".join(
            pack_packed_bytes(_raw(name)) + pack_packed_bytes(_raw(value)) for name, value in self.attributes.items()
        )
        lenenc = flags & Capability.CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA
        return b"".join(
            (
                SslRequest(flags, self.max_packet, self.charset).pack(),
                _text(self.user),
                pack_packed_bytes(self.proof) if lenenc else pack_uint(len(self.proof), 1) + self.proof,
                _text(self.database) if flags & Capability.CLIENT_CONNECT_WITH_DB else b"",
                _text(self.plugin) if flags & Capability.CLIENT_PLUGIN_AUTH else b"",
                pack_packed_bytes(attributes) if flags & Capability.CLIENT_CONNECT_ATTRS else b"",
                bytes([self.zstd_level]) if flags & Capability.CLIENT_ZSTD_COMPRESSION_ALGORITHM else b"",
            )
        )


@dataclass(frozen=True, slots=True)
class AuthSwitch:
    """AuthSwitchRequest: authenticate with this plugin instead."""

    plugin: str
    nonce: bytes

    @classmethod
    def parse(cls, payload: Buffer) -> Self:
        r = Reader(payload, "auth switch request")
        if r.u8("header") != 0xFE:
            raise r.fail("the header is not 0xfe")
        plugin, nonce = _read_text(r, "plugin"), r.rest()
        return cls(plugin, nonce.removesuffix(b"\0"))

    def pack(self) -> bytes:
        return b"\xfe" + _text(self.plugin) + self.nonce + b"\0"


def prove(plugin: str, password: str, nonce: bytes) -> bytes:
    """Return the proof of a password as a client sends it; b"" for an empty password."""
    if not password:
        return b""
    secret = password.encode()
    if plugin == NATIVE:
        once = hashlib.sha1(secret).digest()
        return _xor(once, hashlib.sha1(nonce + hashlib.sha1(once).digest()).digest())
    once = hashlib.sha256(secret).digest()
    return _xor(once, hashlib.sha256(hashlib.sha256(once).digest() + nonce).digest())


def _xor(a: bytes, b: bytes) -> bytes:
    return bytes(x ^ y for x, y in zip(a, b, strict=True))


def _raw(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _text(text: str) -> bytes:
    return _raw(text) + b"\0"


def _read_text(r: Reader, field: str) -> str:
    """Read a zero-terminated text of a server."""
    rest = bytes(r.data[r.pos :])
    length = rest.find(b"\0")
    if length < 0:
        raise r.fail(f"the {field} does not end")
    text = bytes(r.take(length, field))
    r.take(1, field)
    return _str(text)


def _str(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _reader(collation: int) -> Callable[[bytes], str]:
    """Return what makes texts of names in a client's character set; one that is not known is the server's."""
    charset = charset_of(collation) or "utf8mb4"

    def read(name: bytes) -> str:
        text = name if is_utf8(charset) or name.isascii() else text_or_bytes(charset, name)
        return text if isinstance(text, str) else _str(text)

    return read
