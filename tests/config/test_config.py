"""The configuration file: what it may say, and how it is told that it is wrong."""

import pickle
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from binlog_merge.config.merge_config import MergeConfig, config_schema, differences, topology_of
from binlog_merge.config.nodes import Node
from binlog_merge.config.values import parse_duration, parse_size
from binlog_merge.errors import ConfigError

MINIMAL = """\
version: 1
name: orders
nodes:
  - {source-id: dn-1, files: "dn-1/mysql-bin.*"}
  - {source-id: dn-2, files: [dn-2/a.*, s3://bucket/dn-2/b.*]}
"""

FULL = """\
version: 1
name: orders
nodes:
  - source-id: dn-1
    files: dn-1/mysql-bin.*
    node-number: 7
    server-id: 11
    server-uuid: 8A94F357-AAB4-11DF-86AB-C80AA9429562
routes:
  - {schema-pattern: "orders_*", table-pattern: "t_*", target-schema: orders, target-table: t}
  - {schema-pattern: "x_*", target-schema: x}
ignore-schemas: [audit]
commit-tso: {carrier: commit-table, commit-table: a.b, local-tso: use, max-disorder: 4194304}
markers: {schema: cdc, ddl-record: d, instruction: i, heartbeat: h}
base: {logical: base/logical.sql, physical: {dn-1: base/dn-1.sql}, store: /abs/base.duckdb}
output: {dir: out, basename: merged-bin, max-size: 1GiB, server-id: 5,
         cluster-uuid: 8a94f357aab411df86abc80aa9429562, gtid: on}
spark: {spark.driver.memory: 2g, spark.ui.enabled: false, spark.task.cpus: 1}
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "cluster.yaml"
    path.write_text(text)
    return path


def refused(folder: Path, text: str) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        MergeConfig.load(write(folder, text))
    return caught.value


def test_minimal_has_the_documented_defaults(tmp_path: Path) -> None:
    config = MergeConfig.load(write(tmp_path, MINIMAL))
    assert [n.source_id for n in config.nodes] == ["dn-1", "dn-2"]
    assert config.nodes[0].files == (f"{tmp_path}/dn-1/mysql-bin.*",)
    assert config.nodes[1].files == (f"{tmp_path}/dn-2/a.*", "s3://bucket/dn-2/b.*")
    assert config.output.basename == "binlog"
    assert config.output.max_size == 512 * 1024**2
    assert config.output.server_id == 9001
    assert config.output.gtid == "on"
    assert config.commit_tso.carrier == "auto"
    assert config.commit_tso.commit_table_name == ("__cdc__", "__commit_ts__")
    assert config.commit_tso.local_tso == "inherit"
    assert config.commit_tso.max_disorder == 0
    assert config.commit_tso.max_step_back == 1_000_000
    assert config.commit_tso.on_step_back == "warn"
    assert config.markers.schema_name == "__cdc__"
    assert config.markers.ddl_record == "__cdc_ddl_record__"
    assert config.base.logical is None


def test_every_key(tmp_path: Path) -> None:
    config = MergeConfig.load(write(tmp_path, FULL))
    node = config.node("dn-1")
    assert (node.node_number, node.server_id) == (7, 11)
    assert node.server_uuid == "8a94f357-aab4-11df-86ab-c80aa9429562"
    assert config.routes[0].target_table == "t"
    assert config.routes[1].table_pattern is None
    assert config.base.logical == f"{tmp_path}/base/logical.sql"
    assert config.base.physical == {"dn-1": f"{tmp_path}/base/dn-1.sql"}
    assert config.base.store == "/abs/base.duckdb"
    assert config.output.dir == f"{tmp_path}/out"
    assert config.cluster_uuid() == "8a94f357-aab4-11df-86ab-c80aa9429562"
    assert config.spark == {"spark.driver.memory": "2g", "spark.ui.enabled": "false", "spark.task.cpus": "1"}
    assert config.markers.schema_name == "cdc"
    assert pickle.loads(pickle.dumps(config)) == config


def test_a_node_with_a_server_has_the_files_that_are_captured_from_it(tmp_path: Path) -> None:
    folder = tmp_path / "[live]"
    folder.mkdir()
    server = "server: 'mysql://u:secret@h:3307/'"
    nodes = f"nodes: [{{source-id: dn-1, {server}}}, {{source-id: dn-2, {server}, files: 'x.*'}}]\n"
    config = MergeConfig.load(write(folder, "version: 1\nname: live\n" + nodes))
    assert config.capture.dir == f"{folder}/captured"
    assert config.nodes[0].files == (f"{tmp_path}/[[]live]/captured/dn-1/*",)
    assert config.nodes[1].files == (f"{tmp_path}/[[]live]/x.*",)
    assert "secret" not in str(config.settings())
    config = MergeConfig.load(write(folder, "version: 1\nname: live\ncapture: {dir: ../c}\n" + nodes))
    assert config.nodes[0].files == (f"{tmp_path}/c/dn-1/*",)


@pytest.mark.parametrize(
    ("word", "means"), [("on", "on"), ("'on'", "on"), ("anonymous", "anonymous"), ("off", "anonymous")]
)
def test_gtid_is_on_although_yaml_reads_true(tmp_path: Path, word: str, means: str) -> None:
    assert MergeConfig.load(write(tmp_path, MINIMAL + f"output: {{gtid: {word}}}\n")).output.gtid == means


@pytest.mark.parametrize(
    ("text", "size"),
    [("512MiB", 512 << 20), ("500MB", 500_000_000), ("1GiB", 1 << 30), ("64k", 65536), (" 3 GB ", 3 * 10**9), (17, 17)],
)
def test_sizes(text: Any, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "MiB", "1.5GiB", "-3", "12QB", True, None, 1.5])
def test_not_sizes(text: Any) -> None:
    with pytest.raises(ValueError, match="size"):
        parse_size(text)


@pytest.mark.parametrize(
    ("text", "us"), [("1s", 1_000_000), ("500ms", 500_000), ("1.5 s", 1_500_000), ("2m", 12 * 10**7), (0, 0)]
)
def test_durations(text: Any, us: int) -> None:
    assert parse_duration(text) == us


@pytest.mark.parametrize("text", ["", "s", "1", "-1s", "1 fortnight", True, 3, None])
def test_not_durations(text: Any) -> None:
    with pytest.raises(ValueError, match="duration"):
        parse_duration(text)


def test_unknown_key_names_the_nearest_one_and_the_line(tmp_path: Path) -> None:
    error = refused(tmp_path, 'version: 1\nname: x\nnodes:\n  - files: "a*"\n    souce-id: a\n')
    assert error.message == "unknown key 'souce-id' in nodes[0]; did you mean 'source-id'?"
    assert error.file == f"{tmp_path}/cluster.yaml:5"
    assert error.exit_code == 2


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("output: {dir: a, directory: b}", "unknown key 'directory' in output; known keys: basename"),
        ("ouput: {}", "unknown key 'ouput'; did you mean 'output'?"),
        ("ignore_schemas: [a]", "did you mean 'ignore-schemas'?"),
        ("commit-tso: {max_disorder: 1}", "unknown key 'max_disorder' in commit-tso; did you mean 'max-disorder'?"),
        ("markers: {schema_name: a}", "unknown key 'schema_name' in markers"),
        ("routes: [{schema-pattern: a, target-schema: b, target-table: c}]", "target-table needs a table-pattern"),
        ("commit-tso: {carrier: gcn}", "commit-tso.carrier: should be 'auto', 'commit-table'"),
        ("commit-tso: {commit-table: a}", "not a table name of the form schema.table"),
        ("commit-tso: {max-step-back: 3}", "commit-tso.max-step-back: 3 is not a duration"),
        ("shard-mode: optimist", "'marker', 'pessimistic' or 'optimistic', not 'optimist'; did you mean 'optimistic'?"),
        ("shard-mode: optimistic\ntopology: markers", "only routes say where tables lie"),
        (
            "routes: [{schema-pattern: a, table-pattern: b, target-schema: c, target-table: d, shard-mode: optimistic},"
            " {schema-pattern: e, table-pattern: b, target-schema: c, target-table: d}]",
            "c.d is optimistic by one route and marker by another",
        ),
        (
            "routes: [{schema-pattern: a, target-schema: b, extract-table: {table-regexp: 't_.*', target-column: c}}]",
            "'t_.*' captures nothing: put what is to be taken in parentheses",
        ),
        (
            "routes: [{schema-pattern: a, target-schema: b, extract-source: {source-regexp: '(.*', target-column: c}}]",
            "is not a regular expression",
        ),
        (
            "routes: [{schema-pattern: a, target-schema: b, extract-schema: {schema-regexp: '(.*)', target-column: c},"
            " extract-source: {source-regexp: '(.*)', target-column: C}}]",
            "write the same column",
        ),
        (
            "routes: [{source-pattern: db-1, schema-pattern: a, target-schema: b}]",
            "routes[0].source-pattern: no node has a source-id like 'db-1'; did you mean 'dn-1'?",
        ),
        (
            "routes: [{schema-pattern: a, target-schema: b, "
            "extract-source: {source-regexp: '(.*)', target-column: c, key: true}}]",
            "routes[0]: key: true of c with shard-mode marker",
        ),
        (
            "shard-mode: optimistic\nroutes: [{schema-pattern: a, target-schema: b, "
            "extract-source: {source-regexp: 'dn-(2)', target-column: c, key: true}}]",
            "routes[0].extract-source: 'dn-(2)' takes nothing out of 'dn-1', and is to be part of keys",
        ),
        (
            "shard-mode: optimistic\nroutes: [{schema-pattern: a, table-pattern: t, target-schema: b, target-table: t, "
            "extract-source: {source-regexp: '(.*)', target-column: c, key: true}}, "
            "{schema-pattern: x, table-pattern: t, target-schema: b, target-table: t}]",
            "routes: b.t has c with key: true by one route and none by another",
        ),
        (
            "copies: [{schema-pattern: a, table-pattern: b, from: dn1}]",
            "copies[0].from: no node has a source-id like 'dn1'",
        ),
        ("copies: [{schema-pattern: a, table-pattern: b, form: dn-1}]", "did you mean 'from'?"),
        ("copies: [{schema-pattern: a}]", "key 'table-pattern' is missing in copies[0]"),
        ("routes: [{source-patern: dn-1, schema-pattern: a, target-schema: b}]", "did you mean 'source-pattern'?"),
        ("commit-tso: {max-disorder: -1}", "commit-tso.max-disorder"),
        ("base: {physical: {dn-3: a.sql}}", "no node has the source-id dn-3"),
        ("output: {max-size: 0}", "output.max-size"),
        ("output: {basename: ../x}", "output.basename"),
        ("output: {server-id: 0}", "output.server-id"),
        ("output: {server-id: 4294967296}", "output.server-id"),
        ("output: {cluster-uuid: zebra}", "'zebra' is not a UUID"),
        ("output: {dir: 'hdfs://b/out'}", "an output is a local"),
        ("spark: {a: [1]}", "spark.a"),
    ],
)
def test_refused(tmp_path: Path, text: str, says: str) -> None:
    error = refused(tmp_path, MINIMAL + text + "\n")
    assert says in error.message
    whole = (
        "base.physical",
        "one shard-mode",
        "only routes say",
        "no node has a source-id like",
        "key: true",
        "part of keys",
    )  # not of one line
    assert error.file == f"{tmp_path}/cluster.yaml:6" or any(part in error.message for part in whole)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "3 problems"),
        ("- a\n", "must be a mapping"),
        (
            "version: 2\nname: x\nnodes: [{source-id: a, files: b}]\n",
            "version: 2 is not known, only 1 is: the file may have been written for a newer",
        ),
        ("version: 1\nname: x\nnodes: []\n", "nodes: should not be empty"),
        ("version: 1\nname: x\nnodes: [{source-id: a, files: []}]\n", "nodes[0].files"),
        ("version: 1\nname: x\nnodes: [{source-id: a}]\n", "nodes[0]: key 'files' is missing; or give the `server`"),
        ("version: 1\nname: x\nnodes: [{source-id: a, server: 'http://b'}]\n", "is no server: write mysql://user@host"),
        ("version: 1\nname: x\nnodes: [{source-id: a, server: 'mysql://b:x'}]\n", "nodes[0].server: Port could not"),
        ("version: 1\nname: x\nnodes: [{source-id: a, files: b}]\ncapture: {dir: hdfs://b}\n", "only a local"),
        ("version: 1\nname: x\nnodes: [{source-id: a, files: b}, {source-id: a, files: c}]\n", "a is given twice"),
        ("version: 1\nname: x\nnodes: [{source-id: 7, files: b}]\n", "nodes[0].source-id: Input should be a valid"),
        ("version: 1\nname: x\nnodes: [{source-id: a, files: b}]\nroutes: hello\n", "routes: should be a list"),
        ("version: 1\nname: x\nnodes: [{source-id: a, files: b}]\noutput: 7\n", "output: should be a mapping"),
        ("version: 1\nversion: 1\n", "the key 'version' is given twice"),
        ("version: 1\nname: &a x\n", "anchors and aliases are not allowed"),
        ("version: 1\nname: *a\n", "anchors and aliases are not allowed"),
        ("a: {<<: {b: c}}\n", "unknown key 'a'"),
        ("version: [\n", "not valid YAML"),
        ("version: !!python/object/apply:os.system [ls]\n", "python/object/apply:os.system is not allowed"),
        ("version: !!python/name:os.system\n", "not valid YAML"),
        ("? [a, b]\n: c\n", "a key must be plain text"),
        ("name: 2026-02-31\n", "not valid YAML"),
        ("a: " + "[" * 5000, "not valid YAML|nested too deeply"),
        ("a: " + "[" * 100 + "]" * 100, "nested too deeply"),
        ("# " + "x" * (1 << 20), "larger than"),
        ("name: \x07\n", "not valid YAML"),
    ],
)
def test_refused_documents(tmp_path: Path, text: str, says: str) -> None:
    error = refused(tmp_path, text)
    assert any(part in error.message for part in says.split("|")), error.message
    assert error.remedy


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("version: [\n", ":2"),
        ("version: 1\nname: x\nnome: x\nnodes: [{source-id: a, files: b}]\n", ":3"),
        ("# " + "x" * (1 << 20), ""),
    ],
    ids=["no YAML", "unknown key", "too large"],
)
def test_a_file_is_called_as_it_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, line: str
) -> None:
    write(tmp_path, text)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError) as caught:
        MergeConfig.load("cluster.yaml")
    assert caught.value.file == f"cluster.yaml{line}"


def test_a_missing_file_is_a_configuration_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read the configuration"):
        MergeConfig.load(tmp_path / "nothing.yaml")


def test_an_alias_bomb_is_refused_at_its_first_anchor(tmp_path: Path) -> None:
    bomb = "a: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]\n"
    assert refused(tmp_path, bomb).file == f"{tmp_path}/cluster.yaml:1"


def test_a_folder_name_is_not_a_pattern(tmp_path: Path) -> None:
    folder = tmp_path / "[prod]"
    folder.mkdir()
    assert MergeConfig.load(write(folder, MINIMAL)).nodes[0].files == (f"{tmp_path}/[[]prod]/dn-1/mysql-bin.*",)


def test_values_are_frozen(tmp_path: Path) -> None:
    config = MergeConfig.load(write(tmp_path, MINIMAL))
    with pytest.raises(ValidationError):
        config.name = "other"  # type: ignore[misc]


def node(source_id: str, number: int | None = None) -> Node:
    return Node(source_id=source_id, files=("x",), node_number=number)


def config_of(*nodes: Node) -> MergeConfig:
    return MergeConfig(version=1, name="n", nodes=nodes)


def test_node_numbers_do_not_depend_on_the_order_of_nodes() -> None:
    assert config_of(node("b"), node("a"), node("c")).node_numbers() == {"a": 1, "b": 2, "c": 3}


def test_explicit_node_numbers_are_kept_and_gone_around() -> None:
    assert config_of(node("a"), node("b", 1), node("c")).node_numbers() == {"b": 1, "a": 2, "c": 3}


def test_a_node_that_joins_later_gets_the_next_number() -> None:
    assert config_of(node("a"), node("c"), node("b")).node_numbers({"b": 1, "c": 2}) == {"b": 1, "c": 2, "a": 3}


def test_a_node_number_cannot_change() -> None:
    with pytest.raises(ConfigError, match="differs from 2"):
        config_of(node("a", 1)).node_numbers({"a": 2})
    with pytest.raises(ConfigError, match="same number"):
        config_of(node("a"), node("b", 1)).node_numbers({"a": 1})


def test_the_cluster_uuid_is_derived_from_name_and_nodes() -> None:
    uuid = config_of(node("b"), node("a")).cluster_uuid()
    assert uuid == config_of(node("a"), node("b")).cluster_uuid()
    assert uuid != config_of(node("a")).cluster_uuid()


def test_fingerprint_changes_with_what_decides_the_bytes_only(tmp_path: Path) -> None:
    (tmp_path / "base.sql").write_text("create table a.t (id int);")
    first = MergeConfig.load(write(tmp_path, MINIMAL + "base: {logical: base.sql}\n"))
    same = MINIMAL.replace("dn-1/mysql", "elsewhere/mysql") + (
        "base: {logical: ./base.sql}\noutput: {dir: out}\nspark: {a: b}\ncommit-tso: {max-disorder: 7}\n"
    )
    assert MergeConfig.load(write(tmp_path, same)).fingerprint() == first.fingerprint()
    for text in ("output: {max-size: 1MiB}", "markers: {schema: x}", "ignore-schemas: [x]", "output: {gtid: off}"):
        other = MergeConfig.load(write(tmp_path, MINIMAL + "base: {logical: base.sql}\n" + text + "\n"))
        assert other.fingerprint() != first.fingerprint()
    before = first.settings()
    (tmp_path / "base.sql").write_text("create table a.t (id bigint);")
    assert differences(before, first.settings())[0].startswith("base.logical was ")


def test_differences_are_named() -> None:
    assert differences({"a": 1, "b": 2}, {"a": 1, "b": 3, "c": 4}) == ["b was 2, is now 3", "c was None, is now 4"]


def test_the_schema_knows_the_keys_as_written() -> None:
    schema = config_schema()
    assert {"nodes", "commit-tso", "ignore-schemas"} <= set(schema["properties"])
    assert schema["additionalProperties"] is False


def test_reshape_says_what_becomes_of_values_that_do_not_fit(tmp_path: Path) -> None:
    def load(reshape: str) -> MergeConfig:
        path = tmp_path / "c.yaml"
        path.write_text(f"version: 1\nname: n\nnodes: [{{source-id: a, files: [x]}}]\nreshape: {reshape}\n")
        return MergeConfig.load(path)

    plain = load("{}")
    assert (plain.reshape.on_unconvertible, plain.reshape.offset) == ("error", 0)
    east = load("{on-unconvertible: clamp, time-zone: '+8:00'}")
    assert (east.reshape.on_unconvertible, east.reshape.time_zone, east.reshape.offset) == ("clamp", "+08:00", 480)
    assert load("{time-zone: '-03:30'}").reshape.offset == -210
    # The policy may change when a merge has stopped; the time zone decides bytes.
    assert load("{on-unconvertible: default}").fingerprint() == plain.fingerprint() != east.fingerprint()
    for wrong in ("{on-unconvertible: null}", "{time-zone: Asia/Shanghai}", "{time-zone: '+15:00'}", "{time-zone: 8}"):
        with pytest.raises(ConfigError, match="reshape"):
            load(wrong)


def test_routes_in_dms_words(tmp_path: Path) -> None:
    text = """\
shard-mode: pessimistic
shard-doubts: error
online-ddl: false
routes:
  - schema-pattern: shop_*
    table-pattern: t_*
    target-schema: shop
    target-table: t
    shard-mode: optimistic
    extract-table: {table-regexp: "t_(.*)", target-column: c_table}
    extract-schema: {schema-regexp: "shop_(.*)", target-column: c_schema}
    extract-source: {source-regexp: "(.*)", target-column: c_source}
"""
    config = MergeConfig.load(write(tmp_path, MINIMAL + text))
    assert (config.shard_mode, config.shard_doubts, config.online_ddl) == ("pessimistic", "error", False)
    assert config.coordinates and config.routes[0].shard_mode == "optimistic"
    extract = config.routes[0].extract()
    assert extract is not None
    assert extract.values("dn-1", "shop_2", "t_7") == (("c_table", "7"), ("c_schema", "2"), ("c_source", "dn-1"))


def test_a_route_for_some_nodes(tmp_path: Path) -> None:
    text = "routes: [{source-pattern: 'dn-[2-9]', schema-pattern: a, table-pattern: t, target-schema: a, "
    config = MergeConfig.load(write(tmp_path, MINIMAL + text + "target-table: t_2}]"))
    topology = topology_of(config)
    assert [topology.logical_name(node, "A", "T") for node in ("dn-1", "dn-2")] == [("A", "T"), ("a", "t_2")]
    everywhere = MergeConfig.load(write(tmp_path, MINIMAL + text.replace("source-pattern: 'dn-[2-9]', ", "") + "}]"))
    assert config.fingerprint() != everywhere.fingerprint()
    assert "source-pattern" not in everywhere.settings()["routes"][0]  # outputs that were begun before it go on


def test_copies_come_from_the_node_with_the_lowest_number_or_a_given_one(tmp_path: Path) -> None:
    def load(rule: str, more: str = "") -> MergeConfig:
        text = MINIMAL.replace("  - {source-id: dn-2", f"{more}  - {{source-id: dn-2")
        return MergeConfig.load(write(tmp_path, f"{text}copies: [{{schema-pattern: a, table-pattern: b{rule}}}]\n"))

    first, given, other = load(""), load(", from: dn-1"), load(", from: dn-2")
    assert first.settings() == given.settings() != other.settings()
    assert topology_of(first).copy_from("a", "b") == "dn-1" and topology_of(other).copy_from("A", "b") == "dn-2"
    joined = "  - {source-id: a, files: x}\n"  # sorts first: another node would be meant, and the setting is another
    assert load("", joined).settings()["copies"] != load(", from: dn-1", joined).settings()["copies"]
    assert load(", from: dn-1", joined).settings()["copies"] == first.settings()["copies"]


def test_an_extracted_column_of_the_keys_is_a_setting_only_where_there_is_one(tmp_path: Path) -> None:
    route = "{schema-pattern: a, target-schema: b, extract-source: {source-regexp: '(.*)', target-column: c%s}}"
    plain, keyed = (
        MergeConfig.load(write(tmp_path, f"{MINIMAL}shard-mode: optimistic\nroutes: [{route % key}]\n"))
        for key in ("", ", key: true")
    )
    assert '"key"' not in plain.settings()["routes"][0] and '"key": true' in keyed.settings()["routes"][0]
    assert (plain.routes[0].keys(), keyed.routes[0].keys()) == ((), ("c",))


def test_what_decides_about_shards_is_a_setting_of_the_output(tmp_path: Path) -> None:
    plain = MergeConfig.load(write(tmp_path, MINIMAL))
    assert not plain.coordinates
    assert not {"shard-mode", "online-ddl"} & plain.settings().keys()
    for text in ("shard-mode: optimistic\n", "shard-mode: pessimistic\n"):
        other = MergeConfig.load(write(tmp_path, MINIMAL + text))
        assert other.fingerprint() != plain.fingerprint()
        relaxed = MergeConfig.load(write(tmp_path, MINIMAL + text + "shard-doubts: warn\n"))
        assert relaxed.fingerprint() == other.fingerprint()  # says only whether to stop


@pytest.mark.parametrize(
    ("text", "seconds"), [("off", 0), ("'off'", 0), ("30s", 30), ("1m", 60), ("0.5m", 30), ("0", 0), ("2000ms", 2)]
)
def test_heartbeats_are_whole_seconds_apart(text: str, seconds: int, tmp_path: Path) -> None:
    config = MergeConfig.load(write(tmp_path, MINIMAL + f"output: {{heartbeat: {text}}}\n"))
    assert config.output.heartbeat == seconds
    assert config.settings().get("output.heartbeat", 0) == seconds


@pytest.mark.parametrize("text", ["on", "30", "1500ms", "-1s", "often"])
def test_heartbeats_that_are_not(text: str, tmp_path: Path) -> None:
    error = refused(tmp_path, MINIMAL + f"output: {{heartbeat: {text}}}\n")
    assert "output.heartbeat" in error.message and ("30s" in error.message or "duration" in error.message)
