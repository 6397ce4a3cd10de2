"""Spans: what asks for them, what they say of a round, and how those of capture, merge and serve are linked."""

import logging
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pymysql
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from binlog_merge import tracing
from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.errors import MergeError
from binlog_merge.files.manifest import Manifest
from binlog_merge.node_capture.files import NodeFiles
from binlog_merge.node_capture.stream import Append, Begin
from binlog_merge.pipeline.rounds import Rounds
from binlog_merge.tracing import Span, Tracer, asked_for, captured_to, published_by
from tests.binlog_server.running import PASSWORD, USER, Running, eventually, from_position, serving
from tests.merge_e2e.cases import case_named, copy_case
from tests.merge_e2e.growth import GrowingNode
from tests.merge_e2e.local import LocalRunner, merge
from tests.mysql_server import MySqlServer
from tools.demo_live.bank import Bank, configuration
from tools.demo_live.cluster import free_ports

STEPS = ["discover", "scan", "assemble", "coordinate", "order", "gather", "publish"]


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """Ask for spans, and return what has them."""
    exporter = InMemorySpanExporter()
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "otlp")
    monkeypatch.setattr(tracing, "_processor", lambda environment: SimpleSpanProcessor(exporter))
    tracing.tracer.cache_clear()
    yield exporter
    tracing.tracer.cache_clear()


def named(exporter: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    return [span for span in exporter.get_finished_spans() if span.name == name]


def place(about: str) -> tuple[int, int]:
    return tracing._ids_of(about)


def links_of(span: ReadableSpan) -> list[tuple[int, int]]:
    return [(link.context.trace_id, link.context.span_id) for link in span.links]


def _middle(node: GrowingNode) -> tuple[int, int]:
    places = node.places(anywhere=False)
    return places[len(places) // 2]


def context_of(span: ReadableSpan) -> tuple[int, int]:
    return span.context.trace_id, span.context.span_id


@pytest.mark.parametrize(
    ("environment", "asked"),
    [
        ({}, False),
        ({"OTEL_SERVICE_NAME": "x"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4318/v1/traces"}, True),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({"OTEL_TRACES_EXPORTER": "console"}, True),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}, False),
        ({"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}, False),
    ],
)
def test_who_asks_for_spans(environment: dict[str, str], asked: bool) -> None:
    assert asked_for(environment) is asked


def test_nothing_is_imported_for_who_does_not_ask() -> None:
    program = (
        "import sys, binlog_merge.pipeline.rounds, binlog_merge.binlog_server.feed, binlog_merge.node_capture.files\n"
        "from binlog_merge.tracing import tracer\nassert tracer() is None\n"
        "assert not [name for name in sys.modules if name.startswith('opentelemetry')]"
    )
    subprocess.run([sys.executable, "-c", program], check=True, env={"PATH": ""})


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("OTEL_TRACES_EXPORTER", "zipkin", "set it to otlp, console or none"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "set OTEL_EXPORTER_OTLP_TRACES_PROTOCOL to http/protobuf"),
        (None, None, "pip install 'binlog-merge[otel]'"),
    ],
)
def test_what_cannot_be_is_said_and_the_merge_goes_on(
    name: str | None, value: str | None, told: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    if name is None:
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    else:
        monkeypatch.setenv(name, str(value))
    tracing.tracer.cache_clear()
    with caplog.at_level(logging.WARNING):
        assert tracing.tracer() is None
        assert tracing.tracer() is None
    (line,) = [record.getMessage() for record in caplog.records]
    assert told in line
    tracing.tracer.cache_clear()


def test_a_round_has_its_steps_and_links_to_what_was_captured(spans: InMemorySpanExporter, tmp_path: Path) -> None:
    path = copy_case(case_named("three-nodes-online-ddl"), tmp_path / "case")
    nodes = {home.name: GrowingNode.of(home) for home in sorted((path.parent / "nodes").iterdir())}
    for node in nodes.values():
        node.grow(_middle(node), anywhere=False)
    with Rounds(LocalRunner(), MergeConfig.load(path), tmp_path / "out") as rounds:
        first = rounds.merge()
        for node in nodes.values():
            node.grow((len(node.files) - 1, len(node.files[-1][1])), anywhere=False)
        second = rounds.merge(end_of_input=True)
        rounds.merge(end_of_input=True)
    header = Manifest.load(tmp_path / "out").state.header
    assert header is not None
    one, two, idle = named(spans, "merge.round")
    assert [context_of(span) for span in (one, two)] == [place(published_by(header.cluster_uuid, n)) for n in (1, 2)]
    assert "binlog_merge.run" not in (idle.attributes or {})  # it has published nothing
    for span, result in ((one, first), (two, second)):
        assert span.parent is None and span.attributes is not None
        assert span.attributes["binlog_merge.transactions"] == result.transactions
        wanted = []
        for name, found in result.nodes.items():
            file, _, position = found.read_to.rpartition(":")
            wanted.append(place(captured_to(name, file, int(position))))
        assert links_of(span) == wanted and len(wanted) == 3
        inside = [
            each
            for each in spans.get_finished_spans()
            if each.parent and context_of(span) == (each.parent.trace_id, each.parent.span_id)
        ]
        assert [step.name for step in inside] == STEPS
        times = [time or 0 for step in inside for time in (step.start_time, step.end_time)]
        assert times == sorted(times)
        assert (span.start_time or 0) <= times[0] and times[-1] <= (span.end_time or 0)


def test_a_round_that_fails_says_why(spans: InMemorySpanExporter, tmp_path: Path) -> None:
    path = copy_case(case_named("three-nodes-online-ddl"), tmp_path / "case")
    file = next(iter(sorted((path.parent / "nodes").iterdir()))) / "binlog.000001"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 0xFF
    file.write_bytes(data)
    with pytest.raises(MergeError) as raised:
        merge(path, tmp_path / "out")
    (span,) = named(spans, "merge.round")
    assert span.status.description == raised.value.message and not span.status.is_ok
    assert span.attributes is not None and span.attributes["error.type"] == raised.value.code


def test_a_capture_says_what_readers_see_from_now_on(spans: InMemorySpanExporter, tmp_path: Path) -> None:
    folder = tmp_path / "dn-1"
    folder.mkdir()
    files = NodeFiles(folder, "dn-1")
    files.apply(Begin("binlog.000001"))
    for size in (150, 50):
        files.apply(Append(bytes(size)))
    files.flush()
    files.flush()
    files.apply(Append(bytes(30)))
    files.close()
    found = named(spans, "capture.read")
    assert [context_of(span) for span in found] == [place(captured_to("dn-1", "binlog.000001", n)) for n in (200, 230)]
    (first, second) = (dict(span.attributes or {}) for span in found)
    assert (first["binlog_merge.from"], second["binlog_merge.from"]) == (0, 200)


def test_a_reader_links_to_the_rounds_that_it_was_sent(spans: InMemorySpanExporter, tmp_path: Path) -> None:
    path = copy_case(case_named("three-nodes-online-ddl"), tmp_path / "case")
    nodes = {home.name: GrowingNode.of(home) for home in sorted((path.parent / "nodes").iterdir())}
    for node in nodes.values():
        node.grow(_middle(node), anywhere=False)
    with Rounds(LocalRunner(), MergeConfig.load(path), tmp_path / "out") as rounds:
        rounds.merge()
        with serving(tmp_path / "out") as running, running.reading(from_position(flags=0)) as events:
            next(events)
            assert eventually(lambda: len(named(spans, "serve.send")) == 1)
            for node in nodes.values():
                node.grow((len(node.files) - 1, len(node.files[-1][1])), anywhere=False)
            rounds.merge(end_of_input=True)
            assert eventually(lambda: len(named(spans, "serve.send")) > 1)
    whole, news = named(spans, "serve.send")[:2]
    assert links_of(whole) == []  # it was there before the reader came
    assert links_of(news) == [context_of(named(spans, "merge.round")[1])]


class _Receiver(BaseHTTPRequestHandler):
    """Takes OTLP over HTTP, as a collector does."""

    taken: list[Any]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        assert self.path == "/v1/traces" and self.headers["Content-Type"] == "application/x-protobuf"
        request = ExportTraceServiceRequest.FromString(body)
        for resource in request.resource_spans:
            name = {each.key: each.value.string_value for each in resource.resource.attributes}["service.name"]
            self.taken += [(name, span) for scope in resource.scope_spans for span in scope.spans]
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def collector() -> Iterator[tuple[str, list[Any]]]:
    """Run a receiver of OTLP; return its address and what it has taken."""
    taken: list[Any] = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Receiver", (_Receiver,), {"taken": taken}))
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}", taken
    server.shutdown()
    server.server_close()


@pytest.mark.mysql
@pytest.mark.extended  # that each part records what it is to: the tests above
def test_a_transaction_is_followed_from_its_node_to_a_reader(
    tmp_path: Path, collector: tuple[str, list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`run` on a real server, with a reader: a read of the capture, the round that took it, and what was sent of it."""
    address, taken = collector
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
    monkeypatch.setenv("OTEL_SERVICE_NAME", "the bank's log")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "200")
    with MySqlServer(tmp_path / "server", 101) as server:
        bank = Bank([server])
        bank.open()
        (tmp_path / "cluster.yaml").write_text(configuration({"dn-1": server}))
        port, page = free_ports(2)
        command = [sys.executable, "-m", "binlog_merge.cli.main", "run", "-c", str(tmp_path / "cluster.yaml")]
        command += ["--merged", str(tmp_path / "merged"), "--port", str(port), "--listen", str(page), "--user", USER]
        (tmp_path / "password").write_text(PASSWORD)
        (tmp_path / "password").chmod(0o600)
        command += ["--serve-password-file", str(tmp_path / "password")]
        with (tmp_path / "log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            running = Running(_At(port))  # type: ignore[arg-type]
            assert eventually(lambda: process.poll() is None and _answers(running)), (tmp_path / "log").read_text()
            with running.reading(from_position(flags=0)) as events:
                next(events)
                assert eventually(lambda: _chain_after_a_beat(bank, taken))
        finally:
            process.terminate()
            process.wait(60)
    assert {name for name, _ in taken} == {"the bank's log"}
    assert not [line for line in (tmp_path / "log").read_text().splitlines() if "no spans" in line]


class _At:
    def __init__(self, port: int) -> None:
        self.address = ("127.0.0.1", port)


def _answers(running: Any) -> bool:
    try:
        return bool(running.query("SELECT 1"))
    except pymysql.err.MySQLError:
        return False


def _chain_after_a_beat(bank: Bank, taken: list[Any]) -> bool:
    bank.heartbeat()
    return _chain(taken) is not None


def _chain(taken: list[Any]) -> tuple[Any, Any, Any] | None:
    """Return a read of a capture, the round that links to it, and a reader's that links to that one."""
    spans = {(span.trace_id, span.span_id): span for _, span in list(taken)}
    for sent in [span for span in spans.values() if span.name == "serve.send"]:
        for round_link in sent.links:
            made = spans.get((round_link.trace_id, round_link.span_id))
            for link in made.links if made is not None else ():
                if (read := spans.get((link.trace_id, link.span_id))) is not None:
                    assert made is not None and (read.name, made.name) == ("capture.read", "merge.round")
                    return read, made, sent
    return None


def test_what_spans_are_about_does_not_depend_on_the_process() -> None:
    program = "from binlog_merge.tracing import *\nfrom binlog_merge.tracing import _ids_of\n"
    program += "print(_ids_of(captured_to('dn-1', 'binlog.000001', 4)))"
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert said.strip() == str(place(captured_to("dn-1", "binlog.000001", 4)))


def test_spans_without_what_they_are_about_are_their_own(spans: InMemorySpanExporter) -> None:
    found = tracing.tracer()
    assert isinstance(found, Tracer)
    for _ in range(2):
        found.record(Span("x", 1, 2, {}))
    assert len({context_of(span) for span in named(spans, "x")}) == 2
