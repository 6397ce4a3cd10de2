"""What a merge tells its caller."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class NodeResult:
    """One node at the end of a run. `watermark` is a 54-digit key, None while the node has shown no commit TSO."""

    watermark: str | None
    holds_back: bool
    files: int
    read_to: str
    open_branches: int


@dataclass(frozen=True, slots=True)
class MergeResult:
    """What a run published and what it held back.

    `locks` are DDL of shards without markers that wait for other shards, `waiting` the branches that wait with them;
    `waiting_shards` says whose: node, schema, table, transactions, bytes, and since which order key.
    `files` are those written or grown by this run. `transactions` counts DDL too; `branches` the nodes' parts of them;
    `events` are output events; `rows_reshaped` rows that did not pass unchanged. `held` are branches at or above the
    watermark. `ignored` counts what does not come out and is not missing: unknown `events` that are marked as
    ignorable, `branches` that touch no table which comes out, `markers` that were taken up, and `ddl`, of which
    `statements` lists the first of each kind and reason.
    `left_out` are files that a node's `files` match and that were not read, with the reason;
    `read_again` published files that were checked byte by byte, for they were not as the last run left them.
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
    warnings: tuple[str, ...] = ()
    locks: tuple[Mapping[str, Any], ...] = ()
    waiting: int = 0
    waiting_shards: tuple[Mapping[str, Any], ...] = ()
    left_out: tuple[Mapping[str, str], ...] = ()
    read_again: tuple[str, ...] = ()
    stages: Mapping[str, float] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)
