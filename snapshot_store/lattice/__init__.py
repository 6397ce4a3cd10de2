"""Tables compared and joined: the order in which one table takes the rows of another (DM: `schemacmp`)."""

from snapshot_store.lattice.tables import compare, join

__all__ = ["compare", "join"]
