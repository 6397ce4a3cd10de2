"""Markers of DDL: written on every node by one transaction, and what follows their commit.

What changes a cluster is a generator that yields wherever it waits, while transactions go on.
"""

import json
from collections.abc import Callable, Generator
from typing import Any

from tests.polardbx.cluster import Key
from tests.polardbx.world import WHEN, Announced, State, World
from tests.simulator.columns import Value

Change = Generator[None, None, None]
PRIVATE, PUBLIC, PROTECTED = 0, 1, 2


def announce(
    world: World,
    kind: str,
    schema: str,
    table: str | None,
    sql: str,
    done: Callable[[Key], None],
    meta: dict[str, Any] | None = None,
    visibility: int = PUBLIC,
    apply: Callable[[dict[str, State]], None] | None = None,
    own: str | None = None,
) -> Change:
    """Write a marker on every node, and wait until it is committed on all. `apply` is what the DDL does to rows.

    A marker whose `apply` is None is nothing that may come out. `own` is the cluster's form of the user's `sql`.
    """  # fmt: skip
    world.job += 1
    ext: dict[str, Any] = {"taskId": 7 * world.job, "ddlScope": 0}
    if world.rng.random() < 0.2:
        ext["sqlMode"] = "ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES"
    if own is not None:
        ext["originalDdl"] = sql
    server = world.server() if world.knobs.extras else None
    if server is not None:
        ext["serverId"] = server
    if world.knobs.extras and world.rng.random() < 0.1:
        ext |= {"isGsi": False, "polarxVariables": {"FOREIGN_KEY_CHECKS": "OFF"}, "taskSubSeq": 1}
    if world.knobs.extras and table is not None and world.rng.random() < 0.2:
        # Names are compared without regard to case; rows have them in lower case.
        schema, told, table = schema.upper(), f"`{table}`", table.upper()
        sql, own = sql.replace(told, f"`{table}`", 1), own and own.replace(told, f"`{table}`", 1)
    values: dict[str, Value] = {
        "ID": world.job, "JOB_ID": world.job * 1_000_003, "SQL_KIND": kind, "SCHEMA_NAME": schema, "TABLE_NAME": table,
        "GMT_CREATED": WHEN, "DDL_SQL": own or sql, "META_INFO": json.dumps(meta) if meta else None,
        "VISIBILITY": visibility, "EXT": json.dumps(ext),
    }  # fmt: skip
    yield from marked(world, values, done, sql, visibility, apply, server)
    if visibility != PRIVATE:
        world.last_marker = values


def marked(
    world: World, values: dict[str, Value], done: Callable[[Key], None], sql: str = "", visibility: int = PRIVATE,
    apply: Callable[[dict[str, State]], None] | None = None, server: int | None = None,
) -> Change:  # fmt: skip
    """Write a marker with these values, and wait until it is committed on every node."""
    keys: list[Key] = []

    def committed(key: Key) -> None:
        keys.append(key)
        if apply is not None and visibility != PRIVATE:
            world.announced.append(Announced(key, sql, visibility, apply, server))
        done(key)

    world.everywhere("__cdc_ddl_record__", values).done = committed
    while not keys:
        yield


def nothing(key: Key) -> None:
    """A marker's commit that changes nothing."""


def untouched(tables: dict[str, State]) -> None:
    """A DDL that changes no row."""


def on_rows(name: str, change: Callable[[dict[str, Value]], None]) -> Callable[[dict[str, State]], None]:
    """Return what changes every row of a table."""

    def apply(tables: dict[str, State]) -> None:
        for row in tables[name].values():
            change(row)

    return apply
