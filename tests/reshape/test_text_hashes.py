"""Texts that a server takes for equal have one hash: every collation whose characters' weights are known."""

import random

import numpy as np
import pytest

from binlog_merge.binlog.kernels import writesets as w
from snapshot_store.mysql.text.weights import UNKNOWN, is_utf8, weights, weights_name
from tests.effort import effort, seed_of_search
from tests.mysql_server import MySqlServer, mysql_version
from tests.reshape.weighed import weighed
from tools.collations import UCA, WEIGHTS, weights_query, weights_text

RULES = ("general_ci", "unicode_ci", "unicode_520_ci")
PRIMARY = (
    *("utf8mb4_0900_ai_ci", "latin1_swedish_ci"),
    *(f"{charset}_{rules}" for charset in ("utf8mb4", "utf8mb3") for rules in RULES),
)
COARSER = ("utf8mb4_0900_as_ci", "utf8mb4_0900_as_cs", "latin1_general_ci", "latin1_general_cs", "ascii_general_ci")
LIKELY = "aAáÀäæÆßsSſeéèoøœOnñ ijıİIкКйЙαΑάσςΣ가각一丁カガかが\u3000\u0301\u0308ﬁ½１1²,.-ÿyzŽžлЛ\t\u00a0"


def hashed(collation: str, text: str, prefix: int = 0) -> int:
    """Return the kernel's hash of a text, -1 if what it equals is not known."""
    data = text.encode("utf-8") if is_utf8(collation) else text.encode("cp1252")
    name = weights_name(collation)
    assert name is not None
    part = np.zeros(w.P_FIELDS, np.int64)
    part[w.P_PREFIX], part[w.P_PAD], part[w.P_UTF8] = prefix, -1 if "0900" in collation else 32, is_utf8(collation)
    table = np.frombuffer(weights(name), np.int64)
    return int(w._text(np.frombuffer(bytearray(data + b"!"), np.uint8), 0, len(data), part, table, 7))


def _texts(collation: str, rng: random.Random) -> list[str]:
    known = np.flatnonzero(np.frombuffer(weights(str(weights_name(collation))), np.int64) != UNKNOWN)
    likely = [c for c in LIKELY if is_utf8(collation) or c in "aAáÀäæÆßsSeéèoøOnñ ij,.-ÿyz\u00a0½1²"]
    if collation.startswith("ascii"):
        likely = [c for c in likely if c.isascii() and c.isprintable()]
    texts = ["", " ", "strasse", "STRASSE"]
    for _ in range(effort(250, 2000)):
        some = rng.sample(likely, min(4, len(likely)))
        if rng.random() < 0.2 and is_utf8(collation):
            some = [chr(rng.choice(known)) for _ in range(3)] + some[:1]
        texts.append("".join(rng.choices(some, k=rng.randrange(1, 5))))
    return sorted(set(texts))


@pytest.mark.mysql
@pytest.mark.parametrize("collation", [*PRIMARY, *COARSER])
def test_what_a_server_takes_for_equal_has_one_hash(mysql_server: MySqlServer, collation: str) -> None:
    texts = _texts(collation, random.Random(f"{collation} {seed_of_search()}"))
    charset = collation.partition("_")[0]
    mysql_server.execute("CREATE DATABASE d")
    mysql_server.execute(f"CREATE TABLE d.t (n INT, t VARCHAR(20) CHARACTER SET {charset} COLLATE {collation})")
    rows = ", ".join(f"({n}, CONVERT(X'{text.encode().hex()}' USING utf8mb4))" for n, text in enumerate(texts))
    mysql_server.execute(f"INSERT INTO d.t VALUES {rows}")
    equal = mysql_server.query("SELECT a.n, b.n FROM d.t a JOIN d.t b ON a.t = b.t")
    hashes = [hashed(collation, text) for text in texts]
    assert sum(value >= 0 for value in hashes) > 50
    differing = [(texts[a], texts[b]) for a, b in equal if hashes[a] != hashes[b] and min(hashes[a], hashes[b]) >= 0]
    assert differing == []
    if collation in PRIMARY:
        assert len(equal) > len(texts) * 1.1
        ours = {(a, b) for a in range(len(texts)) for b in range(len(texts)) if hashes[a] == hashes[b] >= 0}
        assert [(texts[a], texts[b]) for a, b in ours - set(equal)] == []


@pytest.mark.parametrize("collation", [*PRIMARY, *COARSER])
def test_the_kernel_hashes_the_weights(collation: str) -> None:
    rng = random.Random(collation)
    found: dict[tuple[int, ...], int] = {}
    for text in _texts(collation, rng):
        prefix = rng.choice([0, 0, 2])
        stored = text if is_utf8(collation) else text.encode("cp1252").decode("latin-1")
        counts = weighed(stored[:prefix] if prefix else stored, str(weights_name(collation)))
        value = hashed(collation, text, prefix)
        if counts is None:
            assert value == -1, text
            continue
        while "0900" not in collation and counts[-1:] == weighed(" ", str(weights_name(collation))):
            counts.pop()
        assert found.setdefault(tuple(counts), value) == value, text
    assert len(set(found.values())) == len(found)


@pytest.mark.parametrize("text", ["\U0001f600abcdefghijkl", "a\ud800"])
def test_a_character_beyond_the_table_is_not_known(text: str) -> None:
    table = np.frombuffer(weights("general_ci"), np.int64)
    part = np.zeros(w.P_FIELDS, np.int64)
    part[w.P_UTF8] = 1
    raw = text.encode("utf-8", "surrogatepass")
    for size in range(len(raw)):  # also where it is cut within a character
        w._text(np.frombuffer(bytearray(raw), np.uint8), 0, size, part, table, 7)
    assert w._text(np.frombuffer(bytearray(raw), np.uint8), 0, len(raw), part, table, 7) == -1


@pytest.mark.mysql
def test_the_weights_are_the_servers(mysql_server: MySqlServer) -> None:
    """A newer server may have others: run `python -m tools.collations` then."""
    found = {name: dict[int, str](mysql_server.query(weights_query(name))) for name in UCA}
    assert WEIGHTS.read_text() == weights_text(mysql_version().split("-")[0], found)
    for name in UCA:
        for code, value in enumerate(weights(name)):
            if value != UNKNOWN and not 0xAC00 <= code <= 0xD7A3:
                digits = found[name][code]
                packed = sum(int(digits[at : at + 4], 16) << 4 * at for at in range(0, len(digits), 4))
                assert value == packed, (name, hex(code))
