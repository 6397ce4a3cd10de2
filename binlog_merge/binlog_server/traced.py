"""Spans of what readers are sent, where they are asked for: see `binlog_merge.tracing`."""

from typing import Final

from binlog_merge.binlog_server.log import LogView
from binlog_merge.tracing import Span, Tracer, now, published_by

_MOST_LINKS: Final = 64


class SendSpans:
    """Records a span each time that a reader has all that is published: from the first event that it was sent on."""

    def __init__(self, tracer: Tracer, peer: str, view: LogView) -> None:
        self._tracer, self._peer = tracer, peer
        self._run = view.state.run
        self._begun: int | None = None
        self._bytes = 0

    def sent(self, size: int) -> None:
        """Take note of events that were sent."""
        if self._begun is None:
            self._begun = now()
        self._bytes += size

    def at_end(self, view: LogView, file: str, position: int) -> None:
        """Record what was sent, if anything was; it links to the rounds that have published it, if that is all."""
        if self._begun is None:
            return
        attributes: dict[str, str | int] = {
            "binlog_merge.reader": self._peer,
            "binlog_merge.file": file,
            "binlog_merge.position": position,
            "binlog_merge.bytes": self._bytes,
        }
        links: tuple[str, ...] = ()
        if view.end == (file, position):
            runs = range(max(self._run, view.state.run - _MOST_LINKS) + 1, view.state.run + 1)
            links = tuple(published_by(view.header.cluster_uuid, run) for run in runs)
            self._run = view.state.run
        self._tracer.record(Span("serve.send", self._begun, now(), attributes, None, links))
        self._begun, self._bytes = None, 0
