"""Write `binlog_merge/values/duckdb/icu_differences.py`: what ICU compares otherwise than MySQL.

`.venv/bin/python -m tools.icu_differences` asks a MySQL under build/mysql, started for this alone, for the weights of
all characters, and DuckDB for its sort keys. A character that one of them takes for equal to another, and the other
does not, is listed with what stands for it; and so are those that are in another order. Run it again when DuckDB brings
another ICU; `tests/values/test_collations.py` compares texts with a server's.
"""

import re
import tempfile
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from pathlib import Path

import duckdb

from binlog_merge.values.duckdb.collations import shaped
from tools.mysql_server import MySqlServer

TABLE = Path(__file__).resolve().parent.parent / "binlog_merge" / "values" / "duckdb" / "icu_differences.py"
LEVELS = {"0900_ai_ci": 1, "0900_as_ci": 2, "0900_as_cs": 3, "unicode_ci": 1, "unicode_520_ci": 1}
ORDERED = ("0900_ai_ci", "0900_as_ci", "0900_as_cs")
_LAST = 0x323AF  # the last character that any version of Unicode has given, but for tags
_STANDS = 0xF0000
_HEAD = '''"""What ICU compares otherwise than MySQL's collations. Made by `python -m tools.icu_differences`.

From a MySQL {mysql} and the ICU of DuckDB {duckdb}. STAND_INS are compared as others: `from=to`, hexadecimal code
points; `*n` for n that follow each other. DISORDERED are ranges of characters that sort elsewhere.
"""

from typing import Final

'''
Weights = Mapping[int, str]


def server_weights(server: MySqlServer, rule: str) -> dict[int, str]:
    """Return the weights of all characters under a collation of utf8mb4; of the basic plane for unicode_ci."""
    last = 0xFFFF if rule == "unicode_ci" else _LAST
    rows = server.query(_question(rule, last))
    return {int(number): str(weight) for number, weight in rows}


def _question(rule: str, last: int) -> str:
    return (
        "WITH RECURSIVE d (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM d WHERE n < 499), "
        f"r AS (SELECT a.n * 500 + b.n AS n FROM d a, d b) SELECT n, HEX(WEIGHT_STRING(CONVERT(CONVERT(UNHEX("
        f"LPAD(HEX(n), 8, '0')) USING utf32) USING utf8mb4) COLLATE utf8mb4_{rule})) FROM r "
        f"WHERE n BETWEEN 1 AND {last} AND n NOT BETWEEN 55296 AND 57343"
    )


def icu_keys() -> dict[int, str]:
    """Return DuckDB's sort keys of all characters, in the form that `collations` gives them."""
    rows = duckdb.sql(
        f"SELECT i, icu_sort_key({shaped('chr(i::INT)')}, 'und') FROM range(1, {_LAST + 1}) t(i) "
        "WHERE i NOT BETWEEN 55296 AND 57343"
    ).fetchall()
    return dict(rows)


def level(key: str, count: int) -> str:
    """Return the first levels of a sort key, as `collations` cuts it."""
    if count == 3:
        return key
    found = re.match(f"^((?:..)*?{'01(?:..)*?' * (count - 1)})01", key)
    assert found is not None
    return found[1]


def stand_ins(weights: Weights, keys: Weights) -> dict[int, int]:
    """Return characters that are compared otherwise, and what to take for each of them."""
    differing = _differing(weights, keys)
    same: dict[str, int] = {}
    for number in sorted(set(weights) - differing):
        same.setdefault(weights[number], number)
    free = count(_STANDS)
    found: dict[int, int] = {}
    for number in sorted(differing):
        if weights[number] not in same:
            same[weights[number]] = next(free)
        found[number] = same[weights[number]]
    return found


def _differing(weights: Weights, keys: Weights) -> set[int]:
    """Return the characters without which both tell the same characters apart."""
    found: set[int] = set()
    while True:
        before = len(found)
        for one, two in ((keys, weights), (weights, keys)):
            classes: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
            for number in weights:
                if number not in found:
                    classes[one[number]][two[number]].append(number)
            for parts in classes.values():
                kept = max(parts.values(), key=lambda part: (any(map(_is_common, part)), len(part), -part[0]))
                found.update(number for part in parts.values() if part is not kept for number in part)
        if len(found) == before:
            return found


def _is_common(number: int) -> bool:
    return number < 256 or 0x4E00 <= number <= 0x9FA5


def disordered(weights: Weights, keys: Weights, stand: Mapping[int, int]) -> set[int]:
    """Return the characters without which both have the same order.

    Latin-1 and the common ideographs stay, whose order is the same; of what agrees with them, the longest chain that
    both have.
    """
    pairs = sorted((weights[n], keys[n]) for n in weights if _is_common(n) and n not in stand)
    assert pairs == sorted(pairs, key=lambda pair: pair[1])
    ours, theirs = [weight for weight, _ in pairs], [key for _, key in pairs]
    classes: dict[str, list[int]] = defaultdict(list)
    for number, weight in weights.items():
        if number not in stand and bisect_left(ours, weight) == bisect_left(theirs, keys[number]):
            classes[weight].append(number)
    ordered = sorted(classes)
    tops: list[str] = []
    places: list[int] = []
    previous: list[int] = []
    for place, weight in enumerate(ordered):
        key = keys[classes[weight][0]]
        at = bisect_left(tops, key)
        previous.append(places[at - 1] if at else -1)
        tops[at : at + 1], places[at : at + 1] = [key], [place]
    kept, place = set[int](), places[-1]
    while place >= 0:
        kept.update(classes[ordered[place]])
        place = previous[place]
    return set(weights) - kept


def _runs(pairs: Mapping[int, int]) -> Iterator[str]:
    """Yield `first=stand*n` for n characters that follow each other, as do their stand-ins."""
    first, length = -1, 0
    for number in [*sorted(pairs), -1]:
        if length and number == first + length and pairs[number] == pairs[first] + length:
            length += 1
            continue
        if length:
            yield f"{first:x}={pairs[first]:x}" + (f"*{length}" if length > 1 else "")
        first, length = number, 1


def ranges(numbers: Iterable[int]) -> Iterator[str]:
    """Yield `lo-hi` for numbers that follow each other."""
    yield from (run.split("=")[0] if "*" not in run else _range(run) for run in _runs({n: n for n in numbers}))


def _range(run: str) -> str:
    first, _, rest = run.partition("=")
    return f"{first}-{int(first, 16) + int(rest.split('*')[1]) - 1:x}"


def module_text(server: MySqlServer) -> str:
    """Return the module."""
    keys = icu_keys()
    stands, orders = {}, {}
    for rule, levels in LEVELS.items():
        weights = server_weights(server, rule)
        own = {number: level(keys[number], levels) for number in weights}
        stands[rule] = stand_ins(weights, own)
        if rule in ORDERED:
            orders[rule] = disordered(weights, own, stands[rule])
    text = _HEAD.format(mysql=str(server.query("SELECT VERSION()")[0][0]), duckdb=duckdb.__version__)
    text += "STAND_INS: Final = {\n"
    for rule, found in stands.items():
        text += _entry(rule, _runs(found))
    text += "}\nDISORDERED: Final = {\n"
    for rule, numbers in orders.items():
        text += _entry(rule, ranges(numbers))
    return text + "}\n"


def _entry(rule: str, words: Iterable[str]) -> str:
    lines, line = [], ""
    for word in words:
        if len(line) + len(word) > 105:
            lines.append(line)
            line = ""
        line += word + " "
    lines.append(line.rstrip())
    return f'    "{rule}": (\n' + "".join(f'        "{line}"\n' for line in lines) + "    ),\n"


def main() -> None:
    """Write the module."""
    with tempfile.TemporaryDirectory() as folder, MySqlServer(Path(folder) / "mysql", server_id=1) as server:
        TABLE.write_text(module_text(server))


if __name__ == "__main__":
    main()
