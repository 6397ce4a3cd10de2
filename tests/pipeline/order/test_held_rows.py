"""Rows that shards' DDL hold, through all steps of the order stage: they come out as `arrange` says, run by run."""

import tempfile
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from binlog_merge.moved_keys import DdlPlace, key_of, moved_key
from binlog_merge.pipeline.base.blocks import read_block
from binlog_merge.pipeline.base.state import GREATEST_KEY, Job
from binlog_merge.pipeline.coordinate.shards.values import Effect, Holds, Shard
from binlog_merge.pipeline.order import held_rows
from binlog_merge.pipeline.order.driver import Ordered, order_all
from snapshot_store.history import SchemaHistory
from snapshot_store.topology import Topology
from snapshot_store.tso import ORIGIN, OrderKey
from tests.merge_e2e.local import LocalRunner
from tests.pipeline.coordinate.test_coordinating import config_of
from tests.pipeline.logs import Row, assembled, cut, logs, rows, words
from tests.pipeline.order.arranging import Touching, arrange

SHARDS = [Shard(node, "d", table) for node in "ab" for table in "tx"]
Out = tuple[OrderKey, OrderKey, tuple[int, ...] | None]  # the key it comes out at, its own, and its row if it is no DDL
BETWEEN = st.builds(OrderKey, st.integers(0, 12), st.just(0), st.just(0), st.just(0))  # where no transaction stands


@st.composite
def holds(draw: st.DrawFn) -> Holds:
    """Effects as coordination has them: none takes effect before it stands, nor before an earlier one of its shard."""
    effects: list[Effect] = []
    for shard in SHARDS:
        latest: DdlPlace | None = DdlPlace(ORIGIN)
        for at in sorted(draw(st.frozensets(BETWEEN, max_size=2))):
            own = draw(st.none() | st.builds(DdlPlace, BETWEEN, st.integers(0, 1)))
            latest = None if own is None or latest is None else max(own, latest, DdlPlace(at))
            effects.append(Effect(shard, at, latest))
    ddl = draw(st.frozensets(st.builds(DdlPlace, BETWEEN, st.integers(0, 1)), max_size=2))
    return Holds(tuple(effects), tuple(ddl))


def ordered(
    texts: list[str], found: Holds, floor: OrderKey, limit: OrderKey, partitions: int = 1
) -> tuple[Ordered, list[Out]]:
    """Run the stage; returns also what comes out, in order."""
    nodes = [assembled(text, number) for number, text in enumerate(texts, 1)]
    with tempfile.TemporaryDirectory() as folder:
        job = Job(LocalRunner(), config_of(), Path(folder), None, None, True, partitions, lambda *_: None)
        job.work.mkdir()
        coordination: Any = SimpleNamespace(
            history=SchemaHistory(), topology=Topology(), ddl=(), places=None, holds=found
        )
        result = order_all(job, SimpleNamespace(nodes=[n.input for n in nodes]), nodes, coordination, floor, limit)  # type: ignore[arg-type]
        out: list[Out] = []
        for part in result.parts:
            of = {name: values.tolist() for name, values in read_block(part.path).items()}
            for i in range(part.rows):
                at, own = (OrderKey(*(of[name][i] for name in names)) for names in (held_rows.KEY, held_rows.OWN))
                place = tuple(of[name][i] for name in ("node", "file", "start", "end"))
                out.append((at, own, None if of["ddl"][i] else place))
        assert sum(part.transactions for part in result.parts) == len({(at, own) for at, own, _ in out})
    return result, out


def tables(texts: list[str]) -> dict[tuple[int, int, int], Shard]:
    """Return of which shard the row is that begins at a place: node, file, offset."""
    return {
        (node, file, event.at): Shard("ab"[node - 1], "d", event.table)
        for node, text in enumerate(texts, 1)
        for file, pieces in enumerate(words(text))
        for piece in pieces
        for event in piece
    }


def expected(texts: list[str], found: Holds) -> tuple[list[Out], list[Row]]:
    """Return what comes out, in order, and the rows that come out nowhere."""
    of = tables(texts)
    every = sorted(row for node, text in enumerate(texts, 1) for row in rows(text, node))
    touched: dict[OrderKey, frozenset[Shard]] = {}
    for row in every:
        touched[row.key] = touched.get(row.key, frozenset()) | {of[row[1:4]]}
    places = {t.key: place for t, place in arrange([Touching(*pair) for pair in touched.items()], found.effects)}
    out: list[tuple[DdlPlace, int, Out]] = [(place, 0, (key_of(place), key_of(place), None)) for place in found.ddl]
    for row in every:
        place = places[row.key]
        if place is not None:
            at = row.key if place == DdlPlace(row.key) else moved_key(place)
            out.append((place, 1, (at, row.key, row[1:])))
    return [one for *_, one in sorted(out)], [row for row in every if places[row.key] is None]


def two_logs(data: st.DataObject) -> list[str]:
    return [data.draw(cut(data.draw(logs(tables="tx")))) for _ in range(2)]


@settings(max_examples=40)
@given(st.data(), holds(), st.integers(1, 4), st.integers(1, 5))
def test_rows_come_out_behind_what_they_wait_for(
    data: st.DataObject, found: Holds, partitions: int, chunk: int
) -> None:
    texts = two_logs(data)
    out, waiting = expected(texts, found)
    before, held_rows.CHUNK = held_rows.CHUNK, chunk
    try:
        result, came = ordered(texts, found, ORIGIN, GREATEST_KEY, partitions)
    finally:
        held_rows.CHUNK = before
    assert came == out
    assert result.waiting_branches == len(waiting)
    files = {row.node: min(r.file for r in waiting if r.node == row.node) for row in waiting}
    assert dict(result.waiting_files) == files
    of = tables(texts)
    for held in result.waiting:
        mine = [row.key for row in waiting if of[row[1:4]] == held.shard]
        assert (held.transactions, held.since) == (len(set(mine)), min(mine))
    assert {held.shard for held in result.waiting} == {of[row[1:4]] for row in waiting}


@settings(max_examples=40)
@given(st.data(), holds(), st.lists(BETWEEN, max_size=2))
def test_runs_cannot_be_seen_in_the_order(data: st.DataObject, found: Holds, stops: list[OrderKey]) -> None:
    texts = two_logs(data)
    bounds = [ORIGIN, *sorted(stops), GREATEST_KEY]
    came: list[Out] = []
    for floor, limit in pairwise(bounds):
        came += ordered(texts, found, floor, limit)[1]
    assert came == expected(texts, found)[0]


def test_where_nobody_waits_the_order_is_the_one_without_holds() -> None:
    texts = ["P1 C1=3 L P2 C2=5", "P1 C1=3 L:x"]
    _, came = ordered(texts, Holds(), ORIGIN, GREATEST_KEY)
    every = sorted(row for node, text in enumerate(texts, 1) for row in rows(text, node))
    assert came == [(row.key, row.key, tuple(row[1:])) for row in every]


def test_what_a_transaction_ties_to_a_waiting_table_waits_as_well() -> None:
    # Transaction 1 is on both nodes; a.t waits until 8, hence b.t from 3 on, but not d.x.
    texts = ["P1 C1=3 P2 C2=5", "P1 C1=3 P3:x C3=4 P4 C4=7"]
    waits = Effect(SHARDS[0], OrderKey(2, 0, 0, 0), DdlPlace(OrderKey(8, 0, 0, 0)))
    other = Effect(SHARDS[1], OrderKey(2, 0, 0, 0), DdlPlace(OrderKey(9, 0, 0, 0)))
    for effects in ((waits,), (waits, other)):
        for partitions in (1, 3):
            _, came = ordered(texts, Holds(effects), ORIGIN, GREATEST_KEY, partitions)
            assert came == expected(texts, Holds(effects))[0]
            assert [own.commit_tso for _, own, _ in came] == [4, 3, 3, 5, 7]
