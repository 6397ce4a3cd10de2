"""Formats answers about schemas: as text for people, as SQL, and as plain values for -o json."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Any

from binlog_merge.cli.output import counted
from binlog_merge.json_values import utc_text
from snapshot_store.ask.questions import TableDiff, VersionChange, name_of
from snapshot_store.ask.skew import Checked, Finding, Skew, SkewAt
from snapshot_store.diff import (
    ColumnAdded,
    ColumnChanged,
    ColumnDropped,
    ColumnMoved,
    IndexAdded,
    IndexChanged,
    IndexDropped,
    TableChange,
)
from snapshot_store.history import TableVersion
from snapshot_store.model import Column, Index, Table
from snapshot_store.model_json import table_to_json
from snapshot_store.mysql.sql.names import quote_string
from snapshot_store.names import since, time_of
from snapshot_store.render_sql import column_sql, create_sql, index_sql, make_sql, type_sql
from snapshot_store.tso import OrderKey

_ANY = Table("", "", ())  # a table of the usual character set: others are spelt out


def line_of(version: TableVersion) -> tuple[str | None, str, str]:
    """Return the table whose history a version belongs to: (node, schema, name)."""
    return (version.node, version.schema, version.name)


def heading(version: TableVersion) -> str:
    """Return a version's table, key and origin on a line."""
    return f"{name_of(line_of(version))}  version {version.version_id}, since {since(version.key)}, {made_by(version)}"


def made_by(version: TableVersion) -> str:
    """Return the origin of a version, with file and position if known."""
    place = version.file + (f":{version.position}" if version.position else "")
    return f"{version.origin}{' ' if place else ''}{place}"


def one_line(ddl: str) -> str:
    """Return a statement on one line."""
    return " ".join(ddl.split())


def shown_text(versions: Iterable[TableVersion]) -> Iterator[str]:
    """Yield versions of tables as text."""
    for number, version in enumerate(versions):
        if number:
            yield ""
        yield heading(version)
        yield f"  order key {version.key.text()}"
        if version.ddl and not version.ddl.lstrip().upper().startswith("CREATE TABLE"):
            yield f"  {one_line(version.ddl)}"
        if version.opaque:
            likely = "it is likely to be like this" if version.table is not None else "nothing else is known"
            yield f"  the DDL was not understood: table maps say what the table is; {likely}"
        if version.table is not None:
            yield create_sql(version.table)


def shown_sql(versions: Iterable[TableVersion]) -> Iterator[str]:
    """Yield the CREATE statements of versions."""
    for version in versions:
        if version.table is not None:
            yield f"-- {one_line(heading(version))}"
            yield from (f"{sql};" for sql in make_sql(version.table))


def history_text(changes: Sequence[VersionChange]) -> Iterator[str]:
    """Yield the versions of tables, oldest first, and what changed in each."""
    if not changes:
        yield "no versions in that stretch of history"
    for line, group in groupby(changes, key=lambda change: line_of(change.version)):
        versions = list(group)
        yield f"{name_of(line)}  {counted(len(versions), 'version')}"
        for change in versions:
            version = change.version
            yield f"  version {version.version_id}  {since(version.key)}  {made_by(version)}"
            yield f"    order key {version.key.text()}"
            if version.ddl:
                yield f"    {one_line(version.ddl)}"
            if change.kind in _KINDS:
                yield f"    {_KINDS[change.kind]}"
            for one in change.changes:
                yield f"    {change_text(one)}"


_KINDS = {"made": "+ table", "dropped": "- table", "same": "= the same shape", "opaque": "? table maps say what it is"}


def history_sql(changes: Iterable[VersionChange]) -> Iterator[str]:
    """Yield the DDL of the versions; for a version without DDL, its CREATE statement."""
    for change in changes:
        version = change.version
        yield f"-- {one_line(heading(version))}"
        if version.ddl:
            yield f"{version.ddl.rstrip().rstrip(';')};"
        elif version.table is not None:
            yield from (f"{sql};" for sql in make_sql(version.table))


def diff_text(diffs: Iterable[TableDiff]) -> Iterator[str]:
    """Yield the changes between two moments, and the ALTER TABLE for them."""
    for diff in diffs:
        before, after = ("not there" if v is None else f"version {v.version_id}" for v in (diff.before, diff.after))
        same = "" if diff.statements else ": the same"
        yield f"{name_of(diff.table)}{_now(diff)}  {before} -> {after}{same}"
        for change in diff.changes:
            yield f"  {change_text(change)}"
        yield from (f"-- unsafe: {one_line(text)}" for text in diff.unsafe)
        for statement in diff.statements:
            yield f"{statement};"


def _now(diff: TableDiff) -> str:
    """Return the name that a table has at the later moment, if it is another."""
    after = diff.after
    if after is None or (after.schema, after.name) == diff.table[1:]:
        return ""
    return f" -> {after.schema}.{after.name}"


def diff_sql(diffs: Iterable[TableDiff]) -> Iterator[str]:
    """Yield the statements between two moments; before those of a table which values they may lose."""
    for diff in diffs:
        yield from (f"-- unsafe: {one_line(text)}" for text in diff.unsafe)
        yield from statements_sql([(name_of(diff.table), diff.statements)])


def statements_sql(named: Iterable[tuple[str, Sequence[str]]]) -> Iterator[str]:
    """Yield statements, each after a comment with its name."""
    for name, statements in named:
        for statement in statements:
            yield f"-- {one_line(name)}"
            yield f"{statement};"


def change_text(change: TableChange) -> str:
    """Return a change on a single line: + added, - dropped, ~ changed, > moved."""
    match change:
        case ColumnAdded(column, after):
            return f"+ column {_column(column)} {_after(after)}"
        case ColumnDropped(column):
            return f"- column {_column(column)}"
        case ColumnChanged(before, after):
            return f"~ column {_column(before)} -> {_column(after)}"
        case ColumnMoved(name, after):
            return f"> column {name} {_after(after)}"
        case IndexAdded(index):
            return f"+ {_index(index)}"
        case IndexDropped(index):
            return f"- {_index(index)}"
        case IndexChanged(before, after):
            return f"~ {_index(before)} -> {_index(after)}"
        case _:
            return f"~ {change.option.replace('_', ' ')} {_plain(change.before)} -> {_plain(change.after)}"


def _column(column: Column) -> str:
    return one_line(column_sql(column, _ANY))


def _index(index: Index) -> str:
    return one_line(index_sql(index, _ANY))


def _after(column: str | None) -> str:
    return "first" if column is None else f"after {column}"


def _plain(value: Any) -> str:
    return str(value) if value else "none"


def skew_text(answer: SkewAt) -> Iterator[str]:
    """Yield which physical tables differ from their logical table, and how their rows are reshaped."""
    if not answer.compared:
        yield f"no physical tables are known at {answer.moment.text}"
        return
    differ = f"{len(answer.skews)} of them differ{'s' if len(answer.skews) == 1 else ''}"
    stops = sum(1 for skew in answer.skews if refused(skew))
    more = f", a merge stops at rows of {stops}" if stops else ""
    yield f"{counted(answer.compared, 'physical table')} at {answer.moment.text}, {differ} from the logical table{more}"
    for logical, group in groupby(sorted(answer.skews, key=_skew_place), key=lambda skew: skew.logical_name):
        skews = list(group)
        versions = {s.logical.version_id for s in skews if s.logical is not None}
        yield f"  {'.'.join(logical)}" + (f"  version {versions.pop()}" if versions else "")
        for skew in skews:
            physical = skew.physical
            place = f"{physical.node}  {physical.schema}.{physical.name}  version {physical.version_id}"
            yield f"    {place}: {reshape_text(skew)}"


def _skew_place(skew: Skew) -> Any:
    return (skew.logical_name, skew.physical.node, skew.physical.schema, skew.physical.name)


def reshape_text(skew: Skew) -> str:
    """Return how the rows of a physical table are reshaped."""
    if skew.columns is None:
        return "there is no such logical table then"
    parts = [f"trims {column.name} {type_sql(column.type)}" for column in skew.trimmed]
    parts += [f"pads {c.name} {type_sql(c.type)} with {pad_text(c)}" for c in skew.padded]
    parts += [f"converts {b.name} {type_sql(a.type)} -> {type_sql(b.type)}" for a, b in skew.converted]
    parts += ["reorders columns"] if skew.reordered else []
    if skew.physical.opaque or (skew.logical is not None and skew.logical.opaque):
        return "its DDL was not understood: table maps say how rows are reshaped"
    if not skew.reshaped:
        parts = ["rows pass as they are; " + ", ".join(change_text(change) for change in skew.changes)]
    return "; ".join([*parts, *(f"REFUSED, {reason}" for reason in refused(skew))])


def check_text(checked: Checked) -> Iterator[str]:
    """Yield the periods in which logical and physical tables did not match."""
    problems = [f for f in checked.findings if f.is_problem or refused_in(f)]
    yield (
        f"{counted(checked.logical_tables, 'logical table')}, {counted(checked.physical_tables, 'physical table')}, "
        f"{counted(checked.versions, 'version')}: {counted(len(checked.findings), 'finding')}, "
        f"{len(problems)} to look into"
    )
    for logical, group in groupby(checked.findings, key=lambda finding: finding.logical):
        yield f"  {'.'.join(logical)}"
        for together in _alike(list(group)):
            yield f"    {finding_text(together[0])}" if len(together) == 1 else f"    {_findings_text(together)}"


def _alike(findings: list[Finding]) -> Iterator[list[Finding]]:
    """Group findings that share a line: tables ahead of the same DDL in the same way. Problems stay alone."""
    groups: dict[Any, list[Finding]] = {}
    for number, finding in enumerate(findings):
        alone = finding.is_problem or finding.skew is None or bool(refused_in(finding))
        how = number if alone or finding.skew is None else (finding.kind, finding.ends, reshape_text(finding.skew))
        groups.setdefault(how, []).append(finding)
    yield from groups.values()


def _findings_text(findings: list[Finding]) -> str:
    first = findings[0]
    nodes = counted(len({finding.node for finding in findings}), "node")
    begins = min(finding.begins for finding in findings)
    ends = "" if first.ends is None else f" until {since(first.ends)}"
    how = "" if first.skew is None else f": {reshape_text(first.skew)}"
    return f"{first.kind}: {len(findings)} tables on {nodes}, from {since(begins)}{ends}{how}"


def finding_text(finding: Finding) -> str:
    """Return a finding on a single line."""
    if finding.physical is None:
        return f"{finding.kind}: no node has a physical table of it"
    place = f"{finding.node}  {'.'.join(finding.physical)}"
    if finding.kind == "no-logical-table":
        return f"{finding.kind}: {place}: the logical history has no table for it"
    ends = "" if finding.ends is None else f" until {since(finding.ends)}"
    how = "" if finding.skew is None else f": {reshape_text(finding.skew)}"
    later = [f"; REFUSED at some time, {reason}" for reason in refused_in(finding) if reason not in how]
    return f"{finding.kind}: {place}, from {since(finding.begins)}{ends}{how}{''.join(later)}"


def rows_text(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Iterator[str]:
    """Yield rows under their columns' names."""
    cells = [[_cell(value) for value in row] for row in rows]
    widths = [max(len(name), *(len(row[i]) for row in cells), 0) for i, name in enumerate(columns)]
    for row in [list(columns), ["-" * width for width in widths], *cells]:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
    yield f"({counted(len(rows), 'row')})"


def _cell(value: Any) -> str:
    return "NULL" if value is None else one_line(str(value))


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
    from binlog_merge.reshape.plan_of import refusals

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
