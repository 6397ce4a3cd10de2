"""Converts answers about schemas to plain values for -o json."""

import json
import re
from dataclasses import asdict
from typing import Any

from binlog_merge.json_values import utc_text
from snapshot_store.ask.check import Finding
from snapshot_store.ask.questions import TableDiff, VersionChange
from snapshot_store.ask.skew import Skew
from snapshot_store.diff import TableChange
from snapshot_store.history import TableVersion
from snapshot_store.model import Column
from snapshot_store.model_json import table_to_json
from snapshot_store.mysql.sql.names import quote_string
from snapshot_store.names import time_of
from snapshot_store.render_sql import create_sql, type_sql
from snapshot_store.tso import OrderKey


def when(key: OrderKey) -> dict[str, Any]:
    """Return a key as its text, its TSO and its time."""
    time = time_of(key)
    return {
        "order_key": key.text(),
        "commit_tso": str(key.commit_tso),
        "time": None if time is None else utc_text(time),
    }


def version_values(version: TableVersion) -> dict[str, Any]:
    """Return the origin, location and time of a version."""
    return {
        "node": version.node,
        "schema": version.schema,
        "table": version.name,
        "version": version.version_id,
        **when(version.key),
        "origin": version.origin,
        "ddl": version.ddl,
        "file": version.file,
        "position": version.position,
    }


def table_values(version: TableVersion) -> dict[str, Any]:
    """Return a version and its table."""
    table = version.table
    return {
        **version_values(version),
        "definition": None if table is None else json.loads(table_to_json(table)),
        "create": None if table is None else create_sql(table),
    }


def change_values(change: TableChange) -> dict[str, Any]:
    """Return a change; `kind` is column-added, column-dropped, column-changed, column-moved, index-added, …"""
    kind = re.sub(r"(?<!^)(?=[A-Z])", "-", type(change).__name__).lower()
    return {"kind": kind, **asdict(change)}


def history_values(change: VersionChange) -> dict[str, Any]:
    """Return a version and what changed."""
    return {
        **table_values(change.version),
        "kind": change.kind,
        "changes": [change_values(one) for one in change.changes],
    }


def diff_values(diff: TableDiff) -> dict[str, Any]:
    """Return a table's difference between two moments."""
    node, schema, name = diff.table
    return {
        "node": node,
        "schema": schema,
        "table": name,
        "from": None if diff.before is None else version_values(diff.before),
        "to": None if diff.after is None else version_values(diff.after),
        "changes": [change_values(change) for change in diff.changes],
        "alter": list(diff.statements),
        "unsafe": list(diff.unsafe),
    }


def skew_values(skew: Skew) -> dict[str, Any]:
    """Return how a physical table differs from its logical one."""
    return {
        "node": skew.physical.node,
        "schema": skew.physical.schema,
        "table": skew.physical.name,
        "logical": {"schema": skew.logical_name[0], "table": skew.logical_name[1]},
        "physical_version": version_values(skew.physical),
        "logical_version": None if skew.logical is None else version_values(skew.logical),
        "reshaped": skew.reshaped,
        "trimmed": [column.name for column in skew.trimmed],
        "padded": [{"column": column.name, "with": pad_text(column)} for column in skew.padded],
        "converted": [
            {"column": after.name, "from": type_sql(before.type), "to": type_sql(after.type)}
            for before, after in skew.converted
        ],
        "reordered": skew.reordered,
        "opaque": skew.physical.opaque or (skew.logical is not None and skew.logical.opaque),
        "refused": list(refused(skew)),
        "changes": [change_values(one) for one in skew.changes],
        "alter": list(skew.statements),
    }


def finding_values(finding: Finding) -> dict[str, Any]:
    """Return a period in which a physical and a logical table do not match."""
    schema, table = finding.physical or (None, None)
    return {
        "kind": finding.kind,
        "problem": finding.is_problem or bool(refused_in(finding)),
        "refused": list(refused_in(finding)),
        "logical": {"schema": finding.logical[0], "table": finding.logical[1]},
        "node": finding.node,
        "schema": schema,
        "table": table,
        "begins": when(finding.begins),
        "ends": None if finding.ends is None else when(finding.ends),
        "skew": None if finding.skew is None else skew_values(finding.skew),
    }


def refused(skew: Skew) -> tuple[str, ...]:
    """Return the reasons for which a merge stops at rows of a physical table; none if it does not."""
    from binlog_merge.reshape.refusals import refusals

    physical = skew.physical.table
    logical = None if skew.logical is None else skew.logical.table
    if physical is None or logical is None or skew.physical.opaque or (skew.logical and skew.logical.opaque):
        return ()
    return refusals(physical, logical)


def refused_in(finding: Finding) -> tuple[str, ...]:
    """Return the reasons for which a merge stops at rows of a finding's period; none if it does not."""
    return tuple(dict.fromkeys(reason for stage in finding.stages for reason in refused(stage)))


def pad_text(column: Column) -> str:
    """Return the value that a merge writes for a column missing in the physical table, or why it stops."""
    from binlog_merge.errors import MergeError
    from binlog_merge.reshape.pads import pad_cell, pads_now

    if pads_now(column):
        return "the commit time"
    if column.generated is not None:
        return f"the value of ({column.generated.expression}), where it can be computed"
    try:
        if pad_cell(column) is None:
            return "NULL"
    except MergeError as error:
        return f"nothing: {error.message}"
    default = column.default
    if column.generated is not None or default is None or default.kind == "null":
        return "the implicit default of its type"
    return default.text if default.kind == "expression" else quote_string(default.text)
