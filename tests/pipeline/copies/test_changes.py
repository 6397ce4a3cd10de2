"""Which changes of copies are alike: by what a row says, not by how a node's table has it."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from binlog_merge.binlog.rows import ABSENT, Cell, PartialJson
from binlog_merge.binlog.table_map import TableMap
from binlog_merge.binlog.temporal import Civil
from binlog_merge.pipeline.copies import RowChange, row_change
from binlog_merge.values.value import encode_cell
from snapshot_store.ddl import parse_dump
from snapshot_store.model import Table
from snapshot_store.tso import OrderKey

MAP = TableMap(1, 0, "k", "c", b"", (), b"")
KEY = OrderKey(7, 0, 0, 0)
PLAIN = "code CHAR(2) PRIMARY KEY, name VARCHAR(40)"


def table(columns: str) -> Table:
    return parse_dump(f"CREATE DATABASE k; CREATE TABLE k.c ({columns});", "k").tables["k", "c"]


def cells(of: Table, values: tuple[Any, ...]) -> tuple[Cell, ...]:
    return tuple(None if v is None else encode_cell(c.type, v) for c, v in zip(of.columns, values, strict=True))


def inserted(columns: str, *values: Any) -> RowChange:
    made = table(columns)
    return row_change(MAP, made, KEY, True, None, cells(made, values))


FR = inserted(PLAIN, "FR", "é")


@pytest.mark.parametrize(
    ("columns", "values"),
    [
        (f"{PLAIN}, iso INT NOT NULL DEFAULT 7", ("FR", "é", 7)),
        (f"{PLAIN}, iso INT", ("FR", "é", None)),
        (f"{PLAIN}, at DATETIME DEFAULT CURRENT_TIMESTAMP, t TIME", ("FR", "é", Civil(2024, 1, 2, 3, 4, 5), None)),
        (f"{PLAIN}, at DATETIME ON UPDATE CURRENT_TIMESTAMP", ("FR", "é", Civil(2024, 1, 2, 3, 4, 5))),
        (f"{PLAIN}, low VARCHAR(40) AS (LOWER(name)) STORED", ("FR", "é", "x")),
        ("NAME VARCHAR(300) CHARACTER SET latin1, CODE VARCHAR(9) PRIMARY KEY", ("é", "FR")),
    ],
)
def test_rows_that_say_the_same(columns: str, values: tuple[Any, ...]) -> None:
    assert inserted(columns, *values).digest == FR.digest


@pytest.mark.parametrize(
    ("columns", "values"),
    [
        (f"{PLAIN}, iso INT NOT NULL DEFAULT 7", ("FR", "é", 8)),
        (f"{PLAIN}, iso INT DEFAULT 7", ("FR", "é", None)),
        (f"{PLAIN}, t TIME", ("FR", "é", timedelta(0))),
        (PLAIN, ("FR", "e")),
        (PLAIN, ("FR", "")),
        (PLAIN, ("FR", None)),
        ("code CHAR(2) PRIMARY KEY, title VARCHAR(40)", ("FR", "é")),
    ],
)
def test_rows_that_do_not(columns: str, values: tuple[Any, ...]) -> None:
    assert inserted(columns, *values).digest != FR.digest
    nothing = inserted("code CHAR(2) PRIMARY KEY, name VARCHAR(40) DEFAULT 'x'", "FR", None)
    assert nothing.digest != inserted("code CHAR(2) PRIMARY KEY, name VARCHAR(40) DEFAULT 'x'", "FR", "").digest


def test_changes_are_told_by_their_key_and_kind() -> None:
    made = table(PLAIN)
    fr, de = cells(made, ("FR", "France")), cells(made, ("DE", "France"))
    found = [
        row_change(MAP, made, KEY, inserts, before, after)
        for inserts, before, after in ((True, None, fr), (False, fr, None), (False, fr, de), (False, de, fr))
    ]
    assert [one.what for one in found] == [
        "insert of code='FR'", "delete of code='FR'", "update of code='FR'", "update of code='DE'"
    ]  # fmt: skip
    assert len({one.digest for one in found}) == 4
    assert found[0] == replace(found[0], table=("k", "c"), key=KEY)
    keyless = table("a INT, b INT")
    change = row_change(MAP, keyless, KEY, False, (encode_cell(keyless.columns[0].type, 1), ABSENT), None)
    assert change.what == "delete of a=1"
    assert row_change(MAP, None, KEY, True, None, fr).what == "insert of a row"


def test_partial_updates_of_documents_are_told_apart() -> None:
    made = table("id INT PRIMARY KEY, doc JSON")
    image = (encode_cell(made.columns[0].type, 1), ABSENT)
    one, other = (
        row_change(MAP, made, KEY, False, image, (image[0], PartialJson(diff))).digest for diff in (b"one", b"two")
    )
    assert one != other
