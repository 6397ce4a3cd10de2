"""GTID events.

    33, 34   flags 1 | sid 16 | gno 8 | 2 | last_committed 8 | sequence_number 8 | timestamps 7 or 14 |
             transaction_length packed | server versions 4 or 8 | commit group ticket 8
             (each part from `2` on may be missing: 5.6, 5.7, short bodies)
    42       the same values in the serialization library's format, with a tag

The immediate timestamp comes first; if its top bit is set, the original one follows, else both are equal. So it is with
the versions. Source: mysql-server `libs/mysql/binlog/event/control_events.cpp` (Gtid_event), `sql/rpl_gtid_set.cc`
(encode).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from binlog_merge.binlog.gtid_set import MAX_GNO, TAG_PATTERN, GtidSet, Intervals, format_sid
from binlog_merge.binlog.wire import (
    Buffer,
    Reader,
    pack_packed,
    pack_signed_varlen,
    pack_uint,
    pack_varlen,
    read_signed_varlen,
    read_varlen,
)

__all__ = ["FLAG_MAY_HAVE_SBR", "Gtid", "GtidSet", "GtidTagged", "Intervals", "format_sid"]

FLAG_MAY_HAVE_SBR: Final = 1
LOGICAL_TIMESTAMP_TYPECODE: Final = 2
_ORIGINAL_TIMESTAMP: Final = 1 << 55
_ORIGINAL_VERSION: Final = 1 << 31


@dataclass(frozen=True, slots=True)
class Gtid:
    """GTID_LOG_EVENT or ANONYMOUS_GTID_LOG_EVENT (sid zero, gno 0); timestamps are microseconds since 1970.

    Parts that an older or shorter body lacks are None. If the event omits the original timestamp or version because it
    equals the immediate one, it is filled in; `full_*`: it is equal, but was written nevertheless.
    """

    flags: int
    sid: bytes
    gno: int
    last_committed: int | None = None
    sequence_number: int | None = None
    immediate_commit_timestamp: int | None = None
    original_commit_timestamp: int | None = None
    transaction_length: int | None = None
    immediate_server_version: int | None = None
    original_server_version: int | None = None
    commit_group_ticket: int | None = None
    full_timestamps: bool = False
    full_versions: bool = False
    tail: bytes = b""

    @property
    def text(self) -> str:
        """Return `uuid:gno`, or `ANONYMOUS`."""
        return f"{format_sid(self.sid)}:{self.gno}" if self.gno else "ANONYMOUS"

    @property
    def tag(self) -> str:
        return ""

    @classmethod
    def parse(cls, body: Buffer) -> Self:
        """Parse the body of an event 33 or 34. Unknown bytes at the end are kept in `tail`."""
        r = Reader(body, "GTID event")
        flags, sid, gno = r.u8("flags"), bytes(r.take(16, "sid")), r.i64("gno")
        if not 0 <= gno < MAX_GNO:
            raise r.fail(f"gno {gno}")
        values: dict[str, int | bool] = {}
        if not r.left() or r.data[r.pos] != LOGICAL_TIMESTAMP_TYPECODE:
            return cls(flags, sid, gno, tail=r.rest())
        r.u8("logical timestamp type")
        values["last_committed"] = r.u64("last_committed")
        values["sequence_number"] = r.u64("sequence_number")
        if r.left() >= 7:
            _read_timestamps(r, values)
            if r.left():
                values["transaction_length"] = r.packed("transaction_length")
            if r.left() >= 4:
                _read_versions(r, values)
                if r.left() >= 8:
                    values["commit_group_ticket"] = r.u64("commit group ticket")
        return cls(flags, sid, gno, **values, tail=r.rest())  # type: ignore[arg-type]

    def pack(self) -> bytes:
        """Return the body."""
        parts = [pack_uint(self.flags, 1), self.sid, self.gno.to_bytes(8, "little", signed=True)]
        if self.last_committed is not None and self.sequence_number is not None:
            parts += (
                bytes([LOGICAL_TIMESTAMP_TYPECODE]),
                pack_uint(self.last_committed, 8),
                pack_uint(self.sequence_number, 8),
            )
        if self.immediate_commit_timestamp is not None:
            parts.append(
                _pack_pair(
                    self.immediate_commit_timestamp,
                    self.original_commit_timestamp,
                    7,
                    _ORIGINAL_TIMESTAMP,
                    self.full_timestamps,
                )
            )
        if self.transaction_length is not None:
            parts.append(pack_packed(self.transaction_length))
        if self.immediate_server_version is not None:
            parts.append(
                _pack_pair(
                    self.immediate_server_version,
                    self.original_server_version,
                    4,
                    _ORIGINAL_VERSION,
                    self.full_versions,
                )
            )
        if self.commit_group_ticket is not None:
            parts.append(pack_uint(self.commit_group_ticket, 8))
        return b"".join((*parts, self.tail))


def _read_timestamps(r: Reader, values: dict[str, int | bool]) -> None:
    immediate = original = r.uint(7, "immediate_commit_timestamp")
    if immediate & _ORIGINAL_TIMESTAMP:
        immediate ^= _ORIGINAL_TIMESTAMP
        original = r.uint(7, "original_commit_timestamp")
        values["full_timestamps"] = original == immediate
    values["immediate_commit_timestamp"], values["original_commit_timestamp"] = immediate, original


def _read_versions(r: Reader, values: dict[str, int | bool]) -> None:
    immediate = original = r.u32("immediate_server_version")
    if immediate & _ORIGINAL_VERSION:
        immediate ^= _ORIGINAL_VERSION
        original = r.u32("original_server_version")
        values["full_versions"] = original == immediate
    values["immediate_server_version"], values["original_server_version"] = immediate, original


def _pack_pair(immediate: int, original: int | None, size: int, flag: int, full: bool) -> bytes:
    if original is None or (original == immediate and not full):
        return pack_uint(immediate, size)
    return pack_uint(immediate | flag, size) + pack_uint(original, size)


# Field ids of GTID_TAGGED_LOG_EVENT, in the order of Gtid_event::define_fields.
_FLAGS, _UUID, _GNO, _TAG, _LAST_COMMITTED, _SEQUENCE, _IMMEDIATE_TS, _ORIGINAL_TS = range(8)
_LENGTH, _IMMEDIATE_VERSION, _ORIGINAL_VERSION_FIELD, _TICKET = range(8, 12)


@dataclass(frozen=True, slots=True)
class GtidTagged:
    """GTID_TAGGED_LOG_EVENT (since 8.3). Attributes as in `Gtid`; the original ones and the ticket are optional."""

    flags: int
    sid: bytes
    gno: int
    tag: str
    last_committed: int
    sequence_number: int
    immediate_commit_timestamp: int
    original_commit_timestamp: int
    transaction_length: int
    immediate_server_version: int
    original_server_version: int
    commit_group_ticket: int | None = None
    full_timestamps: bool = False
    full_versions: bool = False
    version: int = 1
    last_non_ignorable: int = 0
    unknown: bytes = b""

    @property
    def text(self) -> str:
        """Return `uuid:tag:gno`."""
        return f"{format_sid(self.sid)}:{self.tag}:{self.gno}"

    @classmethod
    def parse(cls, body: Buffer) -> Self:
        """Parse the body of an event 42; fields of newer servers are kept in `unknown` if they may be ignored."""
        r = Reader(body, "tagged GTID event")
        version = read_varlen(r, "serialization version")
        if version != 1:
            raise r.fail(f"serialization version {version} is not known")
        size = read_varlen(r, "message size")
        if size != len(r.data):
            raise r.fail(f"message size {size} is not that of the body")
        last_non_ignorable = read_varlen(r, "last non-ignorable field")
        found: dict[int, int | bytes] = {}
        unknown = b""
        last = -1
        while r.left():
            start = r.pos
            kind = read_varlen(r, "field id")
            if kind <= last:
                raise r.fail(f"field {kind} follows field {last}")
            if kind > _TICKET:
                if last_non_ignorable > _TICKET:
                    raise r.fail(f"field {kind} is not known and must not be ignored")
                r.pos = start
                unknown = r.rest()
                break
            found[kind] = _read_field(r, kind)
            last = kind
        return cls._of(found, r, last_non_ignorable, unknown)

    @classmethod
    def _of(cls, found: Mapping[int, int | bytes], r: Reader, last_non_ignorable: int, unknown: bytes) -> Self:
        def number(kind: int) -> int:
            value = found.get(kind)
            if not isinstance(value, int):
                raise r.fail(f"field {kind} is missing")
            return value

        sid, tag = found.get(_UUID), found.get(_TAG)
        if not isinstance(sid, bytes) or not isinstance(tag, bytes):
            raise r.fail("the uuid or the tag is missing")
        text = tag.decode("latin-1")
        if text and not TAG_PATTERN.fullmatch(text):
            raise r.fail(f"tag {text!r} cannot be")
        immediate, version = number(_IMMEDIATE_TS), number(_IMMEDIATE_VERSION)
        original = found.get(_ORIGINAL_TS, immediate)
        original_version = found.get(_ORIGINAL_VERSION_FIELD, version)
        ticket = found.get(_TICKET)
        return cls(
            flags=number(_FLAGS),
            sid=sid,
            gno=number(_GNO),
            tag=text,
            last_committed=number(_LAST_COMMITTED),
            sequence_number=number(_SEQUENCE),
            immediate_commit_timestamp=immediate,
            original_commit_timestamp=int(original),
            transaction_length=number(_LENGTH),
            immediate_server_version=version,
            original_server_version=int(original_version),
            commit_group_ticket=None if ticket is None else int(ticket),
            full_timestamps=_ORIGINAL_TS in found and original == immediate,
            full_versions=_ORIGINAL_VERSION_FIELD in found and original_version == version,
            last_non_ignorable=last_non_ignorable,
            unknown=unknown,
        )

    def pack(self) -> bytes:
        """Return the body."""
        fields: list[bytes] = []

        def put(kind: int, value: bytes) -> None:
            fields.append(pack_varlen(kind) + value)

        put(_FLAGS, pack_varlen(self.flags))
        put(_UUID, b"".join(map(pack_varlen, self.sid)))
        put(_GNO, pack_signed_varlen(self.gno))
        put(_TAG, pack_varlen(len(self.tag)) + self.tag.encode("latin-1"))
        put(_LAST_COMMITTED, pack_signed_varlen(self.last_committed))
        put(_SEQUENCE, pack_signed_varlen(self.sequence_number))
        put(_IMMEDIATE_TS, pack_varlen(self.immediate_commit_timestamp))
        if self.full_timestamps or self.original_commit_timestamp != self.immediate_commit_timestamp:
            put(_ORIGINAL_TS, pack_varlen(self.original_commit_timestamp))
        put(_LENGTH, pack_varlen(self.transaction_length))
        put(_IMMEDIATE_VERSION, pack_varlen(self.immediate_server_version))
        if self.full_versions or self.original_server_version != self.immediate_server_version:
            put(_ORIGINAL_VERSION_FIELD, pack_varlen(self.original_server_version))
        if self.commit_group_ticket is not None:
            put(_TICKET, pack_varlen(self.commit_group_ticket))
        payload = pack_varlen(self.last_non_ignorable) + b"".join(fields) + self.unknown
        version = pack_varlen(self.version)
        # The size counts itself: try the shortest length of it that fits.
        size = next(n for n in range(1, 10) if len(pack_varlen(len(version) + n + len(payload))) == n)
        return version + pack_varlen(len(version) + size + len(payload)) + payload


def _read_field(r: Reader, kind: int) -> int | bytes:
    if kind == _UUID:
        # An array of 16 one-byte integers, each a varlen.
        raw = [read_varlen(r, "uuid") for _ in range(16)]
        if max(raw) > 255:
            raise r.fail("a byte of the uuid is no byte")
        return bytes(raw)
    if kind == _TAG:
        return bytes(r.take(read_varlen(r, "tag length"), "tag"))
    if kind in (_GNO, _LAST_COMMITTED, _SEQUENCE):
        return read_signed_varlen(r, f"field {kind}")
    return read_varlen(r, f"field {kind}")
