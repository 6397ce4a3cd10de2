"""All that a report is made of, and which statement of the log made which version.

`Running` is what the log's manifest and the note of its last run say: watermarks, who held back, what is held, what
went wrong. The note is there where the last merge could write it; what only it knows is None without it. With the
cluster's configuration `status` looks at the nodes as well.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from binlog_merge.files.manifest import ManifestState
from binlog_merge.observe.report.values import LogFacts, NodeLanes, SchemaFacts, StatementFact, key_time, time_text
from binlog_merge.observe.status.values import Status
from snapshot_store.tso import ORIGIN, OrderKey

LATE: Final = ("merge-late", "watermark-late")
"""Codes of `observe.status.health` that compare a log with the clock."""


@dataclass(frozen=True, slots=True)
class Running:
    """The note of the last run (`pipeline.summary`), empty where there is none, and the status if nodes are known."""

    note: Mapping[str, Any] = field(default_factory=dict)
    status: Status | None = None

    def watermark(self, state: ManifestState) -> dict[str, Any]:
        """Return the global watermark and who holds it back."""
        last, known = state.last, bool(self.note)
        key = None if last is None or last.watermark == ORIGIN.text() else last.watermark
        holder = self.note.get("held_back_by")
        nodes: Mapping[str, Any] = self.note.get("nodes") or {}
        return {
            "order_key": key,
            "time": key_time(key),
            "end_of_input": last is not None and last.end_of_input,
            "last_key": None if last is None else last.last_key,
            "held_back_by": holder,
            "why": (nodes.get(holder) or {}).get("why") if holder else None,
            "known": known,
            "run_at": time_text(round(float(self.note["at"]) * 1_000_000)) if known else None,
        }

    def nodes(self, state: ManifestState) -> list[dict[str, Any]]:
        """Return what is known of each node."""
        numbers = {} if state.header is None else state.header.node_numbers
        noted: Mapping[str, Any] = self.note.get("nodes") or {}
        seen = {} if self.status is None else self.status.nodes
        names = {*numbers, *noted, *seen}
        return [self._node(name, state, numbers, noted.get(name) or {}) for name in sorted(names, key=_order(numbers))]

    def _node(
        self, name: str, state: ManifestState, numbers: Mapping[str, int], noted: Mapping[str, Any]
    ) -> dict[str, Any]:
        known = None if state.last is None else state.last.nodes.get(name)
        read_to = None if known is None else f"{known.scan_end_file}:{known.scan_end_position}"
        seen = None if self.status is None else self.status.nodes.get(name)
        watermark = noted.get("watermark")
        return {
            "node": name,
            "number": numbers.get(name),
            "watermark": watermark,
            "watermark_time": key_time(watermark),
            "holds_back": noted.get("holds_back"),
            "why": noted.get("why"),
            "gone": noted.get("gone"),
            "read_to": noted.get("read_to") or read_to,
            "open_branches": noted.get("open_branches"),
            "captured": None if seen is None or seen.captured is None else str(seen.captured),
            "unread_bytes": None if seen is None else seen.unread_bytes,
            "capture": None if seen is None or seen.capture is None else seen.capture.state,
        }

    def held(self) -> dict[str, Any] | None:
        """Return what was read and is not in the log; None where no note says it."""
        if not self.note:
            return None
        return {
            "branches": self.note.get("held", 0),
            "bytes": self.note.get("held_bytes", 0),
            "waiting": self.note.get("waiting", 0),
            "open_branches": [_branch(found) for found in self.note.get("open_branches") or ()],
        }

    def problems(self, state: ManifestState) -> list[dict[str, Any]]:
        """Return the error of the last run, what `status` finds, and the warnings.

        That a merge is late is no error of one that was told that its input ends.
        """
        late = LATE if state.last is not None and state.last.end_of_input else ()
        problems = []
        error = self.note.get("error")
        if error is not None and self.status is None:
            problems.append(_stopped(error))
        if self.status is not None:
            problems += [
                {
                    "severity": "warning" if p.code in late else str(p.severity),
                    "code": p.code,
                    "node": p.node,
                    "text": p.text,
                }
                for p in sorted(self.status.problems, key=lambda p: p.severity != "error")
            ]
        warnings = self.note.get("warnings") or ()
        problems += [{"severity": "warning", "code": "warning", "node": None, "text": str(text)} for text in warnings]
        more = int(self.note.get("warnings_count") or 0) - len(warnings)
        if more > 0:
            text = f"and {more} more warnings of the last run, which its own output has"
            problems.append({"severity": "warning", "code": "warning", "node": None, "text": text})
        return problems


def _branch(found: Mapping[str, Any]) -> dict[str, Any]:
    place = {name: found.get(name) for name in ("node", "file", "position")}
    return {**place, "transaction_id": str(found.get("transaction_id"))}


def _stopped(error: Mapping[str, Any]) -> dict[str, Any]:
    places = (("node", "node"), ("file", "file"), ("position", "position"), ("order key", "order_key"))
    where = ", ".join(f"{word} {error[name]}" for word, name in places if error.get(name) is not None)
    text = f"the last run stopped: {error.get('message')}{f' ({where})' if where else ''}"
    remedy = f"; what to do: {error['remedy']}" if error.get("remedy") else ""
    return {"severity": "error", "code": error.get("code"), "node": error.get("node"), "text": f"{text}{remedy}"}


def _order(numbers: Mapping[str, int]) -> Any:
    return lambda name: (numbers.get(name, 1 << 30), name)


@dataclass(frozen=True)
class Facts:
    """All that a report is made of. `unknown` says what could not be found out, and why."""

    place: str
    made_at: float
    version: str
    state: ManifestState
    log: LogFacts
    schemas: SchemaFacts | None
    nodes: NodeLanes | None
    running: Running
    unknown: tuple[str, ...] = ()

    @cached_property
    def statement_of(self) -> Mapping[OrderKey, StatementFact]:
        """Return the statement in the log of each key at which logical tables have a version."""
        return _statements_of(self.log, self.schemas)


def _statements_of(log: LogFacts, schemas: SchemaFacts | None) -> dict[OrderKey, StatementFact]:
    """Return the statement of each key at which logical tables have a version.

    The log has no keys of statements. It has those of the transactions before and behind: of the statements between
    these, it is the one with the version's text, or the only one.
    """
    at_rank = {at.rank: at for at in log.statements}
    statements: dict[OrderKey, StatementFact] = {}
    taken: set[int] = set()
    versions = {v.key: v for vs in ({} if schemas is None else schemas.versions).values() for v in vs}
    for key in sorted(versions):
        if key not in log.places or versions[key].origin in ("base", "operator"):
            continue
        between: list[StatementFact] = []
        rank = log.places[key].rank - 1
        while rank in at_rank:
            between.append(at_rank[rank])
            rank -= 1
        alike = [at for at in between if _same_text(at.sql, versions[key].sql) and at.rank not in taken]
        chosen = alike[-1] if alike else between[0] if len(between) == 1 else None
        if chosen is not None:
            taken.add(chosen.rank)
            statements[key] = chosen
    return statements


def _same_text(a: str, b: str) -> bool:
    a, b = " ".join(a.split()), " ".join(b.split())
    least = min(len(a), len(b))
    return a == b or (least >= 400 and a[:least] == b[:least])  # both may be cut
