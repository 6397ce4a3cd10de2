"""Folding: of the versions below a checkpoint, only those that a lookup at or above it can return are kept.

A version that is kept has the key, number and origin it had, and is marked as folded. The last version of the logical
history and of each node is always kept, since numbers continue from it.
"""

from typing import Any

from snapshot_store.tso import OrderKey


def fold(connection: Any, checkpoint: OrderKey) -> int:
    """Fold the logical history and all nodes' within the open transaction; return how many versions were removed."""
    removed = 0
    for table, names in (
        ("table_versions", ["node", "schema_name", "table_name"]),
        ("schema_versions", ["node", "schema_name"]),
    ):
        identity = ", ".join(names)
        last = "OR version_id = max(version_id) OVER (PARTITION BY node)" if table == "table_versions" else ""
        connection.execute(
            f"""CREATE OR REPLACE TEMP TABLE kept AS SELECT {identity}, order_key FROM (
                    SELECT {identity}, order_key, (definition IS NOT NULL
                           AND order_key = max(order_key) OVER (PARTITION BY {identity})) {last} AS stays
                    FROM {table} WHERE order_key < $1)
                WHERE stays""",
            [checkpoint.text()],
        )
        of_kept = " AND ".join(f"t.{name} = k.{name}" for name in [*names, "order_key"])
        (count,) = connection.execute(
            f"DELETE FROM {table} AS t WHERE order_key < $1 AND NOT EXISTS (SELECT 1 FROM kept AS k WHERE {of_kept})",
            [checkpoint.text()],
        ).fetchone()
        connection.execute(f"UPDATE {table} SET folded = true WHERE order_key < $1 AND NOT folded", [checkpoint.text()])
        connection.execute("DROP TABLE kept")
        removed += count
    return removed
