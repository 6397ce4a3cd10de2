"""The settings of a store: the routes, where the binlogs begin, and where the last merge stopped."""

import json
from dataclasses import asdict, dataclass
from typing import Any

from snapshot_store.errors import StoreDamaged
from snapshot_store.topology import Copy, Hidden, Route, Topology
from snapshot_store.tso import OrderKey


@dataclass(frozen=True, slots=True)
class Stop:
    """Where the last merge stopped because a table's definition was unknown; removed when a merge gets past it.

    `statement`: it stopped at a DDL that is not understood, otherwise at rows that fit no known definition. `node` is
    None for a logical DDL. `order_key` is the text of the DDL's or the rows' key. `tables` are the (schema, table) that
    the statement names, as far as it could be parsed.
    """

    statement: bool
    node: str | None
    order_key: str
    file: str = ""
    position: int = 0
    message: str = ""
    tables: tuple[tuple[str, str], ...] = ()


def stop_to_json(stop: Stop) -> str:
    """Return a stop as JSON text."""
    return json.dumps(asdict(stop))


def stop_from_json(text: str) -> Stop:
    """Return the stop that `stop_to_json` wrote. Raises StoreError for any other text."""
    try:
        values = json.loads(text)
        return Stop(**{**values, "tables": tuple((schema, table) for schema, table in values["tables"])})
    except (ValueError, TypeError, KeyError) as error:
        raise StoreDamaged(f"not the JSON of a stop: {text[:100]!r} ({error}); the store is damaged") from None


def topology_to_json(topology: Topology) -> str:
    """Return a topology as JSON text."""
    routes = [
        [r.schema_pattern, r.table_pattern, r.target_schema, r.target_table, r.node, r.fold] for r in topology.routes
    ]  # the constructor's order
    hidden = [
        [h.node, h.schema, h.table, h.since.text(), None if h.until is None else h.until.text()]
        for h in topology.hidden
    ]
    never = {"ignored": sorted(topology.ignored), "hidden": hidden}
    copies = [[c.schema_pattern, c.table_pattern, c.node, c.fold] for c in topology.copies]
    some = {"folding": topology.folding, "ignored-transactions": topology.ignored_transactions}
    named = {name: sorted(values) for name, values in some.items() if values}
    return json.dumps({"routes": routes, **never, "fold": topology.fold, "copies": copies, **named})


def topology_from_json(text: str) -> Topology:
    """Return the topology that `topology_to_json` wrote. Raises StoreError for any other text."""
    try:
        values = json.loads(text)
        # Older stores have none, or patterns of (schema, table).
        hidden = tuple(_hidden(*one) for one in values.get("hidden", ()) if len(one) > 2)
        routes = tuple(Route(*route) for route in values["routes"])
        copies = tuple(Copy(*copy) for copy in values.get("copies", ()))  # likewise
        folding, transactions = (frozenset(values.get(name, ())) for name in ("folding", "ignored-transactions"))
        ignored, fold = frozenset(values["ignored"]), values.get("fold", False)
        return Topology(routes, ignored, hidden, fold, copies, folding, transactions)
    except (ValueError, TypeError, KeyError) as error:
        raise StoreDamaged(f"not the JSON of a topology: {text[:100]!r} ({error}); the store is damaged") from None


def _hidden(node: str, schema: str, table: str, since: str, until: str | None) -> Hidden:
    return Hidden(node, schema, table, OrderKey.parse(since), None if until is None else OrderKey.parse(until))


def read_setting(connection: Any, name: str) -> str | None:
    """Return a setting, or None."""
    row = connection.execute("SELECT value FROM settings WHERE name = ?", [name]).fetchone()
    return None if row is None else str(row[0])


def write_setting(connection: Any, name: str, value: str) -> None:
    """Set a setting."""
    connection.execute("INSERT OR REPLACE INTO settings VALUES (?, ?)", [name, value])


def remove_setting(connection: Any, name: str) -> None:
    """Forget a setting."""
    connection.execute("DELETE FROM settings WHERE name = ?", [name])
