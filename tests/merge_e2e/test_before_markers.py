"""While a DDL is on its way, its rows come out as a real server has them that converts them back to the old types."""

import json
from pathlib import Path

import pytest

from binlog_merge.config.merge_config import MergeConfig
from tests.merge_e2e.cases import CASES
from tests.merge_e2e.local import merge, written
from tests.mysql_server import MySqlServer, mysqlbinlog

pytestmark = pytest.mark.mysql

with_types_changed = pytest.mark.parametrize(
    "case", [case for case in CASES if (case / "expected" / "before-markers.json").exists()], ids=lambda case: case.name
)


@with_types_changed
def test_rows_before_the_marker(case: Path, mysql_server: MySqlServer, tmp_path: Path) -> None:
    config = MergeConfig.load(case / "cluster.yaml")
    for name, expected in json.loads((case / "expected" / "before-markers.json").read_text()).items():
        result = merge(case / "cluster.yaml", tmp_path / name, stop_tso=expected["tso"])
        assert result.rows_reshaped > 20
        assert config.base.logical is not None
        mysql_server.drop_databases()
        mysql_server.apply(Path(config.base.logical).read_bytes())
        mysql_server.execute("RESET BINARY LOGS AND GTIDS")
        mysql_server.apply(mysqlbinlog([tmp_path / name / file for file in written(tmp_path / name)]))
        found = mysql_server.query(expected["select"])
        rows = [[None if value is None else str(value) for value in row] for row in found]
        assert sorted(rows, key=repr) == sorted(expected["rows"], key=repr)
