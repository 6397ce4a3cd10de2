"""The schemas that the driver gives to a gather task."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from binlog_merge.config.modes import Modes
from binlog_merge.pipeline.coordinate.holds import Holds
from binlog_merge.polardbx.names import is_system_table
from binlog_merge.polardbx.places import Places
from binlog_merge.values.convert.cells import ReshapeOptions
from snapshot_store.history import SchemaHistory
from snapshot_store.topology import Topology
from snapshot_store.tso import OrderKey

if TYPE_CHECKING:
    from binlog_merge.pipeline.gather.filtering import OutputFilter


@dataclass(frozen=True, slots=True)
class Schemas:
    """The schemas of a gather task: both histories and the topology.

    `opaque`: if a table map contradicts the history, the table map is believed. `places` map physical tables to logical
    ones; without them the topology does. `polardbx`: tables without a primary key may have a hidden column
    (`polardbx.names.ROW_ID`), and the tables of the transaction machinery never come out. `modes` have the columns that
    routes fill in for physical tables that lack them. With `holds`, rows may come out later than their own key.
    `filter` decides which of all this comes out.
    """

    history: SchemaHistory
    topology: Topology
    opaque: bool = False
    reshape: ReshapeOptions = field(default_factory=ReshapeOptions)
    places: Places | None = None
    polardbx: bool = False
    modes: Modes | None = None
    holds: Holds | None = None
    filter: "OutputFilter | None" = None

    def logical_name(self, node: str, schema: str, table: str, key: OrderKey) -> tuple[str, str] | None:
        """Return the logical name of a physical table for a transaction, None if its rows do not come out."""
        if self.polardbx and is_system_table(table):
            return None
        if self.places is not None:
            return self.places.logical_name(node, schema, table, key)
        return self.topology.logical_name(node, schema, table, key)

    def boundaries(self) -> tuple[OrderKey, ...]:
        """Return the keys after which a table may have another shape or belong to another logical table."""
        moved = () if self.places is None else self.places.boundaries()
        held = () if self.holds is None else self.holds.effects
        released = (e.place.key for e in held if e.place is not None)
        times = ((hidden.since, hidden.until) for hidden in self.topology.hidden)
        hidden = (key for pair in times for key in pair if key is not None)
        return tuple(sorted({*self.history.boundaries(), *moved, *hidden, *(effect.key for effect in held), *released}))
