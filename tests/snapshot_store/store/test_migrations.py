"""Stores of older programs are brought up to date when opened, also if only to be read: same history, same numbers."""

from pathlib import Path

import duckdb
import pytest

from snapshot_store.errors import StoreError, StoreMissing, StoreTooNew
from snapshot_store.history import SchemaHistory, TableVersion
from snapshot_store.model import Schema
from snapshot_store.model_json import schema_to_json, table_to_json
from snapshot_store.store.db import Store
from snapshot_store.store.migrations import MIGRATIONS, VIEWS, migrate, outdated
from snapshot_store.tso import ORIGIN, OrderKey
from tests.snapshot_store.store.test_store import NEW, OLD


def old_store(path: Path, version: int = 1) -> SchemaHistory:
    """Make a store as the program of that version made it."""
    versions = [
        TableVersion(OrderKey(5, 1, 0, 0), 0, "d", "t", NEW, "ALTER …", None, "b.1", 4, "marker"),
        TableVersion(ORIGIN, 0, "d", "t", OLD, origin="base"),
        TableVersion(ORIGIN, 0, "d", "a", None, node="n1"),
        TableVersion(OrderKey(5, 1, 1, 1), 0, "d", "t", NEW, node="n1"),
    ]
    connection = duckdb.connect(str(path))
    connection.execute("CREATE TABLE store_info (version INTEGER NOT NULL)")
    connection.execute("INSERT INTO store_info VALUES (?)", [version])
    for script in MIGRATIONS[:version]:
        for statement in script:
            connection.execute(statement)
    for v in versions:
        definition = None if v.table is None else table_to_json(v.table)
        connection.execute(
            "INSERT INTO table_versions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [v.node or "", v.key.text(), v.schema, v.name, definition, v.ddl, v.file, v.position, v.origin],
        )
    connection.execute(
        "INSERT INTO schema_versions VALUES ('', ?, 'd', ?, '', '', 0, 'base')", ["0" * 54, schema_to_json(Schema("d"))]
    )
    connection.close()
    return SchemaHistory().with_versions(versions)


@pytest.mark.parametrize("read_only", [True, False])
def test_a_store_of_the_first_version(tmp_path: Path, read_only: bool) -> None:
    expected = old_store(tmp_path / "s")
    with Store.open(tmp_path / "s", read_only=read_only) as store:
        history = store.load_history()
        assert history.versions == expected.versions
        assert [v.value for v in history.schema_versions] == [Schema("d")]
        lines = [(v.node, v.schema, v.name) for v in expected.versions]
        assert store.history_of(lines).versions == expected.versions
        assert store.beginning() == ORIGIN and store.topology().routes == ()


def test_a_store_that_cannot_be_brought_up_to_date_says_so(tmp_path: Path) -> None:
    old_store(tmp_path / "s")
    connection = duckdb.connect(str(tmp_path / "s"), read_only=True)
    assert outdated(connection)
    with pytest.raises(StoreError, match="open it once for writing"):
        migrate(connection, read_only=True)
    connection.close()


def test_every_reason_has_its_own_error(tmp_path: Path) -> None:
    with pytest.raises(StoreMissing), Store.open(tmp_path / "absent", read_only=True):
        pass
    old_store(tmp_path / "s")
    connection = duckdb.connect(str(tmp_path / "s"))
    connection.execute("UPDATE store_info SET version = 99")
    connection.close()
    for read_only in (True, False):
        with pytest.raises(StoreTooNew), Store.open(tmp_path / "s", read_only=read_only):
            pass


def test_every_view_answers_on_an_empty_store(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s"):
        pass
    for view in (*VIEWS, "tables_at(5)"):
        with Store.open(tmp_path / "s", read_only=True) as store:
            answer = store.query(f"FROM {view}")
            assert answer.rows == () and "order_key" in answer.columns
