"""Values of expressions for the rows of an Arrow table, by the one DuckDB that each process has for it."""

import os
from typing import Any

import duckdb

_engines: dict[int, Any] = {}
"""By process id: a process that is forked does not use its parent's. To start one takes longer than most questions."""


def values_of(sql: str, rows: Any) -> Any:
    """Return what an expression of DuckDB's gives for each row of a `pa.Table`, as a ChunkedArray.

    Raises duckdb.Error. Safe to call from several threads.
    """
    engine = _engines.get(os.getpid()) or _engines.setdefault(os.getpid(), duckdb.connect(config={"threads": 1}))
    with engine.cursor() as connection:
        try:
            return connection.from_arrow(rows).project(f"{sql} AS found").to_arrow_table().column("found")
        except (duckdb.InternalException, duckdb.FatalException):
            _engines.pop(os.getpid(), None)  # after such an error it does nothing more
            raise
