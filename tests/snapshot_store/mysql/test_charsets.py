"""Character sets and collations: one table, which is the server's."""

import pytest

from snapshot_store.mysql.text.charsets import (
    canonical_collation,
    charset_of,
    collation_id,
    collation_name,
    is_collation,
    max_bytes,
)
from tests.mysql_server import MySqlServer, mysql_version
from tools.collations import QUERY, TABLE, Listed, table_text


def test_by_number_and_by_name() -> None:
    assert (charset_of(255), collation_name(255)) == ("utf8mb4", "utf8mb4_0900_ai_ci")
    assert (charset_of(63), collation_name(63), collation_id(None, None)) == ("binary", "binary", 63)
    assert collation_id("latin1", None) == 8
    assert collation_id("utf8", "utf8_bin") == collation_id(None, "utf8mb3_bin") == 83
    assert (charset_of(9999), collation_id("utf8mb4", "utf8mb4_klingon_ci")) == (None, None)
    assert (max_bytes("utf8"), max_bytes(None), max_bytes("binary")) == (3, 1, 1)
    with pytest.raises(LookupError, match="klingon"):
        max_bytes("klingon")


def test_a_collation_of_mariadb_has_a_character_set_and_no_name() -> None:
    assert (charset_of(2304), collation_name(2304)) == ("utf8mb4", None)
    assert [charset_of(number) for number in (576, 610, 1032, 1270, 2303, 3327)] == [
        "utf8mb3", "utf8mb4", "latin1", "utf8mb4", "utf8mb3", "utf32",
    ]  # fmt: skip


def test_a_name_that_only_begins_like_a_collation() -> None:
    assert canonical_collation("UTF8_General_ci") == "utf8mb3_general_ci"
    assert canonical_collation("utf8mb4_klingon_ci") == "utf8mb4_klingon_ci"
    assert not is_collation("utf8mb4_klingon_ci")
    assert canonical_collation("klingon_ci") is None


@pytest.mark.mysql
def test_the_table_is_the_servers(mysql_server: MySqlServer) -> None:
    """A newer server may have more: run `python -m tools.collations` then."""
    listed = [Listed(*row) for row in mysql_server.query(QUERY)]
    assert TABLE.read_text() == table_text(mysql_version().split("-")[0], listed)
