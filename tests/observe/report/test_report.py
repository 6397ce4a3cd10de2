"""`binlog-merge report` on merged logs: its numbers against strangers' counts, and what it says when it cannot know."""

import json
import re
import shutil
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from binlog_merge.binlog.events import RowsEvent, TableMap
from binlog_merge.binlog.kernels import log_index as x
from binlog_merge.binlog.rows import iter_rows
from binlog_merge.log.log import Log
from binlog_merge.log.reader import Begin, OrderedBy, Rows
from binlog_merge.log.segments import Segment, segments
from binlog_merge.log.statement import Statement
from binlog_merge.log.table_changes import transactions_of
from binlog_merge.observe.report.log import keys_of, read_log
from binlog_merge.observe.report.page import page
from tests.command_line import command_line
from tests.merge_e2e.cases import case_named
from tests.merge_e2e.local import merge
from tests.mysql_server import mysqlbinlog
from tests.oracle import merge_case
from tests.oracle.config import load
from tests.oracle.order import choose_carrier, key_text, order_node, read_node

DEMO = "three-nodes-online-ddl"


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _merged(DEMO, tmp_path_factory.mktemp("demo"))


@pytest.fixture(scope="module")
def waiting(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Shards that wait for each other."""
    return _merged("shards-pessimistic", tmp_path_factory.mktemp("waiting"), end_of_input=False)


def _merged(case: str, folder: Path, end_of_input: bool = True) -> Path:
    merge(case_named(case) / "cluster.yaml", folder / "merged", end_of_input=end_of_input)
    return folder / "merged"


def _json(*arguments: object) -> dict[str, Any]:
    done = command_line(["report", *arguments, "-o", "json"])
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


class _Page(HTMLParser):
    """The texts of a page by the ids of their elements, its tables' rows, and all that it would load."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.texts: Counter[str] = Counter()
        self.rows: dict[str, list[list[str]]] = {}
        self.loads: list[str] = []
        self.scripts: dict[str, str] = {}
        self._ids: list[str] = []
        self._table, self._script, self._cell = "", "", False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.loads += [str(values[name]) for name in ("src", "href", "action", "data", "poster") if name in values]
        if tag == "table":
            self._table = values.get("id") or ""
            self.rows.setdefault(self._table, [])
        elif tag == "tr":
            self.rows[self._table].append([])
        elif tag == "td":
            self.rows[self._table][-1].append("")
        elif tag == "script":
            self._script = values.get("id") or "code"
        self._cell = tag == "td" or (self._cell and tag not in ("tr", "th"))
        if tag in ("dd", "p") and "id" in values:
            self._ids = [str(values["id"])]

    def handle_endtag(self, tag: str) -> None:
        self._cell = self._cell and tag != "td"
        if tag == "script":
            self._script = ""
        if tag in ("dd", "p", "small"):
            self._ids = []

    def handle_data(self, data: str) -> None:
        if self._script:
            self.scripts[self._script] = self.scripts.get(self._script, "") + data
        elif self._cell:
            self.rows[self._table][-1][-1] += data
        if self._ids and data.strip():
            self.scripts.setdefault(f"#{self._ids[0]}", data.strip())


def _page(folder: Path, *arguments: object, code: int = 0) -> _Page:
    out = folder.parent / "report.html"
    done = command_line(["report", folder, "-o", out, *arguments])
    assert done.returncode == code, done.stderr
    return _Page(out.read_text())


@pytest.mark.mysql
def test_the_pages_numbers_are_those_that_mysqlbinlog_counts(demo: Path) -> None:
    shown = _page(demo)
    text = mysqlbinlog([demo / "binlog.000001"], "-v", "--base64-output=decode-rows").decode()
    rows = Counter(re.findall(r"^### (INSERT INTO|UPDATE|DELETE FROM) `shop`.`orders`$", text, re.M))
    assert int(shown.scripts["#transactions"]) == len(
        re.findall(r"^SET @@SESSION.GTID_NEXT= '[0-9a-f-]{36}:", text, re.M)
    )
    assert int(shown.scripts["#rows"]) == sum(rows.values())
    alters = re.findall(r"^ALTER TABLE .*$", text, re.M)
    assert int(shown.scripts["#statements"]) == len(alters) == len([row for row in shown.rows["ddl"] if row])
    (table,) = [row for row in shown.rows["tables"] if row]
    assert table[:5] == [
        "shop.orders", *(str(rows[word]) for word in ("INSERT INTO", "UPDATE", "DELETE FROM")), str(sum(rows.values())),
    ]  # fmt: skip
    places = [row[5] for row in shown.rows["ddl"] if row]
    starts = {int(at) for at in re.findall(r"^# at (\d+)$", text, re.M)}
    assert all(place.startswith("binlog.000001:") and int(place.partition(":")[2]) in starts for place in places)


def test_the_nodes_lanes_are_those_of_the_oracle(demo: Path) -> None:
    """Which node took part in which transaction: a second implementation of the merge says it."""
    config = case_named(DEMO) / "cluster.yaml"
    found = _json(demo, "--config", config)
    expected = _nodes_of(config)
    lanes = {lane["name"]: lane for lane in found["timeline"]["lanes"] if lane["kind"] == "node"}
    assert {name: lane["transactions"] for name, lane in lanes.items()} == Counter(n for ns in expected for n in ns)
    for lane in lanes.values():
        for axis in ("time", "rank"):
            assert sum(lane[axis][1::2]) == lane["transactions"]
    numbers = {lane["lane"]: name for name, lane in lanes.items()}
    shown = [{numbers[lane] for lane in at["lanes"] if lane in numbers} for at in found["timeline"]["transactions"]]
    assert shown == expected


def _nodes_of(config: Path) -> list[set[str]]:
    """Return the nodes of each transaction of a case, as the oracle orders them; of a DDL none."""
    cluster = load(config)
    inputs = [(node, *read_node(node)) for node in cluster.nodes]
    carrier = choose_carrier(cluster, [group for _, _, groups in inputs for group in groups])
    nodes: dict[str, set[str]] = {}
    for node, version, groups in inputs:
        for branch in order_node(cluster, node, version, groups, carrier).branches:
            nodes.setdefault(key_text(branch.key), set()).add(node.source_id)
    return [nodes[key] if kind == "rows" else set() for key, kind, _ in merge_case(config).transactions]


def test_what_stands_where_in_the_order(demo: Path) -> None:
    """Statements, versions and nodes' DDL against the order keys around them."""
    found = _json("--merged", demo)
    keys = {at["rank"]: at["order_key"] for at in found["timeline"]["transactions"] if at["order_key"]}
    assert [w["versions"] for w in found["watersheds"]] == [[{"table": "shop.orders", "version": n}] for n in (2, 3)]
    assert len(found["node_ddl"]) == 18
    placed = [*found["watersheds"], *found["node_ddl"]]
    for at in placed:
        behind = at["rank"] + (1 if "versions" in at else 0)
        assert max(key for rank, key in keys.items() if rank < behind) < at["order_key"]
        assert min(key for rank, key in keys.items() if rank >= behind) > at["order_key"]
    for span in found["skew"]["spans"]:
        assert (span["kind"], len(span["physical"])) == ("ahead", 3)
        assert span["begins"]["rank"] < span["ends"]["rank"] in [w["rank"] + 1 for w in found["watersheds"]]
    times = [at["us"] for at in found["timeline"]["transactions"]]
    assert times == sorted(times)


@pytest.mark.parametrize("case", ["carrier-gtid", "all-types", "tagged-gtid", "gtid-off", "rotation", "large-blobs"])
def test_a_walk_over_windows_counts_what_the_reader_yields(case: str, tmp_path: Path) -> None:
    merged = Log(_merged(case, tmp_path))
    rows: Counter[tuple[str, str]] = Counter()
    times, keys, statements = {}, {}, 0
    for item in merged.items():
        if isinstance(item, Begin):
            begin = item
            times[begin.rank] = begin.commit_us
        elif isinstance(item, OrderedBy):
            keys[begin.rank] = item.key
        elif isinstance(item, Statement):
            statements += 1
        elif isinstance(item, Rows):
            rows[item.table.schema, item.table.table] += _rows(item.event, item.table)
    facts = read_log(merged, window=300)  # less than most transactions have
    assert {(t.schema, t.name): t.rows for t in facts.tables} == dict(rows)
    assert (facts.transactions, facts.statement_count, facts.stopped) == (len(times), statements, None)
    assert facts.detail is not None and [t.rank for t in facts.detail] == sorted(times)
    assert {t.rank: t.key for t in facts.detail if t.key} == {rank: key.text() for rank, key in keys.items()}
    for piece in segments(merged, window=300):
        if isinstance(piece, Segment):
            found = transactions_of(piece)
            known = keys_of(found)
            assert [times[rank] for rank in piece.ranks] == found[:, x.X_COMMIT_US].tolist()
            for number, rank in enumerate(piece.ranks):
                assert known.text(number) in (keys[rank].text() if rank in keys else None, None)


def _rows(event: RowsEvent, table: TableMap) -> int:
    return sum(1 for _ in iter_rows(event, table))


def test_the_page_needs_nothing_else_and_shows_hostile_texts_as_they_are(demo: Path, tmp_path: Path) -> None:
    plain = _page(demo)
    assert plain.loads == ["data:,"]
    text = (demo.parent / "report.html").read_text()
    assert set(re.findall(r"[a-z]+://[^\s\"'<]*", text)) == {"http://www.w3.org/2000/svg"}  # a namespace, not loaded
    assert "@import" not in text and "url(" not in text
    document = _json(demo)
    evil = "</script><img src=x onerror=alert(1)>\u202e\x00`"
    document["cluster"]["name"] = document["watersheds"][0]["sql"] = document["nodes"][0]["node"] = evil
    document["timeline"]["lanes"][0]["name"] = document["versions"][0]["table"] = evil
    shown = _Page(page(document).decode())
    assert shown.loads == ["data:,"] and set(shown.scripts) >= {"data", "code"}
    assert json.loads(shown.scripts["data"])["timeline"]["lanes"][0]["name"] == evil
    assert "</script><img src=x onerror=alert(1)>\\u202e\\x00`" in [
        row[3].split(" in ")[0] for row in shown.rows["ddl"] if row
    ]


def test_who_holds_back_and_what_waits(waiting: Path) -> None:
    found = _json(waiting)
    assert found["watermark"]["held_back_by"] == "dn-2" and "idle since" in found["watermark"]["why"]
    (lock,) = found["coordinations"]["locks"]
    assert [shard["shard"] for shard in lock["awaited"]] == ["dn-1/shop_1/orders_2"]
    assert (found["held"]["branches"], found["held"]["waiting"]) == (3, 2)
    lasting = {span["node"] for span in found["skew"]["spans"] if span["kind"] == "lasting"}
    assert lasting == {"dn-1", "dn-2"}
    _page(waiting)
    page_text = (waiting.parent / "report.html").read_text()
    assert "held back by dn-2" in page_text and "dn-1/shop_1/orders_2" in page_text
    text = command_line(["report", waiting]).stdout
    assert "15 transactions, 5 statements, 13 rows" in text and "held back by dn-2: idle since" in text


def test_what_is_not_known_is_named(demo: Path, tmp_path: Path) -> None:
    copy = tmp_path / "merged"
    shutil.copytree(demo, copy)
    shutil.rmtree(copy / ".status")
    (copy / "schema.duckdb").unlink()
    found = _json(copy)
    texts = " ".join(found["unknown"])
    assert "there is no" in texts and "merge.json" in texts and "schema.duckdb" in texts and "Give --config" in texts
    assert (found["held"], found["skew"], found["coordinations"], found["watermark"]["known"]) == (
        None,
        None,
        None,
        False,
    )
    assert found["log"]["transactions"] == 210
    shown = _page(copy)
    assert shown.scripts["#transactions"] == "210"
    (copy / ".status").mkdir()
    (copy / ".status" / "merge.json").write_text('{"version": 1, "at": 1, "nodes": {"dn-1": 7}}')
    assert any("damaged" in text for text in _json(copy)["unknown"])


def test_damage_is_on_the_page_and_in_the_exit_code(demo: Path, tmp_path: Path) -> None:
    copy = tmp_path / "merged"
    shutil.copytree(demo, copy)
    data = bytearray((copy / "binlog.000001").read_bytes())
    data[150_000] ^= 0xFF
    (copy / "binlog.000001").write_bytes(data)
    shown = _page(copy, code=12)
    assert "checksum-mismatch" in (copy.parent / "report.html").read_text()
    assert 0 < int(shown.scripts["#transactions"]) < 210
    done = command_line(["report", copy, "-o", "json"])
    assert (done.returncode, json.loads(done.stdout)["error"]["code"]) == (12, "checksum-mismatch")


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["report"], 2, "no merged log is named"),
        (["report", "a", "--merged", "b"], 2, "named twice"),
        (["report", "nowhere"], 28, "there is no such directory"),
        (["report", "."], 28, "no merge has written here"),
        (["report", "a", "-o", "xml"], 2, "text, json, jsonl, html"),
        (["report", "a", "-o", "report.pdf"], 2, "text, json, jsonl, html"),
        (["report", "a", "-o", "no/such/folder/report.html"], 31, "there is no directory"),
    ],
)
def test_wrong_arguments(arguments: list[str], code: int, says: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    done = command_line(arguments)
    assert (done.returncode, says in done.stderr) == (code, True), done.stderr


def test_nothing_is_published_yet(tmp_path: Path) -> None:
    merged = _merged("idle-node", tmp_path, end_of_input=False)
    found = _json(merged)
    assert found["log"]["transactions"] == 0 and found["watermark"]["order_key"] is None
    assert found["watermark"]["held_back_by"] == "dn-2" and found["files"] == []
    _page(merged)
    assert "Nothing is published" in (merged.parent / "report.html").read_text()
