"""The one log of several components: each line with the name of the component that wrote it."""

import json
import sys
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from binlog_merge.cli.output import printable
from binlog_merge.json_values import utc_text

OWN: Final = "run"
_WIDTH: Final = len("capture")


def text_line(component: str, line: str) -> str:
    """Return a component's line for people."""
    return f"{component:<{_WIDTH}} | {printable(line)}"


def json_line(component: str, line: str, now: datetime) -> str:
    """Return a component's line for machines: its JSON object with the component's name; other lines become one.

    A component's log lines are objects already; its results, and what Java prints, are not.
    """
    try:
        document = json.loads(line)
    except ValueError:
        document = None
    if isinstance(document, dict):
        return json.dumps({**document, "component": component})
    return event_line(component, line, {}, "info", now)


def event_line(component: str, event: str, fields: Mapping[str, Any], level: str, now: datetime) -> str:
    """Return an event as an object with the keys of `--log-format json`, and the component's name."""
    time = utc_text(now, "milliseconds")
    document = {"time": time, "level": level, "logger": "binlog_merge", "event": event, "fields": dict(fields)}
    return json.dumps({**document, "component": component}, default=str)


class ComponentLines:
    """Writes lines of components, and its own, to stderr; any thread may call it."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._lock = threading.Lock()

    def line(self, component: str, line: str) -> None:
        """Write a line that a component has printed."""
        self._write(json_line(component, line, datetime.now(UTC)) if self._as_json else text_line(component, line))

    def own(self, text: str, event: str, values: Mapping[str, Any], wrong: bool = False) -> None:
        """Write what `run` itself did: the text for people, or the event and its values for machines."""
        level = "warning" if wrong else "info"
        now = datetime.now(UTC)
        self._write(event_line(OWN, event, values, level, now) if self._as_json else text_line(OWN, text))

    def _write(self, line: str) -> None:
        with self._lock:
            sys.stderr.write(line + "\n")
            sys.stderr.flush()
