"""Packets and statements that no honest client sends, made from those that one does, by a random generator."""

import random
from collections.abc import Iterator, Sequence
from typing import Final

from binlog_merge.binlog.gtid_set import GtidSet
from binlog_merge.protocol.commands import RegisterReplica
from binlog_merge.protocol.handshake import CACHING_SHA2, NATIVE, OFFERED, HandshakeResponse, SslRequest
from binlog_merge.protocol.packets import Capability, PacketHeader
from tests.binlog_server.running import USER, from_position, without
from tests.binlog_server.test_definitions import STATEMENTS

_ASKED: Final = [
    *STATEMENTS,
    "SHOW BINLOG EVENTS IN 'binlog.000001' FROM 4 LIMIT 3, 5",
    "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('gtid_mode', 'server_id') OR Variable_name LIKE 'b%'",
    "SET @a = 1, SESSION sql_mode = CONCAT(@@sql_mode, ',x'), @b := 'it''s', NAMES utf8mb4 COLLATE utf8mb4_bin",
    "SELECT GTID_SUBTRACT(@@gtid_executed, '11111111-2222-3333-4444-555555555555:1-7:9'), @a AS `b c`, -1, 'x' LIMIT 1",
    "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
    "ROLLBACK TO SAVEPOINT a",
    "LOCK TABLES shop.orders READ",
    "FLUSH /*!40101 LOCAL */ TABLES WITH READ LOCK",
    "/*!40103 SET TIME_ZONE='+00:00' */",
    "KILL QUERY 4000000",
    "SHOW GRANTS FOR CURRENT_USER()",
]
_BITS: Final = [
    *(
        "(",
        ")",
        "'",
        '"',
        "`",
        "/*",
        "*/",
        "/*!99999",
        "--",
        ";",
        ",",
        "@@",
        "@",
        ".",
        "\\",
        "%",
        "_",
        "\0",
        "€",
        "😀",
        "=",
        "NULL",
    ),
    *(
        "SELECT",
        "FROM",
        "WHERE",
        "UNION",
        "WITH RECURSIVE x AS",
        "CASE WHEN",
        "COUNT(*)",
        "ORDER BY",
        "LIMIT",
        "LIKE",
        "IN",
    ),
    *("-1", "99999999999999999999999", "0x41", "1e400", "information_schema.columns", "ESCAPE", "?", "::", "$$", "{d}"),
]


def packet(payload: bytes, sequence: int) -> bytes:
    """Return a payload with its header."""
    return PacketHeader(len(payload) & 0xFFFFFF, sequence & 0xFF).pack() + payload


def before_login(rng: random.Random) -> bytes:
    """Return what a client sends that has seen the greeting: a response or a request for TLS, mostly changed."""
    flags = Capability(rng.getrandbits(32) if rng.random() < 0.3 else OFFERED)
    proof = rng.randbytes(rng.choice([0, 1, 20, 32, 250]))
    plugin = rng.choice([NATIVE, CACHING_SHA2, "", "dialog", "x" * rng.randrange(300)])
    user = rng.choice([USER, "", "root", "u" * rng.randrange(3000)])
    attributes = {str(n): "v" * rng.randrange(40) for n in range(rng.choice([0, 0, 3, 50]))}
    if rng.random() < 0.15:
        payload = SslRequest(flags | Capability.CLIENT_SSL).pack()
    else:
        response = HandshakeResponse(flags, user, proof[:250], rng.choice(["", "shop"]), plugin, attributes)
        payload = response.pack()
    return _sent(changed(payload, rng), 1, rng)


def after_login(rng: random.Random) -> bytes:
    """Return a command, mostly changed."""
    kind = rng.random()
    if kind < 0.6:
        payload = b"\x03" + statement(rng).encode("utf-8", "surrogatepass")
    elif kind < 0.8:
        dump = from_position(
            rng.choice(["binlog.000001", "", "x" * 600, "../manifest.jsonl"]), rng.choice([4, 0, 5, 2**32 - 1])
        )
        gtids = GtidSet.parse_text("11111111-2222-3333-4444-555555555555:1-3:5")
        payload = rng.choice([dump.pack(), without(gtids).pack(), without(GtidSet()).pack(), RegisterReplica(3).pack()])
        payload = changed(payload, rng)
    else:
        payload = bytes([rng.randrange(0x28)]) + rng.randbytes(rng.randrange(60))
    return _sent(payload, 0, rng)


def statement(rng: random.Random) -> str:
    """Return a statement, mostly changed."""
    text = rng.choice(_ASKED)
    for _ in range(rng.choice([0, 1, 1, 2, 5])):
        at = rng.randrange(len(text) + 1)
        match rng.randrange(4):
            case 0:
                text = text[:at] + rng.choice(_BITS) * rng.choice([1, 1, 1, 3, 200]) + text[at:]
            case 1:
                text = text[:at] + text[at + rng.randrange(1, 12) :]
            case 2:
                other = rng.choice(_ASKED)
                text = text[:at] + " " + other[rng.randrange(len(other)) :]
            case _:
                text = text[:at] + chr(rng.choice([rng.randrange(1, 128), rng.randrange(128, 0xD7FF)])) + text[at + 1 :]
    return text


def changed(data: bytes, rng: random.Random) -> bytes:
    """Return bytes of which some were changed, taken away or put in."""
    found = bytearray(data)
    for _ in range(rng.choice([0, 1, 1, 2, 8])):
        at = rng.randrange(len(found) + 1)
        match rng.randrange(4):
            case 0 if found:
                found[at % len(found)] = rng.choice(
                    [0, 1, 0x7F, 0x80, 0xFB, 0xFC, 0xFD, 0xFE, 0xFF, rng.randrange(256)]
                )
            case 1:
                del found[at : at + rng.randrange(1, 30)]
            case 2:
                found[at:at] = rng.randbytes(rng.choice([1, 2, 8, 300]))
            case _:
                del found[at:]
    return bytes(found)


def _sent(payload: bytes, sequence: int, rng: random.Random) -> bytes:
    """Return a packet; a few have a length or a number that is wrong."""
    if rng.random() < 0.97:
        return packet(payload, sequence)
    header = PacketHeader(
        rng.choice([0, len(payload) + 5, 0xFFFFFF, rng.randrange(1 << 24)]), rng.randrange(256)
    ).pack()
    return rng.choice([header, b"", header[:2]]) + payload


def exhausting() -> Iterator[str]:
    """Yield statements that are long, deep, many, or much work."""
    columns = "information_schema.columns"
    yield f"SET @b = '{'x' * (15 << 20)}'"
    yield f"SELECT '{'x' * (15 << 20)}"
    yield f"SHOW VARIABLES LIKE '{'%a' * 200_000}'"
    yield f"SHOW VARIABLES LIKE '{'%a' * 100_000}'"
    yield f"SHOW TABLES FROM shop WHERE Tables_in_shop LIKE '{'%a' * 8000}'"
    yield f"SHOW DATABASES LIKE '{'%_' * 100_000}'"
    yield "SELECT " + ", ".join(["1"] * 80_000)
    yield "SELECT /*" + "*" * 250_000
    yield "SELECT '" + "\\'" * 120_000
    yield "SELECT GTID_SUBSET('" + ",".join(f"11111111-2222-3333-4444-{n:012}:1-9" for n in range(5500)) + "', '')"
    yield f"SELECT 1 FROM {columns} WHERE ordinal_position IN ({', '.join(map(str, range(3000)))})"
    yield f"SELECT COUNT(*) FROM {', '.join(f'{columns} t{n}' for n in range(14))}"
    yield f"SELECT * FROM {', '.join(f'{columns} t{n}' for n in range(7))}"
    names = ", ".join(f"t{n}.column_name" for n in range(9))
    yield f"SELECT DISTINCT CONCAT({names}) FROM {', '.join(f'{columns} t{n}' for n in range(9))}"
    yield "SHOW BINLOG EVENTS"
    yield "KILL CONNECTION 99999999999999999999"
    for depth in (10, 60, 400, 3000, 20_000):
        yield from nested(depth)


def nested(depth: int) -> Sequence[str]:
    """Return statements that are `depth` levels deep."""
    return [
        "SELECT " + "(" * depth + "1" + ")" * depth,
        "SELECT 1 FROM information_schema.tables WHERE " + "(" * depth + "1" + ")" * depth,
        "SELECT " + "NOT " * depth + "1 FROM information_schema.tables",
        "SELECT " + "-" * depth + "1 FROM information_schema.tables",
        "SELECT " + "CASE WHEN 1 THEN " * depth + "1" + " END" * depth + " FROM information_schema.tables",
        "SELECT " + "CONCAT(" * depth + "'a'" + ")" * depth + " FROM information_schema.tables",
        "SELECT * FROM " + "(SELECT * FROM " * depth + "information_schema.tables" + ") x" * depth,
        "SELECT 1 FROM information_schema.tables WHERE " + " AND ".join(["1"] * depth),
        "SELECT 1 FROM information_schema.tables" + " UNION SELECT 1 FROM information_schema.tables" * depth,
        "SHOW TABLES FROM shop WHERE " + "(" * depth + "1" + ")" * depth,
        "SHOW TABLES FROM shop WHERE " + "1 + " * depth + "1",
        "SHOW VARIABLES WHERE " + "(" * depth + "Variable_name = 'port'" + ")" * depth,
        "SET @a = " + "(" * depth + "1" + ")" * depth,
    ]
