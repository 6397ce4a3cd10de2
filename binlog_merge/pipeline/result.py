"""The result of a merge."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class NodeResult:
    """One node at the end of a run. `watermark` is a 54-digit key, None if the node has shown no commit TSO.

    `why` says what a node that holds the others back waits for, None if it does not.
    """

    watermark: str | None
    holds_back: bool
    files: int
    read_to: str
    open_branches: int
    why: str | None = None


@dataclass(frozen=True, slots=True)
class MergeResult:
    """What a run published and what it held back.

    `files` are the output files written or extended by this run. `transactions` includes DDL; `branches` are the nodes'
    parts of the transactions; `events` are output events; `rows_reshaped` are rows that did not pass unchanged. `held`
    are branches at or above the watermark.

    `locks` are DDL of shards without markers that wait for other shards, `waiting` the number of branches that wait
    with them. `waiting_shards` has these per shard: node, schema, table, transactions, bytes, and the first order key.

    `hidden` are the tables of gh-ost and pt-online-schema-change that are not part of the output, with the number of
    `rows` of theirs that this run has left out: node, schema, table, tool (None: not known yet), the table that each is
    a copy `of`, and its first and last order key.

    `ignored` counts input that is left out on purpose: unknown `events` that are flagged ignorable, `branches` that
    touch no output table, `markers` that were used up, and `ddl`, of which `statements` lists the first of each kind
    and reason. `left_out` are files that match a node's `files` but were not read, with the reason. `read_again` are
    published files that had changed since the last run and were checked byte by byte. `removed` is what `retention`
    took away: see `pipeline.retention`. `keys` is how far the run was looked through for keys of shards that collide:
    see `gather.collisions.looked_at`; empty if markers coordinate all tables. `dependencies` is what the transactions
    depend on (`reshape.writesets.Dependencies`); empty with `output.dependencies: commit-order`.
    """

    files: tuple[Mapping[str, Any], ...]
    watermark: str | None
    end_of_input: bool
    first_key: str | None
    last_key: str | None
    transactions: int
    branches: int
    events: int
    row_events: int
    rows_reshaped: int
    ddl: int
    input_bytes: int
    output_bytes: int
    held: int
    held_bytes: int
    held_back_by: str | None
    in_doubt: tuple[Mapping[str, Any], ...]
    nodes: Mapping[str, NodeResult]
    carrier: str | None
    ignored: Mapping[str, Any]
    hidden: tuple[Mapping[str, Any], ...] = ()
    warnings: tuple[str, ...] = ()
    locks: tuple[Mapping[str, Any], ...] = ()
    waiting: int = 0
    waiting_shards: tuple[Mapping[str, Any], ...] = ()
    left_out: tuple[Mapping[str, str], ...] = ()
    read_again: tuple[str, ...] = ()
    removed: Mapping[str, Any] = field(default_factory=dict)
    keys: Mapping[str, Any] = field(default_factory=dict)
    dependencies: Mapping[str, Any] = field(default_factory=dict)
    stages: Mapping[str, float] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)
