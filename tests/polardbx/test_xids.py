"""PolarDB-X's transaction ids: the grammar, and that the kernel reads it as the plain reader does."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_merge.binlog.kernels import scan_layout as k
from binlog_merge.binlog.kernels import xid as kernel
from tests.polardbx.xids import NORMAL_FORMAT, PREFIX, Xid, XidKind, parse_xid

KINDS = {
    XidKind.NORMAL: k.NORMAL_XID,
    XidKind.FOREIGN: k.FOREIGN_XID,
    XidKind.ARCHIVE: k.ARCHIVE_XID,
    XidKind.IGNORED: k.IGNORED_XID,
    XidKind.STRANGE: k.STRANGE_XID,
}


MAX_GROUP = 59


def make_xid(
    transaction_id: int, primary: int, group: str, read_view: int | None = None, format_id: int = NORMAL_FORMAT
) -> Xid:
    """Return the id of a branch. `primary` is the primary group's unique id; a long group is hashed."""
    name = group if len(group.encode()) <= MAX_GROUP else f"{fnv1a_64(group.encode()):x}"
    suffix = "" if read_view is None else f"@{read_view:04d}"
    return Xid(PREFIX + f"{transaction_id:x}@{primary:x}".encode(), f"{name}{suffix}".encode(), format_id)


def fnv1a_64(data: bytes) -> int:
    """Return the 64-bit FNV-1a hash (draft-eastlake-fnv)."""
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return value


def _registers(text: str) -> dict[str, int] | None:
    """Return what the kernel reads from an id, None where it refuses it."""
    registers: Any = np.zeros(k.REGISTERS, np.int64)
    data = np.frombuffer(text.encode(), np.uint8).copy()
    if not kernel.parse_xid(data, 0, len(data), registers):
        return None
    names = ("XID_1", "XID_2", "GTRID_1", "GTRID_2", "TRANSACTION_ID", "XID_KIND")
    return {name: int(registers[getattr(k, name)]) for name in names}


def test_an_id_as_a_data_node_writes_it() -> None:
    gtrid, bqual = b"drds-16248b5ded001000@e394da2fea20da21", b"DRDS_POLARX1_QATEST_APP_SINGLE_GROUP@0014"
    xid = parse_xid(f"X'{gtrid.hex()}',X'{bqual.hex()}',1")
    assert xid == make_xid(0x16248B5DED001000, 0xE394DA2FEA20DA21, "DRDS_POLARX1_QATEST_APP_SINGLE_GROUP", 14)
    assert (xid.transaction_id, xid.group, xid.read_view, xid.kind) == (
        1595553403520421888, "DRDS_POLARX1_QATEST_APP_SINGLE_GROUP", 14, XidKind.NORMAL,
    )  # fmt: skip
    assert parse_xid(xid.text()) == xid


def test_a_group_without_a_read_view() -> None:
    assert make_xid(7, 1, "D1_000000_GROUP") == Xid(b"drds-7@1", b"D1_000000_GROUP", 1)
    assert make_xid(7, 1, "D1_000000_GROUP").read_view is None
    # Not a number behind the sign: it belongs to the name.
    assert (Xid(b"drds-7@1", b"A@B", 1).group, Xid(b"drds-7@1", b"A@B", 1).read_view) == ("A@B", None)


def test_a_long_group_is_hashed() -> None:
    group = "G" * 60
    xid = make_xid(7, 1, group, 3)
    assert xid.group == f"{fnv1a_64(group.encode()):x}"
    assert len(xid.bqual) <= 64 and xid.read_view == 3
    assert make_xid(7, 1, "G" * 59, 3).bqual == b"G" * 59 + b"@0003"
    assert fnv1a_64(b"") == 0xCBF29CE484222325 and fnv1a_64(b"foobar") == 0x85944171F73967E8


@pytest.mark.parametrize(
    ("gtrid", "bqual", "format_id", "kind"),
    [
        (b"drds-7@1", b"D1_GROUP", 1, XidKind.NORMAL),
        (b"drds-7@1", b"D1_GROUP", 2, XidKind.IGNORED),
        (b"drds-7@1", b"D1_GROUP", 3, XidKind.ARCHIVE),
        (b"drds-7@1", b"D1_GROUP", 4, XidKind.IGNORED),
        (b"drds-7@1", b"D1_GROUP", 5, XidKind.STRANGE),
        (b"drds-7@1", b"D1_GROUP", 0, XidKind.STRANGE),
        (b"POLARDB-X-RECOVER-TASK@1a2b", b"D1_GROUP", 2, XidKind.IGNORED),
        (b"POLARDB-X-RECOVER-TASK@1a2b", b"", 1, XidKind.IGNORED),
        (b"POLARDB-X-RECOVER-TAS", b"", 2, XidKind.FOREIGN),
        (b"drds-7@1", b"__CDC___SINGLE_GROUP", 1, XidKind.IGNORED),
        (b"drds-7@1", b"__CDC___SINGLE_GROUP@0002", 1, XidKind.IGNORED),
        (b"drds-7@1", b"__CDC___SINGLE_GROUP", 3, XidKind.IGNORED),
        (b"drds-7@1", b"__CDC___SINGLE_GROUPS", 1, XidKind.NORMAL),
        (b"drds-7@1", b"__CDC___000000_GROUP", 1, XidKind.NORMAL),
        (b"drds-", b"__CDC___SINGLE_GROUP", 4, XidKind.FOREIGN),
        (b"coordinator-9", b"branch", 4, XidKind.FOREIGN),
        (b"", b"", 99999999999, XidKind.FOREIGN),
    ],
)
def test_what_an_id_says_of_its_transaction(gtrid: bytes, bqual: bytes, format_id: int, kind: XidKind) -> None:
    xid = Xid(gtrid, bqual, format_id)
    assert xid.kind is kind
    registers = _registers(xid.text())
    assert registers is not None and registers["XID_KIND"] == KINDS[kind]


_gtrids = st.one_of(
    st.binary(max_size=64),
    st.builds(lambda i, u: f"drds-{i:x}@{u:x}".encode(), st.integers(0, 2**63 - 1), st.integers(0, 2**64 - 1)),
    st.sampled_from([b"drds-", b"drds-@1", b"drds-xyz", b"POLARDB-X-RECOVER-TASK@", b"POLARDB-X-RECOVER-TASK@7"]),
)
_bquals = st.one_of(st.binary(max_size=64), st.sampled_from([b"__CDC___SINGLE_GROUP", b"__CDC___SINGLE_GROUP@0001"]))
_xids = st.builds(Xid, _gtrids, _bquals, st.integers(0, 2**31 - 1) | st.integers(0, 5))


@given(_xids)
def test_the_kernel_reads_what_the_plain_reader_reads(xid: Xid) -> None:
    assert parse_xid(xid.text()) == xid
    registers = _registers(xid.text())
    assert registers is not None
    assert registers["XID_KIND"] == KINDS[xid.kind]
    if xid.gtrid.startswith(b"drds-") and xid.gtrid != b"drds-":
        assert registers["TRANSACTION_ID"] == (xid.transaction_id or 0)


@given(_xids, _xids)
def test_two_ids_are_never_taken_for_one(a: Xid, b: Xid) -> None:
    first, second = _registers(a.text()), _registers(b.text())
    assert first is not None and second is not None
    same = (first["XID_1"], first["XID_2"]) == (second["XID_1"], second["XID_2"])
    assert same == (a == b)
    same_gtrid = (first["GTRID_1"], first["GTRID_2"]) == (second["GTRID_1"], second["GTRID_2"])
    assert same_gtrid == (a.gtrid == b.gtrid)


@pytest.mark.parametrize("text", ["", "X'00'", "X'0',X'00',1", "X'00',X'00'", "X'00',X'00',x", "'a','b',1"])
def test_what_is_no_id(text: str) -> None:
    with pytest.raises(ValueError, match="XA transaction id"):
        parse_xid(text)
    assert text == "X'00',X'00'" or _registers(text) is None
