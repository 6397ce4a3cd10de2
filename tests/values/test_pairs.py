"""Every pair of type families: what the merge does with it, and which fixture shows it on real servers.

A pair is refused when the plan is made, or converted. Then a fixture (`fixtures/reshape-*`) has real servers alter it
while rows are written, unless no value of it survives the way there and back: `tests/values/test_convert_mysql.py`
compares those, as all others, with what a server stores.
"""

from functools import cache

import pytest

from binlog_merge.errors import UnsupportedInput
from binlog_merge.values.convert.cells import make_converter
from binlog_merge.values.types import binlog_column
from fixtures.make import case_names, load
from snapshot_store.ddl.apply.statement import apply_ddl
from snapshot_store.model import Catalog, Column, Schema
from snapshot_store.mysql.column_type import Family

FAMILIES = {
    "integer": "BIGINT",
    "decimal": "DECIMAL(20,4)",
    "float": "DOUBLE",
    "bit": "BIT(40)",
    "year": "YEAR",
    "date": "DATE",
    "datetime": "DATETIME(3)",
    "timestamp": "TIMESTAMP",
    "time": "TIME(2)",
    "text": "VARCHAR(40)",
    "binary": "VARBINARY(40)",
    "enum": "ENUM('1','a')",
    "set": "SET('1','a')",
    "json": "JSON",
    "vector": "VECTOR(3)",
    "geometry": "POINT",
}
_PLAIN = FAMILIES.keys() - {"vector", "geometry"}
REFUSED = {
    "values of type": {(a, "geometry") for a in FAMILIES if a != "geometry"}
    | {("geometry", b) for b in FAMILIES if b != "geometry"},
    "a VECTOR becomes": {(a, "vector") for a in _PLAIN - {"binary"}} | {("vector", b) for b in _PLAIN - {"binary"}},
    "is not made from binary": {("binary", "json"), ("bit", "json")},
    "adds the day": {("time", b) for b in ("date", "datetime", "timestamp")},
}
# In this direction a DDL has rows in flight that cannot go back: what a server makes of the one type is nothing that
# the other takes (`2024` is no DATE, and a date is no JSON), or it means something else there (a number is a member's
# place).
ONE_WAY = {
    *((a, b) for a in ("date", "datetime", "timestamp") for b in ("year", "json")),
    *((a, b) for a in ("datetime", "timestamp") for b in ("integer", "bit", "enum", "set")),
    *((a, b) for a in ("enum", "set") for b in ("year", "time")),
    *((a, "time") for a in ("date", "datetime", "timestamp", "json")),
    *((a, b) for a in ("decimal",) for b in ("enum", "set")),
    ("bit", "json"),
    ("binary", "json"),
}


@cache
def column(definition: str) -> Column:
    sql = f"CREATE TABLE t (c {definition})"
    return apply_ddl(Catalog({"d": Schema("d")}), sql, "d").catalog.tables["d", "t"].columns[0]


def family(definition: str) -> str:
    """Return the family of a type."""
    kind = column(definition).type
    if kind.family is Family.BYTES:
        return "binary"
    return kind.name if kind.family is Family.MOMENT else kind.family


def reason(a: str, b: str) -> str | None:
    """Return why a pair is refused; None if it is not."""
    return next((words for words, pairs in REFUSED.items() if (a, b) in pairs), None)


@pytest.mark.parametrize("a", FAMILIES)
def test_converted_or_refused(a: str) -> None:
    for b in FAMILIES:
        old, new = column(FAMILIES[a]), column(FAMILIES[b])
        words = reason(a, b)
        if words is None:
            assert (make_converter(old, new, binlog_column(old)) is None) == (a == b), b
        else:
            with pytest.raises(UnsupportedInput, match=words):
                make_converter(old, new, binlog_column(old))
                pytest.fail(f"{b} is made of it")


def test_every_converted_pair_has_a_fixture() -> None:
    shown = {
        (family(pair.old), family(pair.new))
        for name in case_names()
        if name.startswith("reshape-")
        for pair in load(name).PAIRS
        if pair.new != "-"
    }
    both_ways = {
        (a, b)
        for a in FAMILIES
        for b in FAMILIES
        if (a, b) not in (("date", "date"), ("year", "year"))  # which have one type only
        and reason(a, b) is None
        and reason(b, a) is None
        and not {(a, b), (b, a)} & ONE_WAY
    }
    assert both_ways - shown == set()
    assert ONE_WAY & shown == set(), "these have a fixture after all"
