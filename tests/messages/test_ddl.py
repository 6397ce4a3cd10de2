"""Statements as messages: what becomes of which table, also where PolarDB-X has written them."""

from pathlib import Path
from typing import Any

import pytest

from tests.messages.messages import made


def _told(merged: Path, form: str) -> list[Any]:
    return [value for name, _, value in made(merged, form) if name == "ddl"]


def test_debezium_tells_a_renamed_table_under_its_new_name_alone(merged_case: Any) -> None:
    """As Debezium 3.6 did of RENAME TABLE and CREATE UNIQUE INDEX; of DROP it tells the table that is gone."""
    told = {
        value["ddl"].split("--")[0].split("(")[0].split("/")[-1].strip(): (
            value["source"]["table"], [(change["type"], change["id"]) for change in value["tableChanges"]]
        )
        for value in _told(merged_case("ddl-by-markers"), "debezium")
    }  # fmt: skip
    assert told["RENAME TABLE t2 TO renamed"] == ("renamed", [("ALTER", '"d1"."renamed"')])
    assert told["CREATE INDEX by_name ON t1"] == ("t1", [("ALTER", '"d1"."t1"')])
    assert told["CREATE TABLE `like` LIKE t1"] == ("like", [("CREATE", '"d1"."like"')])
    assert told["DROP TABLE renamed"] == ("renamed", [("DROP", '"d1"."renamed"')])
    assert told["CREATE DATABASE d1"] == (None, [])


@pytest.mark.parametrize("form", ["debezium", "maxwell", "simple"])
def test_statements_of_polardbx_have_their_definitions(form: str, merged_case: Any) -> None:
    renamed, created = _told(merged_case("polardbx-rename"), form)[:2]
    if form == "debezium":
        assert [(c["type"], c["id"]) for c in renamed["tableChanges"]] == [("ALTER", '"memo"."letters"')]
        assert [(c["type"], c["id"]) for c in created["tableChanges"]] == [("CREATE", '"memo"."notes"')]
    elif form == "maxwell":
        assert (renamed["type"], renamed["old"]["table"], renamed["def"]["table"]) == (
            "table-alter",
            "notes",
            "letters",
        )
        assert (created["type"], created["def"]["table"]) == ("table-create", "notes")
    else:
        assert renamed["tableSchema"]["table"] == "letters"
