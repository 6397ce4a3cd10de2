"""The timeline's part of the document: lanes as histograms by time and by rank, and the transactions of a small log."""

from typing import Any, Final

from binlog_merge.observe.report.bins import sparse
from binlog_merge.observe.report.facts import Facts
from binlog_merge.observe.report.times import time_text
from binlog_merge.observe.report.values import FIRST_NODE, SHARED, STATEMENTS, UNKNOWN, LogFacts, NodeLanes

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
