"""canal, Maxwell and TiCDC's protocols, read as their readers read them, say what Debezium itself said of the rows."""

import base64
import gzip
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests.merge_e2e.cases import case_named
from tests.merge_e2e.local import merge
from tests.messages.messages import made

RECORDED = Path(__file__).with_name("recorded") / "all-types-text.json.gz"
BYTES = ("bin", "vb", "tb", "bl", "mb", "lb")
TABLES = ("ints", "reals", "strings", "times")
Rows = dict[str, list[tuple[str, dict[str, Any], dict[str, Any]]]]


@pytest.fixture(scope="module")
def merged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("others")
    merge(case_named("all-types") / "cluster.yaml", out)
    return out


@pytest.fixture(scope="module")
def said() -> Rows:
    """Return the operations, and the values before and after, that Debezium has told, by table."""
    found: Rows = defaultdict(list)
    for topic, _, value in json.loads(gzip.decompress(RECORDED.read_bytes()))["messages"]:
        if value is not None and topic != "t":
            found[topic.rpartition(".")[2]].append((value["op"], value["before"] or {}, value["after"] or {}))
    return found


def _canal(merged: Path, tidb: bool) -> Rows:
    options = {"enable-tidb-extension": "true", "only-output-updated-columns": "false"} if tidb else {}
    found: Rows = defaultdict(list)
    for _, _, value in made(merged, "canal", TABLES, **options):
        assert (
            value["isDdl"] is False and value["pkNames"] == ["id"] and list(value["sqlType"]) == list(value["data"][0])
        )
        assert ("_tidb" in value) == tidb
        op = {"INSERT": "c", "UPDATE": "u", "DELETE": "d"}[value["type"]]
        data, old = value["data"][0], (value["old"] or [{}])[0]
        assert not tidb or op != "u" or list(old) == list(data)
        before = data if op == "d" else ({**data, **old} if op == "u" else {})
        found[value["table"]].append((op, _read_canal(before), _read_canal({} if op == "d" else data)))
    return found


def _read_canal(row: dict[str, Any]) -> dict[str, Any]:
    return {n: v.encode("latin-1") if v is not None and n.startswith(BYTES) else v for n, v in row.items()}


def _maxwell(merged: Path) -> Rows:
    found: Rows = defaultdict(list)
    for _, key, value in made(merged, "maxwell", TABLES, output_xoffset="true"):
        op = {"insert": "c", "update": "u", "delete": "d"}[value["type"]]
        assert key["pk.id"] == value["data"]["id"] and ("xoffset" in value) != value.get("commit", False)
        data, old = value["data"], value.get("old", {})
        before = data if op == "d" else ({**data, **old} if op == "u" else {})
        found[value["table"]].append((op, _read_maxwell(before), _read_maxwell({} if op == "d" else data)))
    return found


def _read_maxwell(row: dict[str, Any]) -> dict[str, Any]:
    return {n: base64.b64decode(v) if v is not None and n.startswith(BYTES) else v for n, v in row.items()}


def _open(merged: Path) -> Rows:
    found: Rows = defaultdict(list)
    for _, key, value in made(merged, "open-protocol", TABLES):
        assert key["t"] == 1 and key["scm"] == "types" and key["ts"] > 0
        assert all(
            cell["f"] & 2 == (2 if name == "id" else 0) for side in value.values() for name, cell in side.items()
        )
        op = "d" if "d" in value else "u" if "p" in value else "c"
        before = value.get("d") or value.get("p") or {}
        found[key["tbl"]].append((op, _read_open(before), _read_open(value.get("u") or {})))
    return found


def _read_open(row: dict[str, Any]) -> dict[str, Any]:
    found = {}
    for name, cell in row.items():
        value = cell["v"]
        if value is not None and cell["t"] in (249, 250, 251, 252):
            raw = base64.b64decode(value)
            value = raw if cell["f"] & 1 else raw.decode()
        elif value is not None and cell["f"] & 1:
            value = _unquoted(value)
        found[name] = value
    return found


def _unquoted(text: str) -> bytes:
    """Undo Go's strconv.Quote."""
    found, at = b"", 0
    plain = {"a": 7, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11, "\\": 92, '"': 34}
    while at < len(text):
        if text[at] != "\\":
            found, at = found + text[at].encode(), at + 1
        elif text[at + 1] == "x":
            found, at = found + bytes([int(text[at + 2 : at + 4], 16)]), at + 4
        elif text[at + 1] == "u":
            found, at = found + chr(int(text[at + 2 : at + 6], 16)).encode(), at + 6
        else:
            found, at = found + bytes([plain[text[at + 1]]]), at + 2
    return found


def _simple(merged: Path) -> Rows:
    found: Rows = defaultdict(list)
    told = set()
    for _, _, value in made(merged, "simple", TABLES):
        if value["type"] == "BOOTSTRAP":
            told.add((value["tableSchema"]["table"], value["tableSchema"]["version"]))
            continue
        assert (value["table"], value["schemaVersion"]) in told
        op = {"INSERT": "c", "UPDATE": "u", "DELETE": "d"}[value["type"]]
        rows = [
            {n: v["value"] if isinstance(v, dict) else v for n, v in value.get(side, {}).items()}
            for side in ("old", "data")
        ]
        found[value["table"]].append((op, _read_maxwell(rows[0]), _read_maxwell(rows[1])))
    return found


def _timeless(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row whose TIMESTAMPs, which come with their time zone, are without it."""
    assert all(v["location"] == "UTC" for v in row.values() if isinstance(v, dict))
    return {name: value["value"] if isinstance(value, dict) else value for name, value in row.items()}


def _known(name: str, value: Any) -> Any:
    """Return a value of Debezium's as text, bytes stay bytes; None for what it shows in a way of its own."""
    if value is None or isinstance(value, bytes):
        return value
    if name.startswith(BYTES):
        return bytes.fromhex(value)
    if isinstance(value, float):
        return value
    if isinstance(value, str) and value.endswith("Z"):
        return _short(value[:-1].replace("T", " "))
    return str(value)


@pytest.mark.parametrize(
    "read",
    [lambda m: _canal(m, False), lambda m: _canal(m, True), _open, _simple, _maxwell],
    ids=["canal", "canal-tidb", "open-protocol", "simple", "maxwell"],
)
def test_values_are_those_that_debezium_told(read: Any, merged: Path, said: Rows) -> None:
    found = read(merged)
    compared = 0
    for table in TABLES:
        assert len(found[table]) == len(said[table])
        for (op, *ours), (wanted, *theirs) in zip(found[table], said[table], strict=True):
            assert op == wanted
            for one, two in zip(ours, theirs, strict=True):
                assert one.keys() == two.keys()
                for name, value in two.items():
                    if _unlike(table, name, value):
                        continue
                    compared += 1
                    assert _same(one[name], _known(name, value)), (table, name, one[name], value)
    assert compared > 1500


def _short(text: str) -> str:
    """Return a time without the zeros that end its fraction."""
    return text.rstrip("0").rstrip(".") if "." in text else text


def _unlike(table: str, name: str, value: Any) -> bool:
    """Return whether Debezium shows a value in a way that is compared elsewhere: bits, 64 unsigned bits, year 0, and
    what it makes null (a TIME beyond a day, a date with a zero)."""
    if table == "ints":
        return name in ("bu", "y") or (name.startswith("b") and name[1:].isdecimal())
    return table == "times" and value is None


def _same(ours: Any, known: Any) -> bool:
    if isinstance(known, float):
        return ours is not None and float(ours) == known
    if isinstance(known, str) and isinstance(ours, str) and ":" in known:
        return _short(ours) == known or ours == known
    if isinstance(known, str) and not isinstance(ours, str) and ours is not None:
        from decimal import Decimal

        return float(Decimal(str(ours))) == float(Decimal(known))
    return bool(ours == known)
