"""The schemas' part of the document: statements of the log, the nodes' own DDL, versions of tables, skew."""

from typing import Any

from binlog_merge.observe.report.facts import Facts
from binlog_merge.observe.report.times import time_text
from binlog_merge.observe.report.values import Version
from snapshot_store.tso import ORIGIN, OrderKey


def watersheds(facts: Facts) -> list[dict[str, Any]]:
    """Return the statements, with the versions that each made."""
    made: dict[int, list[tuple[str, Version]]] = {}
    for table, versions in ({} if facts.schemas is None else facts.schemas.versions).items():
        for version in versions:
            if version.key in facts.statement_of:
                made.setdefault(facts.statement_of[version.key].rank, []).append((table, version))
    return [
        {
            "rank": at.rank,
            "time": time_text(at.us),
            "us": at.us,
            "schema": at.schema,
            "sql": " ".join(at.sql.split()),
            "at": f"{at.file}:{at.position}",
            "order_key": next((v.key.text() for _, v in made.get(at.rank, ())), None),
            "origin": next((v.origin for _, v in made.get(at.rank, ())), None),
            "versions": [{"table": table, "version": v.number} for table, v in made.get(at.rank, ())],
        }
        for at in facts.log.statements
    ]


def node_ddl(facts: Facts) -> list[dict[str, Any]]:
    """Return the statements with which nodes changed their tables."""
    found = () if facts.schemas is None else facts.schemas.node_ddl
    return [
        {"node": d.node, "table": d.table, "sql": d.sql, "at": f"{d.file}:{d.position}", **_place(facts, d.key)}
        for d in found
    ]


def versions(facts: Facts) -> list[dict[str, Any]]:
    """Return the versions of each logical table, with what changed."""
    found = {} if facts.schemas is None else facts.schemas.versions
    return [
        {
            "table": table,
            "versions": [
                {
                    "version": v.number,
                    "origin": v.origin,
                    "kind": v.kind,
                    "sql": v.sql,
                    "changes": list(v.changes),
                    "read_from": v.place,
                    **_place(facts, v.key),
                }
                for v in versions
            ],
        }
        for table, versions in found.items()
    ]


def skew(facts: Facts) -> dict[str, Any] | None:
    """Return the stretches in which shapes differed, None if the store cannot be read."""
    if facts.schemas is None:
        return None
    return {
        "compared": dict(facts.schemas.compared),
        "spans": [
            {
                "kind": span.kind,
                "problem": span.problem,
                "table": span.table,
                "node": span.node,
                "physical": list(span.physical),
                "begins": _place(facts, span.begins),
                "ends": None if span.ends is None else _place(facts, span.ends),
                "how": span.how,
            }
            for span in facts.schemas.skews
        ],
    }


def _place(facts: Facts, key: OrderKey) -> dict[str, Any]:
    """Return where a key stands: the rank of the first transaction behind it, and its time."""
    statement, placed = facts.statement_of.get(key), facts.log.places.get(key)
    rank = us = None
    if statement is not None:
        rank, us = statement.rank + 1, statement.us
    elif placed is not None:
        rank, us = placed.rank, None if key == ORIGIN else placed.us
    return {"order_key": key.text(), "rank": rank, "us": us, "time": time_text(us)}
