"""What Debezium and AvroConverter make of a case today is what was recorded, and our messages are held against."""

import gzip
import json
from functools import cache
from pathlib import Path

import pytest

from tests.merge_e2e.cases import case_named
from tests.merge_e2e.local import merge
from tests.messages import record_avro
from tests.messages.record import CASES, compact, record
from tests.messages.test_debezium import RECORDED

pytestmark = [pytest.mark.clients, pytest.mark.mysql]


@pytest.mark.parametrize(("case", "mode"), CASES)
def test_debezium_still_says_so(case: str, mode: str, tmp_path: Path) -> None:
    recorded = json.loads(gzip.decompress((RECORDED / f"{case}-{mode}.json.gz").read_bytes()))
    found = compact(record(case, mode, tmp_path))
    assert found["messages"] == [message[:3] for message in recorded["messages"]]


def test_the_avro_converter_still_says_so(tmp_path: Path) -> None:
    recorded = json.loads(gzip.decompress(record_avro.RECORDED.read_bytes()))

    @cache
    def merged(case: str) -> Path:
        merge(case_named(case) / "cluster.yaml", tmp_path / case)
        return tmp_path / case

    found = record_avro.converted(list(record_avro.messages(merged)))
    assert [[recorded["schemas"].index(one["schema"]), one["bytes"]] for one in found] == recorded["messages"]
    assert record_avro.adjusted(record_avro.NAMES) == recorded["names"]
