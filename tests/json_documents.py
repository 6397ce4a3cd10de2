"""What commands print for machines, held against the published JSON Schemas."""

import json
from collections.abc import Sequence
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator

from binlog_merge.cli.json_schema import schema_of, verbs


@cache
def _validator(verb: str, line: bool) -> Any:
    return Draft202012Validator(schema_of(verb, line), format_checker=Draft202012Validator.FORMAT_CHECKER)


def verb_of(arguments: Sequence[str]) -> str | None:
    """Return the verb of a command line as its schema is named, None if there is none."""
    words = [word for word in arguments if not word.startswith("-")][:2]
    return next((name for name in ("-".join(words), *words[:1]) if name in verbs()), None)


def check(verb: str, text: str, line: bool = False) -> Any:
    """Return a document, and assert that it is as published."""
    document = json.loads(text, parse_int=_exact)
    wrong = [f"{list(e.absolute_path)}: {e.message[:300]}" for e in _validator(verb, line).iter_errors(document)]
    assert not wrong, f"{verb} prints what its JSON Schema does not say: {wrong[:5]}"
    return document


def _exact(text: str) -> int:
    assert abs(int(text)) <= 2**53, f"{text} is more than many readers of JSON can hold"
    return int(text)
