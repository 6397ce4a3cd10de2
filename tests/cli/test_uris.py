"""A URI where only a local path can stand is refused at once, and its secrets are nowhere in the output."""

import json
from pathlib import Path

import pytest

from tests.command_line import command_line
from tests.object_store import Store

URI = "s3://AKIAEXAMPLE:s3cr3t@bucket/merged?secret_key=s3cr3t"

EVERYWHERE = [
    ["merge", "--config", URI],
    ["merge", "--config", "{config}", "--filter", URI],
    ["capture", "--config", "{config}", "--out", URI],
    ["verify", "merged", "--work", URI],
    ["purge", URI, "--to", "binlog.000001"],
    ["ddl", "resolve", "a.b", "--skip", "--out", URI],
    ["schema", "fold", "--at-tso", "1", "--store", URI],
    ["schema", "export", URI],
    ["debug", "plan", URI],
    ["debug", "order-key", "1", "--out", URI],
    ["demo", "--out", URI],
    ["filter", "test", "--filter", URI, "--table", "a.b"],
]

OTHER = "hdfs://AKIAEXAMPLE:s3cr3t@bucket/merged"
OF_OUTPUTS = [
    ["merge", "--config", "{config}", "--out", OTHER],
    ["verify", OTHER],
    ["verify", "--from", OTHER],
    ["replay", "--from", OTHER, "--to", "mysql://root:s3cr3t@127.0.0.1:1"],
    ["position-of", "--tso", "1", OTHER],
    ["tso-of", "--position", "a:1", OTHER],
    ["serve", OTHER],
    ["status", "--config", "{config}", "--out", OTHER],
    ["schema", "show", "a.b", "--store", OTHER],
    ["ddl", "locks", "--out", OTHER],
    ["merge", "--config", "{config}", "--out", "s3://AKIAEXAMPLE:s3/cr3t@bucket/merged"],
    ["inspect", "ftp://AKIAEXAMPLE:s3cr3t@host/binlog.000001"],
]


@pytest.mark.parametrize("arguments", EVERYWHERE, ids=lambda arguments: " ".join(arguments[:2]))
def test_a_uri_is_refused_where_only_a_path_can_stand(
    arguments: list[str], cluster: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = set(tmp_path.iterdir())
    done = command_line([argument.replace("{config}", cluster) for argument in arguments])
    assert done.returncode == 2
    assert "s3:// is not supported here" in done.stderr
    assert "s3cr3t" not in done.stdout + done.stderr and "AKIA" not in done.stdout + done.stderr
    assert set(tmp_path.iterdir()) == before


@pytest.mark.parametrize("arguments", OF_OUTPUTS, ids=lambda arguments: " ".join(arguments[:2]))
def test_a_uri_of_another_kind_is_refused(arguments: list[str], cluster: str, tmp_path: Path) -> None:
    before = set(tmp_path.iterdir())
    done = command_line([argument.replace("{config}", cluster) for argument in arguments])
    assert done.returncode == 2
    assert "***@" in done.stderr
    assert all(taken in done.stderr for taken in ("s3://bucket/path", "gs://", "az://"))
    assert "s3cr3t" not in done.stderr and "AKIA" not in done.stderr
    assert set(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    "setting",
    [
        "output: {dir: 'hdfs://AKIAEXAMPLE:s3cr3t@bucket/merged'}",
        "capture: {dir: URI}",
        "filter: URI",
        "base: {logical: URI}",
        "base: {store: URI}",
        "base: {physical: {dn-1: URI}}",
        "nodes: [{source-id: dn-1, files: 'ftp://AKIAEXAMPLE:s3cr3t@bucket/*'}]",
        "nodes: [{source-id: dn-1, files: 's3://b/*?endpoint=http://AKIAEXAMPLE:s3cr3t@x'}]",
    ],
)
def test_so_it_is_in_the_configuration(setting: str, tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    nodes = "" if setting.startswith("nodes") else "nodes: [{source-id: dn-1, files: 'dn-1/*'}]\n"
    path.write_text(f"version: 1\nname: n\n{nodes}{setting.replace('URI', repr(URI))}\n")
    done = command_line(["merge", "--config", path, "--out", tmp_path / "merged", "-o", "json"])
    assert done.returncode == 2
    assert str(path) in json.loads(done.stdout)["error"]["file"]
    assert "s3cr3t" not in done.stdout + done.stderr and "AKIA" not in done.stdout + done.stderr
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_uri_is_a_local_path(tmp_path: Path) -> None:
    done = command_line(["verify", f"file://{tmp_path}/a%20b"])
    assert done.returncode == 28
    assert f"{tmp_path}/a b" in done.stderr


def test_no_file_is_said_before_java_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text("version: 1\nname: n\nnodes: [{source-id: dn-1, files: 'nope/*'}]\n")
    monkeypatch.setattr("binlog_merge.cli.merge.Session.__call__", lambda *_: pytest.fail("Java was started"))
    assert command_line(["merge", "--config", path, "--out", tmp_path / "merged"]).returncode == 10


@pytest.mark.parametrize("output", ["text", "json"])
def test_keys_of_inputs_are_shown_nowhere(output: str, s3: Store, tmp_path: Path) -> None:
    s3.put("dn-1/notes.txt", b"none of a server's")
    s3.put("dn-1/mysql-bin.000001", b"\xfebin and then nothing that is an event")
    where = s3.uri("dn-1/*", "access_key=AKIAEXAMPLE", "secret_key=s3cr3t")
    path = tmp_path / "cluster.yaml"
    path.write_text(f"version: 1\nname: n\nnodes: [{{source-id: dn-1, files: '{where}'}}]\n")
    shown = ""
    for arguments in (["debug", "plan", path], ["status", "--config", path], ["--debug", "debug", "plan", path]):
        done = command_line([*arguments, "--out", tmp_path / "merged", "-o", output])
        shown += done.stdout + done.stderr
    assert "dn-1/" in shown
    assert "s3cr3t" not in shown and "AKIA" not in shown
