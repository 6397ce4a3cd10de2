"""Bad input on the real command line: the exit code, the text on stderr, the object on stdout."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.command_line import Done, command_line
from tests.merge_e2e.cases import case_named, copy_case, whole
from tests.merge_e2e.editing import ROWS, TABLE_MAP, WRITE_ROWS, XID, Log, assert_prefix, query
from tests.merge_e2e.local import written

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("commands_share_spark")]


def _run(config: Path, out: Path, *options: str) -> Done:
    return command_line(["merge", "-c", config, "--out", out, "--end-of-input", *options])


def test_a_flipped_byte_as_json(tmp_path: Path) -> None:
    case = case_named("seed-add-column")
    config = copy_case(case, tmp_path / "case")
    path = config.parent / "nodes" / "dn-1" / "binlog.000001"
    log, data = Log.load(path), bytearray(path.read_bytes())
    at = log.events[log.find(*ROWS, after=len(log.events) // 2)].at
    data[at + 30] ^= 1
    path.write_bytes(data)
    done = _run(config, tmp_path / "out", "-o", "json")
    assert done.returncode == 12, done.stderr
    document = json.loads(done.stdout)
    error = document["error"]
    assert (error["code"], error["exit_code"], error["node"]) == ("checksum-mismatch", 12, "dn-1")
    assert (error["file"], error["position"]) == (str(path), at)
    assert document["schema_version"] == 1
    assert document["transactions"] > 0  # what stands before it is published, and told
    assert [f["name"] for f in document["files"]] == list(written(tmp_path / "out"))
    assert_prefix(written(tmp_path / "out"), whole(case / "cluster.yaml"))
    for said in ("checksum-mismatch:", "node dn-1", str(path), f"position {at}", "what to do:"):
        assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_missing_file_as_text(tmp_path: Path) -> None:
    config = copy_case(case_named("rotation"), tmp_path / "case")
    (config.parent / "nodes" / "dn-2" / "binlog.000004").unlink()
    done = _run(config, tmp_path / "out")
    assert done.returncode == 13, done.stderr
    assert "missing-file: binlog.000004 is missing between binlog.000003 and binlog.000005" in done.stderr
    assert "what to do: put the missing files back" in done.stderr
    assert not written(tmp_path / "out") and done.stdout == ""


def test_a_statement_as_text_and_what_was_published_before(tmp_path: Path) -> None:
    config = copy_case(case_named("seed-add-column"), tmp_path / "case")
    path = config.parent / "nodes" / "dn-2" / "binlog.000001"
    log = Log.load(path)
    at = log.find(XID, after=len(log.events) // 2)
    log.inserted(at, query(log.events[at], "DELETE FROM t1")).save(path)
    done = _run(config, tmp_path / "out")
    assert done.returncode == 17, done.stderr
    assert "statement-dml:" in done.stderr and "DELETE FROM t1" in done.stderr and "node dn-2" in done.stderr
    assert "binlog.000001" in done.stdout
    assert_prefix(written(tmp_path / "out"), whole(case_named("seed-add-column") / "cluster.yaml"))


def test_a_configuration_that_is_not_there(tmp_path: Path) -> None:
    done = _run(tmp_path / "none.yaml", tmp_path / "out", "-o", "json")
    assert done.returncode == 2, done.stderr
    document = json.loads(done.stdout)
    assert "transactions" not in document and document["error"]["code"] == "config"
    assert "none.yaml" in done.stderr


def test_what_verify_finds_is_the_exit_code_of_the_merge(tmp_path: Path) -> None:
    config = copy_case(case_named("checksum-none"), tmp_path / "case")
    path = config.parent / "nodes" / "dn-1" / "binlog.000001"
    log = Log.load(path)
    at = next(
        i for i, e in enumerate(log.events)
        if e.type == WRITE_ROWS and log.events[i - 1].type == TABLE_MAP and b"__cdc__" not in log.events[i - 1].body
    )  # fmt: skip
    # The last three bytes are the fraction of a DECIMAL(20,6).
    log.changed(at, replace(log.events[at], body=log.events[at].body[:-3] + b"\xff\xff\xff")).save(path)
    done = _run(config, tmp_path / "out", "-o", "json", "--verify")
    assert done.returncode == 12, done.stderr
    document = json.loads(done.stdout)
    assert "is no group of 6 digits" in document["error"]["message"] and document["transactions"] > 0
    assert written(tmp_path / "out")


def test_a_merge_that_is_verified_says_so(tmp_path: Path) -> None:
    done = _run(case_named("two-nodes") / "cluster.yaml", tmp_path, "-o", "json", "--verify", "--check-rows")
    assert done.returncode == 0, done.stderr
    verified = json.loads(done.stdout)["verified"]
    assert verified["files"] == 1 and verified["transactions"] > 0 and verified["shapes"]
