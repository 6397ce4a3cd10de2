"""What kind of value each part of an expression gives, and which parts have no one answer.

This is what the plan asks before any row comes: whoever gets a kind can rely on it that `evaluate` computes the value.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from binlog_merge.values.evaluate.functions import CALLS, CHOICES, CLOCK, FEWER
from snapshot_store.model import Column
from snapshot_store.mysql.column_type import ColumnType, Family
from snapshot_store.mysql.expr.nodes import Node, literal
from snapshot_store.mysql.sql.functions import MANY, Kind, function

_COLUMN_KINDS: Final[dict[Family, Kind]] = {
    Family.INTEGER: "int",
    Family.YEAR: "int",
    Family.DECIMAL: "decimal",
    Family.FLOAT: "double",
    Family.TEXT: "text",
    Family.DATE: "date",
    Family.TIME: "time",
    Family.MOMENT: "datetime",
    Family.JSON: "json",
}
TYPES: Final[dict[Kind, ColumnType]] = {
    "decimal": ColumnType("decimal", length=65, decimals=30),
    "double": ColumnType("double"),
    "text": ColumnType("varchar", length=1 << 32, charset="utf8mb4"),
    "date": ColumnType("date"),
    "datetime": ColumnType("datetime", fsp=6),
    "time": ColumnType("time", fsp=6),
    "json": ColumnType("json"),
}
_NUMBERS: Final = ("int", "decimal", "double")
BIGINT: Final = ColumnType("bigint")
BIGINT_UNSIGNED: Final = ColumnType("bigint", unsigned=True)
UNITS: Final = {"microsecond": 1, "second": 10**6, "minute": 60 * 10**6, "hour": 3600 * 10**6, "day": 86400 * 10**6,
                 "week": 7 * 86400 * 10**6}  # fmt: skip
MONTHS: Final = {"month": 1, "quarter": 3, "year": 12}
CASTS: Final[dict[str, tuple[Kind, ColumnType]]] = {
    "signed": ("int", BIGINT),
    "unsigned": ("int", BIGINT_UNSIGNED),
    "json": ("json", TYPES["json"]),
    "date": ("date", TYPES["date"]),
    "double": ("double", TYPES["double"]),
}


class NotComputableError(Exception):
    """An expression that has no one answer here; says which part of it, and why."""


def kind_of(node: Node, columns: Mapping[str, Column]) -> Kind:
    """Return what kind of value a part gives; raises NotComputableError where it is not computed here."""
    kinds = [kind_of(arg, columns) for arg in node.args] if node.kind not in ("string", "moment") else []
    match node.kind:
        case "literal":
            return literal_kind(node.text)
        case "string":
            if not node.text.isascii() and node.args and not node.args[0].text.startswith("utf8"):
                raise NotComputableError(f"{node.text!r} is written in {node.args[0].text}")
            return "text"
        case "column":
            column = columns.get(node.text.lower())
            kind = _COLUMN_KINDS.get(column.type.family) if column is not None else None
            if kind is None:
                raise NotComputableError(f"column {node.text} is {column.type.name if column else 'not there'}")
            return kind
        case "prefix" if node.text == "-":
            return _one_of(node, kinds, *_NUMBERS)
        case "binary":
            return _arithmetic_kind(node, kinds)
        case "compare" | "between" | "in":
            _check_years(node, columns)
            moments = all(kind in ("date", "datetime", "null") for kind in kinds)
            if not moments:
                _one_of(node, kinds, *_NUMBERS)
            return "int"
        case "and" | "or" | "xor" | "not" | "null" if node.text != "rows":
            return "int"
        case "case":
            return _case_kind(node, kinds)
        case "cast":
            return _cast_kind(node, kinds[0], columns)
        case "interval":
            return _interval_kind(node, *kinds)
        case "call":
            return _call_kind(node, kinds, columns)
    raise _not_computed(node)


_NOT_CAST: Final[dict[str, tuple[Kind, ...]]] = {
    **dict.fromkeys(("signed", "unsigned"), ("date", "datetime", "time")),
    "json": ("decimal", "double"),
    "date": ("decimal", "double", "json"),
    "double": ("text", "date", "datetime", "time", "json"),
}
"""The kinds of which a server makes something else than a column of the type would hold."""


def _cast_kind(node: Node, kind: Kind, columns: Mapping[str, Column]) -> Kind:
    if node.text in ("char charset utf8mb4", "char charset binary"):
        _check_digits(node.args[0], kind, columns)
        return _one_of(node, [kind], "text", "int", "date") and "text"
    if node.text not in CASTS or kind in _NOT_CAST.get(node.text, ()):
        raise NotComputableError(f"a value of kind {kind} as {node.text.upper()}")
    return CASTS[node.text][0]


def _interval_kind(node: Node, moment: Kind, amount: Kind) -> Kind:
    unit = node.text.split()[1].lower()
    if moment not in ("date", "datetime") or amount not in ("int", "decimal") or unit not in {**UNITS, **MONTHS}:
        raise NotComputableError(f"an interval of kind {amount} and unit {unit} behind a value of kind {moment}")
    if unit in ("second", "microsecond") and amount == "decimal":
        raise NotComputableError(f"an interval of a part of a {unit}")
    return "datetime" if unit in ("microsecond", "second", "minute", "hour") else moment


def _case_kind(node: Node, kinds: list[Kind]) -> Kind:
    skip = node.text.startswith("operand")
    if skip:
        compared = [kinds[0], *kinds[1:][: (len(kinds) - 1) // 2 * 2 : 2]]
        _one_of(node, compared, *_NUMBERS)
    values = kinds[1:] if skip else kinds
    paired = len(values) // 2 * 2
    if not skip:
        _one_of(node, values[:paired:2], *_NUMBERS)
    return _same(node, [*values[1:paired:2], *values[paired:]])


def _not_computed(node: Node) -> NotComputableError:
    return NotComputableError(f"{node.text or node.kind} is not among what is computed here")


def _check_years(node: Node, columns: Mapping[str, Column]) -> None:
    """Raise NotComputableError for a YEAR beside something else: 1 is 2001 then, and 70 is 1970."""
    for arg in node.args:
        if (
            arg.kind == "column"
            and arg.text.lower() in columns
            and columns[arg.text.lower()].type.family is Family.YEAR
        ):
            raise NotComputableError(f"the YEAR {arg.text}, compared")


def _check_digits(node: Node, kind: Kind, columns: Mapping[str, Column]) -> None:
    """Raise NotComputableError for a number whose text has other digits on a server than are known here.

    They are zeros before a number, and those after the point of a DECIMAL that was chosen among others.
    """
    if kind == "decimal" and any(map(_chooses, _nodes(node))):
        raise NotComputableError("the text of a DECIMAL out of CASE, IF, COALESCE or NULLIF")
    for part in _nodes(node) if kind in ("int", "decimal") and (_chooses(node) or node.kind == "column") else ():
        type = columns[part.text.lower()].type if part.kind == "column" else BIGINT
        if type.zerofill or type.family is Family.YEAR:
            raise NotComputableError(f"the text of {part.text}, which is {type.name.upper()} with zeros before it")


def rounds_a_choice(node: Node) -> bool:
    """Return whether ROUND() rounds what CASE or its like gives, to as many digits as the longest of its values has."""
    rounds = (part for part in _nodes(node) if part.kind == "call" and part.text == "round")
    return any(any(map(_chooses, _nodes(part))) for part in rounds)


def _chooses(node: Node) -> bool:
    return node.kind == "case" or (node.kind == "call" and node.text in CHOICES)


def check_charsets(node: Node, columns: Mapping[str, Column]) -> None:
    """Raise NotComputableError for texts that a server converts between character sets, or takes as bytes."""
    nodes = list(_nodes(node))
    found = {columns[n.text.lower()].type.charset or "utf8mb4" for n in nodes if n.kind == "column"} - {"utf8mb4"}
    texts = [n for n in nodes if n.kind == "string"]
    if not found <= _UNICODE and any(n.kind == "cast" and n.text.endswith("binary") for n in nodes):
        raise NotComputableError(f"the bytes of a text in {', '.join(sorted(found))}")
    if found and (len(found) > 1 or not all(text.text.isascii() for text in texts)):
        raise NotComputableError(f"texts of several character sets: {', '.join(sorted(found))} and utf8mb4")
    if found and any(_charset_of(n, columns) == "utf8mb4" for n in nodes):
        raise NotComputableError(f"texts of several character sets: {', '.join(sorted(found))} and utf8mb4")


_BYTES: Final = literal("binary")
_UNICODE: Final = {"utf8mb4", "utf8mb3", "ascii"}


def _is_bytes(node: Node) -> bool:
    return (node.kind == "string" and node.args == (_BYTES,)) or (node.kind == "cast" and node.text.endswith("binary"))


def _charset_of(node: Node, columns: Mapping[str, Column]) -> str | None:
    return columns[node.text.lower()].type.charset if node.kind == "column" else None


def _nodes(node: Node) -> Iterator[Node]:
    yield node
    for arg in node.args if node.kind != "string" else ():
        yield from _nodes(arg)


def _call_kind(node: Node, kinds: list[Kind], columns: Mapping[str, Column]) -> Kind:
    called = function(node.text)
    if called.depends in ("call", "session"):
        raise NotComputableError(f"{node.text}() gives another value each time")
    if node.text in CLOCK and (not kinds or called.gives == "datetime"):
        return called.gives
    if node.text in CHOICES:
        if node.text == "nullif":
            _check_years(node, columns)
        if node.text == "nullif" and set(kinds) - {"date", "datetime", "null"}:
            _one_of(node, kinds, *_NUMBERS)
            _same(node, kinds)
        if node.text == "if":
            _one_of(node, kinds[:1], *_NUMBERS)
        return _same(node, kinds[1:] if node.text == "if" else kinds)
    computation = CALLS.get(node.text)
    if computation is None:
        raise _not_computed(node)
    if not computation.bytes and any(map(_is_bytes, _nodes(node))):
        raise NotComputableError(f"{node.text}() of bytes, which have neither characters nor letters")
    for place in computation.counts:
        if place < len(kinds) and kinds[place] not in ("int", "null"):
            raise NotComputableError(f"{node.text}() of a count of kind {kinds[place]}")
    if not called.takes(len(kinds), FEWER.get(node.text, MANY)):
        raise NotComputableError(f"{node.text}() with {len(kinds)} arguments")
    if node.text == "date_format" and (kinds[0] not in ("date", "datetime") or kinds[1] != "text"):
        raise NotComputableError(f"date_format() of values of kinds {kinds[0]} and {kinds[1]}")
    if node.text == "date_format" and not {_charset_of(n, columns) or "utf8mb4" for n in _nodes(node)} <= _UNICODE:
        raise NotComputableError("date_format() with a format in another character set, whose bytes a server leaves")
    for arg, kind in zip(node.args, kinds, strict=True):
        if "text" in computation.takes:
            _check_digits(arg, kind, columns)
        if kind not in (*computation.takes, "null"):
            raise NotComputableError(f"{node.text}() of a value of kind {kind}")
    if node.text == "round":
        if len(node.args) == 2 and (node.args[1].kind != "literal" or not node.args[1].text.isdecimal()):
            raise NotComputableError("round() to a number of digits that is not written out")
        return kinds[0]
    return computation.gives or called.gives or _same(node, kinds)


_MOST_WHOLE: Final = 1 << 64
"""From here on a number that is written out is a DECIMAL."""


def literal_kind(text: str) -> Kind:
    """Return the kind of a number, of TRUE, FALSE or NULL."""
    if text == "NULL":
        return "null"
    if text.lower() in ("true", "false") or (text.isdigit() and int(text) < _MOST_WHOLE):
        return "int"
    plain = text.lower()
    if plain.startswith("0x"):
        raise NotComputableError(f"{text} may be a text or a number")
    return "double" if "e" in plain else "decimal"


def _one_of(node: Node, kinds: list[Kind], *allowed: Kind) -> Kind:
    for kind in kinds:
        if kind not in (*allowed, "null"):
            raise NotComputableError(f"{node.text or node.kind} of a value of kind {kind}")
    return max(kinds, key=lambda kind: allowed.index(kind) if kind in allowed else -1, default="null")


def _same(node: Node, kinds: list[Kind]) -> Kind:
    found = {kind for kind in kinds if kind != "null"}
    if len(found) > 1:
        raise NotComputableError(f"{node.text or node.kind} of values of kinds {', '.join(sorted(found))}")
    return found.pop() if found else "null"


def _arithmetic_kind(node: Node, kinds: list[Kind]) -> Kind:
    kind = _one_of(node, kinds, *_NUMBERS)
    if node.text in ("+", "-", "*") or (node.text == "/" and kind == "double"):
        return kind
    if node.text in ("%", "DIV") and kind in ("int", "null"):
        return kind
    raise NotComputableError(f"{node.text} of a value of kind {kind}")
