"""The status over HTTP: metrics as Prometheus reads them, health, JSON, and the page in a browser."""

import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from html.parser import HTMLParser
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from prometheus_client.openmetrics import parser as openmetrics_parser
from prometheus_client.parser import text_string_to_metric_families

from binlog_merge.binlog_server.readers import Reader, ReadersNote
from binlog_merge.errors import ConfigError, ServerRefused
from binlog_merge.files.manifest import MANIFEST_NAME
from binlog_merge.files.removal import attached_readers
from binlog_merge.files.state_notes import MERGE_NOTE, NOTES_FOLDER
from binlog_merge.observe.status.health import CODES
from binlog_merge.observe.status.metrics import METRICS, exposition
from binlog_merge.observe.status.server import StatusServer, parse_listen
from tests.binlog_server.running import from_position, serving
from tests.merge_e2e.local import merge, state_of
from tests.observe.status.looking import Cluster, codes, eventually, merged

CASE, HELD = "three-nodes-online-ddl", "three-nodes-commit-order"
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    return merged(CASE, tmp_path_factory.mktemp("cluster"))


@pytest.fixture(scope="module")
def server(cluster: Cluster) -> Iterator[StatusServer]:
    with StatusServer(cluster.config, cluster.out, "0") as server:
        yield server


def _get(server: StatusServer, path: str, **headers: str) -> tuple[int, str, bytes]:
    try:
        with urlopen(Request(server.url + path, headers=headers), timeout=60) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read()
    except HTTPError as error:
        with error:
            return error.code, error.headers["Content-Type"], error.read()


def _samples(server: StatusServer) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    families = text_string_to_metric_families(_get(server, "metrics")[2].decode())
    return {(s.name, tuple(sorted(s.labels.items()))): s.value for family in families for s in family.samples}


# Metrics


def test_metrics_are_what_the_status_says(server: StatusServer, cluster: Cluster) -> None:
    samples, state = _samples(server), state_of(cluster.out)
    assert state.last is not None
    for name, value in {
        "healthy": 1,
        "transactions_total": state.rank,
        "ddl_total": state.last.totals["ddl"],
        "input_bytes_total": state.last.totals["input_bytes"],
        "output_bytes": sum(file.size for file in state.files),
        "runs_total": 1,
        "held_branches": 0,
    }.items():
        assert samples[f"binlog_merge_{name}", ()] == value, name
    for node, known in state.last.nodes.items():
        assert samples["binlog_merge_node_read_position_bytes", (("node", node),)] == known.scan_end_position
        assert samples["binlog_merge_node_watermark_lag_seconds", (("node", node),)] > 0
    # After the end of input there is no global watermark: a lag of 0 would be a lie.
    assert ("binlog_merge_watermark_lag_seconds", ()) not in samples
    problems = {dict(labels)["code"]: value for (name, labels), value in samples.items() if name.endswith("_problems")}
    assert problems == dict.fromkeys(CODES, 0)


def test_a_late_watermark_is_in_the_metrics(tmp_path: Path) -> None:
    cluster = merged(HELD, tmp_path, end_of_input=False)
    with StatusServer(cluster.config, cluster.out, "127.0.0.1:0") as server:
        samples = _samples(server)
        at = samples["binlog_merge_status_timestamp_seconds", ()]
        lag = samples["binlog_merge_watermark_lag_seconds", ()]
        assert abs(samples["binlog_merge_watermark_timestamp_seconds", ()] + lag - at) < 0.001
        late = (("code", "watermark-late"), ("severity", "error"))
        assert samples["binlog_merge_problems", late] == 1 and samples["binlog_merge_healthy", ()] == 0
        holding = {dict(labels)["node"]: v for (name, labels), v in samples.items() if name.endswith("node_holds_back")}
        assert holding == {"dn-1": 0, "dn-2": 0, "dn-3": 1}


def test_names_follow_the_conventions_of_prometheus(cluster: Cluster) -> None:
    """Base units at the end of the name, `_total` for counters and nothing else, and a unit only where it is one."""
    text, content = exposition(cluster.look(), "")
    assert content.startswith("text/plain")
    kinds = {family.name: family for family in text_string_to_metric_families(text.decode())}
    for metric in METRICS:
        assert re.fullmatch(r"binlog_merge_[a-z_]+[a-z]", metric.name) and metric.help.endswith(".")
        family = kinds[metric.name.removesuffix("_total")]
        assert (family.type, metric.counter) in {("counter", True), ("gauge", False)}
        assert not re.search(r"_(ms|millis|minutes|kb|mb|percent|count)(_|$)", metric.name)
        if metric.name.endswith("_timestamp_seconds"):
            assert all(sample.value > 1e9 for sample in family.samples)
    assert len({metric.name for metric in METRICS}) == len(METRICS) == len(kinds)


def test_open_metrics_are_given_to_who_asks_for_them(server: StatusServer) -> None:
    code, content, data = _get(server, "metrics", Accept="application/openmetrics-text; version=1.0.0")
    assert code == 200 and content.startswith("application/openmetrics-text")
    families = {family.name for family in openmetrics_parser.text_string_to_metric_families(data.decode())}
    assert {metric.name.removesuffix("_total") for metric in METRICS} == families


# A serve with a real reader


def test_readers_are_shown_with_their_places_while_they_are_there(tmp_path: Path) -> None:
    cluster = merged(CASE, tmp_path)
    observer, state = cluster.observer(), state_of(cluster.out)
    size = state.files[-1].size
    with serving(cluster.out) as running:
        assert eventually(lambda: len(observer.look().serves) == 1)
        assert observer.look().serves[0].readers == ()
        with running.reading(from_position(flags=0), "SET @replica_uuid = 'u-1'") as events:
            sent = 0
            while sent < 3:
                next(events)
                sent += 1
            assert eventually(lambda: any(r.waiting for s in observer.look().serves for r in s.readers))
            serve = observer.look().serves[0]
            assert serve.address == f"127.0.0.1:{running.port}" and not serve.silent
            (reader,) = serve.readers
            assert (reader.server_id, reader.uuid) == (7, "u-1")
            assert (reader.sent.file, reader.sent.position) == (state.files[-1].name, size)
            assert (reader.behind_bytes, reader.lag_seconds) == (0, 0.0)
            with StatusServer(cluster.config, cluster.out, "0") as server:
                labels = ("reader", "u-1"), ("serve", serve.address), ("server_id", "7")
                samples = _samples(server)
                assert samples["binlog_merge_reader_behind_bytes", labels] == 0
                assert samples["binlog_merge_serve_readers", (("serve", serve.address),)] == 1
        assert eventually(lambda: observer.look().serves[0].readers == ())
    assert observer.look().serves == ()


def test_readers_that_lack_something_and_a_serve_that_was_killed(tmp_path: Path) -> None:
    """Two readers of one host count as the one that is further behind; those of a serve that is gone do not count."""
    cluster = merged(CASE, tmp_path)
    note_of = lambda: next(iter((cluster.out / NOTES_FOLDER).glob("serve-*.json")))  # noqa: E731
    with serving(cluster.out):
        assert eventually(lambda: bool(list((cluster.out / NOTES_FOLDER).glob("serve-*.json"))))
        note = json.loads(note_of().read_bytes())
    file = state_of(cluster.out).files[-1]
    reader = {
        "peer": "10.0.0.7:5", "server_id": 3, "uuid": "", "host": "", "since": 1.0,
        "file": file.name, "position": 4, "waiting": False,
    }  # fmt: skip
    path = cluster.out / NOTES_FOLDER / "serve-killed-3307.json"
    path.write_text(json.dumps({**note, "at": time.time(), "readers": [reader, reader]}))
    status = cluster.look(lag_seconds=0)
    assert [r.behind_bytes for s in status.serves for r in s.readers] == [file.size - 4] * 2
    assert codes(status) == {"reader-late"} and status.healthy
    text = exposition(status, "")[0].decode()
    found = [s for f in text_string_to_metric_families(text) for s in f.samples if "reader_behind" in s.name]
    assert [(s.labels["reader"], s.value) for s in found] == [("10.0.0.7", file.size - 4)]
    path.write_text(json.dumps({**note, "readers": [reader], "at": time.time() - 60}))
    status = cluster.look()
    assert codes(status) == {"serve-silent"} and status.serves[0].readers == ()


def test_serves_on_one_port_of_two_addresses_keep_what_the_readers_of_both_still_have_to_get(tmp_path: Path) -> None:
    notes = [ReadersNote(tmp_path, (host, 3307), print) for host in ("10.0.0.7", "::1")]
    for number, note in enumerate(notes, 1):
        reader = Reader(f"reader {number}", 3, "", "", 1.0, f"binlog.{number:06d}", 4, False)
        note.refresh(lambda reader=reader: [reader])  # type: ignore[misc]
    found = {(reader.peer, reader.file) for reader in attached_readers(tmp_path)}
    assert found == {("reader 1", "binlog.000001"), ("reader 2", "binlog.000002")}
    notes[0].remove()
    assert [reader.peer for reader in attached_readers(tmp_path)] == ["reader 2"]


def test_notes_that_a_killed_serve_left_long_ago_are_removed(tmp_path: Path) -> None:
    cluster = merged(CASE, tmp_path)
    old, new = (cluster.out / NOTES_FOLDER / f"serve-{name}-3307.json" for name in ("old", "new"))
    for path, days in ((old, 2), (new, 0)):
        path.write_text("{}")
        os.utime(path, (time.time() - 86400 * days,) * 2)
    with serving(cluster.out):
        assert eventually(lambda: not old.exists())
        assert new.exists()


def test_a_serve_of_a_directory_that_takes_no_note_serves(tmp_path: Path) -> None:
    cluster = merged(CASE, tmp_path)
    shutil.rmtree(cluster.out / NOTES_FOLDER)
    (cluster.out / NOTES_FOLDER).write_text("no folder")
    with serving(cluster.out) as running:
        assert len(running.events(from_position())) > 100
        assert eventually(lambda: any("`purge` may remove what they" in line for line in running.reports))
    assert sum("will not show the readers" in line for line in running.reports) == 1


# HTTP


def test_the_endpoints(server: StatusServer, cluster: Cluster) -> None:
    code, content, data = _get(server, "health")
    assert (code, content) == (200, "application/json; charset=utf-8")
    assert json.loads(data) == {"healthy": True, "reasons": [], "warnings": []}
    status = json.loads(_get(server, "status.json")[2])
    assert status["log"]["transactions"] == 210 and status["name"] == CASE and status["healthy"] is True
    assert status.keys() == cluster.look().to_dict().keys()
    entries = json.loads(_get(server, "history.json")[2])["entries"]
    assert entries and entries[-1]["transactions"] == 210 and set(entries[-1]["nodes"]) == {"dn-1", "dn-2", "dn-3"}
    assert json.loads(_get(server, f"history.json?since={entries[-1]['at'] + 1e6}")[2]) == {"entries": []}
    assert _get(server, "history.json?since=x")[0] == 400
    code, _, data = _get(server, "nothing")
    assert code == 404 and b"/metrics" in data


def test_a_merge_is_seen_without_a_request(tmp_path: Path) -> None:
    cluster = merged(HELD, tmp_path, end_of_input=False)
    with StatusServer(cluster.config, cluster.out, "0") as server:
        before = server.status().at
        merge(cluster.path, cluster.out)
        assert eventually(lambda: server.history(before)[-1:] != [] and server.history(0)[-1]["transactions"] == 30)


def test_nothing_but_get_and_head_is_answered(server: StatusServer) -> None:
    for method, expected in (("HEAD", 200), ("POST", 501), ("PUT", 501), ("DELETE", 501)):
        with closing(http.client.HTTPConnection(*server.address, timeout=60)) as connection:
            connection.request(method, "/status.json")
            answer = connection.getresponse()
            assert answer.status == expected
            if method == "HEAD":
                assert answer.read() == b"" and int(answer.headers["Content-Length"]) > 100


@pytest.mark.parametrize(
    "data", [b"\0\xff\r\n\r\n", b"GET /%ff%00/../../etc/passwd HTTP/1.1\r\n\r\n", b"G" * 100_000, b""]
)
def test_what_is_no_request_disturbs_nothing(data: bytes, server: StatusServer) -> None:
    # It may be refused before all of it is sent.
    with socket.create_connection(server.address, timeout=60) as connection, suppress(OSError):
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        assert b" 200 " not in connection.recv(100)
    assert _get(server, "health")[0] == 200


def test_health_says_why_and_metrics_stay_up(tmp_path: Path) -> None:
    cluster = merged(CASE, tmp_path)
    with StatusServer(cluster.config, cluster.out, "0") as server:
        assert _get(server, "health")[0] == 200
        path = cluster.out / MANIFEST_NAME
        path.write_bytes(path.read_bytes().replace(b"publish", b"pXblish") + b"\n")
        assert eventually(lambda: _get(server, "health")[0] == 503)
        document = json.loads(_get(server, "health")[2])
        assert not document["healthy"] and MANIFEST_NAME in document["reasons"][0]
        samples = _samples(server)
        assert samples["binlog_merge_healthy", ()] == 0 and samples["binlog_merge_transactions_total", ()] == 210
        shutil.rmtree(cluster.out)
        assert eventually(lambda: "no merge has written" in json.loads(_get(server, "health")[2])["reasons"][0])
        assert ("binlog_merge_transactions_total", ()) not in _samples(server)


def test_a_fault_of_the_observer_is_told_and_survived(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = merged(CASE, tmp_path)
    with StatusServer(cluster.config, cluster.out, "0") as server:
        whole = server._observer.look
        monkeypatch.setattr(server._observer, "look", lambda: 1 / 0)
        assert eventually(lambda: _get(server, "health")[0] == 503)
        assert "ZeroDivisionError" in json.loads(_get(server, "health")[2])["reasons"][0]
        assert _samples(server)["binlog_merge_healthy", ()] == 0
        monkeypatch.setattr(server._observer, "look", whole)
        assert eventually(lambda: _get(server, "health")[0] == 200)


def test_a_server_can_be_stopped_twice_and_its_port_used_again(cluster: Cluster) -> None:
    first = StatusServer(cluster.config, cluster.out, "0")
    first.start()
    port = first.address[1]
    with pytest.raises(ConfigError, match="cannot listen"):
        StatusServer(cluster.config, cluster.out, str(port)).start()
    first.stop()
    first.stop()
    with StatusServer(cluster.config, cluster.out, f"localhost:{port}") as second:
        assert _get(second, "health")[0] == 200


def test_addresses() -> None:
    assert parse_listen("9464") == ("127.0.0.1", 9464)
    assert parse_listen(":9464") == ("127.0.0.1", 9464)
    assert parse_listen("0.0.0.0:0") == ("0.0.0.0", 0)
    assert parse_listen("[::1]:80") == ("::1", 80)
    for wrong in ("", "host", "host:", "host:x", "1:2:3", "::1:80", "host:65536", "host:-1", "9464 "):
        with pytest.raises(ConfigError, match="no address"):
            parse_listen(wrong)


def test_a_host_that_is_not_ours_is_refused(cluster: Cluster) -> None:
    for host in ("192.0.2.1", "no-such-host.invalid"):
        with pytest.raises(ServerRefused, match="cannot listen"):
            StatusServer(cluster.config, cluster.out, f"{host}:0").start()


# The page


class _Resources(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value or "" for name, value in attrs if name in ("src", "href", "srcset", "data", "action")]
        self.found += [tag] if tag in ("link", "iframe", "object", "embed", "img") else []


def test_the_page_needs_nothing_else(server: StatusServer) -> None:
    code, content, data = _get(server, "")
    page = data.decode()
    parser = _Resources()
    parser.feed(page)
    assert (code, content, parser.found) == (200, "text/html; charset=utf-8", [])
    assert not re.search(r"@import|url\(", page)
    assert re.findall(r"https?://[^\"' ]+", page) == ["http://www.w3.org/2000/svg"]
    assert "innerHTML" not in page


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
def test_the_page_in_a_browser(tmp_path: Path) -> None:
    """It draws a lane and a row for each node, and shows texts as texts, whatever they hold."""
    cluster = merged(HELD, tmp_path, end_of_input=False)
    path = cluster.out / NOTES_FOLDER / MERGE_NOTE
    note = json.loads(path.read_bytes())
    sql = "CREATE TABLE `<b id=evil>x</b>` (a INT)"
    note |= {
        "last_ddl": {"key": note["nodes"]["dn-1"]["watermark"], "schema": "shop", "sql": sql},
        "warnings": ["<i>w</i>"],
    }
    path.write_text(json.dumps(note))
    with StatusServer(cluster.config, cluster.out, "0") as server:
        assert eventually(lambda: len(server.history(0)) > 2)
        dom = _rendered(server.url, tmp_path)
    assert re.search(r'<span id="health" class="badge bad">not healthy</span>', dom), dom[-3000:]
    assert "data-shown" in dom and 'id="evil"' not in dom and "<i>w" not in dom
    assert "&lt;b id=evil&gt;" in dom and "&lt;i&gt;w&lt;/i&gt;" in dom
    lanes = re.search(r'<svg id="lanes".*?</svg>', dom, re.S)
    nodes = re.search(r'<table id="nodes">.*?</table>', dom, re.S)
    assert lanes is not None and nodes is not None
    assert [lanes[0].count(f">{name}<") for name in ("dn-1", "dn-2", "dn-3")] == [1, 1, 1]
    assert nodes[0].count("<tr>") == 4 and nodes[0].count(">idle since ") == 1
    charts = re.findall(r'<svg id="(?:lag|tx|byte)chart".*?</svg>', dom, re.S)
    assert len(charts) == 3 and all("<polyline" in chart and "NaN" not in chart for chart in charts)


def _rendered(url: str, folder: Path) -> str:
    command = [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'browser'}"]
    command += ["--virtual-time-budget=8000", "--dump-dom", url]
    return subprocess.run(command, capture_output=True, check=True, timeout=300).stdout.decode()


def test_a_page_of_elsewhere_cannot_read_what_only_this_machine_sees(server: StatusServer) -> None:
    """Its name may lead to 127.0.0.1, but it is the name that the browser sends."""
    for host in ("127.0.0.1:9464", "localhost", "LOCALHOST:1", "[::1]:9464", "[::1]", "10.0.0.7", socket.gethostname()):
        assert _get(server, "health", Host=host)[0] == 200, host
    for host in ("evil.example", "evil.example:9464", "127.0.0.1.evil.example", "localhost.evil.example:80", ""):
        code, _, said = _get(server, "status.json", Host=host)
        assert code == 421 and b"three-nodes" not in said, host


def test_many_slow_clients_keep_nobody_out(server: StatusServer) -> None:
    """Nor do they take the descriptors that the rest of the process needs: the oldest are left."""
    with ExitStack() as stack:
        slow = [stack.enter_context(socket.create_connection(server.address)) for _ in range(200)]
        for client in slow:
            client.sendall(b"GET /health HTTP/1.1\r\n")
        assert _get(server, "health")[0] == 200
        slow[0].settimeout(30)
        assert slow[0].recv(1) == b""
        assert threading.active_count() < 150
