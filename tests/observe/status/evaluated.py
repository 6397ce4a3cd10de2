"""Prometheus' own evaluation of what the program says of itself, with promtool."""

import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from binlog_merge.observe.status.metrics import exposition
from binlog_merge.observe.status.values import Status

ROOT = Path(__file__).resolve().parents[3]
RULES = ROOT / "deploy" / "prometheus" / "rules.yaml"
PROMTOOL = ROOT / "build" / "prometheus" / "bin" / "promtool"
EVERY = 30
"""Seconds between two scrapes."""
TARGET = {"job": "binlog-merge", "instance": "a:9464"}
"""What Prometheus adds to each series."""

needs_promtool = pytest.mark.skipif(not PROMTOOL.exists(), reason="no promtool under build/prometheus: make prometheus")


def scraped(status: Status) -> str:
    """Return what Prometheus gets of a status, as of second 0 of a test."""
    return exposition(status, "text/plain")[0].decode()


def fired(scrapes: Sequence[str | None], folder: Path, old: Sequence[float] = ()) -> set[str]:
    """Return the alarms that fire at the last of some scrapes, None for one that failed.

    The times that a scrape tells are moved to where the test has it, but for `old`, the ages of the last statuses.
    """
    firing = 'count by (alertname) (ALERTS{alertstate="firing"})'
    return set(re.findall(r'alertname="(\w+)"', evaluated([firing], scrapes, folder, old).get(firing, "")))


def evaluated(
    expressions: Sequence[str], scrapes: Sequence[str | None], folder: Path, old: Sequence[float] = ()
) -> Mapping[str, str]:
    """Return the samples of each expression that has any at the last of some scrapes, as promtool prints them."""
    last = f"{(len(scrapes) - 1) * EVERY}s"
    nothing = [{"expr": expression, "eval_time": last, "exp_samples": []} for expression in expressions]
    found = [{"series": name, "values": " ".join(values)} for name, values in _series(scrapes, old).items()]
    test = {"interval": f"{EVERY}s", "promql_expr_test": nothing, "input_series": found}
    document = {"rule_files": [str(RULES)], "evaluation_interval": f"{EVERY}s", "tests": [test]}
    (folder / "rules-test.yml").write_text(yaml.safe_dump(document))
    command = [str(PROMTOOL), "test", "rules", str(folder / "rules-test.yml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    samples = re.findall(r'^ *expr: (".*"), time: .*\n *exp: nil\n *got: (.*)$', said, re.M)
    assert bool(samples) == (done.returncode != 0), said
    return {json.loads(expression): got for expression, got in samples}


def _series(scrapes: Sequence[str | None], old: Sequence[float]) -> Mapping[str, Sequence[str]]:
    """Return the values of each series, one a scrape, as promtool takes them."""
    ages = [0.0] * (len(scrapes) - len(old)) + list(old)
    series: dict[str, list[str]] = {}
    for number, text in enumerate(scrapes):
        values = {_named("up", {}): 0.0 if text is None else 1.0}
        for family in text_string_to_metric_families(text or ""):
            values |= {_named(sample.name, sample.labels): sample.value for sample in family.samples}
        if text is not None:
            values[_named("binlog_merge_status_timestamp_seconds", {})] = number * EVERY - ages[number]
        for name in {*values, *series}:
            missing = "stale" if number and series.get(name, ["_"] * number)[-1] not in ("_", "stale") else "_"
            shown = repr(values[name]) if name in values else missing
            series.setdefault(name, ["_"] * number).append(shown)
    return series


def _named(name: str, labels: Mapping[str, str]) -> str:
    shown = ",".join(f"{label}={json.dumps(value)}" for label, value in (TARGET | dict(labels)).items())
    return f"{name}{{{shown}}}"
