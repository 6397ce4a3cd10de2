"""Processes that keep pandas out go without it, and leave others alone."""

import subprocess
import sys

import pytest

QUESTIONS = (
    "import pyarrow as pa; assert pa.array(['a', None, 'b']).to_pylist() == ['a', None, 'b']",
    "import numpy as np, pyarrow as pa; assert pa.array(np.arange(3)).to_numpy().tolist() == [0, 1, 2]",
    "import duckdb, pyarrow as pa; t = pa.table({'a': [1, 2]}); "
    "assert duckdb.connect().execute('SELECT sum(a) FROM t').fetchall() == [(3,)]",
    "import duckdb, pyarrow as pa; c = duckdb.connect(); c.register('u', pa.table({'a': [1, 2]})); "
    "assert c.execute('SELECT a FROM u WHERE a > ?', [1]).fetchall() == [(2,)]",
)
BEFORE = "from binlog_merge import without_pandas; without_pandas.refuse(); import sys\n"


@pytest.mark.parametrize("question", QUESTIONS)
def test_nothing_that_we_ask_of_arrow_or_duckdb_needs_it(question: str) -> None:
    program = f"{BEFORE}{question}\nassert 'pandas' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_who_asks_later_gets_it_and_arrow_stays_without() -> None:
    program = (
        f"{BEFORE}import pyarrow as pa; pa.scalar(0); without_pandas.allow()\n"
        "pa.array(['a']); assert 'pandas' not in sys.modules\n"
        "import pandas; assert pandas.Series([1]).sum() == 1"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
