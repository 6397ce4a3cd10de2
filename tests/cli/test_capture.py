"""`binlog-merge capture`: what is wrong with a command line is said before any server is asked."""

from pathlib import Path

import pytest

from binlog_merge.cli import main

NODES = """\
version: 1
name: live
nodes:
  - {source-id: dn-1, files: "dn-1/*"}
  - {source-id: dn-2, server: "mysql://root@127.0.0.1:1"}
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    path = tmp_path / "cluster.yaml"
    path.write_text(NODES)
    return path


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (["--stop-never", "--until-now"], 2, "contradict each other"),
        (["--node", "dn-3"], 2, "no node has the source-id dn-3: there are dn-1, dn-2"),
        (["--node", "dn-1"], 2, "dn-1 has no `server`"),
        (["--start-file", "dn-1=binlog.000004"], 2, "--start-file: dn-1 is not captured"),
        (["--password-file", "none"], 31, "cannot be read"),
        (["--retry-seconds", "-1"], 2, "--retry-seconds"),
    ],
)
def test_what_is_wrong_is_said(
    cluster: Path, capsys: pytest.CaptureFixture[str], options: list[str], code: int, says: str
) -> None:
    assert main.run(["capture", "-c", str(cluster), *options]) == code
    assert says in capsys.readouterr().err
    assert not (cluster.parent / "captured").exists()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (NODES.replace(', server: "mysql://root@127.0.0.1:1"', ", files: x"), "no node has a server"),
        (NODES.replace("dn-2", "../dn-2"), "to be a directory's name"),
        (NODES.replace("dn-2", ".dn-2"), "to be a directory's name"),
    ],
)
def test_nodes_that_cannot_be_captured(cluster: Path, capsys: pytest.CaptureFixture[str], text: str, says: str) -> None:
    cluster.write_text(text)
    assert main.run(["capture", "-c", str(cluster)]) == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("options", [[], ["--stop-never"]])
def test_a_failure_is_told_once(options: list[str], cluster: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.write_text(f'{NODES}  - {{source-id: dn-3, server: "mysql://root@127.0.0.1:2"}}\n')
    assert main.run(["capture", "-c", str(cluster), "--retry-seconds=0", *options]) == 39
    said = capsys.readouterr().err
    assert [said.count(f"127.0.0.1:{port}: Can't connect") for port in (1, 2)] == [1, 1]


def test_a_merge_without_captured_files_says_how_to_get_them(cluster: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from binlog_merge.config.merge_config import MergeConfig
    from binlog_merge.errors import NoFiles
    from binlog_merge.files.directory import discover

    cluster.write_text(NODES.replace(', files: "dn-1/*"', ', server: "mysql://root@127.0.0.1:1"'))
    with pytest.raises(NoFiles) as caught:
        discover(MergeConfig.load(cluster))
    assert "`binlog-merge capture` fetches" in caught.value.remedy
