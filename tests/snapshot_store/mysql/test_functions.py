"""The catalogue of MySQL's functions: both evaluators and the reader follow it; no other list of functions exists."""

import ast
import re
from collections.abc import Iterator
from inspect import signature
from pathlib import Path
from typing import Any

import pytest

from binlog_merge.values.duckdb import functions as duckdb
from binlog_merge.values.duckdb.columns import column_sql
from binlog_merge.values.duckdb.piece import SESSION, Sql
from binlog_merge.values.evaluate import functions as python
from binlog_merge.values.evaluate.kinds import NotComputableError, kind_of
from snapshot_store.model import Column
from snapshot_store.mysql.column_type import ColumnType
from snapshot_store.mysql.expr import calls
from snapshot_store.mysql.expr.nodes import call, literal
from snapshot_store.mysql.sql.functions import CANONICAL, FUNCTIONS, MANY, WITHOUT_PARENTHESES, function

ROOT = Path(__file__).parents[3]
COMPUTED = {"Python": {**python.CALLS, **python.CHOICES, **python.CLOCK}, "DuckDB": duckdb.CALLS}
FEWER = {"Python": python.FEWER, "DuckDB": duckdb.FEWER}
TEXT = {"charset": "utf8mb4", "collation": "utf8mb4_0900_ai_ci"}
COLUMNS = {
    "int": Column("c", ColumnType("bigint")),
    "text": Column("c", ColumnType("varchar", 9, **TEXT)),
    "datetime": Column("c", ColumnType("datetime")),
    "json": Column("c", ColumnType("json")),
}
KINDS = {"string": "text", "bool": "int"}


def test_names_are_one_functions_own() -> None:
    names = [name for found in FUNCTIONS.values() for name in found.names]
    assert len(names) == len(set(names))
    assert all(function(name) is FUNCTIONS[CANONICAL.get(name, name)] for name in names)
    assert set(names) >= WITHOUT_PARENTHESES


def test_a_function_that_is_not_built_in_is_allowed_nowhere() -> None:
    assert function("mine").allowed == "nowhere"
    assert function("json_of_tomorrow").allowed == function("st_of_tomorrow").allowed == "anywhere"


@pytest.mark.parametrize("evaluator", COMPUTED)
def test_what_is_computed_is_in_the_catalogue(evaluator: str) -> None:
    for name in COMPUTED[evaluator]:
        assert name in FUNCTIONS, f"{name} is an alias, or unknown"
        assert FUNCTIONS[name].arguments is not None, name
    for name, most in FEWER[evaluator].items():
        assert name in COMPUTED[evaluator] and FUNCTIONS[name].takes(most) and FUNCTIONS[name].takes(most + 1)


def test_python_computes_what_follows_its_arguments_or_the_commit_time() -> None:
    assert {FUNCTIONS[name].depends for name in python.CLOCK} == {"clock"}
    # DATE_FORMAT() depends on the session in names of days and months, which are not computed.
    depending = {name for name in (*python.CALLS, *python.CHOICES) if FUNCTIONS[name].depends}
    assert depending == {"date_format"}


def test_python_says_what_kind_only_where_the_catalogue_does_not() -> None:
    assert not [name for name, found in python.CALLS.items() if found.gives and FUNCTIONS[name].gives]
    assert all(FUNCTIONS[name].gives for name in python.CLOCK)


@pytest.mark.parametrize("name", {**python.CALLS, **python.CHOICES})
def test_python_takes_as_many_arguments_as_the_catalogue_says(name: str) -> None:
    run = python.CHOICES[name] if name in python.CHOICES else python.CALLS[name].run
    counts = [count for count in range(MANY + 2) if FUNCTIONS[name].takes(count, python.FEWER.get(name, MANY))]
    if run not in (max, min):
        for count in counts:
            signature(run).bind(*range(count))
    if name in python.CALLS:
        with pytest.raises(NotComputableError, match=rf"^{name}\(\) with {counts[-1] + 1} arguments$"):
            kind_of(call(name, *[literal("1")] * (counts[-1] + 1)), {})


def test_duckdb_computes_what_depends_on_its_arguments_alone() -> None:
    assert not [name for name in duckdb.CALLS if FUNCTIONS[name].depends]
    assert set(duckdb.OTHER_DIGITS) <= set(duckdb.CALLS)


@pytest.mark.parametrize("name", duckdb.CALLS)
def test_duckdb_gives_the_kind_that_the_catalogue_says(name: str) -> None:
    told = FUNCTIONS[name]
    assert told.arguments is not None
    made = 0
    for kind in COLUMNS:
        for count in told.arguments[:4]:
            args = [_piece(name, kind, place) for place in range(count)]
            try:
                found = duckdb.call(name, args, SESSION)
            except duckdb.ExpressionError:
                continue
            made += 1
            assert told.gives in ("", KINDS.get(found.kind, found.kind))
    assert made
    more = min(told.arguments[-1], duckdb.FEWER.get(name, MANY)) + 1
    with pytest.raises(duckdb.ExpressionError, match=rf"^{name}\(\) with {more} arguments$"):
        duckdb.call(name, [_piece(name, "int", 0)] * more, SESSION)


def _piece(name: str, kind: str, place: int) -> Sql:
    if name == "json_extract" and place:
        return Sql("'$.a'", "string", constant="$.a")
    if name in ("round", "yearweek") and place:
        return Sql("0", "int", constant="0")
    if name == "regexp_like" and place:
        return Sql("'a'", "string", constant="a")
    return column_sql(COLUMNS[kind], f"c{place}")


def test_what_the_reader_reads_in_its_own_way_is_in_the_catalogue() -> None:
    known = {name for found in FUNCTIONS.values() for name in found.names}
    unknown = {name for name in (*calls._SPECIAL, *calls._REWRITTEN) if not name.startswith("json_")} - known
    assert unknown == {"sounds"}  # SOUNDS LIKE, which is no function


# Implementations: files that read, compute or answer functions.
IMPLEMENTATIONS = {
    "snapshot_store/mysql/sql/functions.py",
    "snapshot_store/mysql/expr/calls.py",
    "binlog_merge/values/evaluate/functions.py",
    "binlog_merge/values/duckdb/functions.py",
    "binlog_merge/values/duckdb/text.py",
    "binlog_merge/binlog_server/constants.py",
    "binlog_merge/binlog_server/questions.py",
    "binlog_merge/binlog_server/sql.py",
    "binlog_merge/binlog_server/tables/query.py",
    "binlog_merge/streams/mariadb/ddl.py",
    "binlog_merge/mariadb_nodes/definitions.py",  # reserved words, of which some are functions
}
# Units of time, types, clauses, kinds of nodes and columns that have the name of a function.
OTHER_WORDS = (
    {"year", "quarter", "month", "week", "day", "hour", "minute", "second", "microsecond"}
    | {"date", "time", "timestamp", "datetime", "char", "interval", "extract", "get_format", "timestampdiff", "cast"}
    | {"point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon"}
    | {"geomcollection", "geometrycollection", "position", "schema", "version", "crc32", "charset", "collation"}
    | {"rank", "database"}
    | {"insert", "replace", "left", "right", "default", "coalesce", "truncate", "trim"}
)


def test_no_other_list_of_functions_exists() -> None:
    names = {name for found in FUNCTIONS.values() for name in found.names} - OTHER_WORDS
    lists = []
    for package in ("snapshot_store", "binlog_merge"):
        for path in sorted((ROOT / package).rglob("*.py")):
            place = str(path.relative_to(ROOT))
            if place not in IMPLEMENTATIONS:
                lists += [f"{place}:{line}: {found}" for line, found in _lists(path, names)]
    assert not lists


def _lists(path: Path, names: set[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield where a collection, or a pattern, names two functions or more."""
    for node in ast.walk(ast.parse(path.read_text())):
        found = [word for word in _words(node) if word.lower() in names]
        if len(found) > 1:
            yield node.lineno, found  # type: ignore[attr-defined]


def _words(node: Any) -> list[str]:
    match node:
        case ast.Tuple() | ast.List() | ast.Set():
            parts = node.elts
        case ast.Dict():
            parts = [key for key in node.keys if key is not None]
        case ast.MatchOr():
            parts = [part.value for part in node.patterns if isinstance(part, ast.MatchValue)]
        case ast.Constant(value=str() as text) if "|" in text and " " not in text:
            return text.replace("(", "|").replace(")", "|").split("|")
        case _:
            return []
    return [part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)]


def test_the_page_on_expressions_names_each_function_once() -> None:
    page = (ROOT / "docs" / "reference" / "expressions.md").read_text()
    named = re.findall(r"`([A-Z][A-Z0-9_]*)`", page.split("<!-- end -->")[0].split("<!-- generated")[1])
    names = [name.upper() for found in FUNCTIONS.values() for name in found.names]
    assert sorted(named) == sorted(names)
    refused = [line for line in page.splitlines() if line.endswith("| nowhere: not done yet |")]
    assert not [name for name in duckdb.CALLS if f"`{name.upper()}`" in refused[0]]
