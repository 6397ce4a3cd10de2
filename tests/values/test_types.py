"""Types of columns: a type that somebody adds is carried by its row in the tables alone, or refused: never passed over.

A made-up type of a known family, with its forms, is treated as the others of that family. One of a family of its own is
refused by each part, with an error that names the type or the column.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest

from binlog_merge.binlog.constants import ColumnType as T
from binlog_merge.binlog_server.dictionary import _sizes
from binlog_merge.binlog_server.refused import Refused
from binlog_merge.binlog_server.table_facts import status_of
from binlog_merge.binlog_server.tables.fields import Reading, Results, field_of, printed, sorted_by
from binlog_merge.errors import MergeError
from binlog_merge.messages import maxwell, simple
from binlog_merge.messages.canal import Canal, CanalOptions
from binlog_merge.messages.debezium import ddl as debezium_ddl
from binlog_merge.messages.debezium import types as debezium
from binlog_merge.messages.debezium.options import DebeziumOptions
from binlog_merge.messages.open_protocol import OpenProtocol, OpenProtocolOptions
from binlog_merge.tables import alter, partitions
from binlog_merge.tables.types import duckdb_type
from binlog_merge.values import sql
from binlog_merge.values.convert.cells import implicit_default, make_converter
from binlog_merge.values.duckdb.columns import column_sql
from binlog_merge.values.duckdb.piece import ExpressionError
from binlog_merge.values.evaluate.kinds import NotComputableError, kind_of
from binlog_merge.values.types import FORMS, Forms, binlog_column, column_facts_of, stored_type
from binlog_merge.values.value import ConversionError, decode_cell
from snapshot_store.ddl.validate.columns import column_bytes
from snapshot_store.errors import SnapshotStoreError
from snapshot_store.lattice.columns import filled, join_types
from snapshot_store.model import Column, Table
from snapshot_store.mysql.column_type import TYPES, ColumnType, Family, TypeFacts
from snapshot_store.mysql.expr.nodes import column as column_node
from snapshot_store.mysql.sql.session import DdlSession
from snapshot_store.mysql.values.literals import stored_text
from snapshot_store.render_sql import type_sql

REFUSALS: Final = (
    MergeError,
    SnapshotStoreError,
    ConversionError,
    ExpressionError,
    NotComputableError,
    Refused,
    ValueError,
)
NUMBER: Final = Column("n", ColumnType("bigint"))


def rows_of(column: Column) -> Any:
    return SimpleNamespace(places=[0], columns=[column], table=Table("s", "t", (column,)))


def expression(column: Column) -> object:
    piece = column_sql(column, "c0")
    if not piece.kind:
        raise ExpressionError(piece.text)
    return piece


PARTS: Final[dict[str, Callable[[Column], object]]] = {
    "a table map": binlog_column,
    "Arrow": column_facts_of,
    "a cell": lambda column: decode_cell(column.type, b"\x01a"),
    "an implicit default": lambda column: implicit_default(column.type),
    "a conversion": lambda column: make_converter(column, NUMBER, binlog_column(column)) and "there is one",
    "a conversion back": lambda column: make_converter(NUMBER, column, binlog_column(NUMBER)) and "there is one",
    "DuckDB": lambda column: duckdb_type(column.type),
    "a filter": expression,
    "a generated column": lambda column: kind_of(column_node("c"), {"c": column}),
    "the order of rows": alter._compared,
    "a partition by key": lambda column: partitions._bytes(column, "a"),
    "a client's column": lambda column: field_of(Table("s", "t", (column,)), column, "c", "t", Results(None)),
    "a client's value": lambda column: printed(column, "c", Reading(False)),
    "a client's ORDER BY": lambda column: sorted_by(column, "c", Reading(False)),
    "information_schema": lambda column: _sizes(column.type),
    "a server's text": lambda column: sql.text_of(column, "c"),
    "a server's text to write": lambda column: sql.written_of(column, "c"),
    "a literal": lambda column: sql.literal_of_written(column, "61"),
    "Debezium": lambda column: debezium.kind_of(column, DebeziumOptions()).schema,
    "Debezium's schema changes": lambda column: debezium_ddl._column(1, column)["jdbcType"],
    "canal": lambda column: Canal(CanalOptions())._sql_types(rows_of(column), None),
    "TiCDC's simple protocol": lambda column: simple._column(column)["dataType"].get("length"),
    "a row's size": lambda column: column_bytes(column.type),
    "the default of a merged column": lambda column: filled(Column("c", column.type, nullable=False)).default,
}
BY_NAME: Final[dict[str, Callable[[Column], object]]] = {
    "DDL": lambda column: type_sql(column.type),
    "Maxwell's schema changes": maxwell._column,
    "a joined type": lambda column: join_types("c", column.type, column.type),
}
"""What carries any type by its name."""


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> Column:
    """Return a column of a type of a family of its own, whose row the tables have."""
    stored_type.cache_clear()
    monkeypatch.setitem(TYPES, "uuid", TypeFacts("uuid", cast("Family", "uuid"), width=36))
    return Column("c", ColumnType("uuid"))


@pytest.fixture
def like_tinytext(monkeypatch: pytest.MonkeyPatch) -> Column:
    """Return a column of a type that differs from TINYTEXT by name alone."""
    stored_type.cache_clear()
    monkeypatch.setitem(TYPES, "smalltext", TypeFacts("smalltext", Family.TEXT, size=9, counter=1))
    monkeypatch.setitem(FORMS, "smalltext", FORMS["tinytext"])
    return Column("c", ColumnType("smalltext", charset="utf8mb4", collation="utf8mb4_bin"))


def refuses(part: Callable[[Column], object], column: Column) -> str:
    with pytest.raises(REFUSALS) as raised:
        part(column)
    return str(raised.value)


@pytest.mark.parametrize("part", PARTS)
def test_a_type_of_a_family_of_its_own_is_refused(part: str, made_up: Column) -> None:
    assert "uuid" in refuses(PARTS[part], made_up).lower()


@pytest.mark.parametrize("part", PARTS)
def test_it_is_refused_by_family_also_where_its_forms_are_known(
    part: str, made_up: Column, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A form in the table is all that a part asks for, or else the family decides."""
    monkeypatch.setitem(FORMS, "uuid", Forms(T.STRING, T.STRING, 254, 1, 1, "UUID"))
    try:
        found = PARTS[part](made_up)
    except REFUSALS as error:
        assert "uuid" in str(error).lower()
    else:
        assert part in BY_FORM, found


BY_FORM: Final = frozenset(
    {
        *("a table map", "Arrow", "a cell", "DuckDB"),
        *("canal", "Debezium's schema changes", "TiCDC's simple protocol"),
    }
)
"""What carries a type of any family whose form the table has."""


@pytest.mark.parametrize("part", BY_NAME)
def test_what_carries_names_carries_it(part: str, made_up: Column) -> None:
    assert "uuid" in str(BY_NAME[part](made_up))


@pytest.mark.parametrize("part", [*PARTS, *BY_NAME])
def test_a_type_of_a_known_family_is_carried_by_its_rows_alone(part: str, like_tinytext: Column) -> None:
    same = Column("c", ColumnType("tinytext", charset="utf8mb4", collation="utf8mb4_bin"))
    act = (PARTS | BY_NAME)[part]
    assert result(act, like_tinytext).replace("smalltext", "tinytext") == result(act, same)


def result(act: Callable[[Column], object], column: Column) -> str:
    try:
        return f"gives {act(column)}"
    except REFUSALS as error:
        return f"raises {error}"


def test_a_literal_default_is_refused(made_up: Column) -> None:
    with pytest.raises(ValueError, match="uuid"):
        stored_text("string", "a", made_up.type, DdlSession())


def test_a_name_that_no_table_has_is_refused() -> None:
    with pytest.raises(SnapshotStoreError, match="type klingon is not known"):
        assert ColumnType("klingon").family


def test_both_tables_have_the_same_types() -> None:
    assert list(FORMS) == list(TYPES)


def families() -> Iterator[Family]:
    yield from Family


def test_each_family_has_a_type() -> None:
    assert set(families()) == {facts.family for facts in TYPES.values()}


@pytest.mark.parametrize("name", ["point", "geomcollection", "varchar", "mediumblob", "json", "vector"])
def test_a_row_of_myisam_varies_with_such_a_column(name: str) -> None:
    """Seen on 9.7: SHOW TABLE STATUS of a MyISAM table of INT and POINT says Dynamic."""
    table = Table("s", "t", (NUMBER, Column("c", ColumnType(name, 3))), engine="MyISAM")
    assert (status_of(table)[2], status_of(replace(table, columns=(NUMBER,)))[2]) == ("Dynamic", "Fixed")


def test_open_protocol_refuses_it(made_up: Column) -> None:
    protocol = OpenProtocol(OpenProtocolOptions())
    with pytest.raises(MergeError, match="uuid"):
        protocol._column(rows_of(made_up), 1, 0)
