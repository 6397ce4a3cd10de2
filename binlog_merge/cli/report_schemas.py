"""What a report says of schemas, in the words of `schema` and `ddl locks`: read from a log's schema store."""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from binlog_merge.cli.schema.text import change_text, one_line, refused, reshape_text
from binlog_merge.observe.report.values import NodeDdl, SchemaFacts, SkewSpan, Version
from binlog_merge.store_errors import as_merge_errors

if TYPE_CHECKING:
    from snapshot_store.ask.skew import Finding
    from snapshot_store.history import SchemaHistory
    from snapshot_store.store.db import Store

MOST_VERSIONS: Final = 250
MOST_NODE_DDL: Final = 500
MOST_SKEWS: Final = 200
_LONGEST: Final = 400
_MOST_CHANGES, _LONGEST_CHANGE = 12, 160


def schema_facts(path: Path, shown: str) -> SchemaFacts:
    """Return what the store at a path says; `shown` is its name for people. Raises MergeError if it cannot be read."""
    from snapshot_store.ask.skew import check
    from snapshot_store.store.db import Store

    with as_merge_errors(shown), Store.open(path, read_only=True) as store:
        history, topology, locks = store.load_history(), store.topology(), _locks(store)
        checked = check(history, topology)
    left_out: Counter[str] = Counter()
    return SchemaFacts(
        versions=_versions(history, left_out),
        node_ddl=_node_ddl(history, left_out),
        skews=_skews(checked.findings, left_out),
        compared={"logical": checked.logical_tables, "physical": checked.physical_tables, "versions": checked.versions},
        locks=locks,
        left_out=dict(left_out),
    )


def _locks(store: "Store") -> dict[str, Any] | None:
    """Return what is under way among shards, None where no shards are coordinated."""
    from binlog_merge.cli.ddl_text import locks_values
    from binlog_merge.pipeline.coordinate.shards.notes import DECISIONS, LOCKS, decisions_from_json, locks_from_json

    text = store.note(LOCKS)
    return (
        None
        if text is None
        else locks_values(locks_from_json(text), decisions_from_json(store.note(DECISIONS) or "[]"))
    )


def _versions(history: "SchemaHistory", left_out: Counter[str]) -> dict[str, tuple[Version, ...]]:
    """Return the versions of logical tables, by table; of too many, the last ones."""
    from snapshot_store.ask.questions import history as versions_of

    changes = versions_of(history, [(None, *name) for name in history.names()])
    kept = sorted(changes, key=lambda change: change.version.key)[-MOST_VERSIONS:]
    left_out["versions"] += len(changes) - len(kept)
    found: dict[str, list[Version]] = {}
    for change in kept:
        version = change.version
        place = f"{version.file}:{version.position}" if version.position else version.file
        found.setdefault(f"{version.schema}.{version.name}", []).append(
            Version(
                version.key, version.version_id, version.origin, change.kind, one_line(version.ddl)[:_LONGEST],
                tuple(_few(change_text(one) for one in change.changes)), "" if version.origin == "base" else place,
            )
        )  # fmt: skip
    return {table: tuple(versions) for table, versions in sorted(found.items())}


def _few(lines: Iterable[str]) -> Iterator[str]:
    for number, line in enumerate(lines):
        if number == _MOST_CHANGES:
            yield "… and more: see `schema history`"
            return
        yield line if len(line) <= _LONGEST_CHANGE else f"{line[:_LONGEST_CHANGE]}…"


def _node_ddl(history: "SchemaHistory", left_out: Counter[str]) -> tuple[NodeDdl, ...]:
    """Return the statements with which nodes changed their tables; one that changed several tables once."""
    found: dict[Any, NodeDdl] = {}
    for version in history.versions:
        if version.node is not None and version.ddl and version.origin == "ddl":
            table = f"{version.schema}.{version.name}"
            ddl = NodeDdl(
                version.key, version.node, table, one_line(version.ddl)[:_LONGEST], version.file, version.position
            )
            found.setdefault((version.node, version.key), ddl)
    ordered = sorted(found.values(), key=lambda ddl: (ddl.key, ddl.node))
    left_out["node_ddl"] += max(0, len(ordered) - MOST_NODE_DDL)
    return tuple(ordered[-MOST_NODE_DDL:])


def _skews(findings: "Iterable[Finding]", left_out: Counter[str]) -> tuple[SkewSpan, ...]:
    """Return the spans in which shapes differed; those of a node's tables that differ alike are one."""
    groups: dict[Any, tuple[Finding, list[str], str]] = {}
    for finding in findings:
        how = "" if finding.skew is None else reshape_text(finding.skew)
        name = "" if finding.physical is None else ".".join(finding.physical)
        place = (finding.logical, finding.node, finding.kind, finding.ends, how)
        known = groups.get(place)
        if known is None:
            groups[place] = (finding, [name], how)
        else:
            first = finding if finding.begins < known[0].begins else known[0]
            groups[place] = (first, [*known[1], name], how)
    spans = [_span(*group) for group in groups.values()]
    spans.sort(key=lambda span: (not span.problem, span.begins, span.node or ""))
    left_out["skews"] += max(0, len(spans) - MOST_SKEWS)
    return tuple(spans[:MOST_SKEWS])


def _span(finding: "Finding", names: list[str], how: str) -> SkewSpan:
    problem = finding.is_problem or (finding.skew is not None and bool(refused(finding.skew)))
    physical = tuple(name for name in names if name)
    table = ".".join(finding.logical)
    return SkewSpan(finding.kind, problem, table, finding.node, physical, finding.begins, finding.ends, how)
