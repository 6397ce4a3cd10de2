"""Partitioning as text: back exactly, and what versions before the second line wrote."""

from hypothesis import given
from hypothesis import strategies as st

from snapshot_store.ddl import DdlSession, apply_ddl
from snapshot_store.ddl.partitioning import Partitioning
from snapshot_store.model import Catalog, Schema

NAMES = st.text(st.characters(blacklist_characters="\0", blacklist_categories=("Cs",)), min_size=1, max_size=8)
TUPLES = st.lists(st.lists(st.text(max_size=6), min_size=1).map(tuple), max_size=3).map(tuple)
PARTS = st.lists(st.tuples(NAMES, st.sampled_from(("", "10", "-3", "MAXVALUE")), TUPLES), min_size=1, max_size=4)


@given(st.sampled_from(("RANGE", "LIST COLUMNS", "HASH", "KEY")), st.lists(NAMES), PARTS, st.text(), st.integers(0, 9))
def test_text_and_back(method: str, columns: list[str], parts: list[tuple[str, str, object]], by: str, n: int) -> None:
    names, bounds, values = (tuple(part[i] for part in parts) for i in range(3))
    found = Partitioning(method, tuple(columns), names, bounds, (), values, by, n > 3, by, n, n > 5)  # type: ignore[arg-type]
    assert Partitioning.of(found.text()) == found


def test_texts_without_values() -> None:
    found = Partitioning.of("RANGE (`at`) (`p0`<10,`p1`<MAXVALUE) (`a`)")
    assert (found.names, found.bounds, found.subpartitions, found.values) == (
        ("p0", "p1"),
        ("10", "MAXVALUE"),
        ("a",),
        (),
    )
    assert [part[2] for part in found.parts] == [(), ()]


def test_moments_in_bounds_are_the_sessions() -> None:
    sql = "CREATE TABLE t (at TIMESTAMP) PARTITION BY RANGE (UNIX_TIMESTAMP(at)) (PARTITION p VALUES LESS THAN (%s))"
    catalog, sql = Catalog().with_schema(Schema("s")), sql % "UNIX_TIMESTAMP('2020-01-01') - 1"
    for zone, bound in (
        ("+08:00", "1577808000"),
        ("Asia/Shanghai", "1577808000"),
        ("", "unix_timestamp(_utf8mb4'2020-01-01')"),
    ):
        after = apply_ddl(catalog, sql, "s", DdlSession(time_zone=zone)).catalog
        assert Partitioning.of(after.table("s", "t").partitioning).values == (((f"({bound} - 1)",),),)
