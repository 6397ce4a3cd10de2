"""Reads a safe subset of YAML, with line numbers.

Three things that `yaml.safe_load` allows are refused: anchors and aliases (a few lines can expand to gigabytes),
duplicate keys (the first would be lost silently), and files beyond 1 MiB. The line of every value is kept, so that an
error in the configuration can name it.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

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
