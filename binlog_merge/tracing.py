"""Spans of what passes through, by OpenTelemetry's SDK, where its variables of the environment ask for them.

    capture.read     bytes of a node's log that readers see from now on           in `capture`
    merge.round      with a child for each step, `discover` to `publish`          in `merge`; links to capture.read
    serve.send       what a reader was sent from one rest to the next             in `serve`; links to merge.round

The processes do not talk to each other: what is linked to has ids that follow from what it is about (`about`), which
both sides know. All else is the SDK's and its exporter's: OTEL_SERVICE_NAME, OTEL_TRACES_SAMPLER, OTEL_EXPORTER_OTLP_….

Nothing of OpenTelemetry is imported unless it is asked for, and each place asks `tracer()` first.
"""

import hashlib
import importlib.util
import logging
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import SpanProcessor
    from opentelemetry.trace import Span as OtelSpan
    from opentelemetry.trace import SpanContext

_LOG = logging.getLogger(__name__)
_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_EXTRA: Final = "pip install 'binlog-merge[otel]'"


@dataclass(frozen=True, slots=True)
class Step:
    """A part of a span, from and to when: nanoseconds since 1970."""

    name: str
    begun: int
    ended: int


@dataclass(frozen=True, slots=True)
class Span:
    """What was done from `begun` to `ended`, in nanoseconds since 1970.

    `about`: what others link to it by; `links`: what it links to. `error`: why it came to nothing.
    """

    name: str
    begun: int
    ended: int
    attributes: Mapping[str, str | int]
    about: str | None = None
    links: Sequence[str] = ()
    steps: Sequence[Step] = field(default_factory=tuple)
    error: str | None = None


def captured_to(node: str, file: str, position: int) -> str:
    """Return what the read of a node's log is about that ends at a place."""
    return f"captured {node} {file} {position}"


def published_by(cluster_uuid: str, run: int) -> str:
    """Return what the round is about that has published a run of an output."""
    return f"published {cluster_uuid} {run}"


def asked_for(environment: Mapping[str, str]) -> bool:
    """Return whether variables of the environment ask for spans: an exporter, or where one is to send them."""
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    exporter = environment.get("OTEL_TRACES_EXPORTER", "").strip().lower()
    return exporter != "none" and bool(exporter or any(environment.get(name) for name in _ENDPOINTS))


@lru_cache(maxsize=1)
def tracer() -> "Tracer | None":
    """Return what takes this process's spans; None if nobody asks for them, or they cannot be had, which is logged."""
    if not asked_for(os.environ):
        return None
    try:
        return Tracer(_processor(os.environ))
    except _CannotBe as error:
        _LOG.warning("there are no spans: %s", error)
        return None


class _CannotBe(Exception):  # noqa: N818 (named after what is the case)
    """Why there are no spans, and what to do."""


def _processor(environment: Mapping[str, str]) -> "SpanProcessor":
    """Return what exports spans as the environment says."""
    exporter = environment.get("OTEL_TRACES_EXPORTER", "").strip().lower() or "otlp"
    if exporter not in ("otlp", "console"):
        raise _CannotBe(f"OTEL_TRACES_EXPORTER is {exporter!r}; set it to otlp, console or none")
    protocol = next((environment[name] for name in _PROTOCOLS if environment.get(name)), "http/protobuf")
    if exporter == "otlp" and protocol != "http/protobuf":
        raise _CannotBe(f"the protocol {protocol!r} is not supported; set {_PROTOCOLS[0]} to http/protobuf")
    needed = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")
    try:
        missing = any(importlib.util.find_spec(name) is None for name in needed)
    except ModuleNotFoundError:
        missing = True
    if missing:
        raise _CannotBe(f"OpenTelemetry's SDK is not installed: {_EXTRA}, or set OTEL_SDK_DISABLED=true")
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter

    if exporter == "console":
        return BatchSpanProcessor(ConsoleSpanExporter())
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return BatchSpanProcessor(OTLPSpanExporter())


class Tracer:
    """Gives spans to the SDK, which samples, batches and exports them: it never waits. For any thread."""

    def __init__(self, processor: "SpanProcessor") -> None:
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.id_generator import RandomIdGenerator

        class Ids(RandomIdGenerator):
            """Ids that follow from what a span is about, where it is about something."""

            def __init__(self) -> None:
                self.next: tuple[int, int] | None = None

            def generate_trace_id(self) -> int:
                return super().generate_trace_id() if self.next is None else self.next[0]

            def generate_span_id(self) -> int:
                return super().generate_span_id() if self.next is None else self.next[1]

        self._ids, self._lock = Ids(), Lock()
        resource = Resource.create()
        if str(resource.attributes[SERVICE_NAME]).startswith("unknown_service"):
            resource = resource.merge(Resource({SERVICE_NAME: "binlog-merge"}))
        self.provider = TracerProvider(resource=resource, id_generator=self._ids)
        self.provider.add_span_processor(processor)
        self._tracer = self.provider.get_tracer("binlog_merge")

    def record(self, span: Span) -> None:
        """Take a span that has ended, with its steps."""
        from opentelemetry.context import Context
        from opentelemetry.trace import Link, SpanKind, set_span_in_context
        from opentelemetry.trace.status import Status, StatusCode

        links = [Link(_context(about)) for about in span.links]
        with self._lock:
            self._ids.next = None if span.about is None else _ids_of(span.about)
            try:
                made: OtelSpan = self._tracer.start_span(
                    span.name, Context(), SpanKind.INTERNAL, dict(span.attributes), links, span.begun
                )
            finally:
                self._ids.next = None
        inside = set_span_in_context(made, Context())
        for step in span.steps:
            self._tracer.start_span(step.name, inside, start_time=step.begun).end(step.ended)
        if span.error is not None:
            made.set_status(Status(StatusCode.ERROR, span.error))
        made.end(span.ended)


def _ids_of(about: str) -> tuple[int, int]:
    """Return the ids of the trace and the span that are about something; neither is 0."""
    digest = hashlib.sha256(about.encode()).digest()
    return int.from_bytes(digest[:16], "big") or 1, int.from_bytes(digest[16:24], "big") or 1


def _context(about: str) -> "SpanContext":
    from opentelemetry.trace import SpanContext, TraceFlags

    trace, span = _ids_of(about)
    return SpanContext(trace, span, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED))


def now() -> int:
    """Return the nanoseconds since 1970."""
    return time.time_ns()
