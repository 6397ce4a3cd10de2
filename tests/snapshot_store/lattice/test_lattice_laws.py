"""The laws of the order and of the join, over tables that are near enough to each other to be compared often."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snapshot_store.lattice.tables import Incomparable, compare, join
from snapshot_store.model import Column, Default, Generated, Index, IndexPart, Table
from snapshot_store.mysql.column_type import ColumnType
from tests.effort import effort
from tests.snapshot_store.strategies import UNHURRIED
from tests.snapshot_store.strategies import tables as any_tables

LAWS = settings(UNHURRIED, max_examples=effort(100, 200))

PAIRS = (
    ("utf8mb4", "utf8mb4_0900_ai_ci"),
    ("utf8mb4", "utf8mb4_general_ci"),
    ("utf8mb3", "utf8mb3_general_ci"),
    ("latin1", "latin1_swedish_ci"),
    ("latin1", "latin1_general_ci"),
)
# Types that are near each other; an enum's and a binary's zero depends on the type.
FAMILIES = (
    [ColumnType(name, length) for name in ("tinyint", "int", "bigint") for length in (None, 1, 11, 20)],
    [ColumnType("int", unsigned=unsigned) for unsigned in (False, True)],
    [ColumnType("decimal", length, 2) for length in (10, 12)],
    [ColumnType("float"), ColumnType("float", 7, 4), ColumnType("float", 8, 2)],
    [ColumnType("varchar", n, charset=pair[0], collation=pair[1]) for n in (10, 20) for pair in PAIRS],
    [ColumnType(name, charset=pair[0], collation=pair[1]) for name in ("tinytext", "text") for pair in PAIRS],
    [ColumnType("enum", charset="latin1", collation="latin1_bin", members=tuple(m)) for m in ("x", "xy", "xyz", "xz")],
    [ColumnType("timestamp", fsp=fsp) for fsp in (0, 3, 6)],
    [ColumnType("datetime", fsp=fsp) for fsp in (0, 3)],
    [ColumnType("point", srid=srid) for srid in (None, 0, 4326)],
    [ColumnType(name, n) for name in ("binary", "varbinary") for n in (2, 3)],
    [ColumnType("bit", length) for length in (1, 8)],
    [ColumnType("json"), ColumnType("date"), ColumnType("year")],
)
DEFAULTS = (None, None, Default("null"), Default("literal", "0"), Default("literal", "x"), Default("expression", "0"))
INDEXES = tuple(
    Index(name, tuple(IndexPart(column) for column in parts), unique or name == "PRIMARY")
    for name in ("PRIMARY", "k", "l")
    for parts in ("a", "b", "ab", "ba", "c")
    for unique in (False, True)
)


@st.composite
def columns(draw: st.DrawFn, name: str, family: list[ColumnType]) -> Column:
    type = draw(st.sampled_from(family))
    column = Column(name, type, draw(st.booleans()), draw(st.sampled_from(DEFAULTS)))
    kind = draw(st.sampled_from(["plain"] * 5 + ["generated", "auto"]))
    if kind == "auto" and type.name.endswith("int"):
        column = replace(column, nullable=False, default=None, auto_increment=True)
    if kind == "generated":
        column = replace(column, default=None, generated=Generated(draw(st.sampled_from("12")), draw(st.booleans())))
    return column if column.nullable else required(column)


@st.composite
def neighbours(draw: st.DrawFn, count: int) -> tuple[Table, ...]:
    """Tables that are each a change or three away from one table: near enough to be compared often."""
    families = {name: draw(st.sampled_from(FAMILIES)) for name in "abc"}
    base = {name: draw(columns(name, families[name])) for name in "abc"}
    base_indexes = draw(st.lists(st.sampled_from(INDEXES), max_size=2, unique_by=lambda i: i.name))
    return tuple(draw(changed(families, base, base_indexes)) for _ in range(count))


@st.composite
def changed(
    draw: st.DrawFn, families: dict[str, list[ColumnType]], base: dict[str, Column], base_indexes: list[Index]
) -> Table:
    made, indexes = dict(base), {i.name: i for i in base_indexes}
    for change in draw(
        st.lists(st.sampled_from(["drop", "type", "column", "null", "upper", "unindex", "index"]), max_size=3)
    ):
        name = draw(st.sampled_from("abc"))
        if change == "drop":
            made.pop(name, None)
        elif change == "type" and name in made:
            made[name] = replace(made[name], type=draw(st.sampled_from(families[name])))
        elif change == "column":
            made[name] = draw(columns(name, families[name]))
        elif change == "null" and name in made and not made[name].auto_increment:
            made[name] = replace(made[name], nullable=True, default=made[name].default or Default("null"))
        elif change == "upper" and name in made:
            made[name] = replace(made[name], name=name.upper())
        elif change == "unindex" and indexes:
            indexes.popitem()
        elif change == "index":
            index = draw(st.sampled_from(INDEXES))
            indexes[index.name] = index
    return assembled(draw(st.sampled_from("tu")), made, list(indexes.values()))


def assembled(table: str, made: dict[str, Column], indexes: list[Index]) -> Table:
    """Return the table as a server would have it: keys on columns that are there, a primary key NOT NULL."""
    if not made:
        made = {"a": Column("a", ColumnType("int"), default=Default("null"))}
    indexes = [i for i in indexes if all(part.column in made for part in i.parts)]
    indexes += [Index(f"auto_{name}", (IndexPart(name),)) for name, c in made.items() if c.auto_increment]
    keyed = {part.column for i in indexes if i.name == "PRIMARY" for part in i.parts}
    found = [required(c) if name in keyed else c for name, c in made.items()]
    # A generated column has no default, and geometry no literal one.
    found = [replace(c, default=None) if c.generated else c for c in found]
    return Table("d", table, tuple(found), tuple(indexes))


def required(column: Column) -> Column:
    null = column.default == Default("null")
    return replace(column, nullable=False, default=None if null else column.default)


def outcome(function: Any, *operands: Any) -> Any:
    """Return what a function gives, or None where it raises Incomparable."""
    try:
        return function(*operands)
    except Incomparable:
        return None


@given(neighbours(2))
@LAWS
def test_compare_is_antisymmetric(tables: tuple[Table, ...]) -> None:
    a, b = tables
    sign = outcome(compare, a, b)
    assert outcome(compare, b, a) == (None if sign is None else -sign)


@given(neighbours(1).map(lambda found: found[0]) | any_tables())
@LAWS
def test_a_table_is_its_own_equal_and_its_own_join(a: Table) -> None:
    assert compare(a, a) == 0
    assert join(a, a) == a


@pytest.mark.heavy
@given(neighbours(3))
@LAWS
def test_compare_is_transitive(tables: tuple[Table, ...]) -> None:
    a, b, c = tables
    signs = {outcome(compare, a, b), outcome(compare, b, c)}
    if None not in signs and signs != {1, -1}:
        assert outcome(compare, a, c) == (signs - {0} or {0}).pop()


@given(neighbours(2))
@LAWS
def test_the_join_is_commutative_and_at_least_both(tables: tuple[Table, ...]) -> None:
    a, b = tables
    joined = outcome(join, a, b)
    assert joined == outcome(join, b, a)
    if joined is not None:
        assert compare(joined, a) >= 0
        assert compare(joined, b) >= 0


@given(neighbours(2))
@LAWS
def test_the_join_of_comparable_tables_is_the_larger(tables: tuple[Table, ...]) -> None:
    a, b = tables
    sign = outcome(compare, a, b)
    if sign is not None:
        assert compare(join(a, b), a if sign > 0 else b) == 0


@pytest.mark.heavy
@given(neighbours(3))
@LAWS
def test_the_join_is_associative_where_both_ways_are_defined(tables: tuple[Table, ...]) -> None:
    a, b, c = tables
    one, other = outcome(join, a, b), outcome(join, b, c)
    one = one and outcome(join, one, c)
    other = other and outcome(join, a, other)
    if one is not None and other is not None and not keeps_a_zero(a, b, c):
        assert compare(one, other) == 0


@pytest.mark.heavy
@given(neighbours(3))
@LAWS
def test_the_join_is_the_least(tables: tuple[Table, ...]) -> None:
    a, b, bound = tables
    joined = outcome(join, a, b)
    if outcome(compare, bound, a) in (0, 1) and outcome(compare, bound, b) in (0, 1) and joined is not None:
        assert invents_a_default(a, b, bound) or compare(bound, joined) >= 0


def versions(name: str, tables: tuple[Table, ...]) -> list[Column | None]:
    return [next((c for c in table.columns if c.name.lower() == name), None) for table in tables]


def lacks_a_default(column: Column) -> bool:
    return not column.nullable and column.default is None and not column.generated and not column.auto_increment


def invents_a_default(*tables: Table) -> bool:
    """Tell whether a column NOT NULL without DEFAULT is missing in one of the tables: the join then chooses one."""
    found = (versions(name, tables) for name in "abc")
    return any(None in columns and any(c and lacks_a_default(c) for c in columns) for columns in found)


def keeps_a_zero(*tables: Table) -> bool:
    """Tell whether besides that the third table has it nullable without a value: the exception in lattice.py."""
    found = (versions(name, tables) for name in "abc")
    return any(
        None in columns
        and any(c and lacks_a_default(c) for c in columns)
        and any(c and c.nullable and c.default in (None, Default("null")) for c in columns)
        for columns in found
    )


def test_a_zero_that_a_join_invents_stays() -> None:
    number = ColumnType("int")
    filler = Column("f", number)
    lacking, required_, nullable = (
        Table("d", "t", (filler,)),
        Table("d", "t", (filler, Column("a", number, nullable=False))),
        Table("d", "t", (filler, Column("a", number, default=Default("null")))),
    )
    early = join(join(lacking, required_), nullable)
    late = join(lacking, join(required_, nullable))
    assert (early.columns[1].default, late.columns[1].default) == (Default("literal", "0"), Default("null"))
    assert all(compare(joined, table) >= 0 for joined in (early, late) for table in (lacking, required_, nullable))


def test_the_generated_tables_meet_all_outcomes() -> None:
    seen: Counter[Any] = Counter()

    @given(neighbours(2))
    @LAWS
    def meet(tables: tuple[Table, ...]) -> None:
        a, b = tables
        seen[outcome(compare, a, b)] += 1
        seen["joined" if outcome(join, a, b) else "not joined"] += 1

    meet()
    assert seen.keys() == {None, -1, 0, 1, "joined", "not joined"}
