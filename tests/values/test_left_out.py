"""Parts that may be out of range: refused where the engine may leave them out, answered beside all else."""

import pytest

from binlog_merge.values.duckdb.columns import TableColumns
from binlog_merge.values.duckdb.compile import compile_value, parse
from binlog_merge.values.duckdb.piece import ExpressionError
from snapshot_store import parse_table

TABLE = parse_table("CREATE TABLE t (i BIGINT, g DOUBLE, s VARCHAR(9))", schema="d")


@pytest.mark.parametrize(
    "text",
    [
        *("i + 1 > 60 * 60", "1 = 1 AND i + 1 > 5", "i * 2 / 3", "(i + 1) % -3", "i + 1 = s", "(i + 1) / i"),
        *("COALESCE(i + 1, NULL)", "IF(i + 1, NULL, 2)", "CASE i + 1 WHEN 2 THEN NULL ELSE 1 END", "(i + 1) IS NULL"),
        *("i + 1 BETWEEN 1 AND 2", "g * 2 IN (1, 2)", "CONCAT(i + 1, 'a')", "NULL + i", "i % 0"),
    ],
)
def test_answered(text: str) -> None:
    assert compile_value(parse(text), TableColumns(TABLE, ())).text


@pytest.mark.parametrize(
    "text",
    [
        *("(i + 1) % 0", "g * 2 / 0e0", "(i + 1) DIV FALSE", "(i + 1) / '0'", "(i + 1) + NULL", "i + 1 > 1 % 0"),
        *("i + 1 = 1 AND FALSE", "i + 1 = 1 OR 1 = 1", "i + 1 IN (NULL)", "LEFT(i + 1, NULL)", "IF(i + 1, NULL, NULL)"),
        *("GREATEST(i + 1, NULL)", "i + 1 XOR NULL", "i + 1 > SQRT(-1)", "POW(g * 2, NULL)"),
    ],
)
def test_refused(text: str) -> None:
    with pytest.raises(ExpressionError, match="may be out of range"):
        compile_value(parse(text), TableColumns(TABLE, ()))
