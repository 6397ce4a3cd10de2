"""Draft the JSON Schema of a verb from what it prints: `python -m tools.json_schema TITLE < documents`, one a line.

    for each of some runs, good and bad: binlog-merge VERB … -o json >> documents
    python -m tools.json_schema 'What a VERB did' < documents > binlog_merge/cli/json_schemas/VERB.json

Keys that some documents lack are optional, and integers, texts and null are told apart as they come. What a draft
cannot know is for whoever reads it: objects that are maps (`additionalProperties`), choices (`enum`), meanings
(`description`), and `$defs.line`, a line of jsonl, for a verb that prints things one a line. Tests hold the result
against all that the verb prints.
"""

import json
import re
import sys
from collections.abc import Sequence
from typing import Any

_COMMON = (
    ("order_key", re.compile(r"[0-9]{54}")),
    ("time", re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}(\d{3})?Z")),
)
_NAMED = {"commit_tso": "tso", "transaction_id": "integer_text", "error": "error", "schema_version": "schema_version"}


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/$defs/{name}"}


def drafted(values: Sequence[Any], name: str = "") -> dict[str, Any]:
    """Return a schema that all of these values fit."""
    if name in ("error", "schema_version"):
        return _ref(_NAMED[name])
    some = [value for value in values if value is not None]
    found = _of_some(some, name) if some else {}
    if len(some) == len(values) or not some:
        return found or {"type": "null"}
    return {"type": [found["type"], "null"]} if set(found) == {"type"} else {"anyOf": [found, {"type": "null"}]}


def _of_some(values: Sequence[Any], name: str) -> dict[str, Any]:
    if all(isinstance(value, dict) for value in values):
        keys = list(dict.fromkeys(key for value in values for key in value))
        return {
            "type": "object",
            "properties": {key: drafted([v[key] for v in values if key in v], key) for key in keys},
            "required": [key for key in keys if all(key in value for value in values)],
            "additionalProperties": False,
        }
    if all(isinstance(value, list) for value in values):
        items = [item for value in values for item in value]
        return {"type": "array", "items": drafted(items) if items else {}}
    if all(isinstance(value, str) for value in values):
        known = _NAMED.get(name) or next((n for n, p in _COMMON if all(map(p.fullmatch, values))), None)
        return _ref(known) if known else {"type": "string"}
    for kind, types in (("boolean", bool), ("integer", int), ("number", int | float)):
        if all(isinstance(value, types) and (types is bool or not isinstance(value, bool)) for value in values):
            return {"type": kind}
    return {}


def document_schema(title: str, documents: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the schema of a verb's documents; the keys of those without an error are required where there is none."""
    found = drafted(documents)
    well = [document for document in documents if not document.get("error")] or documents
    required = [key for key in found["properties"] if all(key in document for document in well)]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        **{key: found[key] for key in ("type", "properties")},
        "required": ["schema_version", "error"],
        "additionalProperties": False,
        "if": {"properties": {"error": {"type": "null"}}},
        "then": {"required": [key for key in required if key not in ("schema_version", "error")]},
    }


if __name__ == "__main__":
    read = [json.loads(line) for line in sys.stdin if line.strip()]
    print(json.dumps(document_schema(sys.argv[1], read), indent=2, ensure_ascii=False))
