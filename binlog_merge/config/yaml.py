"""Reads a safe subset of YAML, with line numbers, and translates pydantic's errors to key, line, and the nearest known
key.

Three things that `yaml.safe_load` allows are refused: anchors and aliases (a few lines can expand to gigabytes),
duplicate keys (the first would be lost silently), and files beyond 1 MiB. The line of every value is kept, so that an
error in the configuration can name it.
"""

import difflib
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from binlog_merge.config import held
from binlog_merge.errors import ConfigError

MAX_BYTES = 1 << 20
MAX_DEPTH = 32

_PLAIN_TAGS = ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq")

KeyPath = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class YamlDocument:
    """A parsed document, the line number (from 1) of each key or list item, and what it is, in errors."""

    values: dict[str, Any]
    lines: dict[KeyPath, int]
    what: str = "configuration"

    def line_of(self, path: KeyPath) -> int | None:
        """Return the line of the deepest known part of `path`."""
        for end in range(len(path), 0, -1):
            if path[:end] in self.lines:
                return self.lines[path[:end]]
        return None


class _PlainLoader(yaml.SafeLoader):
    """A SafeLoader that refuses anchors and aliases while composing."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event = self.peek_event()
        if getattr(event, "anchor", None) is not None:
            sign = "*" if isinstance(event, yaml.AliasEvent) else "&"
            raise yaml.composer.ComposerError(
                None,
                None,
                f"{sign}{event.anchor}: anchors and aliases are not allowed; "
                f"a value that begins with * or & must be in quotes",
                event.start_mark,
            )
        return super().compose_node(parent, index)


def load_yaml(path: Path, what: str = "configuration", name: str | None = None) -> YamlDocument:
    """Read a YAML mapping from a file; errors say `what` it is. Raises ConfigError with file and line.

    Errors call the file `name`, by default its path; one that is not there is always called by its path.
    """
    try:
        data = held.read(path, MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(
            f"cannot read the {what}: {error.strerror}",
            file=str(path),
            remedy="check its path, and the permissions there",
        ) from error
    if len(data) > MAX_BYTES:
        raise ConfigError(
            f"the {what} is larger than {MAX_BYTES} bytes",
            file=name or str(path),
            remedy="is it the right file? Make it smaller",
        )
    return parse_yaml(data, name or str(path), what)


def parse_yaml(data: bytes | str, name: str, what: str = "configuration") -> YamlDocument:
    """Parse a YAML mapping; `name` is the file's name in errors, and `what` it is."""
    lines: dict[KeyPath, int] = {}
    try:
        loader = _PlainLoader(data)
        try:
            node = loader.get_single_node()
            values = _plain(loader, node, (), lines) if node is not None else {}
        finally:
            loader.dispose()
    except RecursionError:
        raise ConfigError(f"the {what} is nested too deeply", file=name, remedy=_correct(what)) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{name}:{mark.line + 1}" if mark else name
        problem = error.problem or error.context
        raise ConfigError(f"not valid YAML: {problem}", file=place, remedy=_correct(what)) from None
    except (yaml.YAMLError, ValueError) as error:  # ValueError: an impossible date, say 2026-02-31
        raise ConfigError(f"not valid YAML: {error}", file=name, remedy=_correct(what)) from None
    if not isinstance(values, dict):
        raise ConfigError(f"the {what} must be a mapping of keys to values", file=name, remedy=_correct(what))
    return YamlDocument(values, lines, what)


def _correct(what: str) -> str:
    return f"correct the {what}; nothing was run"


def _plain(loader: yaml.SafeLoader, node: yaml.Node, path: KeyPath, lines: dict[KeyPath, int]) -> Any:
    if len(path) > MAX_DEPTH:
        raise RecursionError
    if isinstance(node, yaml.CollectionNode) and node.tag not in _PLAIN_TAGS:
        raise yaml.constructor.ConstructorError(None, None, f"the tag {node.tag} is not allowed", node.start_mark)
    if isinstance(node, yaml.SequenceNode):
        items = []
        for i, item in enumerate(node.value):
            lines[(*path, i)] = item.start_mark.line + 1
            items.append(_plain(loader, item, (*path, i), lines))
        return items
    if not isinstance(node, yaml.MappingNode):
        return loader.construct_object(node)
    values: dict[str, Any] = {}
    for key_node, value_node in node.value:
        mark = key_node.start_mark
        if not isinstance(key_node, yaml.ScalarNode):
            raise yaml.constructor.ConstructorError(None, None, "a key must be plain text", mark)
        # The text as written: `on` stays "on" as a key, although as a value YAML 1.1 reads it as true.
        key = key_node.value
        if key in values:
            raise yaml.constructor.ConstructorError(None, None, f"the key '{key}' is given twice", mark)
        lines[(*path, key)] = mark.line + 1
        values[key] = _plain(loader, value_node, (*path, key), lines)
    return values


def explain(model: type[BaseModel], error: ValidationError, document: YamlDocument, name: str) -> ConfigError:
    """Return a ConfigError that lists all problems, with the line of the first."""
    problems: list[tuple[int, str]] = []
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
        problems.append((document.line_of(loc) or 0, _sentence(model, detail)))
    problems.sort()
    line = problems[0][0]
    if len(problems) == 1:
        message = problems[0][1]
    else:
        message = f"{len(problems)} problems" + "".join(
            f"\n    {'line ' + str(at) + ': ' if at else ''}{text}" for at, text in problems
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
