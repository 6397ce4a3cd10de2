"""Bodies of events without rows: parse and pack, the carriers of PolarDB-X, GTIDs, statements."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binlog_merge.binlog import mariadb
from binlog_merge.binlog.constants import EventType
from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.events import PARSE, EventHeader, Query, RawEvent, StatusVar, parse_event
from binlog_merge.binlog.gtid import Gtid, GtidSet, GtidTagged, format_sid

UUID = "19bee736-e54d-11f1-82f7-02fc00000001"
SID = bytes.fromhex(UUID.replace("-", ""))


def parsed(type_code: int, body: bytes) -> Any:
    value = parse_event(RawEvent(EventHeader(0, type_code, 1, 19 + len(body), 0, 0), body, 100))
    assert value.pack() == body
    return value


def test_polardbx_carriers() -> None:
    sequence = parsed(80, b"\x02" + (7044841246845567040).to_bytes(8, "little"))
    assert (sequence.kind, sequence.tso) == (2, 7044841246845567040)
    assert not parsed(105, b"\x01" + bytes(8)).is_commit
    commit = parsed(105, b"\x05" + (99).to_bytes(8, "little"))
    assert commit.is_commit
    assert commit.tso == 99


def test_polardbx_status_variables() -> None:
    raw = b"\0\x01\x02\x03\x04" + b"\xc8" + (77).to_bytes(8, "little") + b"\xc9" + (76).to_bytes(8, "little")
    query = Query(1, 0, 0, b"db", b"XA COMMIT X'61',X'',1", raw)
    again = parsed(EventType.QUERY_EVENT, query.pack())
    assert again == query
    assert again.status_vars == {
        StatusVar.Q_FLAGS2_CODE: 0x04030201,
        StatusVar.Q_LIZARD_COMMIT_GCN: 77,
        StatusVar.Q_LIZARD_PREPARE_GCN: 76,
    }


STATUS: list[tuple[StatusVar, bytes, Any]] = [
    (StatusVar.Q_FLAGS2_CODE, b"\1\0\0\0", 1),
    (StatusVar.Q_SQL_MODE_CODE, b"\1\0\0\0\0\0\0\x80", 1 | 1 << 63),
    (StatusVar.Q_CATALOG_CODE, b"\3std\0", b"std"),
    (StatusVar.Q_AUTO_INCREMENT, b"\2\0\1\0", (2, 1)),
    (StatusVar.Q_CHARSET_CODE, b"\x2d\0\x2d\0\xff\0", (45, 45, 255)),
    (StatusVar.Q_TIME_ZONE_CODE, b"\6SYSTEM", b"SYSTEM"),
    (StatusVar.Q_CATALOG_NZ_CODE, b"\3std", b"std"),
    (StatusVar.Q_LC_TIME_NAMES_CODE, b"\5\0", 5),
    (StatusVar.Q_CHARSET_DATABASE_CODE, b"\xff\0", 255),
    (StatusVar.Q_TABLE_MAP_FOR_UPDATE_CODE, b"\1" + bytes(7), 1),
    (StatusVar.Q_MASTER_DATA_WRITTEN_CODE, b"\1\0\0\0", 1),
    (StatusVar.Q_INVOKER, b"\4root\1%", (b"root", b"%")),
    (StatusVar.Q_UPDATED_DB_NAMES, b"\2a\0bb\0", (b"a", b"bb")),
    (StatusVar.Q_UPDATED_DB_NAMES, b"\xfe", None),
    (StatusVar.Q_MICROSECONDS, b"\1\2\3", 0x030201),
    (StatusVar.Q_COMMIT_TS, bytes(8), 0),
    (StatusVar.Q_COMMIT_TS2, bytes(16), (0, 0)),
    (StatusVar.Q_EXPLICIT_DEFAULTS_FOR_TIMESTAMP, b"\1", 1),
    (StatusVar.Q_DDL_LOGGED_WITH_XID, b"\7" + bytes(7), 7),
    (StatusVar.Q_DEFAULT_COLLATION_FOR_UTF8MB4, b"\xff\0", 255),
    (StatusVar.Q_SQL_REQUIRE_PRIMARY_KEY, b"\1", 1),
    (StatusVar.Q_DEFAULT_TABLE_ENCRYPTION, b"\0", 0),
    (StatusVar.Q_ENABLE_CASCADE_TRIGGERS, b"\1", 1),
    (StatusVar.Q_HRNOW, b"\1\0\0", 1),
    (StatusVar.Q_XID, b"\1" + bytes(7), 1),
    (StatusVar.Q_LIZARD_COMMIT_GCN, b"\1" + bytes(7), 1),
    (StatusVar.Q_LIZARD_PREPARE_GCN, b"\1" + bytes(7), 1),
]


def test_every_status_variable_has_a_case() -> None:
    assert {code for code, _, _ in STATUS} == set(StatusVar)


@pytest.mark.parametrize(("code", "raw", "value"), STATUS)
def test_status_variables(code: StatusVar, raw: bytes, value: Any) -> None:
    status = bytes([code]) + raw
    query = parsed(EventType.QUERY_EVENT, Query(9, 1, 0, b"s", b"select 1", status + b"\x7f??").pack())
    assert query.status_vars == {code: value}
    assert query.status_unknown == b"\x7f??"
    with pytest.raises(BinlogFormatError):
        parsed(
            EventType.QUERY_EVENT, Query(9, 1, 0, b"s", b"select 1", status[:-1] if len(raw) > 1 else status[:1]).pack()
        )


def test_a_statement_that_is_not_utf8_survives() -> None:
    query = parsed(EventType.QUERY_EVENT, Query(1, 0, 0, b"\xd6\xd0", b"create table \xce\xc4(a int)").pack())
    assert query.text.encode("utf-8", "surrogateescape") == query.query
    assert query.schema_text == "\udcd6\udcd0"


def test_rare_events() -> None:
    assert parsed(EventType.ROTATE_EVENT, b"\4" + bytes(7) + b"binlog.000002").next_file == b"binlog.000002"
    prepare = parsed(EventType.XA_PREPARE_LOG_EVENT, b"\1\7\0\0\0\2\0\0\0\1\0\0\0g1b")
    assert (prepare.one_phase, prepare.format_id, prepare.gtrid, prepare.bqual) == (True, 7, b"g1", b"b")
    assert parsed(EventType.HEARTBEAT_LOG_EVENT, b"binlog.000007").file == b"binlog.000007"
    beat = parsed(EventType.HEARTBEAT_LOG_EVENT_V2, b"\1\3b.1\2\3\xfc\xff\x01\0")
    assert (beat.file, beat.position) == (b"b.1", 511)
    assert parsed(EventType.INCIDENT_EVENT, b"\1\0\3bad").message == b"bad"
    assert parsed(EventType.INTVAR_EVENT, b"\2\5" + bytes(7)).value == 5
    assert parsed(EventType.RAND_EVENT, b"\1" + bytes(7) + b"\2" + bytes(7)).seed2 == 2
    assert parsed(EventType.USER_VAR_EVENT, b"\1\0\0\0u\1").name == b"u"
    assert parsed(EventType.STOP_EVENT, b"").pack() == b""
    long = b"x" * 300
    assert parsed(EventType.ROWS_QUERY_LOG_EVENT, b"\xff" + long).query == long
    assert parsed(EventType.ROWS_QUERY_LOG_EVENT, b"\x07abc").query == b"abc"


@pytest.mark.parametrize("type_code", sorted(PARSE))
@given(body=st.binary(max_size=80))
@settings(max_examples=25, deadline=None)
def test_any_bytes_are_an_event_or_an_error(type_code: int, body: bytes) -> None:
    try:
        value = parse_event(RawEvent(EventHeader(0, type_code, 1, 19 + len(body), 0, 0), body, 100))
    except BinlogFormatError as error:
        assert error.offset == 100
    else:
        if type(value).__module__ == mariadb.__name__:
            assert not hasattr(value, "pack"), "MariaDB's own events are only read"
        else:
            assert value.pack() == body


# --- GTIDs


FULL = Gtid(1, SID, 7, 3, 4, 1795225477764686, 1795225477764680, 300, 90704, 80036, 5)


@pytest.mark.parametrize(
    "gtid",
    [
        FULL,
        Gtid(0, SID, 1),
        Gtid(0, bytes(16), 0, 0, 1),
        Gtid(0, SID, 1, 0, 1, 5, 5),
        Gtid(0, SID, 1, 0, 1, 5, 6),
        Gtid(0, SID, 1, 0, 1, 5, 5, 250),
        Gtid(0, SID, 1, 0, 1, 5, 5, 1 << 40, 90704, 90704),
        Gtid(0, SID, 1, 0, 1, 5, 5, 1, 90704, 90704, full_timestamps=True, full_versions=True),
        Gtid(0, SID, 1, tail=b"\x01old lines"),
    ],
)
def test_gtid_events_long_and_short(gtid: Gtid) -> None:
    assert parsed(EventType.GTID_LOG_EVENT, gtid.pack()) == gtid


def test_the_text_of_a_gtid() -> None:
    assert FULL.text == f"{UUID}:7"
    assert Gtid(0, bytes(16), 0).text == "ANONYMOUS"
    assert format_sid(SID) == UUID


@given(st.integers(0, (1 << 55) - 1), st.integers(0, (1 << 55) - 1), st.integers(0, (1 << 64) - 1))
def test_gtid_timestamps_and_lengths(immediate: int, original: int, length: int) -> None:
    gtid = Gtid(0, SID, 1, 0, 1, immediate, original, length, 90704, 50744)
    assert Gtid.parse(gtid.pack()) == gtid


def test_the_tagged_event_of_a_real_server() -> None:
    """MySQL 9.7.4: SET gtid_next='AUTOMATIC:tso_7507804160322961408'."""
    body = bytes.fromhex(
        "02980000020232f9029d036c95039a22c5030902dd0304f103000000020404062e74736f5f37353037383034313630333232393631343038"
        "084c0a500c7f2e2e0a81bf60061091031283120b"
    )
    gtid = parsed(EventType.GTID_TAGGED_LOG_EVENT, body)
    assert gtid.text == f"{UUID}:tso_7507804160322961408:1"
    assert (gtid.last_committed, gtid.sequence_number, gtid.transaction_length) == (19, 20, 228)
    assert gtid.immediate_commit_timestamp == gtid.original_commit_timestamp == 1795225480212014
    assert gtid.immediate_server_version == 90704


@given(
    st.binary(min_size=16, max_size=16),
    st.integers(1, (1 << 63) - 2),
    st.from_regex(r"[a-z_][a-z0-9_]{0,31}", fullmatch=True),
    st.integers(0, (1 << 55) - 1),
    st.integers(0, (1 << 55) - 1),
    st.none() | st.integers(1, (1 << 64) - 1),
)
def test_tagged_gtids_go_there_and_back(
    sid: bytes, gno: int, tag: str, immediate: int, original: int, ticket: int | None
) -> None:
    gtid = GtidTagged(1, sid, gno, tag, -1, 2, immediate, original, 1 << 33, 90704, 80300, ticket)
    assert GtidTagged.parse(gtid.pack()) == gtid


def test_fields_of_newer_servers() -> None:
    gtid = GtidTagged(0, SID, 1, "t", 0, 1, 5, 5, 100, 90704, 90704)
    newer = GtidTagged(0, SID, 1, "t", 0, 1, 5, 5, 100, 90704, 90704, unknown=b"\x18\x04")  # field 12
    assert GtidTagged.parse(newer.pack()) == newer != gtid
    binding = GtidTagged(0, SID, 1, "t", 0, 1, 5, 5, 100, 90704, 90704, unknown=b"\x18\x04", last_non_ignorable=13)
    with pytest.raises(BinlogFormatError, match="must not be ignored"):
        GtidTagged.parse(binding.pack())


# --- GTID sets


@pytest.mark.parametrize(
    ("text", "packed"),
    [
        ("", "0000000000000000"),
        (
            f"{UUID}:1-5",
            "0100000000000000" + SID.hex() + "0100000000000000" + "0100000000000000" + "0600000000000000",
        ),
        (
            f"{UUID}:1-49:tag_a:1",
            "0102000000000001"
            + (SID.hex() + "00" + "0100000000000000" + "0100000000000000" + "3200000000000000")
            + (SID.hex() + "0a7461675f61" + "0100000000000000" + "0100000000000000" + "0200000000000000"),
        ),
    ],
)
def test_gtid_sets(text: str, packed: str) -> None:
    gtids = GtidSet.parse_text(text)
    assert gtids.pack().hex() == packed
    assert GtidSet.parse(bytes.fromhex(packed)) == gtids
    assert str(gtids) == text


def test_gtid_sets_are_merged_and_sorted() -> None:
    other = "00000000-0000-0000-0000-000000000001"
    gtids = GtidSet.parse_text(f"{UUID.upper()}:7:1-3:4,\n {other}:9-9, {UUID}:TAG:2")
    assert str(gtids) == f"{other}:9,{UUID}:1-4:7:tag:2"
    assert (SID, "", 4) in gtids
    assert (SID, "", 5) not in gtids
    assert (SID, "tag", 2) in gtids
    assert str(gtids.add(SID, 5).add(SID, 6)) == f"{other}:9,{UUID}:1-7:tag:2"
    assert gtids.add(SID, 5).contains_set(gtids)
    assert not gtids.contains_set(gtids.add(SID, 5))
    assert not GtidSet()


@pytest.mark.parametrize(
    "text", ["x:1", UUID, f"{UUID}:0", f"{UUID}:5-3", f"{UUID}:a b!", f"{UUID}:1-99999999999999999999"]
)
def test_bad_gtid_sets(text: str) -> None:
    with pytest.raises(BinlogFormatError):
        GtidSet.parse_text(text)


@pytest.mark.parametrize(
    "packed",
    [
        "",
        "01",
        "0100000000000000",
        "ffffffffffffff00",
        "0102000000000002",
        "0002000000000001",
        "0100000000000000" + "00" * 16 + "ff" * 8,
    ],
)
def test_bad_packed_gtid_sets(packed: str) -> None:
    with pytest.raises(BinlogFormatError):
        GtidSet.parse(bytes.fromhex(packed))


@given(
    st.lists(
        st.tuples(st.sampled_from([SID, bytes(16)]), st.sampled_from(["", "t"]), st.integers(1, 60), st.integers(1, 9))
    )
)
def test_gtid_sets_go_there_and_back(items: list[tuple[bytes, str, int, int]]) -> None:
    gtids = GtidSet.of((sid, tag, start, start + size) for sid, tag, start, size in items)
    assert GtidSet.parse(gtids.pack()) == gtids == GtidSet.parse_text(str(gtids))
    members = {(sid, tag, gno) for sid, tag, start, size in items for gno in range(start, start + size)}
    assert all(member in gtids for member in members)
    assert sum(end - start for _, _, start, end in gtids.items()) == len(members)
