"""What clients send is read as leniently as MySQL reads it: each packet goes to a server and here, for the same kind of
answer. And packets that are none hold up nobody."""

import contextlib
import random
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from binlog_merge.protocol.handshake import CACHING_SHA2, NATIVE, HandshakeResponse, prove
from binlog_merge.protocol.packets import Capability
from tests.binlog_server.merged import merged
from tests.binlog_server.one_node import known_to
from tests.binlog_server.raw import PLAIN, Address, Closed, Raw, kind, response
from tests.binlog_server.running import PASSWORD, USER, Running, from_position, serving
from tests.binlog_server.unusual import FORMS, changed_user, commands, login, text, written
from tests.clients.hostile import after_login, before_login
from tests.effort import effort, seed_of_search
from tests.mysql_server import MySqlServer

SID = bytes(range(16))


@dataclass(frozen=True)
class Both:
    """A server of MySQL and one of a merged binlog, with the same user."""

    theirs: Address
    ours: Address
    running: Running

    def compare(self, ask: Callable[[Address], Any]) -> tuple[Any, Any]:
        return ask(self.theirs), ask(self.ours)


@pytest.fixture
def both(mysql_server: MySqlServer) -> Iterator[Both]:
    with known_to(mysql_server), serving(merged("two-nodes")) as running:
        yield Both(mysql_server.socket, ("127.0.0.1", running.port), running)


HANDSHAKES: Mapping[str, Mapping[str, Any]] = {
    "usual": {},
    **{f"the proof's length in {form} bytes": {"form": form} for form in FORMS},
    "a length that is NULL": {"proof": b"", "form": 1, "user": USER.encode() + b"\0\xfb"},
    "a length of one byte": {"flags": PLAIN & ~Capability.CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA},
    "no flag for the proof": {
        "flags": PLAIN & ~Capability.CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA & ~Capability.CLIENT_SECURE_CONNECTION
    },
    "no flags that mean nothing": {"flags": PLAIN & ~Capability.CLIENT_LONG_PASSWORD & ~Capability.CLIENT_TRANSACTIONS},
    "a database": {"flags": PLAIN | Capability.CLIENT_CONNECT_WITH_DB, "database": b"information_schema\0"},
    "an empty database": {"flags": PLAIN | Capability.CLIENT_CONNECT_WITH_DB, "database": b"\0"},
    "no such database": {"flags": PLAIN | Capability.CLIENT_CONNECT_WITH_DB, "database": b"no such\0"},
    "a database that does not end": {
        "flags": PLAIN | Capability.CLIENT_CONNECT_WITH_DB, "database": b"x", "plugin": b"", "attributes": b""
    },
    "a user in quotes": {"user": f"'{USER}'\0".encode()},
    "a user that does not end": {"user": USER.encode(), "proof": b"", "plugin": b"", "attributes": b""},
    "a plugin in upper case": {"plugin": CACHING_SHA2.upper().encode() + b"\0"},
    "a plugin that is not known": {"plugin": b"dialog\0"},
    "a plugin that does not end": {
        "plugin": CACHING_SHA2.encode(), "attributes": b"", "flags": PLAIN & ~Capability.CLIENT_CONNECT_ATTRS
    },
    "a plugin that does not end, and attributes": {"plugin": CACHING_SHA2.encode(), "attributes": b""},
    "no plugin": {"plugin": b"", "attributes": b"", "flags": PLAIN & ~Capability.CLIENT_CONNECT_ATTRS},
    **{f"attributes' length in {form} bytes": {"attributes": text(b"\1a\1b\0\0", form)} for form in FORMS},
    **{f"an attribute's in {form}": {"attributes": text(text(b"a", form) + text(b"b", form))} for form in FORMS},
    "attributes that break off": {"attributes": b"\3\x09ab"},
    "an attribute without a value": {"attributes": b"\2\1a"},
    "an attribute without a name": {"attributes": b"\4\0\1x\0"},
    "attributes that are no text": {"attributes": b"\4\1\xff\1\xff"},
    "attributes that are NULL": {"attributes": b"\xfb"},
    "longer attributes than there are": {"attributes": b"\x09ab"},
    "more behind it": {"tail": b"some more"},
    "other bytes where there are none": {"filler": b"\xff" * 23, "largest": 0},
    **{f"collation {number}": {"charset": number} for number in (0, 1, 8, 35, 54, 60, 61, 63, 101, 192, 246, 250)},
    "another proof": {"proof": b"abc"},
    "a long proof": {"proof": b"a" * 249},
}  # fmt: skip


def test_every_form_of_a_handshake(both: Both) -> None:
    def all_of(address: Address) -> list[str]:
        found = []
        for values in HANDSHAKES.values():
            with Raw(address) as raw:
                answer = raw.login(written(raw.nonce, **values))
                found.append(answer if answer != "ok" else raw.ask(b"\x03SELECT DATABASE()"))
        return found

    theirs, ours = both.compare(all_of)
    different = {name: (t, o) for name, t, o in zip(HANDSHAKES, theirs, ours, strict=True) if t != o}
    assert not different
    assert theirs.count("rows [b'\\xfb']") > 30


def test_a_client_asks_for_tls_by_a_flag_and_says_then_what_it_can(both: Both) -> None:
    """The length does not tell; what the request says counts, and the response behind it is not asked again."""
    flags = int(PLAIN | Capability.CLIENT_SSL | Capability.CLIENT_CONNECT_WITH_DB)

    def all_of(address: Address) -> list[str]:
        found = []
        for request in (
            struct.pack("<I", flags),
            struct.pack("<IIB", flags, 1 << 24, 45) + bytes(23),
            struct.pack("<IIB", flags, 1 << 24, 45) + bytes(23) + b"more than that",
            struct.pack("<IIB", flags, 1 << 24, 45) + bytes(20),
            struct.pack("<H", flags & 0xFFFF),
        ):
            with Raw(address) as raw:
                raw.send(request)
                try:
                    raw.start_tls()
                except (ssl.SSLError, OSError):
                    found.append("no TLS")
                    continue
                answer = raw.login(written(raw.nonce, 0, database=b"information_schema\0"))
                found.append(answer if answer != "ok" else raw.ask(b"\x03SELECT DATABASE()"))
        return found

    theirs, ours = both.compare(all_of)
    assert theirs[1:] == ours[1:]  # of the first one 9.7 takes the request, and then no response
    assert ours[:3] == ["rows [b'\\x12information_schema']"] * 3


COMMANDS = (
    *(bytes([code]) + body for code in (0, 5, 6, 7, 8, 10, 11, 12, 29, 40, 255) for body in (b"", b"\0\0")),
    *(b"\x1b" + body for body in (b"", b"\0", b"\1\0", b"\2\0", b"\xff\xff", b"\1\0more")),
    *(b"", b"\x03", b"\x03\0", b"\x03;", b"\x03SELECT 1\0", b"\x03SELECT 1;\0 ; ", b"\x03  SELECT 1"),
    *(b"\x0emore", b"\x1fmore", b"\x02information_schema\0more", b"\x02", b"\x02no such"),
    b"\x15" + struct.pack("<I", 5) + b"\1h\1u\1p" + struct.pack("<HII", 1, 2, 3) + b"more",
    b"\x15" + struct.pack("<I", 5) + b"\0\0\0" + struct.pack("<HII", 1, 2, 3),
    b"\x15\1",
    *(bytes([code]) + b"\1\0" for code in (0x17, 0x18, 0x19, 0x1A, 0x1C)),
    *(bytes([code]) + b"\x09\0\0\0\1\0\0\0\0more" for code in (0x17, 0x1A, 0x1C)),
    b"\x03SELECT X'41', 0x42, b'1000011'",
    b"\x03SET NAMES utf16",
    b"\x03SET character_set_client = ucs2",
)


def test_every_form_of_a_command(both: Both) -> None:
    def all_of(address: Address) -> list[str]:
        with Raw(address) as raw:
            assert raw.login(response(raw.nonce).pack()) == "ok"
            return [raw.ask(command) for command in COMMANDS]

    theirs, ours = both.compare(all_of)
    assert [found for found in zip(COMMANDS, theirs, ours, strict=True) if found[1] != found[2]] == []


def gtids(*sources: tuple[bytes, list[tuple[int, int]]]) -> bytes:
    """Return a set in its plain form."""
    parts = (s + struct.pack("<Q", len(of)) + b"".join(struct.pack("<QQ", *one) for one in of) for s, of in sources)
    return struct.pack("<Q", len(sources)) + b"".join(parts)


def by_gtids(data: bytes, name: bytes = b"", tail: bytes = b"", position: int = 4) -> bytes:
    head = b"\x1e" + struct.pack("<HII", 1, 7, len(name)) + name + struct.pack("<QI", position, len(data))
    return head + data + tail


DUMPS = {
    "a name that ends before the packet": from_position("binlog.000001").pack() + b"\0more",
    "every flag": from_position("binlog.000001", 4, 0xFFFF).pack(),
    "no position": from_position("binlog.000001", 0).pack(),
    "too short": b"\x12\4\0\0\0\1\0",
    "nothing": by_gtids(gtids()),
    "more behind it": by_gtids(gtids(), tail=b"more"),
    "a name with its end": by_gtids(gtids(), name=b"binlog.000001\0more"),
    "no such name": by_gtids(gtids(), name=b"binlog.999999"),
    "intervals": by_gtids(gtids((SID, [(1, 5), (7, 9)]))),
    "a source twice": by_gtids(gtids((SID, [(1, 5)]), (SID, [(7, 9)]))),
    "sources in any order": by_gtids(gtids((SID, [(1, 5)]), (bytes(16), [(7, 9)]))),
    "no interval": by_gtids(gtids((SID, []))),
    "no sources, with tags": by_gtids(struct.pack("<Q", 1 << 56 | 1)),
    "a tag": by_gtids(struct.pack("<Q", 1 << 56 | 1 << 8 | 1) + SID + b"\2a" + struct.pack("<QQQ", 1, 1, 5)),
    "a tag in upper case": by_gtids(
        struct.pack("<Q", 1 << 56 | 1 << 8 | 1) + SID + b"\2A" + struct.pack("<QQQ", 1, 1, 5)
    ),
}


def test_every_form_of_a_dump(both: Both) -> None:
    def all_of(address: Address) -> list[str]:
        found = []
        for dump in DUMPS.values():
            with Raw(address) as raw:
                assert raw.login(response(raw.nonce).pack()) == "ok"
                assert raw.ask(b"\x03SET @source_binlog_checksum = 'CRC32'") == "ok"
                found.append(raw.ask(dump))
        return found

    theirs, ours = both.compare(all_of)
    assert {name: (t, o) for name, t, o in zip(DUMPS, theirs, ours, strict=True) if t != o} == {}


def executed(raw: Raw, body: bytes) -> str:
    """Execute SELECT ? in a statement of its own; return the value in words, or the kind of answer."""
    number = raw.prepare(b"SELECT ?")
    raw.send(b"\x17" + struct.pack("<I", number) + body, begin=True)
    answer = raw.receive()
    if kind(answer) != "rows":
        return kind(answer)
    column = raw.receive()
    raw.receive()
    row = raw.receive()
    raw.receive()
    return "NULL" if row[1] & 4 else _shown(column[-6], bool(column[-5] & 32), row[2:])


def _shown(code: int, unsigned: bool, value: bytes) -> str:
    """Return a value as text, whatever type a server gives to a parameter."""
    if code == 8:
        return str(int.from_bytes(value, "little", signed=not unsigned))
    if code in (7, 10, 12):
        year, month, day, hour, minute, second, micro = struct.unpack("<HBBBBBI", value[1:].ljust(11, b"\0"))
        whole = f"{year:04}-{month:02}-{day:02}" + f" {hour:02}:{minute:02}:{second:02}" * (len(value) > 5)
        return whole + f".{micro:06}" * (len(value) > 8)
    if code == 11:
        sign, days, hour, minute, second, micro = struct.unpack("<BIBBBI", value[1:].ljust(12, b"\0"))
        return f"{'-' * sign}{days * 24 + hour:02}:{minute:02}:{second:02}" + f".{micro:06}" * (len(value) > 9)
    return value[1:].decode("utf-8", "surrogateescape")


def parameter(code: int, value: bytes, nulls: int = 0, new: int = 1, flags: int = 0, again: int = 1) -> bytes:
    return struct.pack("<BIBBH", flags, again, nulls, new, code) + value


EXECUTIONS = {
    **{f"a text's length in {form} bytes": parameter(253, text(b"abc", form)) for form in FORMS},
    **{f"a text of type {code}": parameter(code, b"\3abc") for code in (15, 242, 245, 249, 250, 251, 252, 253, 254)},
    **{f"bytes of type {code}": parameter(code, b"\3\xff\0'") for code in (249, 252, 253)},
    **{f"a moment's length in {form} bytes": parameter(12, text(b"\xea\7\1\2", form)) for form in FORMS},
    **{
        f"a moment of {n}": parameter(12, text(struct.pack("<HBBBBBI", 2026, 1, 2, 3, 4, 5, 6)[:n])) for n in (4, 7, 11)
    },
    **{f"a time of {n}": parameter(11, text(struct.pack("<BIBBBI", 1, 1, 2, 3, 4, 5)[:n])) for n in (8, 12)},
    **{f"a decimal of type {code}": parameter(code, b"\x05-1.50") for code in (0, 246)},
    "unsigned": parameter(8 | 0x8000, b"\xff" * 8),
    "signed": parameter(8, b"\xff" * 8),
    "beyond BIGINT": parameter(8 | 0x8000, struct.pack("<Q", 10**19 - 1)),
    "more behind it": parameter(253, b"\3abcmore"),
    "more NULLs than parameters": parameter(253, b"", nulls=0xFF),
    "types of another truth": parameter(253, b"\3abc", new=2),
    "iterations": parameter(253, b"\3abc", again=7),
    "flags": parameter(253, b"\3abc", flags=0xF6),
    "too short a moment": parameter(12, b"\5\xea\7\1\2\3"),
    "no value": parameter(253, b""),
    "nothing": b"\0\1\0\0\0",
}


def test_every_form_of_an_execution(both: Both) -> None:
    def all_of(address: Address) -> list[str]:
        with Raw(address) as raw:
            assert raw.login(response(raw.nonce).pack()) == "ok"
            return [executed(raw, body) for body in EXECUTIONS.values()]

    theirs, ours = both.compare(all_of)
    assert {name: (t, o) for name, t, o in zip(EXECUTIONS, theirs, ours, strict=True) if t != o} == {}


def test_a_value_that_came_before_is_text_or_bytes(both: Both) -> None:
    def ask(address: Address) -> list[str]:
        found = []
        for code in (253, 252, 8, 15):
            with Raw(address) as raw:
                assert raw.login(response(raw.nonce).pack()) == "ok"
                number = struct.pack("<I", raw.prepare(b"SELECT ?"))
                for part in (b"ab", b"c"):
                    raw.send(b"\x18" + number + b"\0\0" + part, begin=True)
                found.append(raw.ask(b"\x17" + number + parameter(code, b"")))
        return found

    theirs, ours = both.compare(ask)
    assert theirs == ours and len(set(theirs)) == 2


def test_a_packet_may_be_cut_anywhere_and_end_in_an_empty_one(both: Both) -> None:
    """A statement is refused as too long, by MySQL that of 2^24-1 bytes is not; both go on with the session."""

    def ask(address: Address) -> str:
        with Raw(address) as raw:
            assert raw.login(response(raw.nonce).pack()) == "ok"
            raw.ask(b"\x0e" + bytes((1 << 24) - 2))
            return raw.ask(b"\x03SELECT 1")

    assert both.compare(ask) == ("rows [b'\\x011']",) * 2


def test_another_user_begins_anew(both: Both) -> None:
    """Nothing is kept: variables, the database, prepared statements. A wrong password ends the session."""
    body = b"\x11" + USER.encode() + b"\0\0\0" + struct.pack("<H", 45) + CACHING_SHA2.encode() + b"\0\0"

    def ask(address: Address) -> list[str]:
        with Raw(address) as raw:
            assert raw.login(response(raw.nonce).pack()) == "ok"
            number = struct.pack("<I", raw.prepare(b"SELECT 1"))
            found = [raw.ask(b"\x03SET @a = 5"), raw.ask(b"\x02information_schema")]
            for password in (PASSWORD, PASSWORD, "another"):
                raw.send(body, begin=True)
                found += [raw.proved(password), raw.ask(b"\x03SELECT @a, DATABASE()"), raw.ask(b"\x1a" + number)]
            return found

    theirs, ours = both.compare(ask)
    assert theirs == ours
    assert theirs[2:5] == ["ok", "rows [b'\\xfb\\xfb']", "1243"] and theirs[-3:] == ["1045", "closed", "closed"]


def test_another_user_of_an_old_client_proves_itself_with_the_first_nonce(both: Both) -> None:
    flags = PLAIN & ~Capability.CLIENT_PLUGIN_AUTH & ~Capability.CLIENT_CONNECT_ATTRS
    with Raw(both.ours) as raw:
        proof = prove(NATIVE, PASSWORD, raw.nonce)
        assert raw.login(HandshakeResponse(Capability(flags), USER, proof).pack()) == "ok"
        raw.send(b"\x11" + USER.encode() + b"\0" + text(proof) + b"\0", begin=True)
        assert raw.proved() == "ok"
        assert raw.ask(b"\x03SELECT 1") == "rows [b'\\x011']"


def test_unusual_packets_are_answered_as_mysql_answers_them(both: Both) -> None:
    """Sessions of random packets that are valid, THOROUGH=1 for 20,000 packets of them."""
    seed = seed_of_search()
    different = []
    for number in range(effort(15, 1000)):
        theirs, ours = both.compare(lambda address, n=number: _session(address, f"{seed} {n}"))  # type: ignore[misc]
        different += [(number, t, o) for t, o in zip(theirs, ours, strict=True) if t != o]
    assert not different


def _session(address: Address, seed: str) -> list[tuple[str, str]]:
    """Return what is sent, and the kinds of the answers; a login and some twenty commands."""
    rng = random.Random(seed)
    found = []
    with Raw(address) as raw:
        payload = login(rng, raw.nonce)
        found.append(("login", raw.login(payload)))
    with Raw(address) as raw:
        assert raw.login(response(raw.nonce).pack()) == "ok"
        for _ in range(2):
            statement = raw.prepare(b"SELECT ?")
            sent = list(commands(rng, statement))
            rng.shuffle(sent)
            for command in sent:
                answer = raw.ask(command) if command[:1] != b"\x18" else "no answer"
                if command[:1] == b"\x18":
                    raw.send(command, begin=True)
                # Statements have other numbers, a parameter's value has another type, and errors have other words.
                short = "error" if answer.isdigit() else answer[:4] if command[:1] == b"\x17" else answer
                found.append((command.hex()[:2], short))
        raw.send(change := changed_user(rng), begin=True)
        found.append((change.hex(), raw.proved()))
    return found


def test_packets_that_are_none_hold_up_nobody(both: Both) -> None:
    """THOROUGH=1 sends 20,000 of them, and nobody waits a second."""
    seed, slowest, over = seed_of_search(), [0.0], threading.Event()

    connection = both.running.connect()  # the first, whose number no KILL is likely to be changed to

    def watch() -> None:
        with contextlib.closing(connection), connection.cursor() as cursor:
            while not over.wait(0.02):
                begun = time.monotonic()
                cursor.execute("SELECT @@gtid_executed")
                slowest[0] = max(slowest[0], time.monotonic() - begun)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        for number in range(effort(150, 10_000)):
            _attack(both.ours, random.Random(f"{seed} {number}"))
    finally:
        over.set()
        watcher.join()
    print("slowest", slowest[0])
    assert slowest[0] < effort(10, 1)
    assert not [line for line in both.running.reports if "internal" in line]


def _attack(address: Address, rng: random.Random) -> None:
    with Raw(address) as raw:
        raw.sock.sendall(before_login(rng))
        _drain(raw)
    with Raw(address) as raw:
        assert raw.login(response(raw.nonce).pack()) == "ok"
        raw.sock.sendall(after_login(rng))
        _drain(raw)


def _drain(raw: Raw) -> None:
    with contextlib.suppress(OSError, Closed):
        raw.sock.shutdown(1)
        while raw.sock.recv(1 << 16):
            pass
