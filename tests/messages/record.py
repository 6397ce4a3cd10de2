"""Records what Debezium makes of a case's merged log, from a real MySQL that has applied it.

.venv/bin/python -m tests.messages.record CASE MODE     writes tests/messages/recorded/CASE-MODE.json.gz
"""

import gzip
import json
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from tests.clients.conftest import client
from tests.merge_e2e.cases import case_named
from tests.merge_e2e.local import merge, written
from tests.merge_e2e.tables import begin_as
from tests.mysql_server import MySqlServer, mysqlbinlog

ENGINE = Path(__file__).parent.parent / "clients" / "debezium_engine.py"
MODES: Final[dict[str, dict[str, str]]] = {
    "default": {"schemas.enable": "true"},
    "text": {
        "decimal.handling.mode": "string",
        "time.precision.mode": "isostring",
        "binary.handling.mode": "hex",
        "bigint.unsigned.handling.mode": "precise",
    },
    "double": {
        "decimal.handling.mode": "double",
        "time.precision.mode": "connect",
        "binary.handling.mode": "base64",
        "schemas.enable": "true",
    },
    "micro": {"time.precision.mode": "microseconds", "binary.handling.mode": "base64-url-safe"},
    "transactions": {"provide.transaction.metadata": "true", "schemas.enable": "true"},
}
CASES: Final = (
    *(("all-types", mode) for mode in MODES if mode != "transactions"),
    ("three-nodes-online-ddl", "default"),
    ("reshape-strings", "default"),
    ("reshape-temporal", "text"),
    ("reshape-charsets", "micro"),
    ("reshape-others", "default"),
    ("reshape-clamp", "default"),
    ("reshape-numbers", "text"),
    ("modify-in-flight", "default"),
    ("reorder-in-flight", "text"),
    ("statements", "transactions"),
)
"""What is recorded; the last one has updates of keys, and transactions of several tables.

In `reshape-pads` the merged log and the server differ in what rows without a column were before.
"""
WHOLE: Final = {"reshape-numbers": "id % 10 <> 2"}
"""Which rows have whole images, in cases where not all do: a message has whole rows."""
DEFAULTS: Final = ("online-drop-column", "default")
"""A recording of columns with defaults, of which the schemas alone count: a server pads no images."""


def record(case: str, mode: str, folder: Path) -> list[dict[str, Any]]:
    """Return the records of Debezium in a mode: of each its topic, key and value."""
    merged = folder / "merged"
    merge(case_named(case) / "cluster.yaml", merged)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with MySqlServer(folder / "server", 900, port=port) as server:
        begin_as(case_named(case), server)
        server.execute("CREATE USER rep@'%' IDENTIFIED BY 'a secret'; GRANT ALL ON *.* TO rep@'%'")
        server.execute("RESET BINARY LOGS AND GTIDS; CREATE DATABASE begun")  # an empty GTID set ends the client
        settings = {name: value for name, value in MODES[mode].items() if name != "schemas.enable"}
        for side in ("key", "value"):
            settings[f"{side}.converter.schemas.enable"] = MODES[mode].get("schemas.enable", "false")
        settings |= {"snapshot.mode": "no_data", "driver.allowPublicKeyRetrieval": "true"}
        command = [client("python", "bin", "python"), str(ENGINE), str(folder), str(port)]
        said = folder / "said"
        with said.open("wb") as out, (folder / "errors").open("wb") as errors:
            engine = subprocess.Popen(
                [*command, *(f"{name}={value}" for name, value in settings.items())],
                stdin=subprocess.PIPE, stdout=out, stderr=errors, cwd=folder,
            )  # fmt: skip
            try:
                _until(lambda: "Connected to" in said.read_text(errors="replace"), engine)
                server.apply(mysqlbinlog([merged / name for name in written(merged)]))
                server.execute("CREATE DATABASE ended")
                _until(lambda: "CREATE DATABASE ended" in (folder / "records.jsonl").read_text(), engine)
            finally:
                engine.communicate(timeout=60)
    return [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()]


def _until(holds: Any, engine: "subprocess.Popen[bytes]") -> None:
    end = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < end and engine.poll() is None, "see the engine's output"
        time.sleep(0.2)


def compact(records: list[dict[str, Any]]) -> dict[str, Any]:
    """Return records without what depends on the run, and each schema once."""
    found: dict[str, Any] = {"schemas": {}, "messages": []}
    for record in records:
        topic, key, value = record["destination"], record["key"], record["value"]
        known = found["schemas"].setdefault(topic, {})
        if key and "schema" in key:
            known.setdefault("key", key["schema"])
            key = key["payload"]
        if value and "schema" in value:
            if value["schema"] not in known.setdefault("value", []):
                known["value"].append(value["schema"])
            value = value["payload"]
        if value and "source" in value and value["source"]["snapshot"] != "false":
            continue
        if value and value.get("databaseName") in ("begun", "ended"):
            continue
        if value and "source" in value:
            for name in ("ts_ms", "ts_us", "ts_ns", *(() if value.get("transaction") else ("transaction",))):
                value.pop(name, None)
            for name in ("file", "pos", "server_id", "query"):
                value["source"].pop(name, None)
        found["messages"].append([topic, key, value])
    return found


def main(case: str, mode: str) -> None:
    """Write a recording."""
    folder = Path(tempfile.mkdtemp())
    try:
        text = json.dumps(compact(record(case, mode, folder)), ensure_ascii=False, separators=(",", ":"))
        path = Path(__file__).parent / "recorded" / f"{case}-{mode}.json.gz"
        path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
