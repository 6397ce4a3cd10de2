"""Write `binlog_merge/values/duckdb/icu_differences.json`: what ICU compares otherwise than MySQL.

`.venv/bin/python -m tools.icu_differences` asks a MySQL under build/mysql, started for this alone, for the weights of
all characters, and DuckDB for its sort keys. A character that one of them takes for equal to another, or to a sequence
of others, and the other does not, is listed with what stands for it; and so are those that are in another order. Run
it again when DuckDB brings another ICU; `tests/values/test_collations.py` compares texts with a server's.

MySQL gives a text the weights of its characters one after another, and so does ICU once `apart` has parted them. So
both compare all texts alike if they do all characters, and if what one of them spells with others (æ as a and e) the
other does too.
"""

import json
import re
import tempfile
import textwrap
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from binlog_merge.values.duckdb.collations import QUOTES, apart, shaped
from tools.mysql_server import MySqlServer

TABLE = Path(__file__).resolve().parent.parent / "binlog_merge" / "values" / "duckdb" / "icu_differences.json"
LEVELS = {"0900_ai_ci": 1, "0900_as_ci": 2, "0900_as_cs": 3, "unicode_ci": 1, "unicode_520_ci": 1}
ORDERED = ("0900_ai_ci", "0900_as_ci", "0900_as_cs")
_ASKED = ((0, 0x323AF), (0xE0000, 0xE0FFF))
"""What any version of Unicode has given a meaning; 323AF is the last ideograph."""
_STANDS = 0x40000
_SYLLABLES, _LETTERS = range(0xAC00, 0xD7A4), (range(0x1100, 0x1200), range(0xA960, 0xA980), range(0xD7B0, 0xD800))
_CHARACTERS = (
    "WITH RECURSIVE d (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM d WHERE n < 999), "
    "r AS (SELECT a.n * 1000 + b.n AS n FROM d a, d b WHERE a.n * 1000 + b.n NOT BETWEEN 55296 AND 57343), "
    "c AS (SELECT n, CONVERT(CONVERT(UNHEX(LPAD(HEX(n), 8, '0')) USING utf32) USING utf8mb4) AS c FROM r) "
)
Weights = Mapping[int, str]
Spelling = tuple[int, ...]


def server_weights(server: MySqlServer, rule: str) -> dict[int, str]:
    """Return the weights of all characters under a collation of utf8mb4; of the basic plane for unicode_ci."""
    rows = server.query(_question(rule, 0xFFFF if rule == "unicode_ci" else _ASKED[-1][1]))
    return {int(number): str(weight) for number, weight in rows}


def _question(rule: str, last: int) -> str:
    asked = " OR ".join(f"n BETWEEN {first} AND {end}" for first, end in _ASKED)
    return (
        f"{_CHARACTERS} SELECT n, HEX(WEIGHT_STRING(c COLLATE utf8mb4_{rule})) FROM c WHERE ({asked}) AND n <= {last}"
    )


def blank(server: MySqlServer, rule: str) -> set[int]:
    """Return the characters that make no difference after a space at a text's end: spaces, and what has no weight."""
    rows = server.query(f"{_CHARACTERS} SELECT n FROM c WHERE CONCAT('a ', c) COLLATE utf8mb4_{rule} = 'a'")
    return {int(number) for (number,) in rows}


def icu_keys(texts: Sequence[str]) -> list[str]:
    """Return DuckDB's sort keys of texts, in the form that `collations` gives them."""
    table = pa.table({"t": texts})
    return [key for (key,) in duckdb.from_arrow(table).project(f"icu_sort_key({shaped(apart('t'))}, 'und')").fetchall()]


def level(key: str, count: int) -> str:
    """Return the first levels of a sort key, as `collations` cuts it."""
    if count == 3:
        return key
    found = re.match(f"^((?:..)*?{'01(?:..)*?' * (count - 1)})01", key)
    assert found is not None
    return found[1]


def parts(weight: str, levels: int) -> list[list[str]]:
    """Return the weights of each level of a weight string; an implicit one, of two units, as one."""
    found = [list[str]()]
    for unit in re.findall("....", weight):
        if unit == "0000" and len(found) < levels:
            found.append([])
        elif len(found) == 1 and found[0] and re.fullmatch("FB..", found[0][-1]):
            found[0][-1] += unit
        else:
            found[-1].append(unit)
    return found


def elements(weight: str, levels: int) -> list[str]:
    """Return the weight strings of the collation elements that a character's weight string is made of."""
    first, *others = parts(weight, levels)
    if not others:
        return first
    # Those without a primary weight are marks, whose secondary weight is not the usual one.
    bases = [len(first) == len(others[0]) or second == "0020" for second in others[0]]
    assert sum(bases) == len(first), weight
    primaries = iter(first)
    return ["0000".join([next(primaries) if base else "", *rest]) for base, *rest in zip(bases, *others, strict=True)]


def stand_ins(weights: Weights, keys: Weights, levels: int) -> dict[int, Spelling]:
    """Return characters that are compared otherwise, and what to take for each of them: one character, or several."""
    pieces = {number: elements(weight, levels) for number, weight in weights.items()}
    differing = _differing(weights, keys) | _spelled_by_icu_alone(pieces, keys, levels)
    same: dict[str, int] = {}
    for number in sorted(set(weights) - differing):
        same.setdefault(weights[number], number)
    free = count(_STANDS)
    for number in sorted(differing):
        if len(pieces[number]) < 2 and weights[number] not in same:
            same[weights[number]] = next(free)
    for number in _misspelled(weights, keys, pieces, same, levels, differing):
        differing.add(number)
        if same.get(weights[number]) == number:
            del same[weights[number]]
    found: dict[int, Spelling] = {}
    for number in sorted(differing):
        spelling = tuple(same.get(piece, 0) for piece in pieces[number])
        if weights[number] not in same and all(spelling) and spelling:
            found[number] = spelling
            continue
        if weights[number] not in same:
            same[weights[number]] = next(free)
        found[number] = (same[weights[number]],)
    return found


def _spelled_by_icu_alone(pieces: Mapping[int, Sequence[str]], keys: Weights, levels: int) -> set[int]:
    """Return the characters that are one to MySQL, and to ICU a sequence: its key begins with that of another one."""
    primary = {number: level(f"{key}01", 1) for number, key in keys.items()}
    ones = {key for key in primary.values() if key}
    found = {
        number
        for number, key in primary.items()
        if len(pieces[number]) == 1
        and chr(number) not in "".join(QUOTES.values())
        and any(key[:end] in ones for end in range(2, len(key), 2))
    }
    if not found.intersection(_SYLLABLES):
        return found
    # Better than the syllables, move their letters.
    letters = {piece for block in _LETTERS for number in block for piece in pieces.get(number, ())}
    return found.difference(_SYLLABLES) | {number for number, ones in pieces.items() if letters.intersection(ones)}


def _misspelled(
    weights: Weights,
    keys: Weights,
    pieces: Mapping[int, Sequence[str]],
    same: Mapping[str, int],
    levels: int,
    differing: Container[int],
) -> list[int]:
    """Return the characters that are a sequence to MySQL, and another or none to ICU."""
    asked: list[tuple[int, str, bool]] = []
    for number, ones in pieces.items():
        if len(ones) > 1 and number not in differing and not (levels == 3 and number in _SYLLABLES):
            spelling = [same.get(piece) or same.get(_plain(piece)) for piece in ones]
            exact = all(piece in same for piece in ones)
            asked.append((number, "".join(chr(one) for one in spelling if one is not None), exact))
    found = icu_keys([text for _, text, _ in asked])
    return [n for (n, _, exact), key in zip(asked, found, strict=True) if (keys[n] == level(key, levels)) is not exact]


def _plain(piece: str) -> str:
    """Return the element without what tells a variant of a character."""
    return re.sub("(?<=0020)0000....$", "00000002", piece)


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


def disordered(weights: Weights, keys: Weights, stand: Mapping[int, Spelling], levels: int) -> set[int]:
    """Return the characters without which both have the same order.

    Latin-1 and the common ideographs stay, whose order is the same; of what agrees with them, the longest chain that
    both have. Of sequences, those of such characters.
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
    primary = {number: parts(weight, levels)[0] for number, weight in weights.items()}
    known = {primary[number][0]: chr(number) for number in kept if len(primary[number]) == 1}
    kept.difference_update(n for n in tuple(kept) if any(one not in known for one in primary[n]))
    several = [number for number in kept if len(primary[number]) > 1]
    spelled = icu_keys(["".join(known[one] for one in primary[number]) for number in several])
    for number, key in zip(several, spelled, strict=True):
        if level(key, 1) != level(f"{keys[number]}01", 1):
            kept.remove(number)
    kept |= {number for number, others in stand.items() if kept.issuperset(others)}
    return set(weights) - kept


def _spelled(stand: Mapping[int, Spelling]) -> Iterator[str]:
    """Yield `first=stand*n`, and `one=stand+stand` for what is compared as several."""
    yield from _runs({number: others[0] for number, others in stand.items() if len(others) == 1})
    for number, others in stand.items():
        if len(others) > 1:
            yield f"{number:x}={'+'.join(f'{other:x}' for other in others)}"


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


def found_differences(server: MySqlServer) -> dict[str, Any]:
    """Return the table, as `values.duckdb.collations.icu_differences` describes it, each entry as lines."""
    numbers = [n for first, last in _ASKED for n in range(first, last + 1) if not 0xD800 <= n < 0xE000]
    keys = dict(zip(numbers, icu_keys(list(map(chr, numbers))), strict=True))
    stands, orders = {}, {}
    for rule, levels in LEVELS.items():
        weights = server_weights(server, rule)
        own = {number: level(keys[number], levels) for number in weights}
        stands[rule] = stand_ins(weights, own, levels)
        if rule in ORDERED:
            orders[rule] = disordered(weights, own, stands[rule], levels)
    return {
        "made_by": "python -m tools.icu_differences",
        "mysql": str(server.query("SELECT VERSION()")[0][0]),
        "duckdb": duckdb.__version__,
        "stand_ins": {rule: _lines(_spelled(found)) for rule, found in stands.items()},
        "disordered": {rule: _lines(ranges(numbers)) for rule, numbers in orders.items()},
        "blank": {rule: _lines(ranges(blank(server, rule))) for rule in sorted(set(LEVELS) - set(ORDERED))},
    }


def _lines(words: Iterable[str]) -> list[str]:
    return textwrap.wrap(" ".join(words), 110, break_on_hyphens=False)


def main() -> None:
    """Write the table."""
    with tempfile.TemporaryDirectory() as folder, MySqlServer(Path(folder) / "mysql", server_id=1) as server:
        TABLE.write_text(json.dumps(found_differences(server), indent=1) + "\n")


if __name__ == "__main__":
    main()
