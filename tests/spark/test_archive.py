"""What an archive for executors has, and what it has not. Its use: `test_cluster`."""

from pathlib import Path

import pytest

from binlog_merge.errors import ConfigError
from binlog_merge.spark.archive import needed, pack


def test_what_the_package_needs_is_packed_and_spark_is_not() -> None:
    names = set(needed())
    assert {"binlog-merge", "numpy", "numba", "llvmlite", "pyarrow", "duckdb", "sqlglot", "pydantic-core"} <= names
    assert not names & {"pyspark", "py4j", "pytest", "mypy"}


def test_an_archive_that_spark_would_not_unpack_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Spark unpacks archives by their names"):
        pack(tmp_path / "packages")
    assert not list(tmp_path.iterdir())
