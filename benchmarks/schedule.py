"""What the generated cluster does: transactions drawn at random, and what each node's binlog holds of them, in order.

A distributed transaction is prepared on two nodes, gets its TSO after both prepares, and then commits on each node: a
row in the commit table, and XA COMMIT. So a branch prepared after a commit in the same binlog has a greater TSO than
that commit, as in a real cluster. "Unkind" delays each node's commit at random, so that nodes commit in another order
than that of the TSOs; draws sizes from a heavy tail; and gives the nodes unequal shares.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from benchmarks.tables import Mode

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

# Columns of a node's groups.
(
    G_KIND,
    G_TRANSACTION,  # transaction id, the number behind "drds-"
    G_TSO,
    G_COMMIT_US,
    G_TABLE,  # index of the first statement's table on the node
    G_ROWS,
    G_STATEMENTS,
    G_OPERATION,
    G_COLUMNS,
) = range(9)
LOCAL, PREPARE, COMMIT_ROW, XA_COMMIT = range(4)  # G_KIND
INSERT, UPDATE, DELETE = range(3)  # G_OPERATION

FIRST_MILLIS = 1_790_000_000_000
TRANSACTIONS_PER_MILLISECOND = 20
FIRST_TRANSACTION = 0x17C2_0000_0000_0000
GIANT = 40 << 20  # bytes of the largest transaction, unkind
TAIL = 1.1  # exponent of the sizes' Pareto distribution, unkind


@dataclass(frozen=True)
class Workload:
    """What to generate. `size` counts the bytes of all nodes' files; `window` is the delay, in transactions, of an
    unkind commit.
    """

    size: int = 2_000_000_000
    nodes: int = 4
    mode: Mode = "identity"
    unkind: bool = False
    distributed: float = 0.2
    shapes: tuple[str, ...] = ("orders",)  # the commonest kind of row; "counters" are tiny, "documents" large
    tables_per_shape: int = 2
    skew: float = 1.0
    window: int = 400
    file_size: int = 1 << 30
    seed: int = 20261121


@dataclass(frozen=True)
class Sizes:
    """What the drawn numbers come to in bytes: a row image of each table, a statement's events without its rows, a
    local transaction's frame, and what distributing one adds.
    """

    row: Floats
    statement: float
    frame: float = 176.0
    distributed: float = 2700.0


def node_shares(workload: Workload) -> Floats:
    """Return each node's share of the transactions."""
    shares = 1.0 / np.arange(1, workload.nodes + 1) ** (workload.skew if workload.unkind else 0.0)
    return np.asarray(shares / shares.sum(), np.float64)


def schedule(workload: Workload, sizes: Sizes, weights: Sequence[float]) -> list[Ints]:
    """Return the groups of each node's binlog, in their order, for about `workload.size` bytes."""
    r = np.random.default_rng(workload.seed)
    drawn = _Drawn.draw(workload, r, sizes, np.asarray(weights, np.float64))
    groups = []
    for node in range(workload.nodes):
        groups.append(_node(workload, drawn, node))
    return groups


@dataclass(frozen=True)
class _Drawn:
    """One entry per transaction, in the order they begin; time counts transactions."""

    home: Ints
    other: Ints  # -1: local
    tso: Ints
    prepare_at: Floats
    commit_at: tuple[Floats, Floats]  # on home, on other
    table: Ints
    rows: tuple[Ints, Ints]
    statements: Ints
    operation: Ints

    @classmethod
    def draw(cls, workload: Workload, r: np.random.Generator, sizes: Sizes, weights: Floats) -> "_Drawn":
        n, table, rows, statements, operation = _sizes(workload, r, sizes, weights)
        home = r.choice(workload.nodes, n, p=node_shares(workload)).astype(np.int64)
        other = (home + 1 + r.integers(0, max(1, workload.nodes - 1), n)) % workload.nodes
        alone = (r.random(n) >= workload.distributed) | (other == home)
        begin = np.arange(n, dtype=np.float64)
        fetched = begin + 2 + r.random(n)
        delays = [
            r.exponential(workload.window, n) if workload.unkind else np.full(n, 1.0),
            r.exponential(workload.window, n) if workload.unkind else np.full(n, 1.0),
        ]
        millis = np.floor(fetched / TRANSACTIONS_PER_MILLISECOND)
        logical = (fetched / TRANSACTIONS_PER_MILLISECOND - millis) * (1 << 22)
        tso = ((FIRST_MILLIS + millis.astype(np.int64)) << 22) | logical.astype(np.int64)
        return cls(
            home, np.where(alone, -1, other), tso, begin, (fetched + delays[0], fetched + delays[1]), table,
            (np.where(alone, rows, (rows + 1) // 2), np.maximum(1, rows // 2)), statements, operation,
        )  # fmt: skip


def _sizes(
    workload: Workload, r: np.random.Generator, sizes: Sizes, weights: Floats
) -> tuple[int, Ints, Ints, Ints, Ints]:
    """Draw transactions until they come to the size wanted."""
    total, parts = 0.0, list[tuple[Ints, Ints, Ints, Ints]]()
    while total < workload.size:
        n = 1 << 16
        table = r.choice(len(weights), n, p=weights / weights.sum()).astype(np.int64)
        operation = np.searchsorted([0.55, 0.92], r.random(n), side="right").astype(np.int64)
        images = np.where(operation == UPDATE, 2, 1)
        if workload.unkind:
            most = GIANT / (sizes.row[table] * images)
            rows = np.minimum(r.pareto(TAIL, n) + 1, most).astype(np.int64)
        else:
            rows = r.integers(1, 6, n)
        statements = np.where(rows > 1, r.integers(1, 4, n), 1)
        statements = np.minimum(statements, rows)
        size = rows * images * sizes.row[table] + statements * sizes.statement
        size += sizes.frame + workload.distributed * sizes.distributed
        cumulative = total + np.cumsum(size)
        kept = int(np.searchsorted(cumulative, workload.size)) + 1
        parts.append((table[:kept], rows[:kept], statements[:kept], operation[:kept]))
        total = float(cumulative[min(kept, n) - 1])
    table, rows, statements, operation = (np.concatenate([p[i] for p in parts]) for i in range(4))
    return len(table), table, rows, statements, operation


def _node(workload: Workload, drawn: _Drawn, node: int) -> Ints:
    """Return one node's groups, sorted by when they happen there."""
    n = len(drawn.home)
    number = np.arange(n, dtype=np.int64)
    parts, times = list[Ints](), list[Floats]()

    def add(which: npt.NDArray[np.bool_], kind: int, at: Floats, rows: Ints) -> None:
        chosen = np.flatnonzero(which)
        groups = np.zeros((len(chosen), G_COLUMNS), np.int64)
        groups[:, G_KIND] = kind
        groups[:, G_TRANSACTION] = FIRST_TRANSACTION + (number[chosen] << 4)
        groups[:, G_TSO] = drawn.tso[chosen]
        groups[:, G_TABLE], groups[:, G_ROWS] = drawn.table[chosen], rows[chosen]
        groups[:, G_STATEMENTS], groups[:, G_OPERATION] = drawn.statements[chosen], drawn.operation[chosen]
        groups[:, G_STATEMENTS] = np.minimum(groups[:, G_STATEMENTS], groups[:, G_ROWS])
        parts.append(groups)
        times.append(at[chosen])

    shared = drawn.other >= 0
    add(~shared & (drawn.home == node), LOCAL, drawn.prepare_at, drawn.rows[0])
    for i, place in enumerate((drawn.home, drawn.other)):
        here = shared & (place == node)
        add(here, PREPARE, drawn.prepare_at, drawn.rows[i])
        add(here, COMMIT_ROW, drawn.commit_at[i], drawn.rows[i])
        add(here, XA_COMMIT, drawn.commit_at[i] + 0.25, drawn.rows[i])
    groups, time = np.concatenate(parts), np.concatenate(times)
    groups[:, G_COMMIT_US] = FIRST_MILLIS * 1000 + (time * (1000 / TRANSACTIONS_PER_MILLISECOND)).astype(np.int64)
    return np.ascontiguousarray(groups[np.argsort(time, kind="stable")])
