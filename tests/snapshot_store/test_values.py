"""The model as JSON and as SQL: both give the value back. And what may be imported by what."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given

from snapshot_store.ddl import apply_ddl, parse_dump
from snapshot_store.errors import StoreError
from snapshot_store.model import Catalog, Column, Default, Index, IndexPart, Schema, Table
from snapshot_store.model_json import schema_from_json, schema_to_json, table_from_json, table_to_json
from snapshot_store.mysql.column_type import ColumnType
from snapshot_store.render_sql import create_schema_sql, create_sql
from tests.snapshot_store.strategies import UNHURRIED, tables

ROOT = Path(__file__).resolve().parents[2]


@UNHURRIED
@given(tables())
def test_json_gives_the_table_back(table: Table) -> None:
    assert table_from_json(table_to_json(table)) == table


def test_json_keeps_every_field_and_leaves_defaults_out() -> None:
    odd = Table("d", "t", (Column("\ud800", ColumnType("set", members=("a", "")), default=Default("literal")),))
    assert table_from_json(table_to_json(odd)) == odd
    implicit = replace(odd, indexes=(Index("i", (IndexPart("a", 3, True),), implicit=True),))
    assert table_from_json(table_to_json(implicit)).indexes[0].implicit
    assert schema_from_json(schema_to_json(Schema("d", "gbk", "gbk_bin"))) == Schema("d", "gbk", "gbk_bin")
    assert schema_to_json(Schema("d")) == '{"name":"d"}'


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"nothing":1}', '{"schema":"d","name":"t","columns":[1]}'])
def test_what_is_no_table_is_refused(text: str) -> None:
    with pytest.raises(StoreError, match="the store is damaged"):
        table_from_json(text)


@UNHURRIED
@given(tables())
def test_sql_gives_the_table_back(table: Table) -> None:
    assert parse_dump(create_sql(table), "d").tables["d", "t"] == table
    qualified = create_sql(table.renamed("x`y", "t"), qualified=True)
    assert parse_dump(qualified).tables["x`y", "t"] == table.renamed("x`y", "t")


def test_a_schema_as_sql_gives_the_schema_back() -> None:
    schema = Schema("x`y", "gbk", "gbk_bin")
    assert apply_ddl(Catalog(), create_schema_sql(schema), None).catalog.schemas == {"x`y": schema}


@pytest.mark.parametrize(
    "module", ["history", "model", "topology", "diff", "tso", "model_json", "render_sql", "errors"]
)
def test_values_are_light_to_import(module: str) -> None:
    code = (
        f"import sys, snapshot_store.{module}; heavy = {{'duckdb', 'sqlglot', 'pyspark', 'pyarrow', 'numba', 'numpy', "
        "'binlog_merge'}}; print(sorted(heavy & set(sys.modules)))"
    ).replace("}}", "}")
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert answer.stdout == "[]\n"


def test_only_the_store_imports_duckdb_and_nothing_imports_upwards() -> None:
    for path in (ROOT / "snapshot_store").rglob("*.py"):
        imports = [line for line in path.read_text().splitlines() if line.startswith(("import ", "from "))]
        for line in imports:
            assert not line.split()[1].startswith(("binlog_merge", "pyspark")), path
            assert not line.split()[1].startswith("duckdb") or path.parent.name == "store", path
            assert not line.split()[1].startswith("sqlglot") or path.name == "tokens.py", path


def test_what_the_readme_names_is_there() -> None:
    from snapshot_store.ask import questions, skew
    from snapshot_store.lattice import compare, join
    from snapshot_store.store import Store

    assert all((Store.open, compare, join, questions, skew))
