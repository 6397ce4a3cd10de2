"""Packets that a server takes though no usual client writes them so: lengths in more bytes than they need, flags that
mean nothing, fields that are left out or come in addition."""

import random
import struct
from collections.abc import Sequence
from typing import Final

from binlog_merge.protocol.handshake import CACHING_SHA2, prove
from binlog_merge.protocol.packets import Capability
from tests.binlog_server.raw import PLAIN
from tests.binlog_server.running import PASSWORD, USER

FORMS: Final = (1, 3, 4, 9)
"""Bytes that a length of less than 251 can take."""
_FIRST: Final = {3: b"\xfc", 4: b"\xfd", 9: b"\xfe"}
_MEANINGLESS: Final = (1, 4, 1 << 1, 1 << 4, 1 << 6, 1 << 7, 1 << 8, 1 << 10, 1 << 12, 1 << 13, 1 << 14, 1 << 15,
                       1 << 16, 1 << 17, 1 << 18, 1 << 22, 1 << 30)  # fmt: skip
"""Capabilities that change nothing of what is sent here."""
_ENDS: Final = (b"", b";", b"\0", b" ", b" ;\n", b";\0 ; ")


def length(number: int, form: int = 1) -> bytes:
    """Return a length in so many bytes."""
    return bytes([number]) if form == 1 else _FIRST[form] + number.to_bytes(form - 1, "little")


def text(data: bytes, form: int = 1) -> bytes:
    """Return bytes behind their length."""
    return length(len(data), form) + data


def written(
    nonce: bytes,
    flags: int = PLAIN,
    user: bytes = USER.encode() + b"\0",
    proof: bytes | None = None,
    form: int = 1,
    database: bytes = b"",
    plugin: bytes = CACHING_SHA2.encode() + b"\0",
    attributes: bytes = b"\0",
    charset: int = 45,
    largest: int = 1 << 24,
    filler: bytes = bytes(23),
    tail: bytes = b"",
) -> bytes:
    """Return a handshake response, field by field as it is written."""
    found = prove(CACHING_SHA2, PASSWORD, nonce) if proof is None else proof
    head = struct.pack("<IIB", flags & 0xFFFFFFFF, largest, charset) + filler
    return head + user + text(found, form) + database + plugin + attributes + tail


def login(rng: random.Random, nonce: bytes) -> bytes:
    """Return a handshake response that lets in, or is refused by MySQL as well."""
    flags = int(PLAIN)
    for flag in rng.sample(_MEANINGLESS, rng.randrange(len(_MEANINGLESS))):
        flags ^= flag
    lenenc = rng.random() < 0.7
    attributes, database, plugin = b"", b"", CACHING_SHA2.encode() + b"\0"
    if not lenenc:
        flags &= ~Capability.CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA
    if rng.random() < 0.3:
        flags |= Capability.CLIENT_CONNECT_WITH_DB
        database = rng.choice([b"information_schema\0", b"\0", b"no such\0"])
    if rng.random() < 0.3:
        plugin = rng.choice([CACHING_SHA2.upper().encode() + b"\0", b"dialog\0", b"\0"])
    if rng.random() < 0.7:
        found = b"".join(text(rng.randbytes(rng.randrange(9)), rng.choice(FORMS)) for _ in range(2 * rng.randrange(4)))
        attributes = text(found + rng.choice([b"", b"\x07", b"\xfb"]), rng.choice(FORMS))
    else:
        flags &= ~Capability.CLIENT_CONNECT_ATTRS
        plugin = rng.choice([plugin, b""])
    return written(
        nonce,
        flags,
        rng.choice([USER.encode() + b"\0", f"'{USER}'".encode() + b"\0"]),
        form=rng.choice(FORMS) if lenenc else 1,
        database=database,
        plugin=plugin,
        attributes=attributes,
        charset=rng.randrange(256),
        largest=rng.getrandbits(32),
        filler=rng.randbytes(23),
        tail=rng.randbytes(rng.choice([0, 0, 5])) if attributes else b"",
    )


def commands(rng: random.Random, statement: int) -> Sequence[bytes]:
    """Return commands of a session; `statement` is a prepared one with a parameter, SELECT ?."""
    tail = rng.randbytes(rng.randrange(5))
    number = struct.pack("<I", statement)
    return [
        b"\x0e" + tail,
        b"\x03SELECT 'a'" + rng.choice(_ENDS),
        b"\x03" + rng.choice([b" ", b"\t\n", b"/* */"]) + b"SELECT @@version_compile_os" + rng.choice(_ENDS),
        b"\x03" + rng.choice(_ENDS),
        b"\x02information_schema" + rng.choice([b"", b"\0", b"\0x"]),
        b"\x02" + rng.choice([b"", b"\0", b"no such"]),
        b"\x1b" + struct.pack("<H", rng.randrange(1, 4)) + tail,
        b"\x15" + struct.pack("<I", 7) + b"".join(text(rng.randbytes(rng.randrange(9))) for _ in range(3))
        + struct.pack("<HII", 1, 2, 3) + tail,
        b"\x1a" + number + tail,
        b"\x18" + number + b"\0\0" + rng.randbytes(rng.randrange(4)) if rng.random() < 0.1 else b"\x0e",
        b"\x17" + number + rng.choice([executed(rng), executed(rng)]),
        b"\x1c" + number + struct.pack("<I", 1) + tail,
        bytes([rng.choice([0, 5, 6, 7, 8, 10, 11, 12, 15, 16, 19, 20, 29, 40, 255])]) + tail,
        b"",
    ]  # fmt: skip


def executed(rng: random.Random) -> bytes:
    """Return an execution of a statement with one parameter."""
    flags, iterations = rng.choice([0, 0, 8, 0xF6 & ~1]), rng.getrandbits(32)
    kinds: list[tuple[int, bytes]] = [
        (rng.choice([15, 249, 250, 251, 252, 253, 254]), text(rng.randbytes(rng.randrange(40)), rng.choice(FORMS))),
        (rng.choice([8, 8 | 0x8000]), rng.randbytes(8)),
        (rng.choice([3, 3 | 0x8000]), rng.randbytes(4)),
        (rng.choice([2, 2 | 0x8000]), rng.randbytes(2)),
        (rng.choice([1, 1 | 0x8000]), rng.randbytes(1)),
        (rng.choice([0, 246]), text(b"-12.50", rng.choice(FORMS))),
        (rng.choice([7, 12]), text(struct.pack("<HBBBBBI", 2026, 1, 2, 3, 4, 5, 6)[: rng.choice([4, 7, 11])],
                                   rng.choice(FORMS))),
        (11, text(struct.pack("<BIBBBI", 1, 1, 2, 3, 4, 5)[: rng.choice([0, 8, 12])], rng.choice(FORMS))),
        (10, text(struct.pack("<HBB", 2026, 1, 2), rng.choice(FORMS))),
    ]  # fmt: skip
    kind, value = rng.choice(kinds)
    null = rng.random() < 0.1
    head = struct.pack("<BIBB", flags, iterations, null | rng.choice([0, 0xFE]), rng.choice([1, 2, 255]))
    return head + struct.pack("<H", kind) + (b"" if null else value) + rng.randbytes(rng.choice([0, 0, 3]))


def changed_user(rng: random.Random, charset: int = 45) -> bytes:
    """Return COM_CHANGE_USER to the same user, of a client that knows plugins and attributes."""
    proof = rng.choice([b"", bytes(20), b"x" * 32])
    database = rng.choice([b"", b"information_schema", b"no such"])
    plugin = rng.choice([CACHING_SHA2, CACHING_SHA2.upper(), "dialog", "mysql_native_password"]).encode()
    named = text(b"a", rng.choice(FORMS)) + text(b"b", rng.choice(FORMS))
    attributes = rng.choice([b"\0", text(named, rng.choice(FORMS))])
    head = b"\x11" + USER.encode() + b"\0" + text(proof) + database + b"\0"
    return head + struct.pack("<H", charset) + plugin + b"\0" + attributes
