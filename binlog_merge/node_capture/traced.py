"""Spans of what a capture has read, where they are asked for: see `binlog_merge.tracing`."""

from pathlib import Path

from binlog_merge.tracing import Span, Tracer, captured_to, now


class ReadSpans:
    """Records a span each time that readers are shown more of a node's captured file."""

    def __init__(self, tracer: Tracer, directory: Path, node: str) -> None:
        self._tracer, self._node = tracer, node
        self._folder = "" if directory.name == node else f"{directory.name}/"
        self._begun: int | None = None
        self._from = 0

    def came(self, position: int) -> None:
        """Take note of bytes that have come, which begin at a position."""
        if self._begun is None:
            self._begun, self._from = now(), position

    def shown(self, name: str, end: int) -> None:
        """Record what has come since the last time, if anything has: readers see the file up to `end`."""
        if self._begun is None:
            return
        file = f"{self._folder}{name}"
        attributes: dict[str, str | int] = {
            "binlog_merge.node": self._node,
            "binlog_merge.file": file,
            "binlog_merge.from": self._from,
            "binlog_merge.position": end,
        }
        about = captured_to(self._node, file, end)
        self._tracer.record(Span("capture.read", self._begun, now(), attributes, about))
        self._begun = None
