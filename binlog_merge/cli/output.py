"""The output of the commands: a result or an error, as text for people or as a JSON object for machines."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

from binlog_merge import redaction
from binlog_merge.errors import ConfigError, MergeError
from binlog_merge.json_values import json_text

SCHEMA_VERSION = 1

_printed = False
"""Whether an object is out: with -o json there is one."""
_open = False
"""Whether an object's list is being printed, so that an error ends it."""


class OutputFormat(StrEnum):
    """The choices of -o."""

    text = "text"
    json = "json"
    jsonl = "jsonl"


def begin() -> None:
    """Take note that a command begins, and nothing is printed yet."""
    global _open, _printed
    _open = _printed = False


def printable(text: object) -> str:
    """Return text of one line or more that is safe for a terminal."""
    return redaction.printable(text, keep="\n")


def print_json(document: Mapping[str, Any]) -> None:
    """Print a JSON object on a single line of stdout."""
    global _printed
    print(json_line(document), flush=True)
    _printed = True


def print_document(document: Mapping[str, Any], output: str, each: str | None = None) -> None:
    """Print an answer for machines. json: one object, which has `error`; jsonl: an object for each of `document[each]`.

    Without `each` the answer is one thing, and jsonl prints the same line as json.
    """
    if output != OutputFormat.jsonl or each is None:
        print_json({"error": None, **document})
        return
    for item in document[each]:
        print_json(item)


def print_stream(items: Iterable[Mapping[str, Any]], key: str, output: str) -> None:
    """Print things as they come: jsonl: a line each; json: all as the list `key` of one object."""
    global _open, _printed
    if output == OutputFormat.jsonl:
        for item in items:
            print(json_line(item))
        return
    print(f'{{"schema_version": {SCHEMA_VERSION}, "{key}": [', end="")
    _open, separator = True, ""
    for item in items:
        print(separator + json_text(item), end="")
        separator = ", "
    print('], "error": null}', flush=True)
    _open, _printed = False, True


def check_many(output: OutputFormat, what: str) -> None:
    """Raise ConfigError for -o json, which is one object, where one is printed again and again."""
    if output is OutputFormat.json:
        raise ConfigError(f"-o json is one object, and {what} prints one after the other", remedy="give -o jsonl")


def print_failure(error: MergeError, output: str | None) -> None:
    """Print an error for machines, with what was done before it; with json not if its one object is out already."""
    if _open:
        print('], "error": ' + json_text(error.to_dict()) + "}", flush=True)
    elif output == OutputFormat.jsonl or (output == OutputFormat.json and not _printed):
        print_json(document_of(result=error.result, error=error))


def wanted_output(arguments: Sequence[str]) -> str | None:
    """Return what -o of a line says, None if it has none; of a line, too, that cannot be parsed."""
    form = None
    for number, word in enumerate(arguments):
        if word == "--":
            break
        if word in ("-o", "--output"):
            form = arguments[number + 1] if number + 1 < len(arguments) else None
        elif match := _GIVEN.match(word):
            form = word[match.end() :]
    return form


_GIVEN = re.compile(r"--output=|-o=?")


def json_line(document: Mapping[str, Any]) -> str:
    """Return a document as a line, with `schema_version`."""
    return json_text({"schema_version": SCHEMA_VERSION, **document})


def document_of(*, merged: str | None = None, result: Any = None, error: MergeError | None = None) -> dict[str, Any]:
    """Return the JSON document of a run: the keys of its result, if anything was published, and `error`."""
    return {
        **({} if merged is None else {"merged": merged}),
        "error": None if error is None else error.to_dict(),
        **({} if result is None else result.to_dict()),
    }


def print_result(result: Any, out: str, verbose: bool = False) -> None:
    """Print a merge's result for people; `verbose` lists the statements that are not in the output."""
    print("\n".join(printable(line) for line in summary(result.to_dict(), out, verbose)), flush=True)


def summary(result: Mapping[str, Any], out: str, verbose: bool = False) -> list[str]:
    """Return the lines of a result. `result` is MergeResult.to_dict()."""
    nodes: Mapping[str, Any] = result.get("nodes") or {}
    lines = [
        f"{_count(result.get('transactions'), 'transaction')} ({_number(result.get('ddl'))} of them DDL) of "
        f"{_count(nodes, 'node')} merged into {out}",
    ]
    lines += _rows("files", [_file(file) for file in _items(result.get("files"))] or ["none (nothing new)"])
    counted = [f"{_number(result[key])} {word}" for key, word in _COUNTS if result.get(key) is not None]
    lines += _rows("contents", [", ".join(counted)] if counted else [])
    nothing = "" if _number(result.get("waiting")) else ": nothing is held back"
    whole = f"end of input{nothing}" if result.get("end_of_input") else None
    lines += _rows("watermark", [whole or result.get("watermark") or "none yet"])
    lines += _rows("nodes", [_node(node, state) for node, state in sorted(nodes.items())])
    if _number(result.get("held")):
        by = f", which {result['held_back_by']} holds back" if result.get("held_back_by") else ""
        lines += _rows("held", [f"{_count(result['held'], 'branch', 'branches')} not below the watermark{by}"])
    for lock in _items(result.get("locks")):
        if lock["stage"] != "spreading":
            lines += _rows("waiting", [f"{lock['sql']}  for {', '.join(lock['awaited'])}: {lock['id']}"])
    if _number(result.get("waiting")):
        lines += _rows("held", [f"{_count(result['waiting'], 'branch', 'branches')} of shards wait for other shards"])
        lines += [f"  {'':<10} {_held(shard)}" for shard in _items(result.get("waiting_shards"))]
    again = _items(result.get("read_again"))
    lines += _rows(
        "read again",
        [f"{_count(again, 'published file')} with another time or place than before: sound"] if again else [],
    )
    lines += _rows("keys", list(_keys(result.get("keys") or {})))
    lines += _rows("removed", removal_lines(result.get("removed") or {}))
    left_out = [f for f in _items(result.get("left_out")) if not f["file"].endswith(".index")]
    lines += _rows("left out", [f"{f['node']}  {f['file']}: {f['reason']}" for f in left_out])
    lines += _rows("in doubt", [_plain(v) for v in _items(result.get("in_doubt"))])
    lines += _rows("hidden", [_hidden(one) for one in _items(result.get("hidden"))])
    lines += _rows("ignored", list(_ignored(result.get("ignored") or {}, verbose)))
    lines += _rows("warnings", [_plain(v) for v in _items(result.get("warnings"))])
    stages: Mapping[str, Any] = result.get("stages") or {}
    took = ", ".join(f"{stage} {seconds:.1f}" for stage, seconds in stages.items())
    lines += _rows("seconds", [took] if took else [])
    return lines


def _keys(keys: Mapping[str, Any]) -> Iterator[str]:
    """Yield how far rows were not looked through for keys that collide."""
    looked_at, size = keys.get("looked_at", 0), keys.get("bytes", 0)
    some, cascading = keys.get("some") or [], keys.get("cascading") or []
    if looked_at < size:
        yield f"those of {looked_at:,} of {size:,} bytes were looked at for rows of shards with one key; `verify`: all"
    if some:
        yield f"some were looked at of {_listed(some)}; `verify`: all"
    if cascading:
        yield f"not looked at of {_listed(cascading)}, whose rows a foreign key's CASCADE may remove unseen"


def _listed(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _hidden(one: Mapping[str, Any]) -> str:
    """Return the line about a table of a tool that changes schemas online."""
    of = f", of {one['of']}" if one["of"] else ""
    tool = one["tool"] or "comes out with its first row or further statement; made as pt-online-schema-change does"
    return f"{one['node']}  {one['schema']}.{one['table']}: {tool}{of}, {_count(one['rows'], 'row')}"


def _ignored(ignored: Mapping[str, Any], verbose: bool) -> Iterator[str]:
    """Yield lines about input that is not in the output; with `verbose` also statements with their positions."""
    for key, one, many in _IGNORED:
        if number := ignored.get(key):
            yield f"{number} {one if number == 1 else many}"
    if number := ignored.get("transactions"):
        told = _count(number, "transaction")
        yield f"{told} left out by `ignore-transactions`, of {_listed(ignored['transactions_of'])}"
    kinds = ignored.get("statements") or []
    if not kinds:
        return
    counted = ", ".join(f"{kind['count']} {kind['kind']} ({kind['why']})" for kind in kinds)
    yield f"{_count(ignored.get('ddl'), 'statement')}: {counted}{'' if verbose else '; -v lists them'}"
    for kind in kinds if verbose else ():
        for first in kind["first"]:
            yield f"  {first['node']}  {first['file']}:{first['position']}  {' '.join(first['sql'].split())}"
        if (more := kind["count"] - len(kind["first"])) > 0:
            yield f"  and {more} more {kind['kind']}"


_IGNORED = (
    ("events", "unknown event that is marked as ignorable", "unknown events that are marked as ignorable"),
    ("branches", "branch that changes no table of the output", "branches that change no table of the output"),
    ("markers", "marker, taken up", "markers, taken up"),
)
_COUNTS = (
    ("branches", "branches"),
    ("events", "events"),
    ("row_events", "of them with rows"),
    ("rows_reshaped", "rows reshaped"),
)


def _rows(title: str, values: Iterable[str]) -> list[str]:
    return [f"  {title if i == 0 else '':<10} {value}" for i, value in enumerate(values)]


def removal_lines(removed: Mapping[str, Any]) -> list[str]:
    """Return what a run removed, and what it kept only for readers, as lines."""
    lines = []
    if files := removed.get("files"):
        lines.append(f"{_span(files)} of the output, {removed['bytes']:,} bytes")
    for node, names in (removed.get("captured") or {}).items():
        lines.append(f"{_span(names)} of {node}'s captured files, which no run needs")
    if removed.get("schemas"):
        lines.append(f"{_count(removed['schemas'], 'schema version')} that only earlier moments could see")
    if names := removed.get("kept_for_archive"):
        lines.append(f"not {_span(names)}: not archived yet")
    if kept := removed.get("kept_for_readers"):
        lines.append(f"not {_span(kept['files'])}: still to be sent to {', '.join(kept['readers'])}")
    return lines


def _span(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} to {names[-1]} ({len(names)} files)"


def _items(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return [f"{item} {key}" for key, item in value.items() if item]
    return list(value) if isinstance(value, list | tuple) else []


def _number(value: Any) -> int:
    return value if isinstance(value, int) else len(value) if isinstance(value, list | tuple | Mapping) else 0


def _count(value: Any, noun: str, plural: str = "") -> str:
    number = _number(value)
    return f"{number} {noun}" if number == 1 else f"{number} {plural or noun + 's'}"


def _plain(value: Any) -> str:
    return ", ".join(f"{k} {v}" for k, v in value.items()) if isinstance(value, Mapping) else str(value)


def _file(file: Any) -> str:
    if not isinstance(file, Mapping):
        return str(file)
    size = f"  {file['size']:,} bytes" if "size" in file else ""
    return f"{file.get('name')}{size}"


def _held(held: Mapping[str, Any]) -> str:
    number = _count(held["transactions"], "transaction")
    return f"{held['node']}/{held['schema']}/{held['table']}  {number}, {held['bytes']:,} bytes, since {held['since']}"


def _node(node: str, state: Any) -> str:
    if not isinstance(state, Mapping):
        return f"{node}  {state}"
    why = f": {state['why']}" if state.get("why") else ""
    held = f"  <- holds the others back{why}" if state.get("holds_back") else ""
    read_to = f"  read to {state['read_to']}" if state.get("read_to") else ""
    return f"{node}  watermark {state.get('watermark') or 'none yet'}{read_to}{held}"


_UNITS = ("bytes", "KB", "MB", "GB", "TB")


def size_of(text: str) -> int:
    """Return the bytes of a size such as 16MiB. Raises ValueError for text that is none."""
    from binlog_merge.config.values import parse_size  # imports pydantic

    return parse_size(text)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: 1 file, 1,200 files."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def size_text(size: int) -> str:
    """Return a number of bytes for people: 12.3 MiB."""
    value, unit = float(size), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if value < 1024 or unit == "TiB":
            break
        value /= 1024
    return f"{size} B" if unit == "B" else f"{value:.1f} {unit}"


def decimal_size(size: float) -> str:
    """Return a number of bytes for people: 12.3 MB."""
    unit = 0
    while size >= 1000 and unit + 1 < len(_UNITS):
        size, unit = size / 1000, unit + 1
    return f"{size:.0f} {_UNITS[unit]}" if unit == 0 else f"{size:.1f} {_UNITS[unit]}"


def ago(seconds: float) -> str:
    """Return how long ago something was: 1.5 s ago."""
    return f"{seconds_text(max(0.0, seconds))} ago"


def seconds_text(seconds: float) -> str:
    """Return a duration for people: 1.5 s, 3 min 20 s, 5 h 2 min, 67 days."""
    if seconds < 100:
        return f"{seconds:.1f} s"
    hours, rest = divmod(int(seconds), 3600)
    if hours < 1:
        return f"{rest // 60} min {rest % 60} s"
    return f"{hours} h {rest // 60} min" if hours < 72 else f"{hours // 24} days"
