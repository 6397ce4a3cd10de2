"""Keys of rows: what a server takes for equal is never told apart; what it does not is, where that is easy to see."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_merge.binlog.constants import ColumnType as T
from binlog_merge.binlog.encode import encode_cell
from binlog_merge.binlog.rows import ABSENT, Row
from binlog_merge.binlog.table_map import TableMap
from binlog_merge.targets.server.keys import OPAQUE, Claims, ClaimTable, Key, TableKeys
from binlog_merge.targets.server.target_keys import TargetKeys, families, foreign_keys, keys_of
from binlog_merge.values.key_values import KeyPart, Unclear, as_compared, folded
from tests.mysql_server import MySqlServer

PAIR = TableMap(1, 0, "s", "t", bytes([T.LONG, T.VARCHAR]), (0, 80), b"\0")
ID = Key(("s", "t", ("id",)), (KeyPart(0),))
NAME = Key(("s", "t", ("name",)), (KeyPart(1, "utf8mb4_0900_ai_ci"),))
PARENT = Key(("s", "p", ("id",)), (KeyPart(0),))
T_NAME, P_NAME = ("s", "t"), ("s", "p")


def image(id: int | None, name: str | None) -> tuple[bytes | None, bytes | None]:
    text = None if name is None else name.encode()
    return (
        None if id is None else id.to_bytes(4, "little"),
        None if text is None else bytes([len(text)]) + text,
    )


def claims(*rows: Row, keys: TableKeys | None = None) -> Claims:
    found = Claims()
    found.take(PAIR, keys or TableKeys(2, (ID, NAME)), rows)
    return found


def collide(a: Claims, b: Claims) -> bool:
    table: ClaimTable[str] = ClaimTable()
    table.take("a", a)
    return bool(table.owners(b))


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ((None, image(1, "a")), (None, image(2, "b")), False),
        ((None, image(1, "a")), (image(1, "a"), None), True),
        ((None, image(1, "a")), (None, image(2, "A ")), True),  # the collation folds case, and some pad spaces
        ((None, image(1, "a")), (None, image(2, "ä")), True),  # not seen to differ, so taken whole
        ((None, image(1, None)), (None, image(2, None)), False),  # NULL equals nothing
        ((image(1, "a"), image(1, "b")), (None, image(2, "a")), True),  # the old value too
        ((image(1, "a"), image(2, "a")), (None, image(2, "b")), True),
        ((image(1, "a"), image(2, "a")), (None, image(3, "b")), False),
        # MINIMAL: what is not there did not change, or cannot be known
        (((image(1, "")[0], ABSENT), (ABSENT, ABSENT)), (None, image(2, "b")), False),
        (((image(1, "")[0], ABSENT), (ABSENT, image(0, "b")[1])), (None, image(2, "x")), True),
        (((image(1, "")[0], ABSENT), None), (None, image(2, "x")), True),
    ],
)
def test_rows_collide_by_what_they_may_share(one: Row, other: Row, expected: bool) -> None:
    assert collide(claims(one), claims(other)) is expected
    assert collide(claims(other), claims(one)) is expected


def test_a_table_of_which_nothing_is_known_is_taken_whole() -> None:
    row: Row = (None, image(1, "a"))
    for keys in (OPAQUE, TableKeys(3, (ID,)), TableKeys(2, (ID,), opaque=True)):
        assert claims(row, keys=keys).whole == {T_NAME}
        assert collide(claims(row, keys=keys), claims((None, image(9, "z"))))
    # No key of a row is known where all of it is NULL.
    assert claims((None, image(None, None))).whole == {T_NAME}


def test_children_collide_with_their_parents() -> None:
    child = TableKeys(2, (NAME, PARENT))
    parent = Claims({P_NAME}, set(), {hash((PARENT.name, (image(5, "")[0],)))})
    assert collide(parent, claims((None, image(5, "x")), keys=child))
    assert not collide(parent, claims((None, image(6, "x")), keys=child))
    assert collide(Claims({P_NAME}, {P_NAME}), claims((None, image(6, "x")), keys=child))


def test_where_the_server_cascades_the_family_is_one() -> None:
    family = ("", "f")
    one, other = claims(keys=TableKeys(2, (ID,), family)), Claims({("s", "x"), family}, {family})
    assert collide(one, other)


@given(st.lists(st.tuples(st.integers(0, 3), st.sets(st.integers(0, 5)), st.booleans()), max_size=12))
def test_nobody_is_overlooked(steps: list[tuple[int, set[int], bool]]) -> None:
    """The last owner of a key stands for those before it, who are among its own predecessors."""
    table: ClaimTable[int] = ClaimTable()
    taken: list[tuple[int, Claims, set[int]]] = []
    for owner, keys, whole in steps:
        now = Claims({T_NAME}, {T_NAME} if whole else set(), keys)
        found = table.owners(now)
        reached = set(found)
        for earlier, _, theirs in reversed(taken):
            if earlier in reached:
                reached |= theirs
        for earlier, claimed, _ in taken:
            if claimed.keys & keys or whole or claimed.whole:
                assert earlier in reached
        table.take(owner, now)
        taken.append((owner, now, reached - {owner}))
    for owner in range(4):
        table.release(owner)
    assert len(table) == 0 and not table.owners(Claims({T_NAME}, {T_NAME}, set(range(6))))


ENDINGS = (
    *("0900_ai_ci", "0900_as_ci", "0900_as_cs", "0900_bin", "bin", "general_ci", "unicode_ci", "unicode_520_ci"),
    *("swedish_ci", "turkish_ci", "lithuanian_ci", "de_pb_0900_ai_ci", "ja_0900_as_cs", "es_trad_0900_ai_ci"),
    "hr_0900_ai_ci",
)
TEXTS = [
    *("a", "A", "a ", "á", "ä", "ae", "AE", "æ", "ss", "ß", "STRASSE", "straße", "i", "I", "ı", "y", "v", "w", "j", ""),
    *(" ", "ch", "c", "a\u200bb", "ab", "a\tb", "a\x00b", "dž", "dz", "-", "_", "ー", "か", "カ", "が", "e\u0301", "é"),
]


@pytest.mark.mysql
def test_what_a_server_takes_for_equal_is_never_told_apart(mysql_server: MySqlServer) -> None:
    pairs = list(combinations(TEXTS, 2))
    equals = 0
    for collation in (f"utf8mb4_{ending}" for ending in ENDINGS):
        asked = ", ".join(
            f"CONVERT(0x{a.encode().hex() or '20'} USING utf8mb4) COLLATE {collation} = "
            f"CONVERT(0x{b.encode().hex() or '20'} USING utf8mb4) COLLATE {collation}"
            for a, b in pairs
        )
        for (a, b), equal in zip(pairs, mysql_server.query(f"SELECT {asked}")[0], strict=True):
            equals += equal
            assert not equal or may_be_equal(a or " ", b or " ", collation), (collation, a, b)
    assert equals > 100
    assert not may_be_equal("a", "b", "utf8mb4_0900_ai_ci") and not may_be_equal("ä", "a", "utf8mb4_bin")


def may_be_equal(a: str, b: str, collation: str) -> bool:
    part = KeyPart(1, collation)
    try:
        return folded(PAIR, part, image(1, a)[1]) == folded(PAIR, part, image(1, b)[1])
    except Unclear:
        return True


@pytest.mark.parametrize(
    ("old", "new", "moment"),
    [
        (T.TIMESTAMP, T.TIMESTAMP2, datetime(2026, 11, 30, 20, 39, 10, tzinfo=UTC)),
        (T.DATETIME, T.DATETIME2, datetime(2026, 2, 28, 23, 59, 59)),
        (T.DATETIME, T.DATETIME2, "2026-02-00 00:00:00"),
        (T.TIME, T.TIME2, timedelta(hours=838, minutes=59, seconds=59)),
        (T.TIME, T.TIME2, -timedelta(seconds=1)),
    ],
)
def test_a_moment_is_the_same_in_the_format_of_before_5_6(old: T, new: T, moment: object) -> None:
    """Its bytes are not: a column keeps them when a server is upgraded in place."""
    tables = [TableMap(1, 0, "s", "t", bytes([kind]), (0,), b"\0") for kind in (old, new)]
    cells = [encode_cell(kind, 0, moment) for kind in (old, new)]
    assert cells[0] != cells[1]
    for bytes_of in (folded, as_compared):
        assert bytes_of(tables[0], KeyPart(0), cells[0]) == bytes_of(tables[1], KeyPart(0), cells[1])


def test_zeros_are_equal() -> None:
    table = TableMap(1, 0, "s", "t", bytes([T.DOUBLE, T.NEWDECIMAL]), (8, 5 | 2 << 8), b"\0")
    assert folded(table, KeyPart(0), bytes(8)) == folded(table, KeyPart(0), bytes(7) + b"\x80")
    assert folded(table, KeyPart(0), b"\1" + bytes(7)) != folded(table, KeyPart(0), bytes(8))
    assert folded(table, KeyPart(1), b"\x80\0\0") == folded(table, KeyPart(1), b"\x7f\xff\xff")
    assert Decimal("-0") == 0


@pytest.mark.mysql
def test_keys_are_those_of_the_server(mysql_server: MySqlServer) -> None:
    mysql_server.execute(
        "CREATE DATABASE K; USE K;"
        "CREATE TABLE p (id INT PRIMARY KEY, code CHAR(3), UNIQUE (code));"
        "CREATE TABLE c (id INT PRIMARY KEY, p INT, t TEXT, UNIQUE pre (t(7)), FOREIGN KEY (p) REFERENCES p (id));"
        "CREATE TABLE g (id INT PRIMARY KEY, c INT, FOREIGN KEY (c) REFERENCES c (id) ON DELETE CASCADE);"
        "CREATE TABLE n (id INT, u INT UNIQUE); CREATE TABLE f (id INT PRIMARY KEY, u INT, UNIQUE ((u + 1)))"
    )
    keys = TargetKeys(lambda sql, arguments=None: mysql_server.query(sql % tuple(map(repr, arguments or ()))))
    ids = KeyPart(0)
    p, c = keys.of("K", "p"), keys.of("K", "c")
    assert set(p.keys) == {
        Key(("k", "p", ("id",)), (ids,)),
        Key(("k", "p", ("code",)), (KeyPart(1, "utf8mb4_0900_ai_ci"),)),
    }
    assert set(c.keys) == {
        Key(("k", "c", ("id",)), (ids,)),
        Key(("k", "c", ("t",)), (KeyPart(2, "utf8mb4_0900_ai_ci", 7),)),
        Key(("k", "p", ("id",)), (KeyPart(1),)),
    }
    assert p.family is None and c.family == keys.of("K", "g").family is not None
    assert keys.of("K", "n").opaque and keys.of("K", "f").opaque
    assert keys.of("K", "x") is OPAQUE and not keys.exists("K", "x") and keys.exists("K", "n")
    assert keys.family(("k", "g")) == {("k", "p"), ("k", "c"), ("k", "g")} and keys.family(("k", "n")) == {("k", "n")}
    mysql_server.execute("CREATE TABLE K.x (id INT PRIMARY KEY)")
    assert not keys.exists("K", "x")
    keys.forget([("k", "x")], False)
    assert keys.exists("K", "x")


def test_families_grow_together() -> None:
    rows = [
        ("s", child, f"f{child}", "x", "s", parent, "id", "NO ACTION", "CASCADE")
        for child, parent in ("ba", "dc", "cb")
    ]
    found = families(foreign_keys(rows))
    assert set(found[("s", "a")]) == {("s", name) for name in "abcd"} and len(set(found.values())) == 1
    assert keys_of(("s", "a"), [("id", None, "NO")], [("PRIMARY", "id", None)], foreign_keys(rows)).family is not None


@pytest.mark.parametrize(("kind", "meta"), [(T.FLOAT, 0), (T.DOUBLE, 0), (T.NEWDECIMAL, 0)])
def test_a_cell_of_a_damaged_table_map_equals_what_is_not_known(kind: T, meta: int) -> None:
    with pytest.raises(Unclear):
        folded(TableMap(1, 0, "s", "t", bytes([kind]), (meta,), b"\0"), KeyPart(0), b"")
