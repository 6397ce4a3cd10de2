"""Builds the schema histories of a run: what its DDL and markers add to the versions stored by earlier runs."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from binlog_merge.pipeline.base.bound import GREATEST_KEY, NO_BOUND, Bound
from binlog_merge.pipeline.base.render_values import LogicalDdl
from binlog_merge.pipeline.coordinate.histories import Extended, PhysicalDdl, extend_logical, extend_physical
from binlog_merge.pipeline.coordinate.marker.driver import Messages
from binlog_merge.pipeline.coordinate.marker.polardbx import Shapes
from binlog_merge.pipeline.coordinate.not_carried import NotCarried
from binlog_merge.pipeline.coordinate.remedies import HistoryCursor, Remedies
from snapshot_store.history import SchemaHistory, SchemaVersion, TableVersion
from snapshot_store.store.merge import StoredSchemas
from snapshot_store.topology import Topology
from snapshot_store.tso import OrderKey


@dataclass(frozen=True)
class Added:
    """What a run adds to the histories, up to the bound."""

    tables: tuple[TableVersion, ...] = ()
    schemas: tuple[SchemaVersion, ...] = ()
    notes: tuple[str, ...] = ()
    ignored: tuple[NotCarried, ...] = ()
    bound: Bound = NO_BOUND

    def plus(
        self,
        steps: Iterable[Extended] = (),
        *,
        notes: Iterable[str] = (),
        ignored: Iterable[NotCarried] = (),
        bound: Bound = NO_BOUND,
    ) -> "Added":
        """Return this with more added. Of bounds with equal keys this one's own wins, then those of the steps."""
        steps = tuple(steps)
        return Added(
            (*self.tables, *(version for step in steps for version in step.versions)),
            (*self.schemas, *(version for step in steps for version in step.schemas)),
            (*self.notes, *(note for step in steps for note in step.notes), *notes),
            (*self.ignored, *(statement for step in steps for statement in step.ignored), *ignored),
            min(self.bound, *(Bound.at(step.stopped, step.error, step.tables) for step in steps), bound),
        )

    def history(self, part: StoredSchemas) -> SchemaHistory:
        """Return the history in the store, extended by what has been added."""
        return part.history.continued(
            [*part.given_tables, *self.tables], [*part.given_schemas, *self.schemas], part.numbers
        )


def cursor_of(part: StoredSchemas, node: str | None, opaque: bool) -> HistoryCursor:
    """Return the cursor of a node's history, or of the logical one, at the start of the run.

    `opaque`: tables whose statements are not understood become opaque.
    """
    catalog = part.history.catalog(GREATEST_KEY, node)
    unknown = [
        (schema, name)
        for schema, name in part.history.names(node)
        if (version := part.history.at(schema, name, GREATEST_KEY, node)) is not None and version.opaque
    ]
    return HistoryCursor(catalog, unknown, Remedies.of(node, part.given_tables, part.given_schemas, opaque))


def node_history(
    part: StoredSchemas,
    node: str,
    ddls: Sequence[PhysicalDdl],
    shapes: Sequence[Shapes],
    topology: Topology,
    opaque: bool,
) -> list[Extended]:
    """Return what a node's DDL and the snapshots add to its history, in order."""
    cursor, remaining = cursor_of(part, node, opaque), list(ddls)
    steps: list[Extended] = []
    for shape in (*shapes, None):
        before = [ddl for ddl in remaining if shape is None or ddl.key < shape.key]
        remaining = remaining[len(before) :]
        steps.append(extend_physical(part.history, cursor, node, before, topology))
        if steps[-1].stopped is not None:
            break
        versions = shape.physical_versions(node, cursor.catalog) if shape is not None else []
        steps.append(Extended(tuple(versions), ()))
        for version in versions:
            if version.table is not None:
                cursor.catalog = cursor.catalog.with_table(version.table)
    return steps


def done_by(steps: Sequence[Extended], ddls: Sequence[PhysicalDdl], before: OrderKey) -> OrderKey:
    """Return the key up to which a node's DDL is in its history; `before` is that of the previous run."""
    stopped = next((step.stopped for step in steps if step.stopped is not None), None)
    return stopped.previous() if stopped is not None else max([before, *(ddl.key for ddl in ddls[-1:])])


def logical_history(
    part: StoredSchemas,
    ddls: Sequence[LogicalDdl],
    added: Added,
    messages: Messages,
    server_version: int,
    opaque: bool,
) -> tuple[list[LogicalDdl], list[Extended]]:
    """Return the logical DDL of the output below the bound, and what these and the snapshots add to the logical
    history.

    `added` is what the nodes' own histories and the shards have added before.
    """
    cursor, bound = cursor_of(part, None, opaque), added.bound
    for database in added.schemas:
        if database.node is None and database.value is not None:
            cursor.catalog = cursor.catalog.with_schema(database.value)
    for version in added.tables:
        if version.node is None and version.table is not None:
            cursor.catalog = cursor.catalog.with_table(version.table)
    remaining: Sequence[LogicalDdl | Shapes] = [*ddls, *messages.shapes]
    remaining = sorted(remaining, key=lambda step: step.key)
    done, steps = list[LogicalDdl](), list[Extended]()
    while remaining and remaining[0].key < bound.key:
        together = _run_of(remaining, messages.asks)
        remaining = remaining[len(together) :]
        if isinstance(together[0], Shapes):
            steps.append(_shape(cursor, together[0]))
            continue
        coming_out = [ddl for ddl in together if isinstance(ddl, LogicalDdl) and ddl.key < bound.key]
        if messages.asks(coming_out[0]):
            coming_out = messages.answer(coming_out[0], cursor.catalog)
        extended = extend_logical(cursor, [ddl for ddl in coming_out if ddl.sql], server_version)
        steps.append(extended)
        bound = min(bound, Bound.at(extended.stopped, extended.error))
        done += coming_out
    return done, steps


def _run_of(steps: Sequence[LogicalDdl | Shapes], alone: Callable[[LogicalDdl], bool]) -> Sequence[LogicalDdl | Shapes]:
    """Return the first steps that can be applied together: a snapshot, and a DDL for which `alone` holds, come
    alone.
    """
    for count, step in enumerate(steps):
        if isinstance(step, Shapes) or alone(step):
            return steps[: max(1, count)]
    return steps


def _shape(cursor: HistoryCursor, shape: Shapes) -> Extended:
    """Add the tables and databases that only a snapshot has to the logical history."""
    tables, schemas = shape.logical_versions(cursor.catalog)
    for schema in schemas:
        cursor.catalog = cursor.catalog if schema.value is None else cursor.catalog.with_schema(schema.value)
    for version in tables:
        cursor.catalog = cursor.catalog if version.table is None else cursor.catalog.with_table(version.table)
    return Extended(tuple(tables), tuple(schemas))
