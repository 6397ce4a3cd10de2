"""The real binlogs that tests read: ours, the repository's fixtures, and any directory named by
BINLOG_MERGE_EXTRA_BINLOGS."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from binlog_merge.binlog.events import FormatDescription, RawEvent, TransactionPayload, parse_event, walk
from tests.binlog.record import ALL_TYPES

ROOT = Path(__file__).resolve().parents[2]


def real_files() -> list[Path]:
    """Return every real binlog at hand, in a stable order."""
    found = [*ALL_TYPES.glob("binlog.0*"), *(ROOT / "fixtures").glob("*/**/*.0000*")]
    if extra := os.environ.get("BINLOG_MERGE_EXTRA_BINLOGS"):
        found += Path(extra).glob("**/*.0000*")
    return sorted(file for file in found if file.is_file())


def name_of(path: Path) -> str:
    """Return a short name for test ids."""
    return "/".join(path.parts[-3:])


def parsed(data: bytes) -> Iterator[tuple[RawEvent, Any]]:
    """Yield (event, value) for all events of a binlog, those inside payloads after the payload."""
    description: FormatDescription | None = None
    for event in walk(data):
        value = parse_event(event, description)
        if isinstance(value, FormatDescription):
            description = value
        yield event, value
        if isinstance(value, TransactionPayload):
            yield from ((inner, parse_event(inner, description)) for inner in value.events(offset=event.offset))
