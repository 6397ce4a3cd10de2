"""A real server of Azure's blobs on loopback: Azurite, whose program the environment names (AZURITE=…/azurite-blob)."""

import base64
import hashlib
import hmac
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import requests

ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="  # Azurite's own
PROGRAM = os.environ.get("AZURITE", "")
_VERSION = "2021-08-06"


@dataclass(frozen=True)
class AzureStore:
    """A container of a server."""

    address: str
    container: str

    def uri(self, path: str, container: str | None = None, address: str | None = None) -> str:
        """Return the URI of a path in the container."""
        return f"az://{container or self.container}/{path}?endpoint_override={address or self.address}/{ACCOUNT}"

    def make(self) -> None:
        """Make the container."""
        date = datetime.now(UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")
        text = "PUT" + "\n" * 12 + f"x-ms-date:{date}\nx-ms-version:{_VERSION}\n"
        text += f"/{ACCOUNT}/{ACCOUNT}/{self.container}\nrestype:container"
        signed = base64.b64encode(hmac.new(base64.b64decode(KEY), text.encode(), hashlib.sha256).digest()).decode()
        headers = {
            "x-ms-date": date,
            "x-ms-version": _VERSION,
            "Authorization": f"SharedKey {ACCOUNT}:{signed}",
        }
        url = f"{self.address}/{ACCOUNT}/{self.container}?restype=container"
        requests.put(url, headers=headers, timeout=60).raise_for_status()


@contextmanager
def azure_store(folder: Path, container: str = "cluster-logs") -> Iterator[AzureStore]:
    """Run a server with one container, in a folder."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [PROGRAM, "--blobHost", "127.0.0.1", "--blobPort", str(port), "--location", str(folder), "--silent"]
    server = subprocess.Popen([*command, "--skipApiVersionCheck", "--disableTelemetry"], stdout=subprocess.DEVNULL)
    try:
        for _ in range(200):
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                time.sleep(0.1)
        store = AzureStore(f"http://127.0.0.1:{port}", container)
        store.make()
        yield store
    finally:
        server.kill()
        server.wait()
