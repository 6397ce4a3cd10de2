"""Debezium's messages are those that Debezium itself made of the same rows, field by field.

`recorded/` has what tests/messages/record.py got from Debezium 3.6.3 on a MySQL 9.7 that had applied the merged log;
tests/clients/test_recorded.py records again. Where the two differ, Debezium is wrong: `WRONG` says in what.
"""

import gzip
import json
import re
from collections import defaultdict
from itertools import starmap
from pathlib import Path
from typing import Any

import pytest

from binlog_merge.log.where import Where
from tests.effort import keeping
from tests.messages.messages import made
from tests.messages.record import CASES, DEFAULTS, MODES, WHOLE

RECORDED = Path(__file__).with_name("recorded")
PARTS = ("ts_ms", "ts_us", "ts_ns")
WRONG = ("armscii8", "geostd8", "hp8", "keybcs2", "koi8u")
"""Character sets that Debezium 3.6 decodes with another one of Java's. The next one this program cannot decode."""
UNDECODED = ("eucjpms",)


@pytest.mark.parametrize(("case", "mode"), CASES)
def test_as_recorded(case: str, mode: str, merged_case: Any) -> None:
    recorded = json.loads(gzip.decompress((RECORDED / f"{case}-{mode}.json.gz").read_bytes()))
    ours, theirs = defaultdict(list), defaultdict(list)
    schemas: dict[str, Any] = {}
    where = Where(WHOLE[case]) if case in WHOLE else None
    for table, key, value in made(merged_case(case), "debezium", where=where, topic__prefix="t", **MODES[mode]):
        topic = "t" if table == "ddl" else topic_of(f"t.{table}")
        ours[topic].append((_payload(key, schemas, topic, "key"), _whole(_payload(value, schemas, topic, "value"))))
    for topic, key, value, *_ in recorded["messages"]:
        if case not in WHOLE or topic == "t" or key["id"] % 10 != 2:
            theirs[topic].append((key, _whole(value)))
    if case == "reshape-clamp":
        for side in (ours, theirs):
            side.update({topic: list(starmap(_known, found)) for topic, found in side.items()})
    assert {topic: len(found) for topic, found in ours.items()} == {t: len(found) for t, found in theirs.items()}
    for topic, messages in theirs.items():
        assert ours[topic] == messages, topic
    for topic, known in recorded["schemas"].items():
        if topic in ours and "schemas.enable" in MODES[mode]:
            assert schemas[topic, "key"] == [known["key"]] and schemas[topic, "value"] == known["value"]


@pytest.mark.parametrize("case", keeping(["statements"], ["statements", "three-nodes-online-ddl"]))
def test_transactions_over_several_parts_are_counted_on(case: str, merged_case: Any) -> None:
    whole, parts = (
        list(made(merged_case(case), "debezium", part_bytes=size, **MODES["transactions"])) for size in (1 << 20, 100)
    )
    assert parts == whole and sum(name == "transaction" for name, _, _ in whole) > 10


def test_defaults_in_schemas(merged_case: Any) -> None:
    case, mode = DEFAULTS
    recorded = json.loads(gzip.decompress((RECORDED / f"{case}-{mode}.json.gz").read_bytes()))
    schemas: dict[str, Any] = {}
    for _, _, value in made(merged_case(case), "debezium", topic__prefix="t", **MODES[mode]):
        _payload(value, schemas, "t", "value")
    ours, theirs = (
        {field["field"]: field for schema in found for field in schema["fields"][0]["fields"]}
        for found in (
            [s for s in schemas["t", "value"] if "Envelope" in s["name"]],
            recorded["schemas"]["t.d1.t1"]["value"],
        )
    )
    assert sum("default" in field for field in ours.values()) > 10
    # Debezium reads neither the quote in a text nor the zero bytes of a BINARY as MySQL does.
    for name, right in (("d_text", "old '值'"), ("d_binary", "YWIAAA==")):
        assert ours.pop(name)["default"] == right != theirs.pop(name)["default"]
    assert ours == theirs


def _known(key: Any, value: Any) -> tuple[Any, Any]:
    """Return a message; of a DELETE of a row that the case's DDL has cut, without the values before.

    These are rows 40 to 59 of each hundred: the log has what they were on their nodes, the server what its DDL made.
    """
    cut = value is not None and value.get("op") == "d" and 40 <= key["id"] % 100 < 60
    return key, value | {"before": None} if cut else value


def topic_of(name: str) -> str:
    """Return a name with the characters that a topic may have."""
    return re.sub("[^A-Za-z0-9._-]", "_", name)


def _payload(part: Any, schemas: dict[Any, Any], topic: str, side: str) -> Any:
    if part is None or "schema" not in part:
        return part
    known = schemas.setdefault((topic, side), [])
    if part["schema"] not in known:
        known.append(part["schema"])
    return part["payload"]


def _whole(value: Any) -> Any:
    """Return a value without what depends on when and from where it was read, and without what Debezium gets wrong."""
    if value is None:
        return None
    if "status" in value:  # how Java's hash table orders tables says nothing
        tables = value["data_collections"]
        return value | {"data_collections": tables and sorted(tables, key=lambda each: str(each["data_collection"]))}
    block = () if value.get("transaction") else ("transaction",)
    value = {name: part for name, part in value.items() if name not in (*PARTS, *block)}
    for change in value.get("tableChanges", ()):
        for column in (change["table"] or {}).get("columns", ()):
            if column["typeName"].endswith("ZEROFILL"):  # Debezium has the width only if the statement says it
                column["length"] = None
    places: tuple[str, ...] = ("file", "pos", "server_id", "query")
    # Of a statement, Debezium says the row of the event before it.
    places += ("row",) if "ddl" in value else ()
    value["source"] = {name: part for name, part in value["source"].items() if name not in places}
    for side in ("before", "after"):
        if value.get(side):
            value[side] = {name: _comparable(name, cell) for name, cell in value[side].items()}
    return value


def _comparable(name: str, cell: Any) -> Any:
    if name.endswith((*WRONG, *UNDECODED)):
        return None
    if name == "j" and cell is not None:  # the document of a JSON column: MySQL's own text of it
        found = json.loads(cell)
        if isinstance(found, dict):
            found.pop("time", None)  # 13:0-31:0-1.00000-5 for -12:30:00.5
            # MySQL's base64:type15:… says of what type the bytes are.
            return {k: v.removeprefix("base64:type15:") if isinstance(v, str) else v for k, v in found.items()}
        return found
    if isinstance(cell, str) and cell[:1] in ("[", "{"):  # a document: MySQL's own text of it has blanks
        return json.loads(cell)
    return repr(cell)  # -0.0 is not 0.0
