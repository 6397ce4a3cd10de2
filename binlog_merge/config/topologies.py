"""Builds the topology from a configuration's routes."""

from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.config.routes import RouteRule
from snapshot_store.topology import SYSTEM_SCHEMAS, Copy, Route, Topology


def topology_of(config: MergeConfig) -> Topology:
    """Return the topology of a configuration: its routes, and the schemas that are never in the output."""
    routes = tuple(route_of(rule, config) for rule in config.routes)
    commit_schema = config.commit_tso.commit_table.partition(".")[0]
    ignored = {*SYSTEM_SCHEMAS, config.markers.schema_name, commit_schema, *config.ignore_schemas}
    if config.markers.schema_name.startswith("__"):
        ignored.add(f"{config.markers.schema_name}_*")  # under their physical names
    fold = not config.case_sensitive
    copies = (Copy(c.schema_pattern, c.table_pattern, config.copied_from(c), fold) for c in config.copies)
    return Topology(routes, frozenset(ignored), (), fold, tuple(copies), config.folding())


def route_of(rule: RouteRule, config: MergeConfig) -> Route:
    """Return a route of a configuration."""
    return Route(
        rule.schema_pattern,
        rule.table_pattern or "",
        rule.target_schema,
        rule.target_table or "",
        rule.source_pattern or "*",
        fold=not config.case_sensitive,
    )
