"""Comparing and joining tables, ordered by which rows they accept (DM: `schemacmp`)."""

from snapshot_store.lattice.tables import compare, join

__all__ = ["compare", "join"]
