"""What `schema import --nodes` proposes for shards that have rows in common: each proposal makes tables."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from binlog_merge.bootstrap.overlap import Kind, Overlap
from binlog_merge.bootstrap.plan import RoutedTables
from binlog_merge.bootstrap.published import CapturedNode
from binlog_merge.cli.schema.import_nodes import NodeBase, logical_of, overlaps_of, proposed
from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.config.yaml import YamlDocument, parse_yaml
from snapshot_store.introspect import introspect
from snapshot_store.model import Catalog
from snapshot_store.server import ServerAddress
from tests.mysql_server import MySqlServer

pytestmark = pytest.mark.mysql


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, MySqlServer]]:
    folder = tmp_path_factory.mktemp("shards")
    with MySqlServer(folder / "1", 101) as one, MySqlServer(folder / "2", 102) as two:
        yield {"shard-1": one, "shard-2": two}


@dataclass(frozen=True)
class Told:
    """What shards have in common, what is proposed, and what they have in common with that, put in to the letter."""

    kinds: list[Kind]
    proposal: str
    then: list[str]

    def routes(self) -> list[Any]:
        return yaml.safe_load(self.proposal).get("routes", [])


def told(servers: dict[str, MySqlServer], create: str, sections: str = "", mode: str = "pessimistic") -> Told:
    """Make shards; `{n}` in `create` is the number of the shard."""
    for number, server in enumerate(servers.values(), 1):
        server.drop_databases()
        server.execute(f"CREATE DATABASE k; USE k; {create.replace('{n}', str(number))}")
    addresses = {node: ServerAddress(socket=server.socket) for node, server in servers.items()}
    captured = [CapturedNode(node, (address,), Path("none")) for node, address in addresses.items()]
    bases = {node: NodeBase(introspect(address).catalog, "", 0) for node, address in addresses.items()}

    def seen(document: YamlDocument) -> tuple[list[Overlap], Catalog]:
        places = RoutedTables.of(MergeConfig.from_document(document, Path(), "cluster.yaml"))
        logical = logical_of(bases, places)
        return overlaps_of(captured, bases, logical, places), logical

    nodes = ", ".join(f"{{source-id: {node}, files: {node}}}" for node in servers)
    text = f"version: 1\nname: k\nnodes: [{nodes}]\nshard-mode: {mode}\n"
    document = parse_yaml(text + sections, "cluster.yaml")
    overlaps, logical = seen(document)
    found = proposed(document, Path(), overlaps, bases, logical) or ""
    own = {name: value for name, value in document.values.items() if name not in (yaml.safe_load(found) or {})}
    then, _ = seen(parse_yaml(yaml.safe_dump(own) + found, "cluster.yaml"))
    return Told([one.kind for one in overlaps], found, [one.text for one in then])


COUNTED = "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, v INT)"
KEYED = {"extract-source": {"source-regexp": "(.*)", "target-column": "c_shard", "key": True}}
NAMED = {"schema-pattern": "k", "table-pattern": "t", "target-schema": "k", "target-table": "t"}


@pytest.mark.parametrize("rows", [f"{COUNTED}; INSERT INTO t VALUES (1, {{n}})", COUNTED])
def test_rows_with_the_same_keys_and_counters_of_empty_tables(rows: str, servers: dict[str, MySqlServer]) -> None:
    found = told(servers, rows)
    assert found.kinds == [Kind.keys if "INSERT" in rows else Kind.counters] and not found.then
    assert found.routes() == [NAMED | KEYED]
    assert (
        "# - {source-pattern: shard-2, schema-pattern: k, table-pattern: t, target-schema: k, target-table: t_2}"
        in (found.proposal)
    )


def test_counters_of_rows_that_do_not_collide_are_only_told(servers: dict[str, MySqlServer]) -> None:
    found = told(servers, f"{COUNTED}; INSERT INTO t VALUES ({{n}}, 1)")
    assert found.kinds == [Kind.counters] and not found.proposal


@pytest.mark.parametrize(
    "columns",
    [
        "code CHAR(2) PRIMARY KEY, at TIMESTAMP(6) DEFAULT NOW(6)",
        "code CHAR(2) PRIMARY KEY, at DATETIME ON UPDATE NOW()",
    ],
)
def test_a_copy_whose_rows_have_the_times_of_their_servers(columns: str, servers: dict[str, MySqlServer]) -> None:
    found = told(servers, f"CREATE TABLE t ({columns}); SET timestamp = {{n}}00000; INSERT INTO t (code) VALUES ('DE')")
    assert found.kinds == [Kind.copy] and not found.then
    assert yaml.safe_load(found.proposal) == {"copies": [{"schema-pattern": "k", "table-pattern": "t"}]}
    assert "# - {schema-pattern: k, table-pattern: t, target-schema: k, target-table: t, extract-source:" in (
        found.proposal
    )


def test_what_looks_like_a_copy_but_counts_loses_no_row(servers: dict[str, MySqlServer]) -> None:
    """Each shard may have a first user of its own; the other way is a comment."""
    found = told(servers, f"{COUNTED}; INSERT INTO t VALUES (1, 1)")
    assert found.kinds == [Kind.copy] and not found.then
    assert found.routes() == [NAMED | KEYED]
    assert "under copies:\n  # - {schema-pattern: k, table-pattern: t}\n" in found.proposal


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("VARCHAR(20) COLLATE utf8mb4_0900_ai_ci", ("'Köln'", "'KOLN'")),
        ("VARCHAR(20) COLLATE utf8mb4_general_ci", ("'a'", "'A '")),
        ("VARCHAR(20) COLLATE utf8mb4_bin", ("'a'", "'A'")),
        ("DECIMAL(9,2)", ("1", "1.00")),
    ],
)
def test_other_unique_keys_are_compared_as_the_server_does(
    column: str, values: tuple[str, str], servers: dict[str, MySqlServer]
) -> None:
    create = f"CREATE TABLE t (id INT PRIMARY KEY, u {column} UNIQUE); INSERT INTO t VALUES ({{n}}, "
    found = told(servers, f"{create}ELT({{n}}, {values[0]}, {values[1]})), (10 + {{n}}, NULL)")
    assert found.kinds == ([] if "_bin" in column else [Kind.keys]) and not found.then


CHILD = "CREATE TABLE c (id INT PRIMARY KEY, t INT, FOREIGN KEY (t) REFERENCES t (id) ON DELETE {action})"


@pytest.mark.parametrize("action", ["RESTRICT", "CASCADE", "SET NULL"])
def test_tables_that_refer_to_rows_that_collide(action: str, servers: dict[str, MySqlServer]) -> None:
    create = f"{COUNTED}; {CHILD.replace('{action}', action)}; INSERT INTO t VALUES (1, {{n}}); "
    found = told(servers, create + "INSERT INTO c VALUES ({n}, 1)")
    assert found.kinds == [Kind.keys] and not found.then
    tables = sorted(route["target-table"] for route in found.routes())
    assert tables == (["c_1", "c_2", "t_1", "t_2"] if action == "SET NULL" else ["c", "t"])
    extracts = [route.get("extract-source", {}).get("key") for route in found.routes()]
    assert extracts == ([None] * 4 if action == "SET NULL" else [None, True])


def test_routes_that_are_there_stay(servers: dict[str, MySqlServer]) -> None:
    """Several shards on a node are told apart by what their route's `*` stands for; other routes are as they were."""
    routes = (
        "routes:\n  - {schema-pattern: k, table-pattern: 't_*', target-schema: k, target-table: t}\n"
        "  - {schema-pattern: old, target-schema: older}\ncopies: [{schema-pattern: k, table-pattern: u}]\n"
    )
    create = "".join(f"CREATE TABLE t_{{n}}{i} (id INT PRIMARY KEY, c_shard INT); " for i in (1, 2))
    found = told(servers, f"{create} INSERT INTO t_{{n}}1 VALUES (1, {{n}})", routes)
    assert found.kinds == [Kind.keys] and not found.then
    extract = {"extract-table": {"table-regexp": "t_(.*)", "target-column": "c_shard_2", "key": True}}
    assert found.routes() == [
        NAMED | {"table-pattern": "t_*"} | extract,
        {"schema-pattern": "old", "target-schema": "older"},
    ]


def test_columns_that_a_route_has_become_part_of_the_keys(servers: dict[str, MySqlServer]) -> None:
    own = "extract-source: {source-regexp: 'shard-(.*)', target-column: origin}"
    routes = f"routes: [{{schema-pattern: k, table-pattern: 't*', target-schema: k, target-table: t, {own}}}]\n"
    found = told(servers, f"{COUNTED}; INSERT INTO t VALUES (1, {{n}})", routes)
    assert not found.then
    (route,) = found.routes()
    assert route["extract-source"] == {"source-regexp": "shard-(.*)", "target-column": "origin", "key": True}


def test_names_that_are_taken(servers: dict[str, MySqlServer]) -> None:
    create = f"{COUNTED}; {CHILD.replace('{action}', 'SET NULL')}; CREATE TABLE t_1 (id INT); "
    found = told(servers, create + "INSERT INTO t VALUES (1, {n})")
    assert not found.then
    assert {"c_1", "c_2", "t_of_1", "t_of_2"} == {route["target-table"] for route in found.routes()}


def test_with_markers_nothing_is_proposed(servers: dict[str, MySqlServer]) -> None:
    found = told(servers, f"{COUNTED}; INSERT INTO t VALUES (1, {{n}})", mode="marker")
    assert found.kinds == [Kind.keys] and not found.proposal
