"""What the statements of a table's versions rename, one after the other."""

import pytest

from snapshot_store.ask.renames import Renames, renames_of
from snapshot_store.ddl import apply_ddl
from snapshot_store.history import TableVersion
from snapshot_store.model import Catalog, Schema, Table
from snapshot_store.tso import OrderKey


def after(*statements: str) -> tuple[Table, list[TableVersion]]:
    """Return a table and the versions that statements make of it; `said|ran` says another statement than it ran."""
    catalog = Catalog({"d": Schema("d", "utf8mb4", "utf8mb4_0900_ai_ci")})
    catalog = apply_ddl(catalog, "CREATE TABLE t (a INT, b INT, c INT, KEY k (a), KEY l (b))", "d").catalog
    first, versions = catalog.tables["d", "t"], []
    for number, statement in enumerate(statements, 1):
        said, _, ran = statement.partition("|")
        catalog = apply_ddl(catalog, f"ALTER TABLE t {ran or said}", "d").catalog
        key = OrderKey(number, 0, 0, 0)
        versions.append(TableVersion(key, number, "d", "t", catalog.tables["d", "t"], f"ALTER TABLE t {said}"))
    return first, versions


@pytest.mark.parametrize(
    ("statements", "found"),
    [
        (["RENAME COLUMN a TO x"], Renames((("a", "x"),))),
        (["RENAME COLUMN a TO x", "CHANGE x y BIGINT"], Renames((("a", "y"),))),
        (["RENAME COLUMN a TO b, RENAME COLUMN b TO a"], Renames((("a", "b"), ("b", "a")))),
        (["DROP COLUMN a", "ADD COLUMN a INT", "RENAME COLUMN a TO x"], Renames()),
        (["RENAME INDEX k TO m", "RENAME INDEX m TO n"], Renames((), (("k", "n"),))),
        (["RENAME INDEX k TO m", "DROP INDEX m"], Renames()),
        (["COMMENT 'x'|RENAME COLUMN a TO x"], Renames((), (), ("a",))),
        (["RENAME COLUMN a TO z|RENAME COLUMN b TO x"], Renames((), (), ("b",))),
        (["COMMENT 'x'|DROP COLUMN a"], Renames()),
    ],
)
def test_what_is_renamed(statements: list[str], found: Renames) -> None:
    assert renames_of(*after(*statements)) == found
