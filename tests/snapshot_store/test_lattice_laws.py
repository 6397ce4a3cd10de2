"""The laws of the order and of the join, over tables that are near enough to each other to be compared often."""

from collections import Counter
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from snapshot_store.lattice import Incomparable, compare, join
from snapshot_store.model import Column, ColumnType, Default, Generated, Index, IndexPart, Table
from tests.snapshot_store.strategies import UNHURRIED
from tests.snapshot_store.strategies import tables as any_tables

LAWS = settings(UNHURRIED, max_examples=2000)

NUMBERS = st.one_of(
    st.builds(
        ColumnType,
        st.sampled_from(["tinyint", "smallint", "int", "bigint"]),
        st.sampled_from([None, None, 1, 11, 20]),
        unsigned=st.sampled_from([False, False, False, True]),
    ),
    st.builds(ColumnType, st.just("decimal"), st.sampled_from([10, 12]), st.just(2)),
    st.sampled_from([ColumnType("float"), ColumnType("float", 7, 4), ColumnType("float", 8, 2)]),
)
PAIRS = [
    ("utf8mb4", "utf8mb4_0900_ai_ci"),
    ("utf8mb4", "utf8mb4_general_ci"),
    ("utf8mb3", "utf8mb3_general_ci"),
    ("latin1", "latin1_swedish_ci"),
    ("latin1", "latin1_general_ci"),
]
STRINGS = st.builds(
    lambda name, pair: ColumnType(*name, charset=pair[0], collation=pair[1]),
    st.sampled_from([("varchar", 10), ("varchar", 20), ("tinytext",), ("text",)]),
    st.sampled_from(PAIRS),
)
LISTS = st.builds(
    lambda name, members: ColumnType(name, charset="latin1", collation="latin1_bin", members=tuple(members)),
    st.just("enum"),
    st.sampled_from(["x", "xy", "xyz", "xz"]),
)
OTHERS = st.sampled_from(
    [
        *(ColumnType(name, fsp=fsp) for name in ("timestamp", "datetime") for fsp in (0, 3)),
        *(ColumnType("point", srid=srid) for srid in (None, 0, 4326)),
        *(ColumnType(name) for name in ("json", "date", "year", "blob", "mediumblob")),
        *(ColumnType("binary", length) for length in (2, 3)),
        *(ColumnType("bit", length) for length in (1, 8)),
    ]
)
# One family of types for each name, so that columns meet their like.
FAMILIES = {"a": NUMBERS, "b": STRINGS, "c": LISTS | OTHERS}
LITERALS = {"a": ["0", "1"], "b": ["", "x"], "c": ["x"]}


@st.composite
def columns(draw: st.DrawFn, name: str) -> Column:
    type = draw(FAMILIES[name])
    nullable = draw(st.booleans())
    kind = draw(st.sampled_from(["none", "null", "null", "literal", "generated", "auto"]))
    column = Column(draw(st.sampled_from([name, name.upper()])), type, nullable)
    if kind == "auto" and type.name.endswith("int"):
        return replace(column, nullable=False, auto_increment=True)
    if kind == "generated":
        return replace(column, generated=Generated(draw(st.sampled_from(["1", "2"])), draw(st.booleans())))
    if kind == "literal":
        return replace(column, default=Default("literal", draw(st.sampled_from(LITERALS[name]))))
    return replace(column, default=Default("null") if nullable and kind != "none" else None)


@st.composite
def tables(draw: st.DrawFn) -> Table:
    """A table of up to three columns, each of one family, with up to four indexes of three names."""
    names = draw(st.lists(st.sampled_from("abc"), min_size=1, max_size=3, unique=True))
    made = [draw(columns(n)) for n in names]
    indexes = [
        Index(name, tuple(IndexPart(p) for p in parts), name == "PRIMARY" or draw(st.booleans()))
        for name in draw(st.lists(st.sampled_from(["PRIMARY", "k", "l"]), max_size=3, unique=True))
        for parts in [draw(st.lists(st.sampled_from(names), min_size=1, max_size=2, unique=True))]
    ]
    indexes += [Index(f"auto_{c.name}", (IndexPart(c.name),)) for c in made if c.auto_increment]
    keyed = {p.column for i in indexes if i.name == "PRIMARY" for p in i.parts}
    made = [required(c) if c.name.lower() in keyed else c for c in made]
    return Table("d", draw(st.sampled_from("tu")), tuple(made), tuple(indexes))


def required(column: Column) -> Column:
    null = column.default == Default("null")
    return replace(column, nullable=False, default=None if null else column.default)


def outcome(function: Any, *operands: Any) -> Any:
    """Return what a function gives, or None where it raises Incomparable."""
    try:
        return function(*operands)
    except Incomparable:
        return None


@given(tables(), tables())
@LAWS
def test_compare_is_antisymmetric(a: Table, b: Table) -> None:
    sign = outcome(compare, a, b)
    assert outcome(compare, b, a) == (None if sign is None else -sign)


@given(tables() | any_tables())
@LAWS
def test_a_table_is_its_own_equal_and_its_own_join(a: Table) -> None:
    assert compare(a, a) == 0
    assert join(a, a) == a


@given(tables(), tables(), tables())
@LAWS
def test_compare_is_transitive(a: Table, b: Table, c: Table) -> None:
    signs = {outcome(compare, a, b), outcome(compare, b, c)}
    if None not in signs and signs != {1, -1}:
        assert outcome(compare, a, c) == (signs - {0} or {0}).pop()


@given(tables(), tables())
@LAWS
def test_the_join_is_commutative_and_at_least_both(a: Table, b: Table) -> None:
    joined = outcome(join, a, b)
    assert joined == outcome(join, b, a)
    if joined is not None:
        assert compare(joined, a) >= 0
        assert compare(joined, b) >= 0


@given(tables(), tables())
@LAWS
def test_the_join_of_comparable_tables_is_the_larger(a: Table, b: Table) -> None:
    sign = outcome(compare, a, b)
    if sign is not None:
        assert compare(join(a, b), a if sign > 0 else b) == 0


@given(tables(), tables(), tables())
@LAWS
def test_the_join_is_associative_where_both_ways_are_defined(a: Table, b: Table, c: Table) -> None:
    one, other = outcome(join, a, b), outcome(join, b, c)
    one = one and outcome(join, one, c)
    other = other and outcome(join, a, other)
    if one is not None and other is not None and not invents_a_default(a, b, c):
        assert compare(one, other) == 0


@given(tables(), tables(), tables())
@LAWS
def test_the_join_is_the_least(a: Table, b: Table, bound: Table) -> None:
    joined = outcome(join, a, b)
    if outcome(compare, bound, a) in (0, 1) and outcome(compare, bound, b) in (0, 1) and joined is not None:
        assert invents_a_default(a, b, bound) or compare(bound, joined) >= 0


def invents_a_default(*tables: Table) -> bool:
    """Tell whether a column NOT NULL without DEFAULT is missing in one of the tables: the join then chooses one."""
    names = [{c.name.lower() for c in table.columns} for table in tables]
    return any(
        not c.nullable and c.default is None and c.generated is None and not all(c.name.lower() in n for n in names)
        for table in tables
        for c in table.columns
    )


def test_the_generated_tables_meet_all_outcomes() -> None:
    seen: Counter[Any] = Counter()

    @given(tables(), tables())
    @LAWS
    def meet(a: Table, b: Table) -> None:
        seen[outcome(compare, a, b)] += 1
        seen["joined" if outcome(join, a, b) else "not joined"] += 1

    meet()
    assert seen.keys() == {None, -1, 0, 1, "joined", "not joined"}
