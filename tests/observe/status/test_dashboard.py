"""deploy/grafana/binlog-merge.json: each panel shows something that the program exposes, in Prometheus' evaluation."""

import json
import re
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from binlog_merge.observe.status.metrics import METRICS
from binlog_merge.observe.status.values import (
    ArchiveStatus,
    CaptureStatus,
    ComponentStatus,
    DiskStatus,
    FilePosition,
    LeaseStatus,
    Problem,
    ReaderStatus,
    ReplicaStatus,
    ServerStatus,
    ServeStatus,
    Severity,
    Status,
    WaitingDdl,
    Watermark,
)
from tests.observe.status.evaluated import PROMTOOL, ROOT, RULES, TARGET, evaluated, needs_promtool, scraped
from tests.observe.status.looking import merged

DASHBOARD: Mapping[str, Any] = json.loads((ROOT / "deploy" / "grafana" / "binlog-merge.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
NAME = re.compile(r"binlog_merge_\w+")
LABELS = {metric.name: {*metric.labels, *TARGET} for metric in METRICS}
OF_PROMETHEUS = {"up": {*TARGET}, "ALERTS": {*TARGET, "alertname", "alertstate"}}
SELECTED = 'job=~"$job", instance=~"$instance"'


def asked(expression: str) -> str:
    """Return an expression as Grafana sends it, with all jobs and hosts chosen."""
    shown = expression.replace("$job", ".*").replace("$instance", ".*").replace("$__rate_interval", "2m")
    assert "$" not in shown
    return shown


EXPRESSIONS = [asked(target["expr"]) for panel in PANELS for target in panel["targets"]]


def everything(status: Status) -> Status:
    """Return a status with all that a cluster may have: a lease, an archive, readers, replicas, a waiting DDL."""
    place, now = FilePosition("binlog.000001", 4), time.time()
    watermark = Watermark("1", now - 1, 1.0)
    capture = CaptureStatus("connected", "mysql://dn", now, False)
    servers = (ServerStatus("u1", None, None, ""), ServerStatus("u2", "mysql://dn-2", now, "2"))
    reader = ReaderStatus("10.0.0.1:1", 7, "u7", "", now, place, True, 5, 0.0)
    waiting = WaitingDdl("1", "orders", "shard", "waiting", "ALTER TABLE …", "1", now - 9, ("dn-1",), ("dn-2",))
    assert status.merged is not None
    return replace(
        status,
        nodes={
            name: replace(node, watermark=watermark, captured_at=now, capture=capture, servers=servers)
            for name, node in status.nodes.items()
        },
        merged=replace(
            status.merged, watermark=watermark, removed_at=now, puts_an_hour=3600, locks=1, waiting_ddl=(waiting,)
        ),
        serves=(ServeStatus("a:3307", now, False, (reader,), replicas=(ReplicaStatus("b:3306", True, 0, ""),)),),
        problems=(Problem("ddl-waits", Severity.warning, ""),),
        archive=ArchiveStatus("s3://a/b", True, 1, 1, 1, 1, None, None),
        components=(ComponentStatus("merge", True, True, 1, 0, ""),),
        disks=(DiskStatus(1, 100, True, of="merged log"),),
        lease=LeaseStatus("a-1", 3, 10.0, "", True, False, 1.0, True, None, ("b-1",)),
    )


@needs_promtool
def test_every_panel_shows_something(tmp_path: Path) -> None:
    scrapes = [scraped(everything(merged("two-nodes", tmp_path).look()))] * 12
    shown = evaluated(EXPRESSIONS, scrapes, tmp_path)
    assert [expression for expression in EXPRESSIONS if expression not in shown] == []


@needs_promtool
def test_every_expression_is_valid_also_as_a_rule(tmp_path: Path) -> None:
    rules = [{"record": f"panel:{number}", "expr": expression} for number, expression in enumerate(EXPRESSIONS)]
    (tmp_path / "panels.yml").write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    command = [str(PROMTOOL), "check", "rules", "--lint-fatal", str(tmp_path / "panels.yml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(EXPRESSIONS)} rules found" in done.stdout


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: str(panel["title"]))
def test_a_panel_is_of_the_chosen_source_job_and_hosts(panel: Mapping[str, Any]) -> None:
    known = {**LABELS, **OF_PROMETHEUS}
    source = {"type": "prometheus", "uid": "${datasource}"}
    assert panel["datasource"] == source and 20 < len(panel["description"]) < 200
    assert panel["fieldConfig"]["defaults"]["unit"] in {"none", "locale", "s", "bytes", "Bps", "percentunit"}
    for target in panel["targets"]:
        assert target["datasource"] == source
        names = re.findall(r"(\w+)\{", target["expr"])
        assert names and set(NAME.findall(target["expr"])) <= set(names) <= set(known)
        assert all(SELECTED in selectors for name, selectors in selections(target["expr"]) if name != "ALERTS")
        if panel["type"] != "table":
            assert target["legendFormat"]
        legend = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
        assert legend <= set.intersection(*(known[name] for name in names))
    renamed = {of for one in panel.get("transformations", ()) for of in one["options"].get("renameByName", ())}
    columns = {label for name in re.findall(r"(\w+)\{", str(panel["targets"])) for label in known[name]}
    assert {name for name in renamed if not name.startswith("Value")} <= columns


def selections(expression: str) -> Iterator[tuple[str, str]]:
    """Yield the metrics of an expression, each with its selectors."""
    for found in re.finditer(r"(\w+)\{([^}]*)\}", expression):
        yield found[1], found[2]


def test_every_metric_of_the_alarms_and_of_what_to_watch_is_in_a_panel() -> None:
    page = (ROOT / "docs" / "how-to" / "production.md").read_text()
    watched = set(NAME.findall(page.partition("## What to watch")[2].partition("\n## ")[0]))
    alarms = {name for group in yaml.safe_load(RULES.read_text())["groups"] for r in group["rules"]
              for name in NAME.findall(r["expr"])}  # fmt: skip
    assert len(watched) > 20 and len(alarms) >= 10
    assert (watched | alarms) - {name for expression in EXPRESSIONS for name in NAME.findall(expression)} == set()


def test_panels_do_not_overlap_and_have_names_of_their_own() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken and max(x for x, _ in cells) < 24
        taken |= cells
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    assert len({panel["title"] for panel in PANELS}) == len(PANELS)


def test_its_variables_are_asked_of_what_is_exposed() -> None:
    source, *asking = DASHBOARD["templating"]["list"]
    assert (source["type"], source["query"]) == ("datasource", "prometheus")
    assert [variable["name"] for variable in asking] == sorted(TARGET, reverse=True)
    for variable in asking:
        assert set(NAME.findall(variable["query"]["query"])) <= set(LABELS)
        assert f", {variable['name']})" in variable["query"]["query"]
