"""Makes the document of a report, plain values that `-o json` prints and the page shows, from facts.

Texts, numbers and lists only: order keys and TSOs are strings, times RFC 3339 with Z. What a histogram counts is a flat
list: number of a bin, count, number, count… A bin is `width` µs (or ranks) wide; the first begins at `start`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from binlog_merge.files.manifest import ManifestState
from binlog_merge.observe.report.bins import sparse
from binlog_merge.observe.report.facts import Facts
from binlog_merge.observe.report.schemas import node_ddl, skew, versions, watersheds
from binlog_merge.observe.report.timeline import MOST_LANES, timeline
from binlog_merge.observe.report.times import key_time, time_text
from binlog_merge.observe.report.values import SHARED, UNKNOWN, LogFacts, TableCounts
from snapshot_store.tso import OrderKey, carries_time

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
    found: list[dict[str, Any]] = []
    stopped = facts.log.stopped
    if stopped is not None:
        places = (("file", stopped.get("file")), ("position", stopped.get("position")))
        where = ", ".join(f"{name} {value}" for name, value in places if value is not None)
        what = f"the log cannot be read on: {stopped['message']}{f' ({where})' if where else ''}"
        text = f"{what}; what to do: {stopped['remedy']}" if stopped["remedy"] else what
        found.append({"severity": "error", "code": stopped["code"], "node": None, "text": text})
    return found + facts.running.problems(facts.state)


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
