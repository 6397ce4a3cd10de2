"""The parts of docs/reference/ that are made from the program: packages, keys, verbs, exit codes, views, metrics.

A page holds `<!-- generated: NAME -->` and `<!-- end -->`; `tools/docs.py` writes what `GENERATED[NAME]` returns
between them, and a test compares.
"""

import ast
import inspect
import re
import tempfile
import typing
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import typer
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from binlog_merge.cli.verbs import application
from binlog_merge.config import values
from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.config.yaml import models_in
from binlog_merge.errors import ERROR_CLASSES, EXIT_CODES
from binlog_merge.observe.status.metrics import METRICS
from binlog_merge.values.duckdb.columns import TableColumns
from binlog_merge.values.duckdb.compile import compile_value, parse
from binlog_merge.values.duckdb.functions import CALLS
from binlog_merge.values.duckdb.piece import ExpressionError
from binlog_merge.values.evaluate.functions import CALLS as COMPUTED
from binlog_merge.values.evaluate.functions import CHOICES, CLOCK
from binlog_merge.values.evaluate.kinds import NotComputableError
from binlog_merge.values.evaluate.row import computed
from snapshot_store import Column, Table, parse_table
from snapshot_store.mysql.sql.functions import FUNCTIONS
from snapshot_store.store.db import Store
from snapshot_store.store.migrations import VIEWS
from tools import tested
from tools.refusals import refusals

_ROOT: Final = Path(__file__).resolve().parents[1]
_REGION = re.compile(r"(<!-- generated: ([a-z-]+) -->\n).*?(<!-- end -->\n)", re.DOTALL)
_SECONDS: Final = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))

_KINDS: Final = {
    "parse_duration": "duration",
    "_off_or_duration": "duration or `off`",
    "_interval": "whole seconds or `off`",
    "_overdue": "`alike` or duration",
    "_captured": "`keep`, `needed` or duration",
    "parse_size": "size",
    "_servers": "URL, or list of URLs",
    "_statements": "text, or list of texts",
    "_uuid_text": "UUID",
    "_time_zone": "offset from UTC",
    "_as_tuple": "list of patterns",
    "only_local": "path",
    "check_output": "path or URL",
    "qualified_name": "`schema.table`",
    "plain_name": "name",
    "_spark_text": "text",
}
"""What the function that checks a value takes."""


def filled(text: str) -> str:
    """Return a page with its generated parts as they are now."""
    return _REGION.sub(lambda match: f"{match[1]}\n{GENERATED[match[2]]().strip()}\n\n{match[3]}", text)


def configuration() -> str:
    """Return a table of keys for each section of the configuration file."""
    return "\n".join(_section(MergeConfig, "", "Top level"))


def _section(model: type[BaseModel], path: str, title: str) -> Iterator[str]:
    yield f"### {title}\n"
    yield "| key | type | default | meaning | example |"
    yield "|---|---|---|---|---|"
    inner: list[tuple[type[BaseModel], str, str]] = []
    for name, field in model.model_fields.items():
        key = field.alias or name
        section = next(models_in(field.annotation), None)
        of = f"{path}{key}"
        if section is not None:
            many = "[]" if typing.get_origin(field.annotation) is tuple else ""
            kind = "list of sections" if many else "section"
            inner.append((section, f"{of}{many}.", f"`{of}{many}`"))
        else:
            kind = _kind(field)
        assert field.description, f"{model.__name__}.{name} has no description"
        example = f"`{key}: {field.examples[0]}`" if field.examples else ""
        yield f"| `{key}` | {kind} | {_default(key, field)} | {field.description} | {example} |"
    yield ""
    for section, prefix, heading in inner:
        yield from _section(section, prefix, heading)


def _kind(field: FieldInfo) -> str:
    """Return what a value is, by the function that checks it, or else by its Python type."""
    found = list(_checks([field.annotation, *field.metadata]))
    if found:
        kind = _KINDS[found[0]]
        origin = typing.get_origin(field.annotation)
        if origin is tuple and not kind.startswith(("list", "text, or", "URL,")):
            return f"list of {kind}s"
        return f"mapping to {kind}" if origin is dict else kind
    words = list(_literals(field.annotation))
    if words:
        return ", ".join(f"`{word}`" for word in words)
    plain = {bool: "`true`, `false`", int: "number", str: "text"}
    return next((text for python, text in plain.items() if python in _types(field.annotation)), "text")


def _checks(parts: list[Any]) -> Iterator[str]:
    for part in parts:
        function = getattr(part, "func", None)
        if function is not None and function.__name__ in _KINDS:
            yield function.__name__
        yield from _checks(list(getattr(part, "__metadata__", ())))
        yield from _checks(list(typing.get_args(part)) if typing.get_origin(part) is not typing.Literal else [])


def _literals(annotation: Any) -> Iterator[Any]:
    if typing.get_origin(annotation) is typing.Literal:
        yield from typing.get_args(annotation)
        return
    for argument in typing.get_args(annotation):
        yield from _literals(argument)


def _types(annotation: Any) -> set[Any]:
    return {annotation, *(t for argument in typing.get_args(annotation) for t in _types(argument))}


def _default(key: str, field: FieldInfo) -> str:
    default = field.default
    if field.is_required():
        return "required"
    if default is PydanticUndefined or default is None or default == ():
        return "`alike`" if key == "overdue" else "`keep`" if key == "captured" else ""
    checks = set(_checks([field.annotation, *field.metadata]))
    if checks & {"_interval", "_off_or_duration"} and default == 0:
        return "`off`"
    if "parse_size" in checks:
        return f"`{default // 1024**2}MiB`"
    if checks & {"parse_duration", "_off_or_duration"}:
        return f"`{_duration(default)}`"
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    return f"`{default}`"


def _duration(microseconds: int) -> str:
    for unit, seconds in _SECONDS:
        count, rest = divmod(microseconds, seconds * 1_000_000)
        if count and not rest:
            text = f"{count}{unit}"
            break
    else:
        text = f"{microseconds // 1000}ms"
    assert values.parse_duration(text) == microseconds
    return text


def verbs() -> str:
    """Return a section for each verb: what it does, and its options, as `--help` has them."""
    command: Any = typer.main.get_command(application())
    return "\n".join(_verb_sections(command, ()))


def _verb_sections(command: Any, path: tuple[str, ...]) -> Iterator[str]:
    for name, verb in command.commands.items():
        if verb.hidden:
            continue
        here = (*path, name)
        if hasattr(verb, "commands"):
            yield f"## {' '.join(here)}\n"
            yield _help(verb.help)
            yield from _verb_sections(verb, here)
        else:
            yield f"{'#' * (1 + len(here))} {' '.join(here)}\n"
            yield _help(verb.help)
            yield from _options(verb, here)


def _help(text: str | None) -> str:
    """Return a help text as Markdown: what `\\b` keeps as it is, is a block."""
    parts = []
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(text or "")):
        if paragraph.startswith("\b"):
            lines = paragraph.removeprefix("\b").strip("\n").splitlines()
            indent = min(len(line) - len(line.lstrip()) for line in lines)
            parts.append("```text\n" + "\n".join(line[indent:].rstrip() for line in lines) + "\n```")
        else:
            parts.append(_escaped(paragraph))
    return "\n\n".join(parts) + "\n"


def _options(verb: Any, path: tuple[str, ...]) -> Iterator[str]:
    context = verb.make_context(" ".join(path), [], resilient_parsing=True)
    records = [p.get_help_record(context) for p in verb.get_params(context) if p.name != "help"]
    rows = [f"| `{_cell(names)}` | {_escaped(re.sub('  +', ' ', text))} |" for names, text in filter(None, records)]
    if rows:
        yield "| argument or option | meaning |"
        yield "|---|---|"
        yield from rows
    yield ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


def exit_codes() -> str:
    """Return the table of exit codes, each linked to its section, and whether running again may help."""
    passing = {error.exit_code for error in ERROR_CLASSES if error.may_pass}
    rows = [
        f"| [{row.exit_code}](#{row.exit_code}-{row.code}) | `{row.code}` | {row.meaning} | "
        f"{'yes' if row.exit_code in passing else ''} |"
        for row in EXIT_CODES
    ]
    return "\n".join(["| code | name | meaning | may pass |", "|---|---|---|---|", *rows, ""])


def views() -> str:
    """Return the columns of each view of `schema sql`, with DuckDB's types."""
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "schema.duckdb"
        with Store.open(path):
            pass
        for name in VIEWS:
            with Store.open(path, read_only=True) as store:
                columns = store.query(f"DESCRIBE SELECT * FROM {name}").rows
            shown = ", ".join(f"`{column[0]}` {column[1]}" for column in columns)
            lines.append(f"| `{name}` | {shown} |")
    return "\n".join(["| view | columns |", "|---|---|", *lines, ""])


def metrics() -> str:
    """Return the table of metrics."""
    rows = [f"| `{m.name}` | {', '.join(f'`{label}`' for label in m.labels)} | {m.help} |" for m in METRICS]
    return "\n".join(["| metric | labels | value |", "|---|---|---|", *rows, ""])


_FORMS: Final = {
    "adddate": "ADDDATE(da, INTERVAL 1 DAY)",
    "cast": "CAST(i AS SIGNED)",
    "char": "CHAR(i)",
    "convert": "CONVERT(s USING utf8mb4)",
    "date_add": "DATE_ADD(da, INTERVAL 1 DAY)",
    "date_sub": "DATE_SUB(da, INTERVAL 1 DAY)",
    "extract": "EXTRACT(YEAR FROM da)",
    "get_format": "GET_FORMAT(DATE, 'USA')",
    "match": "MATCH (s) AGAINST ('a')",
    "position": "POSITION('a' IN s)",
    "subdate": "SUBDATE(da, INTERVAL 1 DAY)",
    "timestampadd": "TIMESTAMPADD(DAY, 1, da)",
    "timestampdiff": "TIMESTAMPDIFF(DAY, da, da)",
    "weight_string": "WEIGHT_STRING(s)",
    "datediff": "DATEDIFF(da, da)",
    "isnull": "ISNULL(i)",
    "time": "TIME('12:34:56')",
    **{name: f"{name}(da)" for name in ("date", "timestamp", "week", "weekofyear")},
    **{name: f"{name}(i)" for name in ("bin", "oct", "from_unixtime")},
    "instr": "INSTR(s, 'a')",
    "mod": "MOD(i, 3)",
}
"""Calls of functions that are read as something else."""
_REASONS: Final = {
    "clock": "the time of the statement",
    "call": "another value at each call",
    "session": "the session",
    "settings": "the session's time zone or locale",
    "server": "the server",
}
_TRIED: Final = "CREATE TABLE t (i INT, s VARCHAR(9), da DATE)"


def functions() -> str:
    """Return which functions of the catalogue are answered, and by whom."""
    table = parse_table(_TRIED, schema="f")
    columns = {column.name: column for column in table.columns}
    rows: dict[str, list[str]] = {}
    for name, found in sorted(FUNCTIONS.items()):
        shown = f"`{name.upper()}`" + "".join(f", `{alias.upper()}`" for alias in found.aliases)
        rows.setdefault(_where(name, table, columns), []).append(shown)
    lines = ["| functions | answered in |", "|---|---|"]
    order = sorted(rows, key=lambda where: (where.startswith("nowhere"), where))
    return "\n".join([*lines, *(f"| {', '.join(rows[where])} | {where} |" for where in order)])


def _where(name: str, table: Table, columns: Mapping[str, Column]) -> str:
    """Return where a function is answered, or why nowhere."""
    found = FUNCTIONS[name]
    if found.aggregate:
        return "nowhere: an aggregate; COUNT, MIN and MAX stand in the list of a SELECT from a table"
    form = _FORMS.get(name)
    asked = name in CALLS if form is None else _compiles(form, table)
    made = name in {**COMPUTED, **CHOICES, **CLOCK} if form is None else _is_computed(form, columns)
    if asked or made:
        return "conditions and computed columns" if asked and made else "conditions" if asked else "computed columns"
    why = _REASONS.get(found.depends)
    return "nowhere: not done yet" if why is None else f"nowhere: depends on {why}"


def _compiles(form: str, table: Table) -> bool:
    try:
        compile_value(parse(form), TableColumns(table, ()))
    except ExpressionError:
        return False
    return True


def _is_computed(form: str, columns: Mapping[str, Column]) -> bool:
    try:
        computed(form, columns)
    except NotComputableError:
        return False
    return True


def packages() -> str:
    """Return a table of all packages, with the first sentence of what each says of itself."""
    lines = ["| package | what it does |", "|---|---|"]
    for root in ("snapshot_store", "binlog_merge"):
        for path in sorted((_ROOT / root).rglob("__init__.py")):
            said = ast.get_docstring(ast.parse(path.read_text()))
            assert said, f"{path} says nothing of itself"
            name = ".".join(path.parent.relative_to(_ROOT).parts)
            lines.append(f"| `{name}` | {' '.join(said.split(chr(10) * 2)[0].split())} |")
    return "\n".join(lines)


GENERATED: Final[dict[str, Callable[[], str]]] = {
    "packages": packages,
    "configuration": configuration,
    "verbs": verbs,
    "functions": functions,
    "refusals": refusals,
    "exit-codes": exit_codes,
    "views": views,
    "metrics": metrics,
    "tested": tested.page,
    "tested-versions": tested.versions,
}
