"""The page of `report` in headless Chromium: both widths and themes, by keyboard and mouse, on paper, nothing loaded.

`make check-report` brings what it needs; how long each page took to draw is printed.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from binlog_merge.observe.report.document import document
from binlog_merge.observe.report.page import page
from tests.command_line import command_line
from tests.merge_e2e.cases import case_named
from tests.merge_e2e.local import merge
from tests.mysql_server import ROOT
from tests.observe.report.synthetic import facts

BROWSER = Path(os.environ.get("BINLOG_MERGE_BROWSER", ROOT / "build" / "browser"))
LEAST_CONTRAST = 4.5
"""WCAG 2.2, 1.4.3 (AA)."""

pytestmark = pytest.mark.browser


def _opened(file: Path, folder: Path) -> dict[str, Any]:
    """Return what `browser.mjs` finds; the screenshots are beside the page."""
    chromium = shutil.which(os.environ.get("CHROMIUM", "chromium"))
    playwright = BROWSER / "node_modules" / "playwright-core" / "index.mjs"
    if chromium is None or not playwright.exists():
        pytest.fail(
            f"no chromium, or no {playwright}: tools/get-browser.sh brings them, or says why not", pytrace=False
        )
    script = Path(__file__).with_name("browser.mjs")
    command = ["node", script, playwright, chromium, file, folder / "profile", file.with_suffix("")]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    for look in found["looks"]:
        print(f"{file.name} {look['width']} {look['theme']}: drawn after {look['milliseconds']:.0f} ms")
    return found


def _looks_right(found: dict[str, Any], file: Path) -> None:
    assert found["errors"] == []
    assert {request for request in found["requests"] if not request.startswith("data:")} == {f"file://{file}"}
    for look in found["looks"]:
        assert look["wide"] <= look["width"], look
        assert look["contrast"][0] >= LEAST_CONTRAST, look
    grounds = {look["theme"]: look["ground"] for look in found["looks"]}
    assert grounds["light"] != grounds["dark"]
    assert found["print"] == {"controls": "none", "ground": grounds["light"]} and found["pdf"] > 10_000


@pytest.mark.parametrize("with_nodes", [False, True])
def test_the_demos_page(with_nodes: bool, tmp_path: Path) -> None:
    config, out = case_named("three-nodes-online-ddl") / "cluster.yaml", tmp_path / "demo.html"
    merge(config, tmp_path / "merged")
    done = command_line(["report", tmp_path / "merged", "-o", out, *(["--config", config] if with_nodes else [])])
    assert done.returncode == 0, done.stderr
    found = _opened(out, tmp_path)
    _looks_right(found, out)
    keys = found["keys"]
    lanes = [stop for stop in keys["stops"] if stop["what"].startswith("lane")]
    statements = [stop for stop in keys["stops"] if stop["what"] == "water"]
    assert len(statements) == 2 and "ADD COLUMN note" in statements[0]["label"]
    assert len(lanes) == (4 if with_nodes else 5)
    assert all(stop["label"] and stop["tip"] for stop in keys["stops"])
    assert len({keys[key] for key in ("whole", "+", "ArrowRight", "-")}) == 4
    assert keys["Escape"] == keys["whole"] and keys["after_escape"] is None
    assert keys["below"]["label"] == lanes[1]["label"]
    assert keys["pressed"] == "true" and "transaction 1" in keys["rank"]
    assert any(tip and "row" in tip and "binlog.000001:" in tip for tip in keys["hover"])
    assert keys["go"]["what"] == "water" and "makes shop.orders version 2" in keys["go"]["tip"]


def test_ten_million_transactions(tmp_path: Path) -> None:
    out = tmp_path / "large.html"
    out.write_bytes(page(document(facts())))
    found = _opened(out, tmp_path)
    _looks_right(found, out)
    assert any(tip and " transactions in " in tip for tip in found["keys"]["hover"])
