"""`binlog-merge debug json-schema`: the JSON Schemas of what verbs print with -o json and -o jsonl."""

import json
from importlib.resources import files
from typing import Annotated, Any, Final

import typer

from binlog_merge.cli.options import option
from binlog_merge.errors import ConfigError

HELP: Final = """Print the JSON Schema (2020-12) of a verb's -o json, or with --line of a line of its -o jsonl.

Without VERB the verbs are listed. Keys come and go with `schema_version`; within a version they are only added.

\b
  binlog-merge debug json-schema merge
  binlog-merge debug json-schema schema history --line"""

_FOLDER: Final = files("binlog_merge.cli") / "json_schemas"
_COMMON: Final = "common"


def verbs() -> list[str]:
    """Return the verbs that have a schema, as they stand on a line with dashes for spaces."""
    names = (entry.name.removesuffix(".json") for entry in _FOLDER.iterdir() if entry.name.endswith(".json"))
    return sorted(name for name in names if name != _COMMON)


def schema_of(verb: str, line: bool = False) -> dict[str, Any]:
    """Return the schema of a verb's object, or of a line of -o jsonl: one of its things, or the failure at its end.

    Raises ConfigError if there is no such verb.
    """
    if verb not in verbs():
        raise ConfigError(f"{verb!r} prints no JSON", remedy=f"give one of {', '.join(verbs())}")
    schema: dict[str, Any] = _read(verb)
    defs = {**_read(_COMMON)["$defs"], **schema.pop("$defs", {})}
    if not line or "line" not in defs:
        defs.pop("line", None)
        return {**schema, "$defs": defs}
    failure = {
        "type": "object",
        "properties": {"schema_version": {"$ref": "#/$defs/schema_version"}, "error": {"$ref": "#/$defs/failure"}},
        "required": ["schema_version", "error"],
        "additionalProperties": True,
    }
    title = f"{schema['title']}: a line"
    return {"$schema": schema["$schema"], "title": title, "anyOf": [{"$ref": "#/$defs/line"}, failure], "$defs": defs}


def _read(name: str) -> Any:
    return json.loads((_FOLDER / f"{name}.json").read_text("utf-8"))


def json_schema(
    verb: Annotated[
        list[str] | None, typer.Argument(help="The verb, as on a line: schema history.", metavar="[VERB...]")
    ] = None,
    line: Annotated[bool, option("--line", "Of a line of -o jsonl.")] = False,
) -> None:
    """Print a JSON Schema."""
    if not verb:
        print("\n".join(verbs()))
        return
    print(json.dumps(schema_of("-".join(verb), line), indent=2, ensure_ascii=False))
