"""A status as text for people."""

from collections.abc import Iterator, Sequence

from binlog_merge.cli.output import ago, decimal_size, seconds_text
from binlog_merge.json_values import unix_time_text
from binlog_merge.observe.status.health import waiting_text
from binlog_merge.observe.status.values import (
    LeaseStatus,
    MergedStatus,
    NodeStatus,
    ReaderStatus,
    ReplicaStatus,
    Severity,
    Status,
    Watermark,
)


def lines_of(status: Status) -> Iterator[str]:
    """Yield the lines of a status."""
    yield f"{status.name}: {_health(status)}"
    texts = {severity: [p.text for p in status.problems if p.severity is severity] for severity in Severity}
    yield from _rows("errors", texts[Severity.error])
    yield from _rows("to look at", texts[Severity.warning])
    if status.merged is not None:
        yield from _merged(status, status.merged)
    if (lease := status.lease) is not None:
        yield from _rows("lead", list(_lease(lease)))
    decided = [" ".join(f"{one.id}: {one.action} {one.of}".split()) for one in status.decisions]
    more = status.decisions_count - len(decided)
    yield from _rows("decided", [*([f"{more} more, and"] if more > 0 else []), *decided])
    yield from _rows("nodes", _table([_node(name, node, status.at) for name, node in status.nodes.items()]))
    yield from _rows("servers", _table([row for name, node in status.nodes.items() for row in _servers(name, node)]))
    holding = [f"{name}: {node.holds_back}" for name, node in status.nodes.items() if node.holds_back]
    yield from _rows("held back", holding)
    listed = [f"{b.node}  {b.file}:{b.position}  transaction {b.transaction_id}" for b in status.open_branches]
    more = status.open_branches_count - len(listed)
    yield from _rows("prepared", [*listed, f"and {more} more branches"] if listed and more > 0 else listed)
    for serve in status.serves:
        if not serve.silent:
            readers = _table([_reader(reader) for reader in serve.readers])
            yield from _rows("serve", [f"{serve.address}: {_count(len(serve.readers), 'reader')}"])
            asked = _table([_replica(replica) for replica in serve.replicas])
            yield from (f"  {'':<10}   {line}" for line in (*readers, *asked))
    if (archive := status.archive) is not None:
        waiting = f"; {_count(archive.waiting_files, 'file')}, {decimal_size(archive.waiting_bytes)} wait"
        there = f"{_count(archive.files, 'file')}, {decimal_size(archive.bytes)} at {archive.to}"
        since = f"{there}{waiting if archive.waiting_files else ''}{'' if archive.active else '; nothing is sent now'}"
        yield from _rows("archive", [since])
    more = status.warnings_count - len(status.warnings)
    yield from _rows("warnings", [*status.warnings, *([f"and {more} more"] if more > 0 else [])])


def _lease(lease: LeaseStatus) -> Iterator[str]:
    here = {True: " (this run)", False: "", None: ""}[lease.leads]
    since = f" since {lease.since}" if lease.since else ""
    how = "leads" if lease.held else "has released the lease" if lease.released else "is silent"
    yield f"{lease.holder}{here} {how}, epoch {lease.epoch}{since}, renewed {ago(lease.age_seconds)}"
    if lease.wanted_by is not None:
        yield f"to be handed over to {lease.wanted_by}"
    yield f"{', '.join(lease.standbys) or 'nobody'} waits"


def _health(status: Status) -> str:
    if status.healthy:
        return "healthy"
    return "STOPPED" if all(problem.code == "capture-stopped" for problem in status.reasons) else "NOT HEALTHY"


def _merged(status: Status, merged: MergedStatus) -> Iterator[str]:
    size = f"{_count(merged.files, 'file')}, {decimal_size(merged.output_bytes)}"
    counted = f"{merged.transactions:,} transactions ({merged.totals.get('ddl', 0):,} of them DDL) in {size}"
    yield from _rows("merged", [f"{counted}, up to {merged.end}", f"published {ago(status.at - merged.published_at)}"])
    if merged.puts_an_hour is not None:
        yield from _rows("store", [f"{merged.puts_an_hour:,} requests an hour that write"])
    if merged.removed_at is not None:
        gone = f"{_count(merged.removed_files, 'file')}, {decimal_size(merged.removed_bytes)}"
        captured = (
            f"{_count(merged.removed_captured_files, 'captured file')}, {decimal_size(merged.removed_captured_bytes)}"
        )
        both = f"{gone} of the output; {captured}; last {ago(status.at - merged.removed_at)}"
        yield from _rows("removed", [f"{both}; the first file is {merged.first_file}"])
    yield from _rows("watermark", ["end of input" if merged.end_of_input else _watermark(merged.watermark)])
    if merged.held:
        yield from _rows("held", [f"{_count(merged.held, 'branch', 'branches')}, {decimal_size(merged.held_bytes)}"])
    if merged.locks:
        yield from _rows("DDL", [f"{merged.locks:,} of shards wait for other shards: see `binlog-merge ddl locks`"])
    if merged.waiting:
        yield from _rows("waiting", [f"{_count(merged.waiting, 'branch', 'branches')} of shards wait for a DDL"])
    listed = [f"{ddl.table}: {ddl.stage}, {waiting_text(ddl)}" for ddl in merged.waiting_ddl]
    more = merged.locks - len(listed)
    yield from _rows("DDL", [*listed, *([f"and {more} more"] if more > 0 else [])])
    if (rates := status.rates) is not None:
        per_second = f"{rates.transactions:,.1f} transactions/s, {decimal_size(rates.bytes)}/s of input"
        yield from _rows("rate", [f"{per_second} over {rates.seconds:.0f} s"])
    if (ddl := status.last_ddl) is not None:
        sql = " ".join(ddl.sql.split())
        place = f"at {ddl.key} in {ddl.file or 'a file that is gone'}"
        when = "" if ddl.time is None else f", {unix_time_text(ddl.time)}"
        yield from _rows("last DDL", [sql if len(sql) <= 100 else f"{sql[:97]}...", f"{place}{when}"])


def _node(name: str, node: NodeStatus, now: float) -> list[str]:
    captured = "no files" if node.captured is None else f"captured {node.captured}"
    grew = "" if node.captured_at is None else ago(now - node.captured_at)
    read = "not read" if node.read is None else f"read to {node.read}"
    behind = "" if not node.unread_bytes else f"{decimal_size(node.unread_bytes)} behind"
    return [name, captured, grew, read, behind, f"watermark {_watermark(node.watermark)}"]


def _servers(name: str, node: NodeStatus) -> Iterator[list[str]]:
    """Yield the servers of a node that has failed over."""
    for number, server in enumerate(node.servers if len(node.servers) > 1 else ()):
        since = "the first" if server.since is None else f"since {unix_time_text(server.since)}"
        last = number + 1 == len(node.servers)
        ends = "is captured" if last else "left" if server.ends is None else f"left after {server.ends}"
        yield [name if number == 0 else "", server.server_uuid or "not known", server.server or "", since, ends]


def _reader(reader: ReaderStatus) -> list[str]:
    who = f"{reader.peer}, server id {reader.server_id}"
    if not reader.behind_bytes:
        return [who, f"at {reader.sent}", "was sent everything"]
    late = "" if reader.lag_seconds is None else f", {reader.lag_seconds:.1f} s"
    return [who, f"at {reader.sent}", f"{decimal_size(reader.behind_bytes)}{late} behind"]


def _replica(replica: ReplicaStatus) -> list[str]:
    if replica.applies is None:
        return [replica.server, replica.text]
    error = f", error {replica.error}" if replica.error else ""
    return [replica.server, "applies" if replica.applies else f"STOPPED{error}: {replica.text}"]


def _watermark(watermark: Watermark | None) -> str:
    if watermark is None:
        return "none yet"
    if watermark.time is None or watermark.lag_seconds is None:
        return f"{watermark.key}, which carries no time"
    return f"{unix_time_text(watermark.time)}, {seconds_text(watermark.lag_seconds)} behind"


def _count(number: int, noun: str, plural: str = "") -> str:
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def _rows(title: str, values: Sequence[str]) -> list[str]:
    return [f"  {title if i == 0 else '':<10} {value}" for i, value in enumerate(values)]


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows with their columns aligned; a column that is empty everywhere goes."""
    columns = [column for column in zip(*rows, strict=True) if any(column)]
    widths = [max(map(len, column)) for column in columns]
    return [
        "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip()
        for row in zip(*columns, strict=True)
    ]
