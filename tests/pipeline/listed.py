"""Transactions listed without Spark, and what the merged log itself says of them."""

import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.pipeline.base.blocks import holding
from binlog_merge.pipeline.gather.listing import listed
from binlog_merge.pipeline.transactions import Transactions, found_transactions
from tests.merge_e2e.editing import GTIDS, QUERY, ROWS, ROWS_QUERY, TABLE_MAP, Log
from tests.merge_e2e.local import HeldRunner

Listed = list[dict[str, Any]]


def transactions(path: Path, **options: Any) -> tuple[Listed, Transactions]:
    """List the transactions of a configuration, each task as if it were on an executor."""
    runner = HeldRunner()
    with found_transactions(runner, MergeConfig.load(path), **{"end_of_input": True, **options}) as found:
        pass  # the runner holds the blocks
    rows: Listed = []
    with holding(runner.carried):
        for task in found.tasks:
            for batch in listed(pickle.loads(pickle.dumps(task))):
                batch.validate(full=True)
                rows += batch.to_pylist()
    return rows, found


@dataclass
class Written:
    """A transaction of a merged log. `tables` are those of its table maps that rows follow."""

    number: int
    committed_us: int
    key: str
    tables: set[str]
    statement: str | None = None


def in_log(files: dict[str, bytes]) -> Iterator[Written]:
    """Yield what merged files hold."""
    for data in files.values():
        log = Log.load(data)
        for first, behind in log.groups():
            body = log.events[first].body
            found = Written(int.from_bytes(body[17:25], "little"), int.from_bytes(body[42:49], "little"), "", set())
            maps = {}
            for event in log.events[first:behind]:
                if event.type == TABLE_MAP:
                    maps[event.body[:6]] = _table(event.body)
                elif event.type in ROWS:
                    found.tables.add(maps[event.body[:6]])
                elif event.type == ROWS_QUERY and b"CTS::" in event.body[:8]:
                    key, _, more = event.body.partition(b"CTS::")[2].decode("utf-8", "replace").partition("\n")
                    found.key, found.statement = key[:54], more or None
                elif event.type == QUERY and event.text != "BEGIN":
                    found.statement = event.text
            assert log.events[first].type in GTIDS
            yield found


def _table(body: bytes) -> str:
    schema = body[9 : 9 + body[8]]
    at = 10 + len(schema)
    return f"{schema.decode()}.{body[at + 1 : at + 1 + body[at]].decode()}"
