"""The tables of metrics and alarms are the program's own, and its rules name metrics that there are."""

import re
from pathlib import Path

import yaml

from binlog_merge.status.health import CODES
from binlog_merge.status.metrics import METRICS

_PAGE = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "status.md").read_text()


def test_the_table_of_metrics() -> None:
    rows = re.findall(r"^\| `(binlog_merge_\w+)` \| (.*?) ?\| (.*) \|$", _PAGE, re.M)
    assert rows == [(m.name, ", ".join(f"`{label}`" for label in m.labels), m.help) for m in METRICS]


def test_the_table_of_alarms() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \| (error|warning) \| .{20,} \|$", _PAGE, re.M)
    assert dict(rows) == {code: severity.value for code, severity in CODES.items()} and len(rows) == len(CODES)


def test_the_rules_name_metrics_that_there_are() -> None:
    shown = re.search(r"```yaml\n(.*?)```", _PAGE, re.S)
    assert shown is not None
    rules = yaml.safe_load(shown[1])
    names = {name for rule in rules for name in re.findall(r"binlog_merge_\w+", rule["expr"])}
    assert len(rules) == 3 and names <= {metric.name for metric in METRICS}
