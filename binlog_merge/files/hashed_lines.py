"""Lines of JSON, each with its own hash and that of the line before: what is missing or changed is noticed.

{"kind":"header",  …, "previous":"",          "sha256":"9f…"}
{"kind":"publish", …, "previous":"9f…",       "sha256":"41…"}
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from binlog_merge.errors import ManifestError


def encode(kind: str, values: Mapping[str, Any], previous: str) -> tuple[bytes, str]:
    """Return a record's line with its newline, and its hash. `previous` is the hash of the line before, "" if none."""
    given = {"kind": kind, **values, "previous": previous}
    digest = _digest(given)
    return _canonical({**given, "sha256": digest}) + b"\n", digest


def decode(line: bytes, previous: str) -> tuple[str, dict[str, Any], str]:
    """Return kind, values and hash of the record in a line. Raises ManifestError, and what reading JSON raises."""
    values = json.loads(line)
    digest = values.pop("sha256")
    if digest != _digest(values):
        raise ManifestError("a record of the manifest is damaged (its hash differs)")
    if values.pop("previous") != previous:
        raise ManifestError("a record of the manifest is missing, or stands in the wrong place")
    return values.pop("kind"), values, digest


def whole_lines(data: bytes) -> list[bytes]:
    """Return the complete lines: not a last one without a newline, nor one of zeros after a power cut."""
    lines = data.split(b"\n")[:-1]
    if lines and b"\0" in lines[-1]:
        lines.pop()
    return lines


def _canonical(values: Mapping[str, Any]) -> bytes:
    return json.dumps(values, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _digest(values: Mapping[str, Any]) -> str:
    return hashlib.sha256(_canonical(values)).hexdigest()
