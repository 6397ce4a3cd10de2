"""DM's own cases of its schema lattice (TestJoinSchemas and TestTypeCompareJoin of pingcap/tidb pkg/util/schemacmp).

They are written for TiDB: every default collation is _bin, and an integer keeps the display width it was given.
"""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from snapshot_store import DdlSession, parse_table
from snapshot_store.lattice.tables import Incomparable, compare, join
from snapshot_store.model import Column, Default, Table
from snapshot_store.mysql.column_type import ColumnType

VECTORS = Path(__file__).parents[4] / "shared/vectors/schemacmp_compare.json"
CASES: list[dict[str, Any]] = json.loads(VECTORS.read_text()) if VECTORS.exists() else []

pytestmark = pytest.mark.skipif(not CASES, reason="no schemacmp_compare.json beside the repository")

TIDB = DdlSession(collation_server="utf8mb4_bin", default_collation_for_utf8mb4="utf8mb4_bin")
_BARE_CHARSET = re.compile(r"CHARSET (\w+)(?! COLLATE)\b", re.IGNORECASE)


def tidb_table(sql: str) -> Table:
    """Parse as TiDB would: what is not written is _bin."""
    return parse_table(_BARE_CHARSET.sub(r"CHARSET \1 COLLATE \1_bin", sql), schema="d", session=TIDB)


def mysql_table(sql: str) -> Table:
    """Parse as MySQL 9.7 would."""
    return parse_table(sql)


@pytest.mark.parametrize("parse", [tidb_table, mysql_table])
@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_tables_compare_and_join_as_in_dm(case: dict[str, Any], parse: Any) -> None:
    a, b = parse(case["a"]), parse(case["b"])
    if case["cmp"] == "error":
        check_error(compare, a, b, case, "cmp_error")
    else:
        assert compare(a, b) == case["cmp"]
        assert compare(b, a) == -case["cmp"]
    if case.get("join") == "error":
        check_error(join, a, b, case, "join_error")
        return
    joined = join(a, b)
    assert joined == join(b, a)
    assert compare(joined, a) >= 0
    assert compare(joined, b) >= 0
    if "join" in case:
        assert compare(joined, parse(case["join"])) == 0
    if parse is tidb_table and "join_columns" in case:
        assert compare(joined, described_table(case["join_columns"], joined)) == 0
        assert {i.name.lower() for i in joined.indexes} == case["join_indexes"].keys()


def check_error(function: Any, a: Table, b: Table, case: dict[str, Any], key: str) -> None:
    for pair in ((a, b), (b, a)):
        with pytest.raises(Incomparable) as raised:
            function(*pair)
        # The words of the cases that were not DM's own are not DM's either.
        if not case["id"].startswith("derived/"):
            assert re.search(case.get(key, ""), str(raised.value))


_INTEGERS = ("tinyint", "smallint", "mediumint", "int", "bigint")
_SIZES = ("tiny", "", "medium", "long")


def described_table(columns: dict[str, Any], joined: Table) -> Table:
    """Return the table that a vector describes column by column, after TiDB's own fields.

    They do not tell UNSIGNED, ZEROFILL, ON UPDATE and generated columns: those are as in the table that was found.
    """
    found = {column.name.lower(): column for column in joined.columns}
    made = [
        replace(
            Column(name, described_type(c), c["nullable"], *described_default(c)),
            type=replace(described_type(c), unsigned=found[name].type.unsigned, zerofill=found[name].type.zerofill),
            on_update_now=found[name].on_update_now,
            generated=found[name].generated,
        )
        for name, c in columns.items()
    ]
    return Table("d", "t", tuple(made), joined.indexes, collation="utf8mb4_bin")


def described_type(column: dict[str, Any]) -> ColumnType:
    family, rank = column["tp"]
    bytes_only = column["charset"] == "binary"
    text = {} if bytes_only else {"charset": column["charset"], "collation": column["collate"]}
    members = tuple(column["elems"] or ())
    if family == "int":
        return ColumnType(_INTEGERS[rank - 1], display_width=column["flen"])
    if family == "blob":
        return ColumnType(_SIZES[rank - 1] + ("blob" if bytes_only else "text"), **text)
    if family == "decimal":
        return ColumnType(family, column["flen"], column["dec"])
    if family == "bit":
        return ColumnType(family, column["flen"])
    if family in ("char", "varchar"):
        name = {"char": "binary", "varchar": "varbinary"}[family] if bytes_only else family
        return ColumnType(name, column["flen"], **text)
    return ColumnType(family, fsp=column["dec"], members=members, **text)


def described_default(column: dict[str, Any]) -> tuple[Default | None, bool, bool]:
    if column["default"] is not None:
        return (Default("literal", column["default"]), False, False)
    none = column["no_default"] or column["auto_increment"] or not column["nullable"]
    return (None if none else Default("null"), False, column["auto_increment"])
