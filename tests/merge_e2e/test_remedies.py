"""A DDL that is not understood, and rows that fit no known shape: the three remedies, each until the output is whole.

The statement is `ADD COLUMM`, which no server knows: the binlogs are a real server's but for that word.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from binlog_merge.cli import main
from binlog_merge.errors import MergeError
from binlog_merge.pipeline.values import MergeResult
from snapshot_store.history import SchemaHistory
from snapshot_store.render_sql import create_sql
from snapshot_store.store.db import Store
from snapshot_store.tso import OrderKey
from tests.merge_e2e import editing as e
from tests.merge_e2e.cases import case_named, whole
from tests.merge_e2e.editing import Log
from tests.merge_e2e.local import merge, state_of, written
from tests.merge_e2e.test_bad_input import Cluster, _marker_text_changed
from tests.mysql_server import MySqlServer

Captured = pytest.CaptureFixture[str]
SEED = case_named("seed-add-column")


@pytest.fixture
def seed(tmp_path: Path) -> Cluster:
    return Cluster(SEED, tmp_path)


def misspelled_in(statement: str) -> Callable[[Log], Log]:
    """Return a change of a node's log: the first such statement is misspelled."""

    def change(log: Log) -> Log:
        at = log.find(e.QUERY, text=statement)
        event = log.events[at]
        return log.changed(at, replace(event, body=event.body.replace(b"ADD COLUMN", b"ADD COLUMM")))

    return change


misspelled = misspelled_in("ALTER TABLE t1 ADD COLUMN")


def shape(cluster: Cluster, node: str | None, schema: str, table: str, key: OrderKey | None = None) -> str:
    """Return the CREATE TABLE of a table in a good merge, at a key or at the end."""
    out = cluster.out.parent / "good"
    if not out.exists():
        merge(SEED / "cluster.yaml", out)
    with Store.open(out / "schema.duckdb", read_only=True) as store:
        versions = store.history_of([(node, schema, table)]).versions
    version = versions[-1] if key is None else next(v for v in versions if v.key == key)
    assert version.table is not None
    return create_sql(version.table)


def say(cluster: Cluster, capsys: Captured, verb: str, *arguments: Any, code: int = 0) -> str:
    capsys.readouterr()
    asked = ["schema", verb, *map(str, arguments), "--store", str(cluster.out)]
    assert main.run(asked) == code, capsys.readouterr().err
    said = capsys.readouterr()
    return said.out + said.err


def goes_on(cluster: Cluster, **options: Any) -> MergeResult:
    """Merge to the end; what came out must be as if nothing had been wrong, and merging again must change nothing."""
    result = merge(cluster.config, cluster.out, **options)
    assert written(cluster.out) == cluster.good
    merge(cluster.config, cluster.out, **options)
    assert written(cluster.out) == cluster.good
    return result


def history(cluster: Cluster) -> SchemaHistory:
    with Store.open(cluster.out / "schema.duckdb", read_only=True) as store:
        return store.load_history()


def stopped(cluster: Cluster) -> tuple[MergeError, tuple[str, str]]:
    """Merge up to the statement; returns the error, and the table that the statement is about."""
    error = cluster.refused("ddl-not-understood")
    assert error.node == "dn-1" and error.file and error.position and error.order_key
    assert "ADD COLUMM" in error.message
    for remedy in ("schema set", "schema import", "not-understood: opaque", "--node dn-1", error.order_key):
        assert remedy in error.remedy
    with Store.open(cluster.out / "schema.duckdb", read_only=True) as store:
        stop = store.stop()
    assert stop is not None and (stop.node, stop.order_key, stop.statement) == ("dn-1", error.order_key, True)
    (table,) = stop.tables
    assert f"schema set {'.'.join(table)} " in error.remedy
    return error, table


@pytest.mark.parametrize("by", ["key", "tso"])
def test_the_operator_says_what_the_statement_does(by: str, seed: Cluster, capsys: Captured) -> None:
    seed.edit(misspelled)
    error, (schema, table) = stopped(seed)
    key = OrderKey.parse(error.order_key or "")
    sql = seed.out.parent / "fix.sql"
    sql.write_text(
        shape(seed, "dn-1", schema, table, key) if by == "key" else "ALTER TABLE t1 ADD COLUMN ADDR VARCHAR(60)"
    )
    at = error.order_key if by == "key" else key.commit_tso
    said = say(seed, capsys, "set", f"{schema}.{table}", "--sql", sql, "--at-tso", at, "--node", "dn-1")
    assert (error.order_key or "") in said and "operator" in said
    goes_on(seed)
    version = history(seed).versions_for(schema, table, "dn-1")[-1]
    assert (version.origin, version.key.text()) == ("operator", error.order_key)
    with Store.open(seed.out / "schema.duckdb", read_only=True) as store:
        assert store.stop() is None


@pytest.mark.mysql
@pytest.mark.parametrize("when", ["there", "later"])
def test_a_snapshot_of_the_server(when: str, seed: Cluster, capsys: Captured, mysql_server: MySqlServer) -> None:
    seed.edit(misspelled)
    error, (schema, table) = stopped(seed)
    key = OrderKey.parse(error.order_key or "")
    mysql_server.execute(f"CREATE DATABASE {schema}; USE {schema}; {shape(seed, 'dn-1', schema, table)}")
    at = error.order_key if when == "there" else OrderKey(key.commit_tso + (1 << 40), 0, 0, 0).text()
    url = f"mysql://root@localhost/?socket={mysql_server.socket}"
    said = say(seed, capsys, "import", "--server", url, "--schema", schema, "--at-tso", at, "--node", "dn-1")
    assert f"{schema}.{table}" in said
    result = goes_on(seed)
    versions = {v.key.text(): v.origin for v in history(seed).versions_for(schema, table, "dn-1")}
    assert versions[error.order_key or ""] == ("base" if when == "there" else "opaque")
    assert versions[at or ""] == "base"
    assert bool(result.warnings) is (when == "later")


def opaque(cluster: Cluster) -> None:
    cluster.config.write_text(cluster.config.read_text() + "schemas: {not-understood: opaque}\n")


@pytest.mark.parametrize("first", [True, False])
def test_table_maps_say_what_it_is(first: bool, seed: Cluster, capsys: Captured) -> None:
    seed.edit(misspelled)
    schema, table = "", ""
    if first:
        _, (schema, table) = stopped(seed)
    opaque(seed)
    result = goes_on(seed)
    assert len(result.warnings) == 1 and "not understood" in result.warnings[0]
    found = [v for v in history(seed).versions if v.opaque]
    assert len(found) == 1 and (not first or (found[0].schema, found[0].name) == (schema, table))
    said = say(seed, capsys, "show", f"{found[0].schema}.{found[0].name}", "--node", "dn-1")
    assert "opaque" in said and "table maps" in said


def test_table_maps_without_names_are_not_guessed_at(tmp_path: Path, capsys: Captured) -> None:
    """With MINIMAL metadata the rows behind the statement fit nothing that is known, until somebody says what it is."""
    cluster = Cluster(case_named("metadata-minimal"), tmp_path)
    cluster.edit(misspelled_in("ALTER TABLE docs_1 ADD COLUMN"))
    opaque(cluster)
    error = cluster.refused("schema-mismatch")
    assert error.node == "dn-1" and "no column names, and no known shape" in error.message
    assert "opaque" not in error.remedy
    good = tmp_path / "good"
    merge(case_named("metadata-minimal") / "cluster.yaml", good)
    with Store.open(good / "schema.duckdb", read_only=True) as store:
        table = store.history_of([("dn-1", "d1_1", "docs_1")]).versions[1].table
    assert table is not None
    (tmp_path / "fix.sql").write_text(create_sql(table))
    words = error.remedy.split()
    at = words[words.index("--at-tso") + 1].strip("`,;")
    say(cluster, capsys, "set", "d1_1.docs_1", "--sql", tmp_path / "fix.sql", "--at-tso", at, "--node", "dn-1")
    goes_on(cluster)


def test_a_logical_statement(seed: Cluster, capsys: Captured) -> None:
    for node in ("dn-1", "dn-2"):
        seed.edit(lambda log: _marker_text_changed(log, b"ADD COLUMN", b"ADD COLUMM"), node=node)
    error = seed.refused("ddl-not-understood")
    assert error.node is None and "schema set d1.t1 --sql FILE --merged DIR --at-tso" in error.remedy
    sql = seed.out.parent / "fix.sql"
    sql.write_text(shape(seed, None, "d1", "t1"))
    say(seed, capsys, "set", "d1.t1", "--sql", sql, "--at-tso", error.order_key)
    merge(seed.config, seed.out)
    # The statement's own text is what comes out.
    ours, good = written(seed.out)["binlog.000001"], seed.good["binlog.000001"]
    assert Log.load(ours).with_events([]) == Log.load(good).with_events([])
    differ = [(a, b) for a, b in zip(Log.load(ours).events, Log.load(good).events, strict=True) if a.body != b.body]
    texts = [(a.text, b.text) for a, b in differ if b.type == e.QUERY]
    assert len(texts) == 1
    assert texts[0][0] == texts[0][1].replace("COLUMN", "COLUMM")
    # It lists no databases, since nobody knows which it changes: its transaction is shorter.
    assert [b.type for _, b in differ] == [e.GTID, e.QUERY]


def test_rows_of_an_opaque_logical_table_pass_as_they_are(seed: Cluster) -> None:
    for node in ("dn-1", "dn-2"):
        seed.edit(lambda log: _marker_text_changed(log, b"ADD COLUMN", b"ADD COLUMM"), node=node)
    opaque(seed)
    result = merge(seed.config, seed.out)
    assert len(result.warnings) == 1
    assert len(Log.load(written(seed.out)["binlog.000001"]).events) == len(Log.load(seed.good["binlog.000001"]).events)


def test_a_table_map_against_the_history(tmp_path: Path, capsys: Captured) -> None:
    """A column that the base has and the rows have not: said right, or table maps believed."""
    for remedy in ("set", "tso", "opaque"):
        cluster = Cluster(case_named("three-nodes-commit-order"), tmp_path / remedy)
        base = cluster.config.parent / "base" / "dn-2.sql"
        right = base.read_text()
        base.write_text(right.replace("  PRIMARY KEY (`id`)", "  `more` int DEFAULT NULL,\n  PRIMARY KEY (`id`)"))
        rounds = 0
        while True:
            try:
                result = merge(cluster.config, cluster.out)
                break
            except MergeError as raised:
                error = raised
            rounds += 1
            assert rounds < 20 and error.code == "schema-mismatch" and error.node == "dn-2" and error.order_key
            if remedy == "opaque":
                opaque(cluster)
                continue
            words = error.remedy.split()
            named, at = words[words.index("set") + 1], words[words.index("--at-tso") + 1].strip("`,;")
            if remedy == "tso" and OrderKey.parse(error.order_key).seq == 0:
                at = str(OrderKey.parse(error.order_key).commit_tso)
            (tmp_path / "fix.sql").write_text(right)
            say(cluster, capsys, "set", named, "--sql", tmp_path / "fix.sql", "--at-tso", at, "--node", "dn-2")
        assert rounds and written(cluster.out) == cluster.good
        assert (remedy == "opaque") is any("believed" in warning for warning in result.warnings)


def test_what_is_published_is_not_corrected(seed: Cluster, capsys: Captured) -> None:
    seed.edit(misspelled)
    error, (schema, table) = stopped(seed)
    floor = OrderKey.parse(state_of(seed.out).last.state["floor"])  # type: ignore[union-attr]
    sql = seed.out.parent / "fix.sql"
    sql.write_text(shape(seed, "dn-1", schema, table))
    before = history(seed)
    early = OrderKey(floor.commit_tso - 1, 0, 0, 0).text()
    for at, node, name in ((early, ["--node", "dn-1"], f"{schema}.{table}"), (early, [], "d1.t1"), ("1", [], "d1.t1")):
        said = say(seed, capsys, "set", name, "--sql", sql, "--at-tso", at, *node, code=38)
        assert "is published" in said and floor.text() in said
    said = say(seed, capsys, "import", "--sql", seed.config.parent / "base" / "logical.sql", code=38)
    assert "is published" in said
    assert history(seed) == before
    # From the floor on it is harmless: versions made later get later numbers, as they always would.
    say(seed, capsys, "set", f"{schema}.{table}", "--sql", sql, "--at-tso", error.order_key, "--node", "dn-1")
    sql.write_text("CREATE TABLE other (id INT PRIMARY KEY)")
    say(seed, capsys, "set", "d1.other", "--sql", sql, "--at-tso", floor.text())
    merge(seed.config, seed.out)
    ours, good = (Log.load(files["binlog.000001"]).events for files in (written(seed.out), seed.good))
    assert len(ours) == len(good)
    ids = [[int.from_bytes(x.body[:6], "little") for x in log if x.type == e.TABLE_MAP] for log in (ours, good)]
    # What was published has its ids; the version after it is one further.
    assert {(a, b) for a, b in zip(*ids, strict=True)} == {(1, 1), (3, 2)}


def test_a_history_that_was_changed_below_what_is_published_is_refused(seed: Cluster) -> None:
    seed.edit(misspelled)
    stopped(seed)
    sneaked = replace(history(seed).versions[0], name="sneaked", origin="operator")
    with Store.open(seed.out / "schema.duckdb") as store:
        store.append_versions([sneaked])
    with pytest.raises(MergeError) as raised:
        merge(seed.config, seed.out)
    assert (raised.value.code, raised.value.exit_code) == ("schema-conflict", 38)
    assert "cannot be changed any more" in raised.value.message


def test_a_corrected_store_as_base(seed: Cluster, tmp_path: Path, capsys: Captured) -> None:
    """What was said lives on in `base.store`: a new output from the start needs no help."""
    seed.edit(misspelled)
    error, (schema, table) = stopped(seed)
    sql = tmp_path / "fix.sql"
    sql.write_text(shape(seed, "dn-1", schema, table))
    say(seed, capsys, "set", f"{schema}.{table}", "--sql", sql, "--at-tso", error.order_key, "--node", "dn-1")
    goes_on(seed)
    text = seed.config.read_text()
    start, end = text.index("base:"), text.index("output:")
    seed.config.write_text(f"{text[:start]}base: {{store: {seed.out}/schema.duckdb}}\n{text[end:]}")
    again = tmp_path / "again"
    merge(seed.config, again)
    assert written(again) == seed.good
    with Store.open(again / "schema.duckdb", read_only=True) as store:
        assert store.load_history() == history(seed)


def test_a_store_that_is_folded_between_runs(tmp_path: Path, capsys: Captured) -> None:
    """Folded up to where the merge goes on nothing is missing; further it is refused."""
    config = case_named("three-nodes-online-ddl") / "cluster.yaml"
    out = tmp_path / "out"
    merge(config, out, stop_tso=7507804165500000000, end_of_input=False)
    floor = state_of(out).last.state["floor"]  # type: ignore[union-attr]
    later = OrderKey.parse(floor)._replace(commit_tso=OrderKey.parse(floor).commit_tso + 1).text()
    for at, code in ((later, 2), (floor, 0)):
        assert main.run(["schema", "fold", "--store", str(out), "--at-tso", at]) == code
    said = capsys.readouterr()
    assert "goes on from order key" in said.err and floor in said.err and " 0 versions removed" not in said.out
    merge(config, out)
    assert written(out) == whole(config)
