"""All that a report is made of, and which statement of the log made which version."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from binlog_merge.files.manifest import ManifestState
from binlog_merge.observe.report.running import Running
from binlog_merge.observe.report.values import LogFacts, NodeLanes, SchemaFacts, StatementFact
from snapshot_store.tso import OrderKey


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
    found: dict[OrderKey, StatementFact] = {}
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
            found[key] = chosen
    return found


def _same_text(a: str, b: str) -> bool:
    a, b = " ".join(a.split()), " ".join(b.split())
    least = min(len(a), len(b))
    return a == b or (least >= 400 and a[:least] == b[:least])  # both may be cut
