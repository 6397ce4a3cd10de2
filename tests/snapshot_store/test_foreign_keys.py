"""Foreign keys are values, and a store has their SQL: what earlier versions wrote is read, too."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from snapshot_store.ddl import apply_ddl
from snapshot_store.errors import SnapshotStoreError
from snapshot_store.model import Catalog, ForeignKey, Schema, Table
from snapshot_store.model_json import foreign_key_of, table_from_json, table_to_json
from snapshot_store.mysql.sql.names import quote_name

NAMES = st.text("ab`., ()'é", min_size=1, max_size=4).filter(lambda text: text.strip() == text)
COLUMNS = st.lists(NAMES, min_size=1, max_size=3).map(tuple)
ACTIONS = st.sampled_from(["", "CASCADE", "SET NULL", "NO ACTION", "RESTRICT", "SET DEFAULT"])
TABLES = st.tuples(st.none() | NAMES, NAMES)
KEYS = st.builds(ForeignKey, NAMES, COLUMNS, TABLES, COLUMNS | st.just(()), ACTIONS, ACTIONS)


@given(st.lists(KEYS, max_size=2).map(tuple))
def test_each_key_is_read_from_its_sql(keys: tuple[ForeignKey, ...]) -> None:
    assert tuple(foreign_key_of(key.sql) for key in keys) == keys
    table = Table("s", "t", (), foreign_keys=keys)
    assert table_from_json(table_to_json(table)) == table


@given(KEYS)
def test_a_server_writes_it_so(key: ForeignKey) -> None:
    names = {name.lower() for name in key.columns}
    columns = ", ".join(f"{quote_name(name)} INT" for name in names)
    assume(len(names) == len(key.columns))
    catalog = apply_ddl(Catalog({"own": Schema("own")}), f"CREATE TABLE t ({columns}, {key.sql})", "own").catalog
    table = catalog.table("own", "t")
    (made,) = table.foreign_keys
    assert made == key
    assert made.target("own") == (key.table[0] or "own", key.table[1])
    assert table.cascades == ("CASCADE" in key.sql or "SET" in key.sql)


def test_what_is_no_foreign_key_is_damage() -> None:
    text = table_to_json(Table("s", "t", ())).replace("}", ',"foreign_keys":["CHECK (1)"]}')
    with pytest.raises(SnapshotStoreError, match="not a foreign key"):
        table_from_json(text)


def test_an_earlier_spelling() -> None:
    text = "FOREIGN KEY (`a`) REFERENCES `p` ON UPDATE SET NULL ON DELETE NO ACTION"
    assert foreign_key_of(text) == ForeignKey("", ("a",), (None, "p"), (), "NO ACTION", "SET NULL")
