"""The status page in headless Chromium: it never scrolls sideways, and on a narrow screen each cell says what it is.

`make check-report` brings what it needs.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from binlog_merge.observe.status.server import StatusServer
from tests.mysql_server import ROOT
from tests.observe.status.looking import eventually, merged

BROWSER = Path(os.environ.get("BINLOG_MERGE_BROWSER", ROOT / "build" / "browser"))

pytestmark = pytest.mark.browser


def test_the_page_fits_every_width(tmp_path: Path) -> None:
    chromium = shutil.which(os.environ.get("CHROMIUM", "chromium"))
    playwright = BROWSER / "node_modules" / "playwright-core" / "index.mjs"
    if chromium is None or not playwright.exists():
        pytest.fail(f"no chromium, or no {playwright}: tools/get-browser.sh brings them", pytrace=False)
    cluster = merged("three-nodes-commit-order", tmp_path, end_of_input=False)
    with StatusServer(cluster.config, cluster.out, "0") as server:
        assert eventually(lambda: len(server.history(0)) > 2)
        script = Path(__file__).with_name("browser.mjs")
        command = ["node", script, playwright, chromium, server.url, tmp_path / "profile", tmp_path / "page"]
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["errors"] == []
    for look in found["looks"]:
        assert look["wide"] <= look["width"], look
        if look["width"] <= 400:
            assert look["beyond"] == 0 and "dn-1" in look["cells"]
            assert {'"node"', '"captured"', '"watermark"'} <= set(look["heads"])
