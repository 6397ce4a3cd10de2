"""The laws of the order and of the join for tables as users write them: from SQL, and back to SQL."""

from hypothesis import given, settings
from hypothesis import strategies as st

from snapshot_store import parse_table
from snapshot_store.lattice.tables import compare, join
from snapshot_store.model import Table
from snapshot_store.render_sql import create_sql
from tests.effort import effort
from tests.snapshot_store.lattice.test_lattice_laws import invents_a_default, outcome
from tests.snapshot_store.strategies import UNHURRIED

# Definitions of one column that are near each other, family by family.
FAMILIES = (
    (
        "INT",
        "INT(5)",
        "INT(11)",
        "INT UNSIGNED",
        "INT(5) ZEROFILL",
        "BIGINT",
        "TINYINT(1)",
        "BOOL",
        "SERIAL",
        "INT DEFAULT 1",
    ),
    (
        "INT NOT NULL",
        "INT NOT NULL DEFAULT 0",
        "INT NOT NULL DEFAULT '0'",
        "BIGINT DEFAULT 0",
        "INT AS (1)",
        "INT AS ((1)) STORED",
    ),
    (
        "DECIMAL",
        "DECIMAL(10)",
        "DECIMAL(10,0) DEFAULT 1",
        "DECIMAL(12,2) DEFAULT 1.0",
        "NUMERIC(12,2) DEFAULT 1.00 NOT NULL",
    ),
    ("FLOAT", "FLOAT(7,4)", "FLOAT(30)", "DOUBLE", "REAL", "DOUBLE(8,2)"),
    (
        "CHAR(3)",
        "CHAR(9)",
        "VARCHAR(9)",
        "VARCHAR(9) CHARSET utf8mb3",
        "VARCHAR(20) CHARSET latin1",
        "VARCHAR(9) DEFAULT 'x'",
    ),
    (
        "TEXT",
        "TINYTEXT",
        "TEXT CHARSET latin1",
        "LONGTEXT",
        "TEXT(300)",
        "BLOB",
        "MEDIUMBLOB",
        "TEXT DEFAULT ('x')",
        "JSON",
    ),
    (
        "DATETIME",
        "DATETIME(3)",
        "DATETIME DEFAULT CURRENT_TIMESTAMP",
        "DATETIME DEFAULT '2020-01-01'",
        "DATETIME(6) NOT NULL",
    ),
    (
        "TIMESTAMP",
        "TIMESTAMP NULL",
        "TIMESTAMP(3) NULL",
        "TIMESTAMP NOT NULL",
        "TIMESTAMP NULL ON UPDATE NOW()",
        "TIME",
        "TIME(6)",
    ),
    (
        "ENUM('x')",
        "ENUM('x','y')",
        "ENUM('y','x') NOT NULL",
        "SET('x')",
        "SET('x','y') DEFAULT 'x'",
        "ENUM('x') DEFAULT 'x'",
    ),
    (
        "BINARY(2)",
        "BINARY(3) DEFAULT 'a'",
        "BINARY(3) DEFAULT 'a\\0'",
        "VARBINARY(3)",
        "BIT",
        "BIT(8)",
        "BIT(8) DEFAULT b'1'",
    ),
)
KEYS = (
    "",
    ", KEY k (a)",
    ", UNIQUE k (a)",
    ", KEY K (A, b)",
    ", KEY l (b)",
    ", UNIQUE l (b), KEY k (a)",
    ", KEY k (b)",
)


@st.composite
def neighbours(draw: st.DrawFn, count: int) -> tuple[Table, ...]:
    families = [draw(st.sampled_from(FAMILIES)) for _ in "ab"]
    made = []
    for _ in range(count):
        columns = [f"{name} {draw(st.sampled_from(family))}" for name, family in zip("ab", families, strict=True)]
        chosen = draw(st.sampled_from(("ab", "ab", "ba", "a", "b")))
        keys = draw(st.sampled_from(KEYS)) if len(chosen) == 2 else ""
        texts = ", ".join(columns["ab".index(name)] for name in chosen)
        if any(word in texts for word in ("TEXT", "BLOB", "JSON")) or texts.count("SERIAL") > 1:
            keys, texts = "", texts.replace("SERIAL", "BIGINT")
        made.append(parse_table(f"CREATE TABLE t (z INT, {texts}{keys})"))
    return tuple(made)


@settings(UNHURRIED, max_examples=effort(150, 300))
@given(neighbours(3))
def test_tables_from_sql_obey_the_laws(tables: tuple[Table, ...]) -> None:
    a, b, c = tables
    assert (compare(a, a), join(a, a)) == (0, a)
    sign, joined = outcome(compare, a, b), outcome(join, a, b)
    assert outcome(compare, b, a) == (None if sign is None else -sign)
    assert joined == outcome(join, b, a)
    if sign is not None:
        assert joined is not None and compare(joined, a if sign > 0 else b) == 0
    if joined is not None:
        assert compare(joined, a) >= 0 and compare(joined, b) >= 0
        if outcome(compare, c, a) in (0, 1) and outcome(compare, c, b) in (0, 1):
            assert invents_a_default(a, b, c) or compare(c, joined) >= 0
    if outcome(compare, b, c) == sign is not None:
        assert outcome(compare, a, c) == sign


@settings(UNHURRIED, max_examples=100)
@given(neighbours(2))
def test_a_join_can_be_written_as_sql(tables: tuple[Table, ...]) -> None:
    joined = outcome(join, *tables)
    if joined is not None:
        again = parse_table(create_sql(joined))
        widths = any(column.type.display_width is not None for column in joined.columns)
        assert widths or compare(again, joined) == 0
