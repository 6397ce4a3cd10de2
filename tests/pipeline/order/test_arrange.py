"""Where transactions come out: whole, in their order, and behind what they wait for."""

from hypothesis import given, settings
from hypothesis import strategies as st

from binlog_merge.moved_keys import DdlPlace
from binlog_merge.pipeline.coordinate.shards.values import Effect, Shard
from binlog_merge.pipeline.order.waits import Waits, live
from snapshot_store.tso import OrderKey
from tests.pipeline.order.arranging import Touching, arrange, in_order


def key(moment: int) -> OrderKey:
    return OrderKey(moment, 0, 0, 1)


def shard(name: str) -> Shard:
    return Shard("n", "d", name)


def touching(moment: int, *tables: str) -> Touching:
    return Touching(key(moment), frozenset(shard(t) for t in tables))


def order_of(transactions: list[Touching], *effects: Effect) -> list[int]:
    return [t.key.commit_tso for t, _ in in_order(list(arrange(transactions, effects)))]


def effect(table: str, moment: int, place: int | None, rank: int = 0) -> Effect:
    return Effect(shard(table), key(moment), None if place is None else DdlPlace(key(place), rank))


def test_rows_of_a_table_wait_and_others_do_not() -> None:
    transactions = [touching(1, "a"), touching(3, "a"), touching(4, "b"), touching(5, "a"), touching(7, "a")]
    assert order_of(transactions, effect("a", 2, 6)) == [1, 4, 3, 5, 7]


def test_a_transaction_that_touches_a_waiting_table_waits_whole_and_takes_others_along() -> None:
    transactions = [touching(2, "a", "b"), touching(3, "b", "c"), touching(4, "c"), touching(5, "d"), touching(7, "c")]
    assert order_of(transactions, effect("a", 1, 6)) == [5, 2, 3, 4, 7]


def test_what_never_takes_effect_holds_for_ever_with_what_depends_on_it() -> None:
    transactions = [touching(2, "a", "b"), touching(3, "b"), touching(4, "c")]
    assert order_of(transactions, effect("a", 1, None)) == [4]


def test_rows_between_two_ddl_released_at_one_moment_stand_between_them() -> None:
    transactions = [touching(2, "a"), touching(4, "a")]
    placed = dict(arrange(transactions, [effect("a", 1, 9, 0), effect("a", 3, 9, 1)]))
    assert list(placed.values()) == [DdlPlace(key(9), 0), DdlPlace(key(9), 1)]


def test_columns_are_followed_through_renames_up_to_the_place() -> None:
    first = Effect(shard("a"), key(1), DdlPlace(key(9), 0), (("x", "y"),))
    second = Effect(shard("a"), key(5), DdlPlace(key(9), 1), (("y", "z"),))
    waits = Waits([second, first])
    assert waits.renames(shard("a"), key(3), DdlPlace(key(9), 0)) == ()
    assert waits.renames(shard("a"), key(3), DdlPlace(key(9), 1)) == (("y", "z"),)
    assert waits.renames(shard("a"), key(0), DdlPlace(key(10))) == (("x", "y"), ("y", "z"))
    assert waits.renames(shard("b"), key(0), DdlPlace(key(10))) == ()


def hop(table: str, moment: int, to: str, place: int, name: str) -> Effect:
    return Effect(shard(table), key(moment), DdlPlace(key(place)), (), shard(to), ("d", name))


def test_rows_of_a_table_that_gets_another_name_come_behind_those_that_wait_under_its_old_one() -> None:
    transactions = [touching(3, "a", "b"), touching(5, "c"), touching(6, "b"), touching(9, "c")]
    assert order_of(transactions, effect("a", 1, 8), hop("b", 4, "c", 4, "c")) == [6, 3, 5, 9]


def test_tables_that_change_places_take_along_what_their_rows_come_behind() -> None:
    transactions = [touching(3, "a", "b"), touching(5, "b"), touching(6, "c")]
    swap = (hop("b", 4, "c", 4, "c"), hop("c", 4, "b", 4, "b"))
    assert order_of(transactions, effect("a", 1, 8), *swap) == [5, 3, 6]


def test_names_of_tables_and_columns_are_followed_through_renames_of_the_table() -> None:
    effects = [
        hop("a", 2, "b", 9, "b"),
        Effect(shard("b"), key(3), DdlPlace(key(7)), (("x", "y"),)),
        hop("b", 4, "a", 9, "z"),
        hop("c", 4, "b", 4, "b"),  # takes the name at once: what was b before is none of it
        Effect(shard("b"), key(5), DdlPlace(key(5)), (("x", "other"),)),
        Effect(shard("a"), key(6), DdlPlace(key(10)), gone=True),
    ]
    waits = Waits(effects)
    for moment, place, name, renames in ((1, 8, None, (("x", "y"),)), (1, 9, "z", (("x", "y"),)), (3, 9, "z", ())):
        row = (shard("a" if moment == 1 else "b"), key(moment), DdlPlace(key(place)))
        found = waits.name(*row)
        assert (found and found[1], waits.renames(*row)) == (name, renames)
    assert waits.name(shard("c"), key(3), DdlPlace(key(6))) == ("d", "b")
    assert waits.renames(shard("c"), key(3), DdlPlace(key(6))) == (("x", "other"),)
    assert waits.gone(shard("a"), key(1), DdlPlace(key(10))) and not waits.gone(shard("a"), key(1), DdlPlace(key(9)))
    assert not waits.gone(shard("c"), key(3), DdlPlace(key(10)))


def test_what_is_live_has_the_renames_behind_it() -> None:
    waiting, gone = effect("a", 5, 9), effect("b", 1, 2)
    before, behind = hop("b", 3, "c", 3, "c"), hop("c", 6, "d", 6, "d")
    assert live([gone, before, waiting, behind], key(8), key(20)) == (waiting, behind)
    assert live([gone, before, behind], key(8), key(20)) == ()


TABLES = st.sampled_from("abcd")


@settings(deadline=None)
@given(
    st.lists(st.frozensets(TABLES, min_size=1, max_size=3), max_size=20),
    st.lists(st.tuples(TABLES, st.integers(0, 20), st.none() | st.integers(0, 30)), max_size=6),
)
def test_no_table_sees_its_transactions_in_another_order(
    touched: list[frozenset[str]], effects: list[tuple[str, int, int | None]]
) -> None:
    transactions = [touching(2 * i + 1, *tables) for i, tables in enumerate(touched)]
    found = [
        effect(table, 2 * moment, None if until is None else 2 * max(moment, until)) for table, moment, until in effects
    ]
    placed = list(arrange(transactions, found))
    out = [t for t, _ in in_order(placed)]
    assert len(out) == len(set(out))
    for table in "abcd":
        mine = [t for t in transactions if shard(table) in t.tables]
        assert [t for t in out if t in mine] == [t for t in mine if t in out]
        kept = [t in out for t in mine]
        assert kept == sorted(kept, reverse=True), "nothing comes out behind what is held"
    for transaction, place in placed:
        for moved in found:
            if moved.shard in transaction.tables and moved.key < transaction.key:
                assert place is None or (moved.place is not None and place >= moved.place)
