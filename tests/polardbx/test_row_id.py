"""The hidden row id of tables without a primary key is taken for what it is, and nothing else is."""

from dataclasses import replace

import pytest

from binlog_merge.binlog.table_map import TableMap
from binlog_merge.polardbx.names import ROW_ID
from binlog_merge.polardbx.row_id import with_row_id
from snapshot_store.ddl.public import parse_table
from snapshot_store.model import Table

_BIGINT, _INT = 8, 3


def _table(sql: str) -> Table:
    return parse_table(sql, schema="d")


def _map(*types: int, names: tuple[str, ...] | None = None) -> TableMap:
    body = bytes(6) + b"\1\0" + b"\1d\0" + b"\1t\0" + bytes([len(types)]) + bytes(types) + b"\0" + b"\0"
    if names is not None:
        text = b"".join(bytes([len(n)]) + n.encode() for n in names)
        body += bytes([4, len(text)]) + text
    return TableMap.parse(body)


def test_a_column_more_is_the_row_id() -> None:
    table = _table("CREATE TABLE t (a int, b bigint)")
    for names in (None, ("a", "b", ROW_ID)):
        found = with_row_id(table, _map(_INT, _BIGINT, _BIGINT, names=names))
        assert [c.name for c in found.columns] == ["a", "b", ROW_ID]
        assert replace(found, columns=table.columns) == table


@pytest.mark.parametrize(
    ("sql", "table_map"),
    [
        ("CREATE TABLE t (a int PRIMARY KEY)", _map(_INT, _BIGINT)),
        ("CREATE TABLE t (a int)", _map(_INT, _INT)),
        ("CREATE TABLE t (a int)", _map(_INT)),
        ("CREATE TABLE t (a int)", _map(_INT, _BIGINT, _BIGINT)),
        ("CREATE TABLE t (a int)", _map(_INT, _BIGINT, names=("a", "b"))),
    ],
)
def test_anything_else_is_not(sql: str, table_map: TableMap) -> None:
    table = _table(sql)
    assert with_row_id(table, table_map) is table
