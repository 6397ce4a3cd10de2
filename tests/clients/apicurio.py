"""Apicurio's registry of schemas as a process of its own, with its rows in memory, by Confluent's contract."""

import contextlib
import os
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from tests.clients.conftest import client
from tests.patience import Patience, ended
from tools.demo_live.cluster import free_ports

VERSION = "3.0.9"
_JAVA = ("java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


@contextlib.contextmanager
def apicurio(folder: Path) -> Iterator[str]:
    """Run a registry for as long as the context lasts; what it is given is its URL."""
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}/apis/ccompat/v7"
    settings = {**os.environ, "QUARKUS_HTTP_PORT": str(port), "QUARKUS_HTTP_HOST": "127.0.0.1"}
    program = [*_JAVA, "-jar", client("apicurio", f"apicurio-registry-app-{VERSION}-runner.jar")]
    log = folder / "apicurio.log"
    with log.open("ab") as out, subprocess.Popen(program, stdout=out, stderr=out, cwd=folder, env=settings) as process:
        patience = Patience(120)
        try:
            while not _answers(f"{url}/subjects"):
                assert patience.lasts() and process.poll() is None, log.read_text(errors="replace")[-5000:]
            yield url
        finally:
            process.kill()
            ended(process, 60)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, TimeoutError, ConnectionError):
        return False
