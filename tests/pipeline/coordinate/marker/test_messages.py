"""What a cluster's messages come to: who is in it, which jobs are told, which statements found their work done."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_merge.errors import UnknownTableSchema
from binlog_merge.pipeline.coordinate.marker.cluster import Cluster, Members, bounds, is_conditional, members_of
from binlog_merge.pipeline.coordinate.marker.markers import Instruction, Marker, SyncPoint
from binlog_merge.pipeline.coordinate.marker.polardbx import shapes_of, sql_mode_number
from binlog_merge.polardbx.meta import Extension, parse_snapshot
from binlog_merge.polardbx.names import MarkerTable, MarkerTables, is_cdc_schema, is_system_table
from snapshot_store.model import Catalog
from snapshot_store.tso import ORIGIN, OrderKey
from tests.merge_e2e.local import merge, written
from tests.oracle import binlog
from tests.polardbx.steps import Ddl, Write
from tests.polardbx.test_faults import GROUPS, NODES, TABLE, Made, table_meta
from tests.polardbx.test_faults import made as made_cluster

made = made_cluster


def _key(tso: int) -> OrderKey:
    return OrderKey(tso, 1, 0, 0)


# --- names -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "table", "kind"),
    [
        ("__cdc__", "__cdc_ddl_record__", MarkerTable.DDL_RECORD),
        ("__cdc___000000", "__cdc_ddl_record___89vr", MarkerTable.DDL_RECORD),
        ("__CDC___000012", "__CDC_INSTRUCTION___Ab1", MarkerTable.INSTRUCTION),
        ("__cdc___single", "__cdc_heartbeat___89vr", MarkerTable.HEARTBEAT),
        ("polardbx", "__polardbx_sync_point___x", MarkerTable.SYNC_POINT),
        ("shop", "__cdc_ddl_record__", None),
        ("__cdc___000000", "__cdc_ddl_record", None),
        ("__cdc___000000", "__cdc_ddl_recorder__", None),
    ],
)
def test_marker_tables_under_their_physical_names(schema: str, table: str, kind: MarkerTable | None) -> None:
    assert MarkerTables().kind(schema, table) is kind


def test_other_names_are_taken_as_they_are() -> None:
    tables = MarkerTables("cdc", "d", "i", "h")
    assert tables.kind("cdc", "d") is MarkerTable.DDL_RECORD
    assert tables.kind("cdc_orders", "d") is None and tables.kind("cdc", "d_1") is None
    assert is_cdc_schema("__CDC___000001") and not is_cdc_schema("cdc")
    assert is_system_table("__drds_global_tx_log") and is_system_table("polarx_global_trx_log")
    assert not is_system_table("t__drds_global_tx_log")


# --- members ---------------------------------------------------------------------------------------------------------


def _members(*changes: tuple[int, str], nodes: str = "abc", shown: str = "") -> Members:
    first = {n: _key(1) for n in shown}
    return members_of(nodes, [(_key(tso), frozenset(names)) for tso, names in changes], None, first)


def test_without_changes_everybody_is_in_the_cluster() -> None:
    members = _members()
    assert members.at(_key(9)) == frozenset("abc")
    assert (members.joined("a"), members.left("a")) == (ORIGIN, None)


def test_scale_out_and_scale_in() -> None:
    members = _members((10, "abc"), (20, "bc"), shown="ab")
    assert [members.at(_key(tso)) for tso in (5, 10, 15, 20, 25)] == [
        frozenset("ab"), frozenset("ab"), frozenset("abc"), frozenset("bc"), frozenset("bc"),
    ]  # fmt: skip
    assert [members.joined(n) for n in "abc"] == [ORIGIN, ORIGIN, _key(10)]
    assert [members.left(n) for n in "abc"] == [_key(20), None, None]
    assert (members.before(_key(10)), members.before(_key(11))) == (frozenset("ab"), frozenset("abc"))


def test_who_holds_back_what() -> None:
    members = _members((10, "abc"), (20, "bc"), shown="ab")
    assert bounds(members, "b", _key(7)) == _key(7)
    assert bounds(members, "b", None) == ORIGIN
    assert bounds(members, "c", None) == ORIGIN  # it shows nothing: it may join later, or be late
    known = Members(frozenset("ab"), members.changes)
    assert bounds(known, "c", None) == _key(10)  # before it joins nothing comes from it
    assert bounds(members, "c", _key(12)) == _key(12)
    assert bounds(members, "a", _key(12)) == _key(12)  # it still may show what it did before it left
    assert bounds(members, "a", _key(21)) is None
    assert bounds(Members(frozenset("a")), "z", None) is None  # no node of the cluster, ever


def test_a_node_that_comes_back() -> None:
    members = _members((10, "a"), (20, "ab"), nodes="ab", shown="ab")
    assert members.left("b") is None and members.at(_key(15)) == frozenset("a")


# --- jobs and no-ops -------------------------------------------------------------------------------------------------


def _marker(
    sql: str = "ALTER TABLE t ADD COLUMN a int", job: int | None = 7, ext: dict[str, Any] | None = None
) -> Marker:
    return Marker(job, "ALTER_TABLE", "d", "t", sql, 1, json.dumps(ext or {}))


def test_a_job_is_told_once() -> None:
    cluster = Cluster(None)
    first = cluster.take(_key(1), _marker(ext={"taskId": 3, "taskSubSeq": 1}))
    again = cluster.take(_key(2), _marker(ext={"taskId": 3, "taskSubSeq": 1}))
    other = cluster.take(_key(3), _marker(ext={"taskId": 3, "taskSubSeq": 2}))
    assert first.marker is not None and again.marker is None and other.marker is not None
    # A marker of an older cluster, without a task, is never taken for a repetition.
    assert all(cluster.take(_key(4 + i), _marker()).marker is not None for i in range(2))
    assert cluster.jobs_before(_key(3)) == [(7, 3, 1)]
    assert Cluster(None, {(7, 3, 1): ORIGIN}).take(_key(9), _marker(ext={"taskId": 3, "taskSubSeq": 1})).marker is None


@pytest.mark.parametrize(
    ("sql", "conditional"),
    [
        ("CREATE TABLE IF NOT EXISTS t (a int)", True),
        ("/*+TDDL:x()*/ /* DDL_ID=3 */ create table if  not exists t (a int)", True),
        ("/!tddl:x=true*/drop table if exists t", True),
        ("# note\n-- more\nDROP DATABASE IF EXISTS d", True),
        ("CREATE TABLE t (a int COMMENT 'IF NOT EXISTS')", False),
        ("CREATE TABLE t (a int)", False),
        ("ALTER TABLE t ADD COLUMN a int", False),
        ("", False),
    ],
)
def test_statements_that_may_find_their_work_done(sql: str, conditional: bool) -> None:
    assert is_conditional(sql) is conditional


def test_a_statement_without_a_job_found_its_work_done() -> None:
    sql = "CREATE TABLE IF NOT EXISTS t (a int)"
    assert Cluster(None).take(_key(1), _marker(sql, None)).marker is None
    said = Cluster(None).take(_key(1), _marker(sql, None, {"taskId": 1}))
    assert said.marker is not None and not said.applies
    assert Cluster(None).take(_key(1), _marker(sql, 7)).applies


def test_messages_that_are_no_ddl() -> None:
    cluster = Cluster(None)
    assert cluster.take(_key(1), SyncPoint("1")).sync_point
    for kind in ("CdcStart", "MetaSnapshot", "CdcEnvConfigChange", "FlushLogs", "SomethingNew"):
        assert cluster.take(_key(2), Instruction(kind, "")).marker is None


# --- EXT -------------------------------------------------------------------------------------------------------------


def test_ext() -> None:
    ext = Extension.parse(
        json.dumps({
            "taskId": 5, "taskSubSeq": "2", "serverId": 77, "sqlMode": "ANSI_QUOTES,NO_AUTO_CREATE_USER", "isGsi": True,
            "cci": "true", "orginalDdl": "create table T", "polarxVariables": {"A": "1"}, "flags2": 16384, "new": [1],
        })
    )  # fmt: skip
    assert (ext.task_id, ext.task_sub_seq, ext.server_id, ext.flags2) == (5, 2, 77, 16384)
    assert (ext.is_gsi, ext.is_cci, ext.original_ddl, ext.variables) == (True, True, "create table T", {"A": "1"})
    assert ext.values["new"] == [1]
    assert [sql_mode_number(mode) for mode in (ext.sql_mode, "4", None, "")] == [4, 4, None, 0]
    assert Extension.parse(None) == Extension.parse("") == Extension.parse("null") == Extension()
    for text in ("[]", "{", "3"):
        with pytest.raises(ValueError, match=r"JSON|Expecting"):
            Extension.parse(text)


_names = st.sampled_from(["taskId", "serverId", "sqlMode", "isGsi", "originalDdl", "flags2"])


@given(st.dictionaries(_names, st.none() | st.booleans() | st.integers() | st.text()))
def test_ext_takes_any_values(values: dict[str, Any]) -> None:
    ext = Extension.parse(json.dumps(values))
    assert ext.values == values
    assert ext.task_id is None or isinstance(ext.task_id, int)


# --- snapshots -------------------------------------------------------------------------------------------------------


def test_shapes_of_a_snapshot() -> None:
    def places(*tables: str) -> list[dict[str, Any]]:
        return [{"storageInstId": "dn-1", "group": "G", "schema": "d_0", "phyTables": list(tables)}]

    tables = [
        {"tableName": "A", "tableType": 1, "phySchemas": places("a_0", "a_1"), "tableCollation": "utf8mb4_bin",
         "createSql": "CREATE TABLE `A` (a varchar(9), _drds_implicit_id_ bigint NOT NULL AUTO_INCREMENT, b int, "
         "PRIMARY KEY (_drds_implicit_id_)) dbpartition by hash(a)"},
        {"tableName": "b", "tableType": 0, "phySchemas": places("b_x"), "createSql": "CREATE TABLE b (a int, c int)",
         "createSql4Phy": "CREATE TABLE b (c int, a int)"},
        {"tableName": "g", "tableType": 3, "phySchemas": places("g_0"), "createSql": "CREATE TABLE g (a int)"},
    ]  # fmt: skip
    snapshot = {"logicDbMetas": [{"schema": "D", "charset": "latin1", "phySchemas": [], "logicTableMetas": tables}]}
    shapes = shapes_of(_key(5), parse_snapshot(json.dumps(snapshot)), {"dn-1": "n"}, 80032)
    assert [(s.name, s.charset) for s in shapes.schemas] == [("d", "latin1")]
    named = {t.name: [c.name for c in t.columns] for t in shapes.logical}
    assert named == {"a": ["a", "b"], "b": ["a", "c"]}
    assert {t.collation for t in shapes.logical if t.name == "a"} == {"utf8mb4_bin"}
    stored = {(node, t.schema, t.name): [c.name for c in t.columns] for node, t in shapes.physical}
    hidden = ["a", "_drds_implicit_id_", "b"]
    assert stored == {("n", "d_0", "a_0"): hidden, ("n", "d_0", "a_1"): hidden, ("n", "d_0", "b_x"): ["c", "a"]}
    known = Catalog().with_table(shapes.logical[0])
    assert [v.name for v in shapes.logical_versions(known)[0]] == ["b"]
    assert [v.name for v in shapes.physical_versions("n", Catalog())] == ["a_0", "a_1", "b_x"]
    assert shapes.physical_versions("other", Catalog()) == []


# --- a whole cluster -------------------------------------------------------------------------------------------------


def _queries(out: Path, scratch: Path) -> list[str]:
    """Return the texts of all QUERY events of the output, but for BEGIN."""
    found = []
    for name, data in written(out).items():
        (scratch / name).write_bytes(data)
        events = binlog.read_file(scratch / name)[1]
        found += [binlog.parse_query(e).text for e in events if e.type == 2]
    return [text for text in found if text != "BEGIN"]


def test_a_dropped_shard_key_that_mysql_does_not_have(made: Made, tmp_path: Path) -> None:
    made.marker("ALTER TABLE t ADD INDEX auto_shard_key_v (v)", SQL_KIND="ALTER_TABLE")
    made.marker("DROP INDEX auto_shard_key_v ON t", SQL_KIND="DROP_INDEX")
    made.marker("DROP INDEX auto_shard_key_v ON t", SQL_KIND="DROP_INDEX", JOB_ID=8)
    made.rows(2)
    merge(made.save(tmp_path), tmp_path / "out")
    last = [text.rsplit("\n", 1)[-1] for text in _queries(tmp_path / "out", tmp_path)]
    assert last[0].startswith("ALTER TABLE") and last[1].upper().startswith("DROP INDEX") and last[2] == ""


def test_a_sync_point_comes_out_as_its_call(made: Made, tmp_path: Path) -> None:
    row = {"id": 1, "v": None}
    writes = {n: [Write("polardbx", "__polardbx_sync_point___x", TABLE, None, row)] for n in NODES}
    made.everywhere(writes)
    made.rows(2)
    result = merge(made.save(tmp_path), tmp_path / "out")
    assert (result.transactions, result.ddl) == (3, 1)
    assert "CALL trigger_sync_point_trx()" in _queries(tmp_path / "out", tmp_path)[0]


def test_private_markers_move_tables_and_say_nothing(made: Made, tmp_path: Path) -> None:
    made.marker("ALTER TABLE t ADD COLUMN internal int", table_meta(physical="t_x"), VISIBILITY=0)
    made.rows(2)  # of its physical tables only the one on dn-1 is left
    result = merge(made.save(tmp_path), tmp_path / "out")
    assert (result.transactions, result.ddl, result.branches) == (2, 0, 3)


def test_where_tables_lie_may_be_told_to_a_later_run(tmp_path: Path) -> None:
    cluster = Made()
    for i, node in enumerate(NODES):
        cluster.steps += [Ddl(node, "", f"CREATE DATABASE d_{i}"), Ddl(node, f"d_{i}", TABLE.create("t_x"))]
    row = {"id": 1, "v": None}
    beat = {n: [Write("__cdc___000000", "__cdc_heartbeat___x", TABLE, None, row)] for n in NODES}
    cluster.everywhere(beat)
    cluster.everywhere(beat)
    assert merge(cluster.save(tmp_path), tmp_path / "out", end_of_input=False).transactions == 0
    placed = [{**group, "phyTables": ["t_x"]} for group in GROUPS]
    table = {"tableName": "t", "tableType": 1, "createSql": TABLE.create("t"), "phySchemas": placed}
    cluster.instruct("CdcStart", {"logicDbMetas": [{"schema": "d", "phySchemas": GROUPS, "logicTableMetas": [table]}]})
    cluster.rows(1)
    assert merge(cluster.save(tmp_path), tmp_path / "out").transactions == 1
    merge(cluster.save(tmp_path), tmp_path / "whole")
    assert written(tmp_path / "out") == written(tmp_path / "whole")


def test_no_marker_says_where_tables_lie(tmp_path: Path) -> None:
    """Without CdcStart, routes or a base nothing is guessed."""
    cluster = Made()
    cluster.rows(1)
    with pytest.raises(UnknownTableSchema, match=r"d_0\.t_x"):
        merge(cluster.save(tmp_path), tmp_path / "out")
