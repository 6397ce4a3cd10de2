"""A schema registry in this process, by the REST contract of Confluent's.

Which schemas are compatible Apache Avro's own checker says: a new one must read what the last one wrote (BACKWARD). An
Avro schema has the same number under each subject. Source: "Schema Registry API Reference" of Confluent's manual.
"""

import base64
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import avro.compatibility  # type: ignore[import-untyped]
import avro.schema  # type: ignore[import-untyped]

_COMPATIBLE = avro.compatibility.SchemaCompatibilityType.compatible


@dataclass
class SchemaRegistry:
    """What is registered: schemas in the order of their numbers, from 1 on, and the numbers under each subject."""

    login: str | None = None
    url: str = ""
    schemas: list[str] = field(default_factory=list)
    subjects: dict[str, list[int]] = field(default_factory=dict)
    compatibility: dict[str, str] = field(default_factory=dict)
    asked: int = 0

    def register(self, subject: str, schema: str) -> tuple[int, dict[str, Any]]:
        """Return an HTTP status and an answer."""
        known = self.subjects.setdefault(subject, [])
        number = self._number(schema)
        if number in known:
            return 200, {"id": number}
        if known and self.compatibility.get(subject, "BACKWARD") != "NONE":
            last = self.schemas[known[-1] - 1]
            found = avro.compatibility.ReaderWriterCompatibilityChecker().get_compatibility(
                avro.schema.parse(schema), avro.schema.parse(last)
            )
            if found.compatibility is not _COMPATIBLE:
                return 409, {
                    "error_code": 409,
                    "message": "Schema being registered is incompatible with an earlier schema for subject "
                    f"\"{subject}\", details: [{{errorType:'{found.incompatibilities[0].name}', "
                    f"description:'{sorted(found.messages)[0]}'}}, {{oldSchema: '{last}'}}]",
                }
        if number is None:
            self.schemas.append(schema)
            number = len(self.schemas)
        known.append(number)
        return 200, {"id": number}

    def look_up(self, subject: str, schema: str) -> tuple[int, dict[str, Any]]:
        """Return an HTTP status and an answer."""
        number = self._number(schema)
        if subject not in self.subjects:
            return 404, {"error_code": 40401, "message": f"Subject '{subject}' not found."}
        if number not in self.subjects[subject]:
            return 404, {"error_code": 40403, "message": "Schema not found"}
        version = self.subjects[subject].index(number) + 1
        return 200, {"subject": subject, "id": number, "version": version, "schema": schema}

    def _number(self, schema: str) -> int | None:
        return self.schemas.index(schema) + 1 if schema in self.schemas else None


class _Handler(BaseHTTPRequestHandler):
    registry: SchemaRegistry

    def do_POST(self) -> None:
        parts = [unquote(part) for part in urlsplit(self.path).path.strip("/").split("/")]
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.registry.asked += 1
        if body.get("schemaType", "AVRO") != "AVRO" or parts[0] != "subjects":
            self._answer(422, {"error_code": 42201, "message": "Invalid schema"})
            return
        take = self.registry.register if parts[2:] == ["versions"] else self.registry.look_up
        self._answer(*take(parts[1], body["schema"]))

    def do_GET(self) -> None:
        parts = urlsplit(self.path).path.strip("/").split("/")
        assert parts[:2] == ["schemas", "ids"], self.path
        self._answer(200, {"schema": self.registry.schemas[int(parts[2]) - 1]})

    def _answer(self, status: int, value: dict[str, Any]) -> None:
        login = self.registry.login
        if login is not None:
            wanted = f"Basic {base64.b64encode(login.encode()).decode()}"
            if self.headers.get("Authorization") != wanted:
                status, value = 401, {"error_code": 401, "message": "Unauthorized"}
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args: Any) -> None:
        pass


@contextmanager
def schema_registry(login: str | None = None, tls: tuple[Path, Path] | None = None) -> Iterator[SchemaRegistry]:
    """Run a registry, with a login if there is one, and with TLS if there are a certificate and its key."""
    registry = SchemaRegistry(login)
    handler = type("Handler", (_Handler,), {"registry": registry})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        scheme = "http"
        if tls is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            server.socket = context.wrap_socket(server.socket, server_side=True)
            scheme = "https"
        registry.url = f"{scheme}://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield registry
        finally:
            server.shutdown()
            thread.join()
