"""The tables of metrics and alarms are the program's own, and its rules name metrics that there are."""

import re
from pathlib import Path

import yaml

from binlog_merge.observe.status.health import CODES
from binlog_merge.observe.status.metrics import METRICS

_ROOT = Path(__file__).resolve().parents[3]
_PAGE = (_ROOT / "docs" / "reference" / "status.md").read_text()


def test_the_table_of_metrics() -> None:
    rows = re.findall(r"^\| `(binlog_merge_\w+)` \| (.*?) ?\| (.*) \|$", _PAGE, re.M)
    assert rows == [(m.name, ", ".join(f"`{label}`" for label in m.labels), m.help) for m in METRICS]


def test_the_table_of_alarms() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \| (error|warning) \| .{20,} \|$", _PAGE, re.M)
    assert dict(rows) == {code: severity.value for code, severity in CODES.items()} and len(rows) == len(CODES)


def test_the_page_has_the_rules() -> None:
    rules = yaml.safe_load((_ROOT / "deploy" / "prometheus" / "rules.yaml").read_text())["groups"][0]["rules"]
    assert re.findall(r"^\| `(BinlogMerge\w+)` \|", _PAGE, re.M) == [rule["alert"] for rule in rules]
