"""Translates pydantic's errors to those of the configuration file: key, line, and the nearest known key."""

import difflib
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from binlog_merge.config.yaml import KeyPath, YamlDocument
from binlog_merge.errors import ConfigError


def explain(model: type[BaseModel], error: ValidationError, document: YamlDocument, name: str) -> ConfigError:
    """Return a ConfigError that lists all problems, with the line of the first."""
    found: list[tuple[int, str]] = []
    details = error.errors(include_url=False, include_context=True)
    unknown = {d["loc"] for d in details if d["type"] == "extra_forbidden"}
    meant = {(*loc[:-1], nearest) for loc in unknown if (nearest := _nearest(model, loc))}
    places = [d["loc"] for d in details]
    for detail in details:
        loc = detail["loc"]
        if detail["type"] == "too_short" and any(p[: len(loc)] == loc and p != loc for p in places):
            continue  # too short only because its items are wrong, which is reported
        if detail["type"] == "missing" and loc in meant:
            continue  # the key is misspelt, which is reported
        found.append((document.line_of(loc) or 0, _sentence(model, detail)))
    found.sort()
    line = found[0][0]
    if len(found) == 1:
        message = found[0][1]
    else:
        message = f"{len(found)} problems" + "".join(
            f"\n    {'line ' + str(at) + ': ' if at else ''}{text}" for at, text in found
        )
    return ConfigError(
        message, file=f"{name}:{line}" if line else name, remedy=f"correct the {document.what}; nothing was run"
    )


# Where pydantic speaks of Python's types.
_PLAINER = {
    "tuple_type": "should be a list",
    "too_short": "should not be empty",
    "dict_type": "should be a mapping of keys to values",
    "model_type": "should be a mapping of keys to values",
    "model_attributes_type": "should be a mapping of keys to values",
}


def _sentence(model: type[BaseModel], detail: Mapping[str, Any]) -> str:
    kind, loc = detail["type"], detail["loc"]
    parent, key = path_text(loc[:-1]), loc[-1] if loc else ""
    inside = f" in {parent}" if parent else ""
    if kind == "extra_forbidden":
        nearest = _nearest(model, loc)
        known = ", ".join(sorted(_keys(model, loc[:-1])))
        hint = f"did you mean '{nearest}'?" if nearest else f"known keys: {known}"
        return f"unknown key '{key}'{inside}; {hint}"
    if kind == "missing":
        return f"key '{key}' is missing{inside}"
    if kind == "literal_error":
        return f"{path_text(loc)}: {_instead(loc, detail)}"
    text = _PLAINER.get(kind, detail["msg"].removeprefix("Value error, "))
    return f"{path_text(loc)}: {text}" if loc else text


def _instead(loc: KeyPath, detail: Mapping[str, Any]) -> str:
    """Return what may stand in place of a value that is not one of those there are."""
    given, expected = detail["input"], detail["ctx"]["expected"]
    if loc == ("version",):
        return f"{given!r} is not known, only {expected} is: the file may have been written for a newer binlog-merge"
    names = [name.strip("'") for name in expected.replace(" or ", ", ").split(", ")]
    close = difflib.get_close_matches(str(given).lower(), names, n=1, cutoff=0.6)
    return f"should be {expected}, not {given!r}" + (f"; did you mean '{close[0]}'?" if close else "")


def path_text(loc: KeyPath) -> str:
    """Return a key path as text: nodes[0].source-id."""
    text = ""
    for part in loc:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _nearest(model: type[BaseModel], loc: KeyPath) -> str | None:
    known = _keys(model, loc[:-1])
    key = str(loc[-1])
    spelled = key.replace("_", "-").lower()
    if spelled in known:
        return spelled
    close = difflib.get_close_matches(spelled, known, n=1, cutoff=0.6)
    return close[0] if close else None


def _keys(model: type[BaseModel], path: KeyPath) -> list[str]:
    section: type[BaseModel] | None = model
    inside_mapping = False
    for part in path:
        if isinstance(part, int) or section is None:
            continue  # a list index: its items' model was entered with the list's key
        if inside_mapping:
            inside_mapping = False  # a name that the file gives: its value's model was entered with the mapping's key
            continue
        field = next((field for name, field in section.model_fields.items() if (field.alias or name) == part), None)
        section = None if field is None else _model_in(field.annotation)
        inside_mapping = field is not None and typing.get_origin(field.annotation) is dict
    return [] if section is None else [field.alias or name for name, field in section.model_fields.items()]


def _model_in(annotation: Any) -> type[BaseModel] | None:
    return next(iter(models_in(annotation)), None)


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the models that a type is, or has inside."""
    if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias):
        if issubclass(annotation, BaseModel):
            yield annotation
        return
    for argument in typing.get_args(annotation):
        yield from models_in(argument)
