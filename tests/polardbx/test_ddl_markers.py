"""Which form of a statement comes out for a marker, and the comment lines that carry it."""

import base64
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_merge.polardbx.ddl.comments import PolarxComment, split_comment
from binlog_merge.polardbx.ddl.markers import (
    PRIVATE,
    PROTECTED,
    PUBLIC,
    DdlEvent,
    DdlMarker,
    convert_create,
    convert_ddl,
)
from binlog_merge.polardbx.meta import Extension
from snapshot_store.ddl import DdlSession, ParsedDdl
from snapshot_store.errors import DdlNotUnderstood
from snapshot_store.tso import OrderKey
from tests.mysql_server import MySqlServer

KEY = OrderKey(7044841246845567040, 1596251789525274624, 0, 0)


def marker(
    sql: str, kind: str = "ALTER_TABLE", visibility: int = PUBLIC, table: str | None = "t", **ext: Any
) -> DdlMarker:
    return DdlMarker(kind, "shop", table, sql, visibility, Extension(**ext), KEY)


def origin(event: DdlEvent) -> str:
    assert event.text is not None
    comment, rest = split_comment(event.text)
    assert comment is not None and rest == (event.mysql_sql or "")
    return comment.origin


def test_a_public_statement_has_both_parts() -> None:
    event = convert_ddl(marker("/*DDL_ID=42*/CREATE TABLE t (a int) single", "CREATE_TABLE"))
    assert event == DdlEvent(
        ParsedDdl.of("CREATE TABLE t (a int)", DdlSession()),
        "# POLARX_ORIGIN_SQL=CREATE TABLE t (a int) single\n"
        "# POLARX_TSO=704484124684556704015962517895252746240000000000000000\n"
        "# POLARX_DDL_ID=42\n"
        "CREATE TABLE t (a int)",
    )


def test_a_protected_one_has_only_polardbxs() -> None:
    event = convert_ddl(marker("CREATE VIEW v AS SELECT 1", "CREATE_VIEW", PROTECTED))
    assert event.mysql_sql is None and not event.rows_query
    assert origin(event) == "CREATE VIEW v AS SELECT 1"


def test_a_private_one_does_not_come_out() -> None:
    assert convert_ddl(marker("MOVE DATABASE (x) TO 'dn'", "MOVE_DATABASE", PRIVATE)) == DdlEvent(None, None)


def test_what_holds_nothing_for_mysql_takes_the_form_that_is_asked_for() -> None:
    one = marker("ALTER TABLE t dbpartition by hash(a)")
    assert convert_ddl(one).text == convert_ddl(one, "rows-query").text
    assert convert_ddl(one, "rows-query").rows_query
    assert convert_ddl(one, "drop") == DdlEvent(None, None)
    public = marker("ALTER TABLE t ADD c int")
    assert convert_ddl(public, "drop") == convert_ddl(public, "rows-query") == convert_ddl(public)


@pytest.mark.parametrize("flag", ["is_gsi", "is_cci"])
def test_an_index_of_its_own_is_not_mysqls(flag: str) -> None:
    given: dict[str, Any] = {flag: True}
    event = convert_ddl(marker("CREATE CLUSTERED COLUMNAR INDEX i ON t (a)", "CREATE_INDEX", **given))
    assert event.mysql_sql is None and event.text is not None
    assert ("# POLARX_DDL_TYPES=CCI\n" in event.text) == (flag == "is_cci")


def test_table_groups_are_told_where_the_cluster_keeps_them_by_name() -> None:
    one = marker("ALTER TABLEGROUP g MERGE PARTITIONS a, b TO c", "ALTER_TABLEGROUP", PROTECTED)
    assert convert_ddl(one) == DdlEvent(None, None)
    for ext in (Extension(manually_created_table_group=True), Extension(enable_implicit_table_group=True)):
        assert origin(convert_ddl(replace(one, ext=ext)))


def test_mysqls_part_is_the_clusters_text_and_polardbxs_the_users() -> None:
    event = convert_ddl(marker("ALTER TABLE t ADD COLUMN c int", original_ddl="ALTER TABLE `T` add c int LOCALITY='x'"))
    assert event.mysql_sql == "ALTER TABLE t ADD COLUMN c int"
    assert origin(event) == "ALTER TABLE `T` add c int"


def test_a_table_is_made_by_the_users_text_with_the_clusters_indexes() -> None:
    event = convert_ddl(
        marker(
            "CREATE TABLE `t` (`a` int, KEY `auto_shard_key_a` USING BTREE (`a`)) dbpartition by hash(a)",
            "CREATE_TABLE",
            original_ddl="create table T (a int) dbpartition by hash(a)",
        )
    )
    assert event.mysql_sql == "create table t (a int, KEY `auto_shard_key_a` USING BTREE (`a`))"
    assert origin(event) == "create table T (a int) dbpartition by hash(a)"


def test_a_shadow_table_keeps_the_clusters_text() -> None:
    event = convert_ddl(
        marker(
            "create shadow table __test_t (a int)",
            "CREATE_TABLE",
            table="__test_t",
            original_ddl="/* //1/ */create table t (a int)",
        )
    )
    assert event.mysql_sql == "create table __test_t (a int)"


def test_foreign_keys_come_from_the_users_text() -> None:
    user = "alter table t add constraint f foreign key (a) references P (a)"
    event = convert_ddl(marker("alter table t add index f (a)", original_ddl=user, foreign_keys_ddl=True))
    assert event.mysql_sql == "alter table t add constraint f foreign key (a) references p (a)"


def test_collation_charset_and_indexes_are_the_markers() -> None:
    made = convert_ddl(replace(marker("CREATE TABLE T (a int) single", "CREATE_TABLE"), collation="utf8mb4_bin"))
    assert made.mysql_sql == "CREATE TABLE t (a int) DEFAULT CHARACTER SET = utf8mb4 DEFAULT COLLATE = utf8mb4_bin"
    database = replace(marker("CREATE DATABASE Shop MODE=auto", "CREATE_DATABASE", table=None), charset="gbk")
    assert convert_ddl(database).mysql_sql == "CREATE DATABASE shop DEFAULT CHARACTER SET = gbk"
    dropped = marker("DROP INDEX auto_shard_key_a ON t", "DROP_INDEX")
    assert convert_ddl(dropped, indexes=frozenset({"primary"})).mysql_sql is None
    assert convert_ddl(dropped).mysql_sql == "DROP INDEX auto_shard_key_a ON t"


def test_variables_stand_in_a_line_of_their_own() -> None:
    event = convert_ddl(marker("ALTER TABLE t ADD c int", variables={"FOREIGN_KEY_CHECKS": "OFF"}))
    assert event.text is not None and '\n# POLARX_VARIABLES={"FOREIGN_KEY_CHECKS":"OFF"}\n' in event.text


def test_a_routine_is_in_base64() -> None:
    sql = "CREATE PROCEDURE p()\nBEGIN\n  SELECT 1; -- one\nEND"
    event = convert_ddl(marker(sql, "CREATE_PROCEDURE", PROTECTED))
    assert event.text is not None
    lines = event.text.splitlines()
    assert lines[0] == "# POLARX_ORIGIN_SQL_ENCODE=BASE64"
    assert base64.b64decode(lines[1].removeprefix("# POLARX_ORIGIN_SQL=")).decode() == sql
    assert origin(event) == sql


def test_what_is_no_text_is_not_understood() -> None:
    with pytest.raises(DdlNotUnderstood):
        convert_ddl(marker("CREATE TABLE t (a int) COMMENT '\udcff'", "CREATE_TABLE"))
    with pytest.raises(DdlNotUnderstood):
        convert_ddl(marker("ALTER TABLE t FROBNICATE = '"))


def test_a_snapshots_table_is_what_mysql_makes_of_it() -> None:
    columns = "`a` int, `_drds_implicit_id_` bigint AUTO_INCREMENT, PRIMARY KEY (`_drds_implicit_id_`)"
    created = f"CREATE TABLE `T` ({columns}) single"
    assert convert_create(created, "latin1_bin") == (
        "CREATE TABLE `t` (`a` int) DEFAULT CHARACTER SET = latin1 DEFAULT COLLATE = latin1_bin"
    )
    with pytest.raises(DdlNotUnderstood):
        convert_create("CREATE SEQUENCE s")


KEYS = st.builds(
    OrderKey, st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1), st.integers(0, 10**10 - 1), st.integers(0, 999_999)
)


# What a decoder makes of bytes: those that are no UTF-8 stand as lone surrogates.
TEXTS = st.text(max_size=80) | st.binary(max_size=80).map(lambda data: data.decode("utf-8", "surrogateescape"))


@given(
    TEXTS,
    KEYS,
    st.integers(0, 2**40),
    st.sampled_from(["", "CCI"]),
    st.text(max_size=30),
)
def test_what_is_written_is_read(text: str, key: OrderKey, ddl_id: int, types: str, rest: str) -> None:
    comment = PolarxComment(text, key, ddl_id, types, {"a\nb": "\u2028c"} if types else {})
    written = comment.text()
    assert all(line.startswith("# POLARX_") for line in written[:-1].split("\n"))
    assert "\r" not in written and "\0" not in written
    if not rest.startswith("# POLARX_"):
        assert split_comment(written + rest) == (comment, rest)


def test_other_comments_are_no_lines_of_ours() -> None:
    for text in ("ALTER TABLE t", "# a note\nALTER TABLE t", "# POLARX_UNHEARD=1\nDROP TABLE t", ""):
        assert split_comment(text) == (None, text)
    for text in (
        "# POLARX_ORIGIN_SQL=x\n",
        "# POLARX_ORIGIN_SQL_ENCODE=BASE64\n# POLARX_ORIGIN_SQL=?\n# POLARX_TSO=1\n",
    ):
        with pytest.raises(ValueError, match="POLARX_"):
            split_comment(text)


@pytest.mark.mysql
def test_a_server_executes_the_text_and_skips_the_lines(mysql_server: MySqlServer) -> None:
    mysql_server.execute("CREATE DATABASE shop")
    strange = "create table t (a int comment 'it''s\n*/ ; -- #') single"
    for sql, kind in (
        (strange, "CREATE_TABLE"),
        ("alter table t add column b int, algorithm=omc -- '", "ALTER_TABLE"),
        ("alter table t partition align to tg1", "ALTER_TABLE"),
        ("create global index g on t (b) partition by key(b)", "CREATE_INDEX"),
        ("/!tddl:enable_recyclebin=true*/drop table t purge", "DROP_TABLE"),
    ):
        event = convert_ddl(marker(sql, kind))
        assert event.text is not None
        mysql_server.execute(event.text, "shop")
    assert mysql_server.query("SHOW TABLES", "shop") == []
    private = convert_ddl(marker("ALTER TABLE t SINGLE")).text
    assert private is not None
    mysql_server.execute(f"BEGIN; {private}", "shop")
