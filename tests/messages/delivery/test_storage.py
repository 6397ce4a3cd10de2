"""Into a folder and an object store in TiCDC's layout: each row once, whatever is killed, and one writer at a time."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from binlog_merge.errors import TargetBusy
from binlog_merge.files.remote_log import opened_log
from binlog_merge.log.log import Log
from binlog_merge.messages.delivery import deliver
from binlog_merge.messages.message import format_of
from binlog_merge.messages.storage import StorageTarget
from tests.effort import keeping
from tests.forked import forked_command
from tests.merge_e2e.cases import case_named
from tests.merge_e2e.local import merge
from tests.messages.messages import made


@pytest.fixture(scope="module")
def merged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("storage")
    merge(case_named("three-nodes-online-ddl") / "cluster.yaml", out)
    return out


def _rows(values: Iterable[Any]) -> list[str]:
    return [json.dumps({name: part for name, part in value.items() if name != "ts"}) for value in values]


def _expected(merged: Path) -> list[str]:
    return _rows(value for name, _, value in made(merged, "canal") if name != "ddl")


def _written(files: dict[str, bytes]) -> list[str]:
    """Return the rows of the files, versions and files in order, as a consumer of TiCDC's layout reads them."""
    names = [name for name in files if name.endswith(".json") and "/CDC" in name]
    names.sort(key=lambda name: (int(name.split("/")[-2]), name))
    return _rows(json.loads(line) for name in names for line in files[name].split(b"\r\n") if line)


def _files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize("at", keeping(["after-commit"], ["before-commit", "after-commit"]))
def test_kills_lose_and_double_nothing(at: str, merged: Path, tmp_path: Path) -> None:
    command = ["replay", "--merged", merged, "--format", "canal", "--to", f"file://{tmp_path}/cdc"]
    for failpoint, code in ((f"deliver.{at}:kill:3", -9), ("", 0)):
        done = forked_command(command, failpoint)
        assert done.returncode == code, done.stderr
    files = _files(tmp_path / "cdc")
    assert _written(files) == _expected(merged)
    assert json.loads(files["metadata"])["checkpoint-ts"] > 0
    for version in (1, 2, 3):
        last = max(name for name in files if name.startswith(f"shop/orders/{version}/CDC"))
        assert files[f"shop/orders/{version}/meta/CDC.index"].decode() == f"{last.rpartition('/')[2]}\n"
    schemas = [json.loads(data) for name, data in sorted(files.items()) if "/meta/schema_" in name]
    assert [s["TableVersion"] for s in schemas] == [1, 2, 3]
    assert [s["Query"].split()[3:4] for s in schemas] == [[], ["ADD"], ["MODIFY"]]


def test_what_a_killed_replay_left_is_removed_and_a_second_one_takes_over(merged: Path, tmp_path: Path) -> None:
    with opened_log(merged) as folder:
        binlog = Log(folder)
        with StorageTarget.of(f"file://{tmp_path}", "canal", binlog.cluster_uuid) as first:
            deliver(binlog, first, format_of("canal", {}), None, 50, None)
            stray = tmp_path / "shop" / "orders" / "1" / "CDC000009.json"
            stray.write_bytes(b"{}\r\n")
            with StorageTarget.of(f"file://{tmp_path}", "canal", binlog.cluster_uuid) as second:
                assert not stray.exists() and second.rank == 50
                with pytest.raises(TargetBusy):
                    deliver(binlog, first, format_of("canal", {}), None, None, None)
        with StorageTarget.of(f"file://{tmp_path}", "canal", binlog.cluster_uuid) as third:
            deliver(binlog, third, format_of("canal", {}), None, None, None)
    assert _written(_files(tmp_path)) == _expected(merged)


def test_an_object_store(merged: Path, s3: Any) -> None:
    with opened_log(merged) as folder:
        binlog = Log(folder)
        for last in (60, None):
            with StorageTarget.of(s3.uri("cdc"), "canal", binlog.cluster_uuid) as target:
                deliver(binlog, target, format_of("canal", {}), None, last, None)
    client = s3.client()
    listed = client.list_objects_v2(Bucket=s3.bucket, Prefix="cdc/")["Contents"]
    files = {
        each["Key"].removeprefix("cdc/"): client.get_object(Bucket=s3.bucket, Key=each["Key"])["Body"].read()
        for each in listed
    }
    assert _written(files) == _expected(merged)
