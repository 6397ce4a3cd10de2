"""The keys that tell the rows of a table apart."""

import pytest

from snapshot_store.ddl import apply_ddl
from snapshot_store.model import Catalog, Schema, Table


def table(items: str) -> Table:
    sql = f"CREATE TABLE t (a INT NOT NULL, b INT, c VARCHAR(20) NOT NULL, {items})"
    return apply_ddl(Catalog({"s": Schema("s")}), sql, "s").catalog.table("s", "t")


@pytest.mark.parametrize(
    ("items", "keys"),
    [
        ("KEY k (a)", []),
        ("UNIQUE KEY u (b)", []),
        ("UNIQUE KEY u (a, b), UNIQUE KEY v (c, a)", [("v", (2, 0))]),
        ("UNIQUE KEY u (c(3)), PRIMARY KEY (b, a)", [("PRIMARY", (1, 0)), ("u", (2,))]),
        ("UNIQUE KEY u ((a + 1)), UNIQUE KEY v (a)", [("v", (0,))]),
    ],
)
def test_the_primary_key_comes_first_and_then_what_is_never_null(items: str, keys: list[object]) -> None:
    made = table(items)
    assert [(key.name, made.places(key)) for key in made.row_keys] == keys


def test_an_index_over_an_expression_has_no_places() -> None:
    made = table("KEY k ((a + b)), KEY l (C, A)")
    assert [made.places(index) for index in made.indexes] == [None, (2, 0)]
