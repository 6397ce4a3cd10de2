"""What all tests of other makers' clients share: where tools/get-clients.sh has put them."""

import os
from pathlib import Path

import pytest

from tests.mysql_server import ROOT

CLIENTS = Path(os.environ.get("BINLOG_MERGE_CLIENTS", ROOT / "build" / "clients"))


def client(*parts: str) -> str:
    """Return a client's path; the test fails where it is not there."""
    path = CLIENTS.joinpath(*parts)
    if not path.exists():
        pytest.fail(f"there is no {path}: tools/get-clients.sh brings it, or says why not", pytrace=False)
    return str(path)
