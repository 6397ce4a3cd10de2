"""The size of a session's variables."""

from hypothesis import given
from hypothesis import strategies as st

from binlog_merge.binlog_server.settings import Kept

NAMES = st.sampled_from(["a", "bc", "@d", "e" * 40])
VALUES = st.one_of(st.none(), st.integers(), st.text(max_size=50))
STEPS = st.lists(st.tuples(st.sampled_from(["set", "del", "pop", "clear"]), NAMES, VALUES), max_size=30)


@given(STEPS)
def test_it_is_that_of_all_names_and_values(steps: list[tuple[str, str, str | int | None]]) -> None:
    kept: Kept = Kept()
    plain: dict[str, str | int | None] = {}
    for what, name, value in steps:
        if what == "set":
            kept[name] = plain[name] = value
        elif what == "pop":
            assert kept.pop(name) == plain.pop(name, None)
        elif what == "clear":
            kept.clear(), plain.clear()
        elif name in plain:
            del kept[name], plain[name]
        assert kept == plain
        assert kept.size == sum(len(key) + len(str(held)) for key, held in plain.items())
        assert kept.size_without("bc") == kept.size - (len("bc" + str(plain["bc"])) if "bc" in plain else 0)
