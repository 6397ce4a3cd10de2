"""Rows that are not what their table map says, under right checksums: refused, or named by `verify`."""

import math
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.errors import ChecksumMismatch, MergeError
from binlog_merge.log.log import Log
from binlog_merge.log.replay_options import history_of
from binlog_merge.verification.whole import verify
from tests.merge_e2e.cases import case_named, copy_case, whole
from tests.merge_e2e.editing import PAYLOAD, ROWS, TABLE_MAP, query
from tests.merge_e2e.editing import Log as Edited
from tests.merge_e2e.local import merge, written
from tests.merge_e2e.mutation import payload_of, unpacked


def edited(folder: Path, change: Callable[[bytes], bytes], checksums: bool = True) -> Path:
    """Copy a case in which rows of dn-1 that come out are changed, and everything around them is made right."""
    config = copy_case(case_named("two-nodes"), folder / "case")
    for path in sorted((folder / "case" / "nodes").glob("*/binlog.0*")):
        log = Edited.load(path)
        if path.parent.name == "dn-1":
            at = log.find(*ROWS, after=log.find(TABLE_MAP, after=len(log.events) // 2))
            while b"__cdc__" in log.events[log.find(TABLE_MAP, after=at - 2)].body:
                at = log.find(*ROWS, after=at)
            log = log.changed(at, replace(log.events[at], body=change(log.events[at].body)))
        (log if checksums else log.without_checksums()).with_transaction_lengths().save(path)
    return config


def _longer(body: bytes) -> bytes:
    return body + b"\0"


def _shorter(body: bytes) -> bytes:
    return body[:-1]


@pytest.mark.parametrize("change", [_longer, _shorter])
def test_without_checksums_they_are_refused(change: Callable[[bytes], bytes], tmp_path: Path) -> None:
    config = edited(tmp_path, change, checksums=False)
    with pytest.raises(ChecksumMismatch, match="contradicts its table map") as caught:
        merge(config, tmp_path / "out")
    error = caught.value
    assert error.node == "dn-1" and error.position and error.order_key
    assert written(tmp_path / "out") != whole(case_named("two-nodes") / "cluster.yaml")


@pytest.mark.parametrize("change", [_longer, _shorter])
def test_with_checksums_they_are_refused_where_that_is_asked(change: Callable[[bytes], bytes], tmp_path: Path) -> None:
    config = MergeConfig.load(edited(tmp_path, change))
    with pytest.raises(ChecksumMismatch, match="contradicts its table map"):
        merge(config.model_copy(update={"check_rows": "always"}), tmp_path / "checked")
    merge(config, tmp_path / "out")
    with pytest.raises(MergeError, match="rows event"):
        verify(Log(tmp_path / "out"), history_of(tmp_path / "out"))


def test_right_rows_pass(tmp_path: Path) -> None:
    config = MergeConfig.load(edited(tmp_path, lambda body: body))
    merge(config.model_copy(update={"check_rows": "always"}), tmp_path / "out")
    assert written(tmp_path / "out") == whole(case_named("two-nodes") / "cluster.yaml")
    names = set(written(tmp_path / "out"))
    assert verify(Log(tmp_path / "out"), history_of(tmp_path / "out"), only=names).files == len(names)


def test_in_a_compressed_transaction_they_are_refused(tmp_path: Path) -> None:
    config = copy_case(case_named("compressed"), tmp_path / "case")
    path = tmp_path / "case" / "nodes" / "dn-1" / "binlog.000001"
    log = Edited.load(path)
    for at in [i for i, event in enumerate(log.events) if event.type == PAYLOAD]:
        inner = Edited.of_events(unpacked(log.events[at].body)[1])
        rows = inner.find(*ROWS)
        if b"__cdc__" not in inner.events[inner.find(TABLE_MAP)].body:
            inner = inner.changed(rows, replace(inner.events[rows], body=_longer(inner.events[rows].body)))
            log = log.changed(at, replace(log.events[at], body=payload_of(inner.pack_events())))
            break
    log.with_transaction_lengths().save(path)
    with pytest.raises(ChecksumMismatch, match="contradicts its table map"):
        merge(config, tmp_path / "out")


@pytest.mark.parametrize("doubled", [False, True])
def test_an_event_that_is_gone_or_doubled_in_a_transaction(doubled: bool, tmp_path: Path) -> None:
    config = copy_case(case_named("two-nodes"), tmp_path / "case")
    path = tmp_path / "case" / "nodes" / "dn-1" / "binlog.000001"
    log = Edited.load(path)
    at = log.find(*ROWS, after=len(log.events) // 2)
    (log.inserted(at, log.events[at]) if doubled else log.without(at)).save(path)
    with pytest.raises(ChecksumMismatch, match="longer or shorter than its GTID event says"):
        merge(config, tmp_path / "out")


def test_a_database_name_that_is_no_text_is_damage(tmp_path: Path) -> None:
    config = copy_case(case_named("shards-pessimistic"), tmp_path / "case")
    path = next((tmp_path / "case" / "nodes").glob("*/binlog.000001"))
    log = Edited.load(path)
    at = log.find(2, text="ALTER")
    body = query(log.events[at], log.events[at].text, "??").body.replace(b"??", b"\xff\xfe")
    log.changed(at, replace(log.events[at], body=body)).with_transaction_lengths().save(path)
    with pytest.raises(ChecksumMismatch, match="is not utf8") as caught:
        merge(config, tmp_path / "out")
    assert caught.value.position and caught.value.file


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_double_that_no_server_stores_is_named_by_verify(value: float, tmp_path: Path) -> None:
    greatest = struct.pack("<d", -1.7976931348623157e308)
    config = copy_case(case_named("all-types"), tmp_path / "case")
    for path in sorted((tmp_path / "case" / "nodes").glob("*/binlog.0*")):
        log = Edited.load(path)
        events = [replace(e, body=e.body.replace(greatest, struct.pack("<d", value))) for e in log.events]
        log.with_events(events).save(path)
    merge(config, tmp_path / "out")
    with pytest.raises(MergeError, match=f"DOUBLE value {value}"):
        verify(Log(tmp_path / "out"), history_of(tmp_path / "out"))
