"""The oracle's parts on hand-made bytes: order, watermarks, partial images, file cuts, and what must be refused."""

import struct
import zlib
from dataclasses import replace
from pathlib import Path

import pytest

from tests.oracle import OracleError, OracleResult, merge_case
from tests.oracle.binlog import Event, parse_gtid, read_file
from tests.oracle.ddl import Catalog, apply, parse_dump, tokenize
from tests.oracle.merge import POST_HEADER_LENGTHS
from tests.oracle.order import transaction_id
from tests.oracle.reshape import ABSENT, Reshape, parse_table_map

TSO = (1_790_000_000_000 << 22) + 1
CLUSTER = """
version: 1
name: small
nodes: [{{source-id: a, files: a.*}}, {{source-id: b, files: b.*}}]
routes: [{{schema-pattern: "s_*", table-pattern: "t_*", target-schema: s, target-table: t}}]
base: {{logical: logical.sql}}
commit-tso: {{carrier: original-commit-timestamp}}
output: {{server-id: 7, max-size: {max_size}}}
"""


class Log:
    """Writes one binlog file, event by event."""

    def __init__(self) -> None:
        self.data = b"\xfebin"
        self.event(15, struct.pack("<H50sIB", 4, b"8.0.36", 0, 19) + POST_HEADER_LENGTHS + b"\1")

    def event(self, kind: int, body: bytes) -> None:
        size = 23 + len(body)
        raw = struct.pack("<IBIIIH", 1_790_000_000, kind, 1, size, len(self.data) + size, 0) + body
        self.data += raw + struct.pack("<I", zlib.crc32(raw))

    def query(self, text: str) -> None:
        self.event(2, struct.pack("<IIBHH", 1, 0, 0, 0, 0) + b"\0" + text.encode())

    def rows(self, number: int, table: str = "t_0", schema: str = "s_0", flags: int = 1) -> None:
        names = bytes([len(schema)]) + schema.encode() + b"\0" + bytes([len(table)]) + table.encode() + b"\0"
        table_id = (zlib.crc32(names) & 0xFFFF).to_bytes(6, "little")
        self.event(19, table_id + b"\1\0" + names + b"\1\x03\0\1")
        self.event(30, table_id + struct.pack("<HH", flags, 2) + b"\1\xff\0" + struct.pack("<i", number))

    def local(self, number: int, table: str = "t_0") -> None:
        self.query("BEGIN")
        self.rows(number, table)
        self.event(16, bytes(8))

    def prepare(self, name: str, number: int) -> None:
        self.query(f"XA START X'{name}',X'',1")
        self.rows(number)
        self.query(f"XA END X'{name}',X'',1")
        self.event(38, b"\0")

    def commit(self, name: str, tso: int) -> None:
        times = (1_790_000_000_000_000 | 1 << 55).to_bytes(7, "little") + (tso >> 9).to_bytes(7, "little")
        self.event(34, bytes(25) + b"\2" + bytes(16) + times)
        self.query(f"XA COMMIT X'{name}',X'',1")


def merge(folder: Path, a: Log, b: Log, end_of_input: bool = True, max_size: int = 1 << 20) -> OracleResult:
    (folder / "logical.sql").write_text("CREATE DATABASE s; USE s; CREATE TABLE t (id int)")
    (folder / "cluster.yaml").write_text(CLUSTER.format(max_size=max_size))
    (folder / "a.000001").write_bytes(a.data)
    (folder / "b.000001").write_bytes(b.data)
    return merge_case(folder / "cluster.yaml", end_of_input)


def numbers(result: OracleResult) -> list[int]:
    return [int.from_bytes(bytes(c.after[0]), "little") for c in result.decoded if isinstance(c.after[0], bytes)]


def key(tso: int, name: str, seq: int, node: int) -> str:
    return f"{tso >> 9 << 9:019d}{transaction_id(bytes.fromhex(name)):019d}{seq:010d}{node:06d}"


def test_commit_order_of_a_node_is_repaired_and_locals_follow_the_greatest(tmp_path: Path) -> None:
    a, b = Log(), Log()
    a.local(1)
    for log in (a, b):
        log.prepare("01", 10)
        log.prepare("02", 20)
    a.commit("02", TSO + 2048)
    a.commit("01", TSO)
    a.local(21)
    b.commit("01", TSO)
    b.local(11)
    b.commit("02", TSO + 2048)
    result = merge(tmp_path, a, b)
    assert numbers(result) == [1, 10, 10, 11, 20, 20, 21]
    assert result.transactions[2][0] == key(TSO, "01", 1, 2)
    assert len(result.transactions) == 5


def test_an_unresolved_prepare_holds_what_may_come_after_it(tmp_path: Path) -> None:
    a, b = Log(), Log()
    a.prepare("01", 10)
    a.commit("01", TSO)
    a.prepare("02", 20)
    a.prepare("04", 40)
    a.commit("04", TSO + 8192)
    b.prepare("03", 30)
    b.commit("03", TSO + 4096)
    held = merge(tmp_path, a, b, end_of_input=False)
    assert numbers(held) == [10]
    assert held.watermark == f"{(TSO >> 9 << 9) + 1:019d}{0:035d}"
    assert (held.held_by, len(held.held), held.in_doubt["a"]) == ("a", 2, [b"\x02"])
    assert numbers(merge(tmp_path, a, b)) == [10, 30, 40]


def test_a_node_without_a_commit_tso_lets_nothing_out(tmp_path: Path) -> None:
    a, b = Log(), Log()
    a.prepare("01", 10)
    a.commit("01", TSO)
    b.local(5)
    held = merge(tmp_path, a, b, end_of_input=False)
    assert (held.watermark, held.files, len(held.held)) == (None, {}, 2)


def test_a_dropped_table_s_statement_end_moves_to_the_last_kept_rows(tmp_path: Path) -> None:
    a, b = Log(), Log()
    a.query("BEGIN")
    a.rows(1, flags=0)
    a.rows(2, schema="mysql")
    a.event(16, bytes(8))
    a.local(3)
    result = merge(tmp_path, a, b)
    (tmp_path / "out").write_bytes(result.files["binlog.000001"])
    flags = [e.body[6] for e in read_file(tmp_path / "out")[1] if e.type == 30]
    assert flags == [1, 1]


def test_a_file_is_full_when_its_input_reaches_max_size(tmp_path: Path) -> None:
    a, b = Log(), Log()
    for number in range(4):
        a.local(number)
        b.local(number, "t_1")
    # Every one of these transactions has the same size in the input.
    one = (len(a.data) - len(Log().data)) // 4
    result = merge(tmp_path, a, b, max_size=2 * one)
    assert list(result.files) == [f"binlog.00000{i}" for i in (1, 2, 3, 4)]
    assert result.index == b"./binlog.000001\n./binlog.000002\n./binlog.000003\n./binlog.000004\n"
    (tmp_path / "second").write_bytes(result.files["binlog.000002"])
    events = read_file(tmp_path / "second")[1]
    assert events[1].body[-16:] == struct.pack("<QQ", 1, 3)
    assert events[-1].body == struct.pack("<Q", 4) + b"binlog.000003"
    assert numbers(merge(tmp_path, a, b, max_size=2 * one - 1)) == [0, 0, 1, 1, 2, 2, 3, 3]


def test_damage_is_refused(tmp_path: Path) -> None:
    a = Log()
    a.local(1)
    for data in (a.data[:-1], a.data[:-30] + b"x" + a.data[-29:]):
        damaged = Log()
        damaged.data = data
        with pytest.raises(OracleError):
            merge(tmp_path, damaged, Log())


def test_a_commit_without_its_prepare_is_refused(tmp_path: Path) -> None:
    a = Log()
    a.commit("01", TSO)
    with pytest.raises(OracleError, match="never prepared"):
        merge(tmp_path, a, Log())


def test_a_distributed_transaction_without_a_tso_is_refused(tmp_path: Path) -> None:
    a, b = Log(), Log()
    for log in (a, b):
        log.prepare("01", 1)
        log.query("XA COMMIT X'01',X'',1")
    with pytest.raises(OracleError, match="several nodes"):
        merge(tmp_path, a, b)


def test_partial_images() -> None:
    # t (a int, gone int, b int), columns named; UPDATE with before = (a), after = (gone, b)
    names = b"\1s\0\1t\0"
    tmap = Event(19, 0, bytes(6) + b"\1\0" + names + b"\3\3\3\3\0\7" + b"\1\1\0\4\x09\1a\4gone\1b", 0, 0)
    physical = parse_dump("USE s; CREATE TABLE t (a int, gone int, b int)").tables["s", "t"]
    logical = parse_dump("USE s; CREATE TABLE t (b int, new int default 9, a int)").tables["s", "t"]
    reshape = Reshape(parse_table_map(tmap), physical, logical, 0)
    one, two, three, nine = (struct.pack("<i", n) for n in (1, 2, 3, 9))
    head = bytes(6) + b"\1\0\2\0"
    update = Event(31, 0, head + b"\3\1\6" + b"\0" + one + b"\0" + two + three, 0, 0)
    body, (change,) = reshape.rows(update, 5, "k", "s.t")
    assert (change.before, change.after) == ((ABSENT, ABSENT, one), (three, ABSENT, ABSENT))
    assert body == b"\5" + head[1:] + b"\3\4\1" + b"\0" + one + b"\0" + three
    insert = Event(30, 0, head + b"\3\4" + b"\1", 0, 0)
    assert reshape.rows(insert, 5, "k", "s.t")[1][0].after == (None, nine, ABSENT)
    with pytest.raises(OracleError, match="lacks"):
        reshape.rows(Event(32, 0, head + b"\3\2" + b"\0" + one, 0, 0), 5, "k", "s.t")


def test_tagged_gtid_event() -> None:
    # A real one: XA COMMIT under gtid_next=AUTOMATIC:tso_…, MySQL 9.7.4, 2026-11-21 01:44:40.212014 UTC
    body = bytes.fromhex(
        "02980000020232f9029d036c95039a22c5030902dd0304f103000000020404062e74736f5f37353037383034313630333232393631343038"
        "084c0a500c7f2e2e0a81bf60061091031283120b"
    )
    gtid = parse_gtid(Event(42, 0, body, 0, 0))
    assert (gtid.gno, gtid.immediate_us, gtid.original_us) == (1, 1_795_225_480_212_014, None)


def test_transaction_ids() -> None:
    assert transaction_id(b"drds-16248b5ded001000@e394da2fea20da21") == 0x16248B5DED001000
    assert transaction_id(b"") == 0xCBF29CE484222325 & (2**63 - 1)


def test_text_with_a_length() -> None:
    tables = parse_dump(
        "USE d; CREATE TABLE t (a text(63), b text(64), c blob(70000), d text(255) charset latin1)"
    ).tables
    assert [c.type for c in tables["d", "t"].columns] == ["tinytext", "text", "mediumblob", "tinytext"]


def test_alter_table() -> None:
    catalog = parse_dump(
        "CREATE DATABASE `d` /*!40100 DEFAULT CHARACTER SET latin1 */; USE `d`; /*!50503 SET x = 1 */;"
        "CREATE TABLE `t` (`a` int NOT NULL, `b` varchar(9) DEFAULT 'x,)', KEY `k` (`a`,(lower(`b`)))) ENGINE=InnoDB;"
    )
    sql = (
        "alter table d.t add c int default (1+1) first, change b bb char(3) charset gbk after c, drop index k, "
        "rename to u"
    )
    changed = [n for tokens in tokenize(sql) for n in apply(catalog, tokens, "d")]
    table = catalog.tables["d", "u"]
    assert changed == [("d", "t"), ("d", "u")]
    assert [(c.name, c.type, c.charset) for c in table.columns] == [
        ("c", "int", ""), ("bb", "char", "gbk"), ("a", "int", "")
    ]  # fmt: skip
    assert table.collation == "latin1_swedish_ci"
    assert replace(table.columns[2], nullable=True).shape() == table.columns[0].shape()
    with pytest.raises(OracleError):
        apply(Catalog(), tokenize("alter table t add partition (partition p values less than (3))")[0], "d")
