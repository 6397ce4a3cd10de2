"""The order key at which an operator's version of a table is recorded."""

from pathlib import Path
from typing import TYPE_CHECKING

from binlog_merge.cli.schema.store import STORE_NAME, moment_of
from binlog_merge.errors import ConfigError

if TYPE_CHECKING:
    from snapshot_store.store.db import Store
    from snapshot_store.store.settings import Stop
    from snapshot_store.tso import OrderKey


def place(store: "Store", at_tso: str | None, node: str | None) -> "tuple[OrderKey, Stop | None]":
    """Return the key from which an operator's version applies, and the statement that it replaces, if any.

    At the TSO or the key of the statement at which the last merge stopped, it replaces that statement; at those of
    rows, it applies right before them. Raises SchemaConflict below what a merge has published.
    """
    from binlog_merge.pipeline.coordinate.stores import below_published
    from snapshot_store.tso import ORIGIN, OrderKey

    key = ORIGIN if at_tso is None else moment_of("--at-tso", at_tso).first
    stop, stands_for = store.stop(), None
    if stop is not None and at_tso is not None:
        at = OrderKey.parse(stop.order_key)
        if key in (at, OrderKey(at.commit_tso, 0, 0, 0)):
            if not stop.statement:
                key = at.previous()
            elif stop.node == node:
                key, stands_for = at, stop
    floor = floor_of(store.path)
    if key < floor.previous():
        raise below_published(key, floor, store.path)
    return key, stands_for


def floor_of(path: Path) -> "OrderKey":
    """Return the key below which the output of a store's directory is published; the origin if there is none."""
    from binlog_merge.pipeline.coordinate.stores import published_floor
    from snapshot_store.tso import ORIGIN

    return published_floor(path.parent) if path.name == STORE_NAME else ORIGIN


def free_place(store: "Store", key: "OrderKey", node: str | None, schema: str, table: str) -> "OrderKey":
    """Return `key`, or the next key if a DDL or a snapshot has a version of the table there, so that ours wins.

    An operator's earlier version at `key` is replaced instead.
    """
    from snapshot_store.history import OPAQUE

    version = store.history_of([(node, schema, table)]).at(schema, table, key._replace(node_seq=key.node_seq + 1), node)
    if version is None or version.key != key or version.origin == OPAQUE or version.origin == "operator":
        return key
    if key.node_seq == 999_999:
        raise ConfigError(f"there is no place left after order key {key.text()}", remedy="give the next TSO")
    return free_place(store, key._replace(node_seq=key.node_seq + 1), node, schema, table)
