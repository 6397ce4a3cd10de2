"""What a store knows besides versions: the cluster's routes, and where its binlogs begin."""

import json
from typing import Any

from snapshot_store.errors import StoreError
from snapshot_store.topology import Route, Topology


def topology_to_json(topology: Topology) -> str:
    """Return a topology as JSON text."""
    routes = [
        [r.schema_pattern, r.table_pattern, r.target_schema, r.target_table, r.node] for r in topology.routes
    ]  # the constructor's order
    return json.dumps({"routes": routes, "ignored": sorted(topology.ignored)})


def topology_from_json(text: str) -> Topology:
    """Return the topology that `topology_to_json` wrote. Raises StoreError if it did not write this."""
    try:
        values = json.loads(text)
        return Topology(tuple(Route(*route) for route in values["routes"]), frozenset(values["ignored"]))
    except (ValueError, TypeError, KeyError) as error:
        raise StoreError(f"not the JSON of a topology: {text[:100]!r} ({error}); the store is damaged") from None


def read_setting(connection: Any, name: str) -> str | None:
    """Return a setting, or None."""
    row = connection.execute("SELECT value FROM settings WHERE name = ?", [name]).fetchone()
    return None if row is None else str(row[0])


def write_setting(connection: Any, name: str, value: str) -> None:
    """Set a setting."""
    connection.execute("INSERT OR REPLACE INTO settings VALUES (?, ?)", [name, value])
