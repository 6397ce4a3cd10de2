"""The statements and expressions of fixtures/ddl without a server: what one said of them is written down there."""

import json
from dataclasses import replace

import pytest

from snapshot_store.ddl import apply_ddl
from snapshot_store.errors import DdlNotUnderstood, SnapshotStoreError
from snapshot_store.model import Catalog, Schema
from snapshot_store.mysql.expr.read import canonical, read_expression
from tests.snapshot_store.ddl.ddl_corpus import DEFAULTS, FILES, ROOT, statements

EXPRESSIONS = json.loads((ROOT / "expressions.json").read_text())
COLUMNS = "a INT, b INT, x DOUBLE, s VARCHAR(30), t DATETIME, j JSON, v VARBINARY(30)"
PLACES = {"generated": "g LONGTEXT AS ({})", "default": "g LONGTEXT DEFAULT ({})", "check": "CHECK ({})"}


def test_the_corpus_is_large() -> None:
    found = [statement for name in FILES for statement in statements(name)]
    assert len(found) >= 400
    assert sum(not s.refused for s in found) >= 400
    assert sum(bool(s.refused) for s in found) >= 300


@pytest.mark.parametrize("name", FILES)
def test_what_a_server_takes_is_taken_and_what_it_refuses_is_refused(name: str) -> None:
    catalog = Catalog()
    for statement in statements(name):
        before = catalog
        try:
            catalog = apply_ddl(catalog, statement.sql, statement.database, statement.session).catalog
        except SnapshotStoreError as error:
            assert statement.refused or statement.not_followed, f"{name}.sql:{statement.line}: {error}"
            if statement.not_followed:
                assert isinstance(error, DdlNotUnderstood) and "schema set" in str(error)
        else:
            assert not (statement.refused or statement.not_followed), f"{name}.sql:{statement.line} is taken"
        assert catalog is before or not statement.refused


@pytest.mark.parametrize("name", FILES)
def test_following_a_binlog_makes_the_same_catalog_as_validating(name: str) -> None:
    validating = following = Catalog()
    for statement in statements(name):
        if statement.refused or statement.not_followed or "Nonsense" in statement.sql:
            continue  # Whoever follows cannot know which engines a server has.
        session = statement.session
        validating = apply_ddl(validating, statement.sql, statement.database, session).catalog
        trusting = replace(session, validate=False, foreign_key_checks=True)
        following = apply_ddl(following, statement.sql, statement.database, trusting).catalog
        assert following == validating, f"{name}.sql:{statement.line}: {statement.sql}"


@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.heavy) for part in (1, 2, 3))])
def test_expressions_are_told_as_the_server_tells_them(part: int) -> None:
    """Every fourth of them."""
    for source in [*EXPRESSIONS][part::4]:
        told_as_by_the_server(source)


def told_as_by_the_server(source: str) -> None:
    catalog = Catalog({"d": Schema("d")})
    for place, item in PLACES.items():
        told = EXPRESSIONS[source][place]
        sql = f"CREATE TABLE t ({COLUMNS}, {item.format(source)})"
        if told is None and source == "NULL":
            continue  # information_schema shows this default as none at all.
        if told is None:
            with pytest.raises(SnapshotStoreError):
                apply_ddl(catalog, sql, "d", DEFAULTS)
            continue
        table = apply_ddl(catalog, sql, "d", DEFAULTS).catalog.table("d", "t")
        assert read_expression(source, DEFAULTS).text == told, source
        last = table.columns[-1]
        if place == "check":
            assert [text for _, text in table.checks] == [told], source
        elif place == "default":
            assert last.default is not None and last.default.text == told, source
        else:
            assert last.generated is not None and last.generated.expression == told, source


# Rows compared as a whole: the server rewrites them again each time it reads them.
UNSTABLE = ("a AND (a,b) = (1,2)", "(a,b) NOT IN ((1,2))", "(a,b) IN ((1,2))")


def test_what_the_server_prints_is_read_back_as_the_same() -> None:
    printed = [EXPRESSIONS[s]["default"] for s in EXPRESSIONS if EXPRESSIONS[s]["default"] and s not in UNSTABLE]
    assert len(printed) > 600
    assert {told: canonical(told, DEFAULTS) for told in printed} == {told: told for told in printed}
