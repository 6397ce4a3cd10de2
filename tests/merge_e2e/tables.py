"""What a server holds of a case's tables, beside what the case says that the cluster's logical tables hold."""

import json
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

from binlog_merge.config.merge_config import MergeConfig
from tests.mysql_server import MySqlServer

Tables = dict[str, tuple[list[Any], str]]


def begin_as(case: Path, server: MySqlServer) -> None:
    """Give a server the case's tables as they are before the first transaction, and no history."""
    base = MergeConfig.load(case / "cluster.yaml").base.logical
    if base is not None:
        server.apply(Path(base).read_bytes())
    server.execute("RESET BINARY LOGS AND GTIDS")


def expected(case: Path) -> Tables:
    """Return the rows and CREATE TABLE of each logical table of a case, as its cluster held them."""
    tables = json.loads((case / "expected" / "tables.json").read_text())
    return {n: (sorted(table["rows"], key=repr), _without_counter(table["create"])) for n, table in tables.items()}


def held(case: Path, server: MySqlServer, names: Collection[str] = ()) -> Tables:
    """Return the same as a server holds it; with `names` of these tables alone."""
    tables = json.loads((case / "expected" / "tables.json").read_text())
    return {
        name: (_rows(server, table["select"]), _create(server, name))
        for name, table in tables.items()
        if not names or name in names
    }


def _rows(server: MySqlServer, select: str) -> list[Any]:
    return sorted((list(row) for row in server.query(select)), key=repr)


def _create(server: MySqlServer, name: str) -> str:
    schema, _, table = name.partition(".")
    quoted = ".".join(f"`{part.replace('`', '``')}`" for part in (schema, table))
    return _without_counter(str(server.query(f"SHOW CREATE TABLE {quoted}")[0][1]))


def _without_counter(create: str) -> str:
    """Leave out where AUTO_INCREMENT stands: it counts what was inserted on that server."""
    return re.sub(r" AUTO_INCREMENT=\d+", "", create)
