"""The metrics of a Status for Prometheus, one row of a table for each: base units, and `_total` for counters.

A value that is not known is left out rather than sent as 0.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from binlog_merge.observe.status.health import CODES
from binlog_merge.observe.status.values import (
    ArchiveStatus,
    ComponentStatus,
    DiskStatus,
    FilePosition,
    LeaseStatus,
    MergedStatus,
    NodeStatus,
    ReaderStatus,
    ReplicaStatus,
    Status,
    WaitingDdl,
    Watermark,
)

Values = Iterable[tuple[tuple[str, ...], float | None]]
PREFIX: Final = "binlog_merge"


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric: its name with the prefix and, for a counter, `_total`; its labels; what gives its values."""

    name: str
    help: str
    labels: tuple[str, ...]
    values: Callable[[Status], Values]

    @property
    def counter(self) -> bool:
        """Return whether the value only grows."""
        return self.name.endswith("_total")

    def family(self, status: Status) -> GaugeMetricFamily | CounterMetricFamily:
        """Return the metric's values as the client library takes them."""
        kind = CounterMetricFamily if self.counter else GaugeMetricFamily
        family = kind(self.name, self.help, labels=self.labels)
        for labels, value in self.values(status):
            if value is not None:
                family.add_metric(list(labels), value)
        return family


def exposition(status: Status, accept: str) -> tuple[bytes, str]:
    """Return the metrics as text, and its content type, as the Accept header of a request prefers it."""
    encode, content_type = choose_encoder(accept)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_StatusCollector(status))
    return encode(registry), content_type


class _StatusCollector(Collector):
    def __init__(self, status: Status) -> None:
        self._status = status

    def collect(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        for metric in METRICS:
            yield metric.family(self._status)


def _one(value: float | None) -> Values:
    return [((), value)]


def _merged(name: str, text: str, value: Callable[[MergedStatus], float | None]) -> Metric:
    return Metric(
        f"{PREFIX}_{name}", text, (), lambda status: () if status.merged is None else _one(value(status.merged))
    )


def _archive(name: str, text: str, value: Callable[[ArchiveStatus], float]) -> Metric:
    return Metric(
        f"{PREFIX}_archive_{name}",
        text,
        (),
        lambda status: () if status.archive is None else _one(float(value(status.archive))),
    )


def _component(name: str, text: str, value: Callable[[ComponentStatus], float]) -> Metric:
    def values(status: Status) -> Values:
        return [((one.name,), value(one)) for one in status.components]

    return Metric(f"{PREFIX}_component_{name}", text, ("component",), values)


def _lease(name: str, text: str, value: Callable[[LeaseStatus], float | None]) -> Metric:
    return Metric(
        f"{PREFIX}_{name}", text, (), lambda status: () if status.lease is None else _one(value(status.lease))
    )


def _disk(name: str, text: str, value: Callable[[DiskStatus], float]) -> Metric:
    return Metric(f"{PREFIX}_disk_{name}", text, ("of",), lambda s: [((disk.of,), value(disk)) for disk in s.disks])


def _total(name: str, text: str, key: str) -> Metric:
    return _merged(f"{name}_total", text, lambda merged: merged.totals.get(key, 0))


def _node(name: str, text: str, value: Callable[[NodeStatus], float | None]) -> Metric:
    def values(status: Status) -> Values:
        return [((node,), value(waiting)) for node, waiting in status.nodes.items()]

    return Metric(f"{PREFIX}_node_{name}", text, ("node",), values)


def _reader(name: str, text: str, value: Callable[[ReaderStatus], float | None]) -> Metric:
    """Return a metric of readers: by UUID, else by host, since a port is another one after each reconnection.

    Of several readers with the same labels the one furthest behind counts.
    """

    def values(status: Status) -> Values:
        greatest: dict[tuple[str, ...], float] = {}
        for serve in status.serves:
            for reader in serve.readers:
                labels = serve.address, reader.uuid or reader.peer.rpartition(":")[0], str(reader.server_id)
                greatest[labels] = max(greatest.get(labels, 0.0), value(reader) or 0.0)
        return greatest.items()

    return Metric(f"{PREFIX}_reader_{name}", text, ("serve", "reader", "server_id"), values)


def _replicas(value: Callable[[ReplicaStatus], float | None]) -> Callable[[Status], Values]:
    return lambda status: [
        ((serve.address, replica.server), value(replica)) for serve in status.serves for replica in serve.replicas
    ]


def _problems(status: Status) -> Values:
    problems = [problem.code for problem in status.problems]
    return [((code, severity.value), problems.count(code)) for code, severity in CODES.items()]


def _time(watermark: Watermark | None) -> float | None:
    return None if watermark is None else watermark.time


def _lag(watermark: Watermark | None) -> float | None:
    return None if watermark is None else watermark.lag_seconds


def _position(place: FilePosition | None) -> float | None:
    return None if place is None else place.position


def _capture_up(node: NodeStatus) -> float | None:
    capture = node.capture
    return None if capture is None else float(capture.state == "connected" and not capture.silent)


def _waiting(value: Callable[[WaitingDdl], float | None]) -> Callable[[Status], Values]:
    def values(status: Status) -> Values:
        waiting = () if status.merged is None else status.merged.waiting_ddl
        return [
            ((d.id, d.table, d.stage, d.sql[:200], ",".join(d.done), ",".join(d.awaited)), value(d)) for d in waiting
        ]

    return values


_OF_WAITING: Final = ("id", "table", "stage", "sql", "done", "awaited")


def _servers(status: Status) -> Values:
    """Return 1 for the server that each node has, 0 for those that it had."""
    servers: dict[tuple[str, ...], float] = {}
    for name, node in status.nodes.items():
        for server in node.servers:
            servers[name, server.server_uuid or ""] = float(server is node.servers[-1])
    return servers.items()


METRICS: Final = (
    Metric(f"{PREFIX}_healthy", "1 if nothing is wrong, as /health says.", (), lambda s: _one(float(s.healthy))),
    Metric(f"{PREFIX}_problems", "Problems at present, by code and severity.", ("code", "severity"), _problems),
    Metric(f"{PREFIX}_status_timestamp_seconds", "When these values were taken.", (), lambda s: _one(s.at)),
    _merged(
        "watermark_timestamp_seconds",
        "The time of the global watermark: everything committed before it is in the output.",
        lambda m: _time(m.watermark),
    ),
    _merged(
        "watermark_lag_seconds",
        "How far the global watermark is behind the clock.",
        lambda m: _lag(m.watermark),
    ),
    _merged(
        "last_transaction_timestamp_seconds", "The commit time of the last transaction in the output.",
        lambda m: m.last_time,
    ),
    _merged("last_publish_timestamp_seconds", "When something was published last.", lambda m: m.published_at),
    _merged("last_run_timestamp_seconds", "When the last run of a merge ended.", lambda m: m.ran_at),
    _merged("runs_total", "Runs of a merge that published something.", lambda m: m.run),
    _merged("transactions_total", "Transactions in the output, DDL among them.", lambda m: m.transactions),
    _total("ddl", "DDL statements in the output.", "ddl"),
    _total("branches", "Branches of transactions that were merged.", "branches"),
    _total("events", "Events in the output.", "events"),
    _total("rows_reshaped", "Rows that were written in another shape.", "rows_reshaped"),
    _total("input_bytes", "Bytes of the nodes' binlogs that were merged.", "input_bytes"),
    _merged("output_files", "Files of the output.", lambda m: m.files),
    _merged("output_bytes", "The size of the output.", lambda m: m.output_bytes),
    _merged("removed_files_total", "Files of the output that were removed.", lambda m: m.removed_files),
    _merged("removed_bytes_total", "The size of the removed files of the output.", lambda m: m.removed_bytes),
    _merged("removed_captured_files_total", "Captured files that were removed.", lambda m: m.removed_captured_files),
    _merged(
        "removed_captured_bytes_total", "The size of the removed captured files.", lambda m: m.removed_captured_bytes
    ),
    _archive("files", "Closed files of the output that are archived.", lambda a: a.files),
    _archive("bytes", "The size of the archived files, before compression.", lambda a: a.bytes),
    _archive("waiting_files", "Closed files of the output that are not archived yet.", lambda a: a.waiting_files),
    _archive("waiting_bytes", "The size of the files that are not archived yet.", lambda a: a.waiting_bytes),
    _archive("failing", "Whether something is in the way of archiving: 1 or 0.", lambda a: a.error is not None),
    _merged("last_removal_timestamp_seconds", "When files were removed last.", lambda m: m.removed_at),
    _merged(
        "object_puts_per_hour", "Requests an hour with which the merge writes to an object store.",
        lambda m: m.puts_an_hour,
    ),
    _merged("held_branches", "Branches that are read and wait for the watermark.", lambda m: m.held),
    _merged("held_bytes", "The size of the branches that wait for the watermark.", lambda m: m.held_bytes),
    _merged("waiting_branches", "Branches of shards that wait for a DDL of other shards.", lambda m: m.waiting),
    _merged("ddl_locks", "DDL of shards without markers that wait for other shards.", lambda m: m.locks),
    _component("up", "1 while a process of `run` runs.", lambda c: float(c.up)),
    _component("works", "1 while it does what it is for: 0 also while it starts.", lambda c: float(c.works)),
    _component("starts_total", "How often it was started since `run` began.", lambda c: c.starts),
    _component("accidents", "How often it has ended in a row, and not lived for a minute.", lambda c: c.accidents),
    _lease("leader", "1 if this run leads, 0 if it waits.", lambda x: None if x.leads is None else float(x.leads)),
    _lease("lease_held", "1 while somebody leads, here or elsewhere.", lambda x: float(x.held)),
    _lease("lease_epoch", "How often the lead was taken.", lambda x: x.epoch),
    _lease("lease_age_seconds", "How long ago the leader renewed its lease.", lambda x: x.age_seconds),
    _lease("lease_standbys", "How many wait for the lead.", lambda x: len(x.standbys)),
    _disk("free_bytes", "What may still be written to the disk.", lambda d: d.free_bytes),
    _disk("total_bytes", "The size of the disk of the merged log, of captured files.", lambda d: d.total_bytes),
    Metric(f"{PREFIX}_ddl_waiting", "1 for each of the first 20 DDL that wait.", _OF_WAITING, _waiting(lambda d: 1.0)),
    Metric(
        f"{PREFIX}_ddl_waiting_since_timestamp_seconds", "When a shard ran a DDL that waits first.", _OF_WAITING,
        _waiting(lambda d: d.time),
    ),
    Metric(f"{PREFIX}_warnings", "Warnings of the last run.", (), lambda s: _one(s.warnings_count)),
    _node("files", "Binlog files of the node.", lambda n: n.files),
    _node("captured_timestamp_seconds", "When the node's last file grew.", lambda n: n.captured_at),
    _node(
        "captured_position_bytes", "Where the node's last file ends.", lambda n: _position(n.captured)
    ),
    _node("read_position_bytes", "Up to where the merge has read, in its file.", lambda n: _position(n.read)),
    _node("unread_bytes", "Bytes that are captured, and not read by a merge yet.", lambda n: n.unread_bytes),
    _node(
        "watermark_timestamp_seconds", "The time of the node's watermark.", lambda n: _time(n.watermark)
    ),
    _node(
        "watermark_lag_seconds",
        "How far the node's watermark is behind the clock.",
        lambda n: _lag(n.watermark),
    ),
    _node("open_branches", "Branches of the node that are prepared, and not decided.", lambda n: n.open_branches),
    _node("holds_back", "1 for the node that the others wait for.", lambda n: float(bool(n.holds_back))),
    _node("capture_up", "1 while a capture is connected to the node's server.", _capture_up),
    _node("switches_total", "How often another server has taken over.", lambda n: max(0, len(n.servers) - 1)),
    _node(
        "last_switch_timestamp_seconds", "When a server took over last.",
        lambda n: n.servers[-1].since if n.servers else None,
    ),
    Metric(
        f"{PREFIX}_node_server", "1 for the server that is captured, 0 for those that were.", ("node", "server_uuid"),
        _servers,
    ),
    Metric(
        f"{PREFIX}_serve_up", "1 while a serve is running.", ("serve",),
        lambda s: [((serve.address,), float(not serve.silent)) for serve in s.serves],
    ),
    Metric(
        f"{PREFIX}_serve_readers", "Readers that are attached to a serve.", ("serve",),
        lambda s: [((serve.address,), len(serve.readers)) for serve in s.serves],
    ),
    _reader("behind_bytes", "Bytes of the output that were not sent to the reader yet.", lambda r: r.behind_bytes),
    _reader("sent_bytes", "Bytes of the output sent to the reader since it attached.", lambda r: r.sent_bytes),
    Metric(
        f"{PREFIX}_replica_applies",
        "1 while a server that serve asks applies the log, 0 while its applier is stopped; none if it cannot be asked.",
        ("serve", "replica"), _replicas(lambda r: r.applies),
    ),
    Metric(
        f"{PREFIX}_replica_error", "The number of the error with which its applier has stopped, 0 without one.",
        ("serve", "replica"), _replicas(lambda r: None if r.applies is None else r.error),
    ),
    _reader("lag_seconds", "How long ago something that the reader lacks was published.", lambda r: r.lag_seconds),
)  # fmt: skip
"""All metrics; the table of docs/reference/status.md has the same rows."""
