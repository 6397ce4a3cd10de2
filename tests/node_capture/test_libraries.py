"""The private names that capture uses of its libraries, and pyproject.toml's bounds."""

import tomllib
from pathlib import Path

import pymysql.connections
import pymysqlreplication
import pytest

from binlog_merge.errors import ConfigError
from binlog_merge.node_capture import source

ROOT = Path(__file__).resolve().parents[2]


def test_these_versions_have_them() -> None:
    source.check_libraries()


@pytest.mark.parametrize(
    ("owner", "name", "said"),
    [
        (pymysql.connections.Connection, "_rfile", "PyMySQL[rsa]"),
        (pymysqlreplication.BinLogStreamReader, "_BinLogStreamReader__connect_to_stream", "mysql-replication"),
    ],
)
def test_a_version_without_them_is_named(owner: type, name: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(owner, name)
    with pytest.raises(ConfigError) as caught:
        source.check_libraries()
    assert name in str(caught.value)
    (bound,) = (
        text
        for text in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
        if text.startswith(said)
    )
    assert bound in caught.value.remedy
