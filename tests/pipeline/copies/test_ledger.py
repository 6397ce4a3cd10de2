"""What copies have not yet done alike: changes cancel out in any order, and are told when they are late."""

import random

import pytest

from binlog_merge.pipeline import copies as module
from binlog_merge.pipeline.copies import CopyName, Ledger, texts
from snapshot_store.tso import LOGICAL_BITS, OrderKey

COPY = CopyName("app", "countries", "shard-1", "shard-2")


def at(seconds: int) -> OrderKey:
    return OrderKey((1_700_000_000_000 + 1000 * seconds) << LOGICAL_BITS, 1, 0, 0)


@pytest.mark.parametrize("seed", range(20))
def test_what_both_have_done_is_forgotten_in_whichever_order(seed: int) -> None:
    chance = random.Random(seed)
    digests = [f"d{chance.randrange(6)}" for _ in range(40)]
    pairs = [(digest, step) for digest in digests for step in (1, -1)]
    chance.shuffle(pairs)
    ledger = Ledger()
    for name, step in [*pairs, ("lost", 1)]:
        ledger.take(COPY, name, step, at(0), name)
        ledger = Ledger.from_json(ledger.to_json())
    assert {name: one.count for name, one in ledger.open[COPY].items()} == {"lost": 1}


def test_a_late_change_is_told_once_and_may_still_come() -> None:
    ledger = Ledger()
    ledger.take(COPY, "a", 1, at(0), "insert of id=1")
    ledger.take(COPY, "b", -1, at(500), "insert of id=2")
    assert texts(ledger, at(600)) == []
    (said,) = texts(ledger, at(601))
    assert "shard-2 has not made what shard-1 has: insert of id=1" in said and "id=2" not in said
    ledger = Ledger.from_json(ledger.to_json())
    assert texts(ledger, at(900)) == []
    (said,) = texts(ledger, None)
    assert "shard-1 has not made what shard-2 has: insert of id=2" in said and "id=1" not in said
    ledger.take(COPY, "a", -1, at(700), "insert of id=1")
    ledger.take(COPY, "b", 1, at(700), "insert of id=2")
    assert not ledger.open[COPY] and texts(ledger, None) == []


def test_a_copy_of_another_kind_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_OPEN", 10)
    ledger = Ledger()
    for i in range(1000):
        ledger.take(COPY, str(i), 1, at(0), f"insert of id={i}")
    assert len(ledger.open[COPY]) == 11
    ledger = Ledger.from_json(ledger.to_json())
    (said,) = texts(ledger, at(0))
    assert "is no longer compared" in said and "and 8 more" in said
    assert texts(ledger, None) == []
