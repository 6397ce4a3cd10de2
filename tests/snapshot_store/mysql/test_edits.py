"""Edits of a statement by offset, also where a part of it is in an executable comment."""

import re
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from snapshot_store.mysql.sql.cursor import Cursor, closing, depths_of, items_of
from snapshot_store.mysql.sql.edits import Edits, parts_of
from snapshot_store.mysql.sql.session import DdlSession

SESSION = DdlSession()
PIECES = st.lists(
    st.sampled_from(["a", "f(b, c)", ",", "(", ")", "'),('", "/* , ( */", "/*!50100 d, e */", "`)`"]), max_size=12
)


def cursor(sql: str) -> Cursor:
    return Cursor.of(sql, SESSION)


def test_what_lies_in_another_part_is_dropped_and_insertions_stay() -> None:
    edits = Edits(cursor("ALTER TABLE t ADD a INT"))
    edits.replace(12, 13, "`s`.`t`")
    edits.replace(12, 12, "/* x */ ")
    edits.remove(14, 23)
    edits.replace(18, 19, "b")
    assert edits.empties(14, 23)
    assert not edits.empties(12, 13)
    assert edits.applied() == "ALTER TABLE /* x */ `s`.`t` "


def test_a_bracket_goes_with_its_other_one() -> None:
    sql = "ALTER TABLE t /*!50100 ADD a INT, DROP b */ /* why */"
    edits = Edits(cursor(sql))
    edits.remove(sql.index(", DROP"), sql.index("*/") + 2)
    assert " ".join(edits.applied().split()) == "ALTER TABLE t ADD a INT /* why */"
    newer = "ALTER TABLE t ADD a INT /*!99999 SECRET */, DROP b"
    assert parts_of(cursor(newer), (0, newer.index(","))) == "ALTER TABLE t ADD a INT /*!99999 SECRET */"


@given(PIECES)
def test_depths_are_those_of_counted_parentheses(pieces: list[str]) -> None:
    tokens = cursor(" ".join(pieces)).tokens
    texts = [t.text if t.kind == "symbol" else "x" for t in tokens]
    for i, token, depth in depths_of(tokens):
        before = texts[: i + (token.kind == "symbol" and token.text == ")")]
        assert depth == before.count("(") - before.count(")")
        if token.kind == "symbol" and token.text == "(":
            end = closing(tokens, i)
            inside = texts[i : end + 1]
            assert end == len(tokens) or inside.count("(") == inside.count(")")


@given(PIECES)
def test_items_with_their_commas_are_the_list(pieces: list[str]) -> None:
    found = cursor(" ".join(pieces))
    items = items_of(found.tokens, 0, len(found.tokens))
    assert items[0][0] == 0 and items[-1][1] == len(found.tokens)
    assert all(found.tokens[end].text == "," and begin == end + 1 for (_, end), (begin, _) in pairwise(items))
    texts = [parts_of(found, (found.tokens[a].start, found.tokens[b - 1].end)) for a, b in items if a < b]
    assert all(text.count("/*!") == text.count("*/") - len(re.findall(r"/\*(?!!)", text)) for text in texts)
