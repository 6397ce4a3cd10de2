"""What a gather task knows of schemas, as the driver gives it."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from binlog_merge.config.modes import Modes
from binlog_merge.pipeline.coordinate.holds import Holds
from binlog_merge.polardbx.names import is_system_table
from binlog_merge.polardbx.places import Places
from binlog_merge.values.convert import ReshapeOptions
from snapshot_store.history import SchemaHistory
from snapshot_store.topology import Topology
from snapshot_store.tso import OrderKey

if TYPE_CHECKING:
    from binlog_merge.pipeline.gather.filtering import OutputFilter


@dataclass(frozen=True, slots=True)
class Schemas:
    """What a gather task knows of schemas: both histories and the topology.

    `opaque`: where a table map contradicts the history, the table map is believed. Where there are `places` they say
    what tables belong to, not the topology. `polardbx`: tables without a primary key may have a column that nobody
    declared (`polardbx.names.ROW_ID`), and the tables of the transaction machinery never come out. `modes` say what
    routes write into columns that the physical tables lack. With `holds`, rows may come out at another place than their
    own. `filter` says what of all that comes out.
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
        """Return the logical name of a physical table for a transaction, None if it does not come out."""
        if self.polardbx and is_system_table(table):
            return None
        if self.places is not None:
            return self.places.logical_name(node, schema, table, key)
        return self.topology.logical_name(node, schema, table)

    def boundaries(self) -> tuple[OrderKey, ...]:
        """Return the keys behind which a table may have another shape, or belong elsewhere."""
        moved = () if self.places is None else self.places.boundaries()
        held = () if self.holds is None else self.holds.effects
        behind = (e.place.key for e in held if e.place is not None)
        return tuple(sorted({*self.history.boundaries(), *moved, *(effect.key for effect in held), *behind}))
