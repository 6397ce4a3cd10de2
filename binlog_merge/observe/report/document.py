"""Makes the document of a report, plain values that `-o json` prints and the page shows, from facts.

Texts, numbers and lists only: order keys and TSOs are strings, times RFC 3339 with Z. What a histogram counts is a flat
list: number of a bin, count, number, count… A bin is `width` µs (or ranks) wide; the first begins at `start`.

Its parts: the timeline, lanes as histograms by time and by rank, and the transactions of a small log; the schemas,
statements of the log, the nodes' own DDL, versions of tables, skew.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from binlog_merge.files.manifest import ManifestState
from binlog_merge.observe.report.facts import Facts
from binlog_merge.observe.report.values import (
    FIRST_NODE,
    SHARED,
    STATEMENTS,
    UNKNOWN,
    LogFacts,
    NodeLanes,
    TableCounts,
    Version,
    key_time,
    sparse,
    time_text,
)
from snapshot_store.tso import ORIGIN, OrderKey, carries_time

MOST_TABLES: Final = 300
MOST_SERIES: Final = 24
MOST_FILES: Final = 400


def document(facts: Facts) -> dict[str, Any]:
    """Return the document."""
    state, log = facts.state, facts.log
    return {
        "merged": facts.place,
        "made_at": time_text(round(facts.made_at * 1_000_000)),
        "version": facts.version,
        "cluster": _cluster(state),
        "log": _log(state, log),
        "problems": _problems(facts),
        "unknown": [*facts.unknown, *_unknown(facts)],
        "watermark": facts.running.watermark(state),
        "nodes": facts.running.nodes(state),
        "held": facts.running.held(),
        "coordinations": None if facts.schemas is None else facts.schemas.locks,
        "timeline": timeline(facts),
        "watersheds": watersheds(facts),
        "node_ddl": node_ddl(facts),
        "tables": _tables(log),
        "versions": versions(facts),
        "skew": skew(facts),
        "files": _files(state),
        "left_out": _left_out(facts),
    }


def _cluster(state: ManifestState) -> dict[str, Any] | None:
    header = state.header
    if header is None:
        return None
    return {
        "name": header.name,
        "uuid": header.cluster_uuid,
        "server_version": header.server_version,
        "carrier": header.carrier,
        "shard_mode": header.settings.get("shard-mode"),
        "node_numbers": dict(header.node_numbers),
    }


def _log(state: ManifestState, log: LogFacts) -> dict[str, Any]:
    files, last, gone = state.files, state.last, state.gone
    return {
        "transactions": log.transactions,
        "published": sum(file.transactions for file in files),
        "statements": log.statement_count,
        "rows": sum(table.rows for table in log.tables),
        "first_rank": files[0].first_rank if files else None,
        "last_rank": files[-1].last_rank if files else None,
        "first_key": files[0].first_key if files else None,
        "last_key": files[-1].last_key if files else None,
        "from": time_text(log.first_us),
        "to": time_text(log.last_us),
        "bytes": sum(file.size for file in files),
        "files": len(files),
        "run": state.run,
        "totals": {} if last is None else dict(last.totals),
        "removed": None
        if gone is None
        else {"files": gone.files, "bytes": gone.bytes, "last_rank": gone.last_rank, "last_file": gone.last_name},
    }


def _problems(facts: Facts) -> list[dict[str, Any]]:
    """Return what is wrong: damage of the log, then what stopped the last run or what `status` finds, then warnings."""
    problems: list[dict[str, Any]] = []
    stopped = facts.log.stopped
    if stopped is not None:
        places = (("file", stopped.get("file")), ("position", stopped.get("position")))
        where = ", ".join(f"{name} {value}" for name, value in places if value is not None)
        what = f"the log cannot be read on: {stopped['message']}{f' ({where})' if where else ''}"
        text = f"{what}; what to do: {stopped['remedy']}" if stopped["remedy"] else what
        problems.append({"severity": "error", "code": stopped["code"], "node": None, "text": text})
    return problems + facts.running.problems(facts.state)


def _unknown(facts: Facts) -> Iterable[str]:
    log, nodes = facts.log, facts.nodes
    if nodes is None and int(log.by_time.series(SHARED).sum()):
        yield (
            "Which nodes took part in a transaction with a commit TSO of its own: a merged log does not record it. "
            "Give --config with the cluster's configuration, where its nodes' files can be read."
        )
    if int(log.by_time.series(UNKNOWN).sum()):
        yield "The order keys, and so the nodes, of the transactions in the lane “key not in the log”."
    if nodes is not None and not nodes.matches:
        yield (
            f"The nodes’ lanes by rank: the nodes’ files have {nodes.found:,} of the log’s {nodes.published:,} "
            "transactions, or number the nodes otherwise. By time, the lanes show what the files have."
        )
    if log.first_us is not None and not _timed(facts.state):
        yield "Times of commit TSOs: they carry none here. Times are the commit times in the log’s GTID events."


def _timed(state: ManifestState) -> bool:
    return bool(state.files) and carries_time(OrderKey.parse(state.files[-1].last_key).commit_tso)


def _tables(log: LogFacts) -> list[dict[str, Any]]:
    numbers = sorted(
        range(len(log.tables)), key=lambda n: (-log.tables[n].rows, log.tables[n].schema, log.tables[n].name)
    )
    return [_table(log, n, log.tables[n], place < MOST_SERIES) for place, n in enumerate(numbers[:MOST_TABLES])]


def _table(log: LogFacts, number: int, table: TableCounts, series: bool) -> dict[str, Any]:
    return {
        "schema": table.schema,
        "table": table.name,
        "inserted": table.inserted,
        "updated": table.updated,
        "deleted": table.deleted,
        "rows": table.rows,
        "bytes": table.bytes,
        "first": time_text(table.first_us),
        "last": time_text(table.last_us),
        "rows_by_time": {**log.rows_by_time.axis(), "counts": sparse(log.rows_by_time.series(number))}
        if series
        else None,
    }


def _files(state: ManifestState) -> list[dict[str, Any]]:
    return [
        {
            "name": file.name,
            "size": file.size,
            "closed": file.closed,
            "transactions": file.transactions,
            "first_rank": file.first_rank,
            "last_rank": file.last_rank,
            "first_key": file.first_key,
            "last_key": file.last_key,
            "from": key_time(file.first_key),
            "to": key_time(file.last_key),
            "sha256": file.sha256,
        }
        for file in state.files[-MOST_FILES:]
    ]


def _left_out(facts: Facts) -> dict[str, int]:
    log, lanes = facts.log, facts.nodes.nodes if facts.nodes is not None else facts.log.lanes
    counts: Sequence[tuple[str, int]] = (
        ("statements", log.statement_count - len(log.statements)),
        ("tables", len(log.tables) - MOST_TABLES),
        ("files", len(facts.state.files) - MOST_FILES),
        ("lanes", len(lanes) - MOST_LANES),
    )
    known: Mapping[str, int] = {} if facts.schemas is None else facts.schemas.left_out
    return {name: count for name, count in (*counts, *known.items()) if count > 0}


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
    statements = () if facts.schemas is None else facts.schemas.node_ddl
    return [
        {"node": d.node, "table": d.table, "sql": d.sql, "at": f"{d.file}:{d.position}", **_place(facts, d.key)}
        for d in statements
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


MOST_LANES: Final = 200


def timeline(facts: Facts) -> dict[str, Any]:
    """Return lanes, axes and transactions. Lanes of nodes have axes of their own: their files may have less."""
    log, nodes = facts.log, facts.nodes
    lanes = _lanes_of_log(log, nodes is not None)
    if nodes is not None:
        lanes += _lanes_of_nodes(nodes)
    return {
        "source": "merged log" if nodes is None else "merged log and nodes' files",
        "time": log.by_time.axis(),
        "rank": log.by_rank.axis(),
        "node_time": None if nodes is None else nodes.by_time.axis(),
        "node_rank": None if nodes is None or not nodes.matches else nodes.by_rank.axis(),
        "lanes": _fewest(lanes),
        "bytes": {
            "time": {**log.bytes_by_time.axis(), "counts": sparse(log.bytes_by_time.series(0))},
            "rank": {**log.bytes_by_rank.axis(), "counts": sparse(log.bytes_by_rank.series(0))},
        },
        "transactions": _detail(log, nodes),
    }


def _lanes_of_log(log: LogFacts, nodes_known: bool) -> list[dict[str, Any]]:
    kinds = {SHARED: "shared", UNKNOWN: "unknown", STATEMENTS: "statements"}
    lanes = []
    for number, name in enumerate(log.lanes):
        count = int(log.by_time.series(number).sum())
        if (nodes_known and number != STATEMENTS) or (number < FIRST_NODE and not count):
            continue
        lanes.append(
            {
                "lane": number,
                "name": name,
                "kind": kinds.get(number, "local"),
                "transactions": count,
                "time": sparse(log.by_time.series(number)),
                "rank": sparse(log.by_rank.series(number)),
            }
        )
    return lanes


def _lanes_of_nodes(nodes: NodeLanes) -> list[dict[str, Any]]:
    return [
        {
            "lane": FIRST_NODE + number,
            "name": name,
            "kind": "node",
            "transactions": nodes.branches[number],
            "time": sparse(nodes.by_time.series(number)),
            "rank": sparse(nodes.by_rank.series(number)) if nodes.matches else None,
        }
        for number, name in enumerate(nodes.nodes)
    ]


def _fewest(lanes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the lanes, of too many the busiest ones, in their order."""
    if len(lanes) <= MOST_LANES:
        return lanes
    busiest = sorted(lanes, key=lambda lane: -int(lane["transactions"]))[:MOST_LANES]
    return [lane for lane in lanes if lane in busiest]


def _detail(log: LogFacts, nodes: NodeLanes | None) -> list[dict[str, Any]] | None:
    if log.detail is None:
        return None
    names = [f"{table.schema}.{table.name}" for table in log.tables]
    found = []
    for at in log.detail:
        lanes = [at.lane]
        if nodes is not None and at.lane != STATEMENTS:
            lanes = [FIRST_NODE + number for number in nodes.nodes_of.get(at.rank, ())]
        found.append(
            {
                "rank": at.rank,
                "time": time_text(at.us),
                "us": at.us,
                "lanes": lanes,
                "bytes": at.bytes,
                "rows": at.rows,
                "tables": [names[number] for number in at.tables],
                "order_key": at.key,
                "at": f"{at.file}:{at.position}",
            }
        )
    return found
