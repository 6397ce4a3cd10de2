"""What a PolarDB-X cluster's binlogs may lack or contradict: each its error, behind a valid prefix."""

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from binlog_merge.errors import MergeError
from tests.merge_e2e.local import merge, written
from tests.polardbx.cluster import DDL_RECORD, INSTRUCTION
from tests.polardbx.read import read_merged
from tests.polardbx.splice import Dialect, Stamp
from tests.polardbx.steps import Commit, Ddl, Local, Prepare, Step, Values, Write, Xid
from tests.polardbx.write import write_nodes
from tests.simulator.columns import Column, Table

NODES = {"dn-1": 1, "dn-2": 2}
TABLE = Table((Column("id", "bigint", nullable=False), Column("v", "int")))
GROUPS = [{"storageInstId": n, "group": f"G{i}", "schema": f"d_{i}"} for i, n in enumerate(NODES)]
MADE = (2026, 9, 21, 1, 2, 3, 0)


@dataclass
class Made:
    """A cluster's history, step by step. Every transaction's branches are prepared and committed at once."""

    steps: list[Step] = field(default_factory=list)
    stamps: dict[bytes, Stamp] = field(default_factory=dict)
    tso: int = 1_790_000_000_000 << 22

    def everywhere(self, writes: dict[str, list[Write]]) -> None:
        """Write a distributed transaction: its rows by node."""
        self.tso += 1 << 22
        gtrid = b"drds-%x@1" % (len(self.stamps) + 1)
        self.stamps[gtrid] = Stamp(self.tso, self.tso - 1)
        xids = {node: Xid(gtrid, f"{node}_GROUP".encode()) for node in writes}
        self.steps += [Prepare(node, xids[node], tuple(rows)) for node, rows in writes.items()]
        self.steps += [Commit(node, xids[node]) for node in writes]

    def message(self, table: str, values: Values, nodes: Sequence[str] = tuple(NODES)) -> None:
        shape = DDL_RECORD if table == "__cdc_ddl_record__" else INSTRUCTION
        self.everywhere(
            {n: [Write(f"__cdc___{i:06d}", f"{table}_ab1", shape, None, values)] for i, n in enumerate(nodes)}
        )

    def instruct(self, kind: str, content: Any) -> None:
        values: Values = {
            "ID": 1, "INSTRUCTION_TYPE": kind, "INSTRUCTION_CONTENT": json.dumps(content), "GMT_CREATED": MADE,
            "INSTRUCTION_ID": "i",
        }  # fmt: skip
        self.message("__cdc_instruction__", values)

    def marker(self, sql: str, meta: Any = None, nodes: Sequence[str] = tuple(NODES), **more: Any) -> None:
        self.message("__cdc_ddl_record__", marker(sql, meta, **more), nodes)

    def rows(self, *numbers: int) -> None:
        """Insert a row on every node."""
        writes = {
            node: [Write(f"d_{i}", "t_x", TABLE, None, {"id": 2 * n + i, "v": n}) for n in numbers]
            for i, node in enumerate(NODES)
        }
        self.everywhere(writes)

    def save(self, folder: Path, seed: int = 1) -> Path:
        files = write_nodes(self.steps, self.stamps, NODES, random.Random(seed), [Dialect("gcn")])
        for node, named in files.items():
            (folder / node).mkdir(parents=True, exist_ok=True)
            for name, data in named.items():
                (folder / node / name).write_bytes(data)
        nodes = [{"source-id": node, "files": f"{node}/binlog.*"} for node in NODES]
        (folder / "cluster.yaml").write_text(yaml.safe_dump({"version": 1, "name": "made", "nodes": nodes}))
        return folder / "cluster.yaml"


def marker(sql: str, meta: Any = None, **more: Any) -> Values:
    return {
        "ID": 1, "JOB_ID": 7, "SQL_KIND": "ALTER_TABLE", "SCHEMA_NAME": "d", "TABLE_NAME": "t", "GMT_CREATED": MADE,
        "DDL_SQL": sql, "META_INFO": None if meta is None else json.dumps(meta), "VISIBILITY": 1, "EXT": "{}", **more,
    }  # fmt: skip


def table_meta(name: str = "t", group: str = "G0", storage: str = "dn-1", physical: str = "u_x") -> dict[str, Any]:
    places = [{"storageInstId": storage, "group": group, "schema": "d_0", "phyTables": [physical]}]
    return {"logicTableMeta": {"tableName": name, "tableType": 1, "phySchemas": places}}


@pytest.fixture
def made() -> Made:
    """Return a cluster of two nodes with one table, of which a first row has been written."""
    made = Made()
    for i, node in enumerate(NODES):
        made.steps.append(Ddl(node, "", f"CREATE DATABASE d_{i}"))
        made.steps.append(Ddl(node, f"d_{i}", TABLE.create("t_x")))
    placed = [{**group, "phyTables": ["t_x"]} for group in GROUPS]
    table = {"tableName": "t", "tableType": 1, "createSql": TABLE.create("t"), "phySchemas": placed}
    made.instruct("CdcStart", {"logicDbMetas": [{"schema": "d", "phySchemas": GROUPS, "logicTableMetas": [table]}]})
    made.rows(1)
    return made


def _refused(made: Made, folder: Path, code: str, transactions: int = 1) -> MergeError:
    """Merge what stops with an error; what stands before is published, and a second run stops there again."""
    config = made.save(folder)
    for _ in range(2):
        with pytest.raises(MergeError) as caught:
            merge(config, folder / "out")
        assert caught.value.code == code, caught.value
    assert len(read_merged(written(folder / "out"), folder)) == transactions
    return caught.value


def test_all_is_well(made: Made, tmp_path: Path) -> None:
    made.marker("ALTER TABLE t ADD COLUMN w int", table_meta(physical="t_x"), JOB_ID=None)
    made.rows(2)
    result = merge(made.save(tmp_path), tmp_path / "out")
    assert (result.transactions, result.ddl, result.warnings) == (3, 1, ())


def test_statements_of_the_nodes_own_are_passed_over(made: Made, tmp_path: Path) -> None:
    made.steps.append(Ddl("dn-1", "d_0", "/* rds internal mark */ ALTER TABLE t_x DO WHAT NOBODY KNOWS"))
    made.rows(2)
    assert merge(made.save(tmp_path), tmp_path / "out").transactions == 2


def test_a_lost_branch(made: Made, tmp_path: Path) -> None:
    made.rows(2)
    lost = next(s for s in reversed(made.steps) if isinstance(s, Prepare) and s.node == "dn-2")
    made.steps.remove(lost)
    error = _refused(made, tmp_path, "unsupported-input")
    assert error.node == "dn-2" and "no XA PREPARE" in error.message
    assert error.position and error.order_key


def test_a_lost_branch_below_the_start(made: Made, tmp_path: Path) -> None:
    """Who begins behind a transaction does not need it: what its node has before the first file is gone."""
    first = made.tso
    made.rows(2)
    lost = next(s for s in made.steps if isinstance(s, Prepare) and s.writes[0].name == "t_x")
    made.steps.remove(lost)
    config = made.save(tmp_path)
    assert merge(config, tmp_path / "out", start_tso=first + 1).transactions == 1
    with pytest.raises(MergeError, match="no XA PREPARE"):
        merge(config, tmp_path / "whole")


def test_a_lost_commit_is_told(made: Made, tmp_path: Path) -> None:
    made.rows(2)
    lost = next(s for s in reversed(made.steps) if isinstance(s, Commit) and s.node == "dn-2")
    made.steps.remove(lost)
    result = merge(made.save(tmp_path), tmp_path / "out")
    assert any("in doubt" in warning and "dn-2" in warning for warning in result.warnings)


def test_a_marker_that_a_node_does_not_have(made: Made, tmp_path: Path) -> None:
    made.marker("ALTER TABLE t ADD COLUMN w int", nodes=["dn-1"])
    made.rows(2)
    error = _refused(made, tmp_path, "marker-incomplete")
    assert "dn-2" in error.message and "ADD COLUMN" in error.message and error.order_key


def test_a_node_that_stops(made: Made, tmp_path: Path) -> None:
    steps = len(made.steps)
    made.rows(2)
    made.marker("ALTER TABLE t ADD COLUMN w int")
    made.rows(3)
    made.steps[steps:] = [s for s in made.steps[steps:] if s.node != "dn-2"]
    config = made.save(tmp_path)
    # Without the end of input the others wait for it; with it, its marker is missing.
    result = merge(config, tmp_path / "waiting", end_of_input=False)
    assert (result.transactions, result.ddl) == (1, 0) and result.held and result.held_back_by == "dn-2"
    error = _refused(made, tmp_path, "marker-incomplete", 2)
    assert "dn-2" in error.message


@pytest.mark.parametrize("same_node", [False, True])
def test_two_markers_with_one_key(same_node: bool, made: Made, tmp_path: Path) -> None:
    one, other = marker("ALTER TABLE t ADD COLUMN w int"), marker("ALTER TABLE t DROP COLUMN v")
    rows = {n: [Write("__cdc___000000", "__cdc_ddl_record___ab1", DDL_RECORD, None, one)] for n in NODES}
    extra = replace(rows["dn-2"][0], after=other)
    rows["dn-2"] = [*rows["dn-2"], extra] if same_node else [extra]
    made.everywhere(rows)
    error = _refused(made, tmp_path, "marker-disagreement")
    assert error.node and error.position


def test_several_copies_of_one_marker_are_one(made: Made, tmp_path: Path) -> None:
    values = marker("ALTER TABLE t ADD COLUMN w int")
    copies = [
        Write(f"__cdc___{i:06d}", "__cdc_ddl_record___ab1", DDL_RECORD, None, {**values, "ID": i}) for i in range(3)
    ]
    made.everywhere(dict.fromkeys(NODES, copies))
    assert merge(made.save(tmp_path), tmp_path / "out").ddl == 1


Change = Callable[[Made], None]
TROUBLES: dict[str, tuple[Change, str]] = {
    "an unknown group": (lambda m: m.marker("ALTER TABLE t COMMENT 'x'", table_meta("u", group="G9")), "group g9"),
    "an unknown node": (
        lambda m: m.marker("ALTER TABLE t COMMENT 'x'", table_meta("u", storage="dn-9")), "storage instance dn-9",
    ),
    "a node that nobody configured": (
        lambda m: m.instruct("StorageInstChange", {"storageInstList": ["dn-1", "dn-2", "dn-3"]}), "dn-3",
    ),
    "a table in two": (
        lambda m: m.marker("ALTER TABLE t COMMENT 'x'", table_meta("u", physical="t_x")), "said to belong to",
    ),
    "no JSON": (lambda m: m.marker("ALTER TABLE t COMMENT 'x'", META_INFO="{"), "cannot be read"),
    "EXT that is no object": (lambda m: m.marker("ALTER TABLE t COMMENT 'x'", EXT="[1]"), "EXT"),
    "a list of nobody": (lambda m: m.instruct("StorageInstChange", {}), "list of storage instances"),
    "a snapshot that is none": (lambda m: m.instruct("MetaSnapshot", {"logicDbMetas": 3}), "logicDbMetas"),
}  # fmt: skip


@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_cluster_that_places_tables_nowhere(trouble: str, made: Made, tmp_path: Path) -> None:
    change, words = TROUBLES[trouble]
    change(made)
    made.rows(2)
    error = _refused(made, tmp_path, "cluster-topology")
    assert words in error.message and error.node == "dn-1" and error.position and error.order_key


def test_a_snapshot_whose_table_cannot_be_read(made: Made, tmp_path: Path) -> None:
    table = {"tableName": "z", "tableType": 0, "createSql": "CREATE TABLE z (a nonsense)", "phySchemas": []}
    made.instruct("MetaSnapshot", {"logicDbMetas": [{"schema": "d", "phySchemas": GROUPS, "logicTableMetas": [table]}]})
    made.rows(2)
    assert "d.z" in _refused(made, tmp_path, "ddl-not-understood").message


def test_a_marker_that_is_no_distributed_transaction(made: Made, tmp_path: Path) -> None:

    write = Write(
        "__cdc___000000", "__cdc_ddl_record___ab1", DDL_RECORD, None, marker("ALTER TABLE t ADD COLUMN w int")
    )
    made.steps.append(Local("dn-1", (write,)))
    error = _refused(made, tmp_path, "marker-incomplete")
    assert "without a commit TSO" in error.message
