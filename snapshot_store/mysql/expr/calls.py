"""Calls in expressions: those with words among their arguments, and those that the server prints as something else."""

from collections.abc import Callable
from typing import Protocol

from snapshot_store.mysql.expr.nodes import Node, call, compare, literal
from snapshot_store.mysql.sql.cursor import Cursor
from snapshot_store.mysql.sql.functions import CANONICAL, WITHOUT_PARENTHESES
from snapshot_store.mysql.sql.types import charset_name, parse_cast_type


class Reader(Protocol):
    """What reads the arguments of a call: `ExpressionReader`, which reads calls through this file."""

    cursor: Cursor

    def expression(self) -> Node: ...
    def bits(self) -> Node: ...
    def arguments(self) -> list[Node]: ...
    def at_interval(self) -> bool: ...
    def interval(self) -> tuple[Node, str]: ...
    def unit(self) -> str: ...


def read_call(reader: Reader, name: str) -> Node:
    """Parse a function call whose name comes next."""
    cursor = reader.cursor
    cursor.next()
    if name in WITHOUT_PARENTHESES and not cursor.at_symbol("("):
        return call(CANONICAL.get(name, name))
    if special := _SPECIAL.get(name):
        cursor.expect_symbol("(")
        node = special(reader)
        cursor.expect_symbol(")")
        return node
    args = _plain_arguments(reader)
    if rewrite := _REWRITTEN.get(name):
        rewritten = rewrite(args)
        if rewritten is not None:
            return rewritten
    return call(CANONICAL.get(name, name), *args)


def _plain_arguments(reader: Reader) -> list[Node]:
    cursor = reader.cursor
    if cursor.at_symbol("(") and cursor.at_symbol(")", 1):
        cursor.next()
        cursor.next()
        return []
    if cursor.at_symbol("(") and cursor.at_symbol("*", 1):
        cursor.parenthesized()
        return []
    if cursor.at_symbol("(") and cursor.word(1) in ("DISTINCT", "SELECT", "WITH"):
        cursor.parenthesized()
        return [Node("forbidden", "a subquery")]
    return reader.arguments()


def _cast(reader: Reader) -> Node:
    node = reader.expression()
    if reader.cursor.accept("AT"):
        raise reader.cursor.error("AT TIME ZONE is read from no column")
    reader.cursor.expect("AS")
    return Node("cast", parse_cast_type(reader.cursor), (node,))


def _convert(reader: Reader) -> Node:
    node = reader.expression()
    if reader.cursor.accept("USING"):
        return Node("using", charset_name(reader.cursor).lower(), (node,))
    reader.cursor.expect_symbol(",")
    return Node("cast", parse_cast_type(reader.cursor), (node,))


def _char(reader: Reader) -> Node:
    args = [reader.expression()]
    while reader.cursor.accept_symbol(","):
        args.append(reader.expression())
    if reader.cursor.accept("USING"):
        charset_name(reader.cursor)  # The server does not print it.
    return call("char", *args)


def _substr(reader: Reader) -> Node:
    args = [reader.expression()]
    if reader.cursor.accept("FROM"):
        args.append(reader.expression())
        if reader.cursor.accept("FOR"):
            args.append(reader.expression())
    while reader.cursor.accept_symbol(","):
        args.append(reader.expression())
    return call("substr", *args)


def _position(reader: Reader) -> Node:
    sought = reader.bits()
    reader.cursor.expect("IN")
    return call("locate", sought, reader.expression())


def _trim(reader: Reader) -> Node:
    side = (reader.cursor.accept_one("LEADING", "TRAILING", "BOTH") or "").lower()
    first = reader.expression()
    if reader.cursor.accept("FROM"):
        return Node("trim", side, (first, reader.expression()))
    if side:
        raise reader.cursor.error("expected FROM")
    return call("trim", first)


def _extract(reader: Reader) -> Node:
    unit = reader.unit()
    reader.cursor.expect("FROM")
    return Node("extract", unit, (reader.expression(),))


def _get_format(reader: Reader) -> Node:
    kind = reader.cursor.accept_one("DATE", "TIME", "DATETIME", "TIMESTAMP")
    reader.cursor.expect_symbol(",")
    return Node("get_format", "DATETIME" if kind == "TIMESTAMP" else str(kind), (reader.expression(),))


def _timestampdiff(reader: Reader) -> Node:
    unit = reader.unit()
    reader.cursor.expect_symbol(",")
    first = reader.expression()
    reader.cursor.expect_symbol(",")
    return Node("timestampdiff", unit.upper(), (first, reader.expression()))


def _timestampadd(reader: Reader) -> Node:
    unit = reader.unit()
    reader.cursor.expect_symbol(",")
    amount = reader.expression()
    reader.cursor.expect_symbol(",")
    return Node("interval", f"+ {unit}", (reader.expression(), amount))


def _shifted(sign: str) -> Callable[[Reader], Node]:
    def read(reader: Reader) -> Node:
        node = reader.expression()
        reader.cursor.expect_symbol(",")
        if reader.at_interval():
            amount, unit = reader.interval()
        else:
            amount, unit = reader.expression(), "day"
        return Node("interval", f"{sign} {unit}", (node, amount))

    return read


def _weight_string(reader: Reader) -> Node:
    node = reader.expression()
    if reader.cursor.accept("AS"):
        binary = reader.cursor.at("BINARY")
        type = parse_cast_type(reader.cursor)
        return call("weight_string", Node("cast", type, (node,))) if binary else Node("weight", type, (node,))
    return call("weight_string", node)


def _json_value(reader: Reader) -> Node:
    cursor = reader.cursor
    args = [reader.expression()]
    cursor.expect_symbol(",")
    args.append(reader.expression())
    words = ["returning", "char(512)"]
    if cursor.accept("RETURNING"):
        words[1] = (
            parse_cast_type(cursor).replace(",", ", ").removesuffix(f" charset {cursor.session.charset_connection}")
        )
    while cursor.word() in ("NULL", "ERROR", "DEFAULT"):
        reaction = cursor.next().text.lower()
        words.append(reaction)
        if reaction == "default":
            args.append(reader.expression())
            words.append("\0")
        cursor.expect("ON")
        words += ["on", cursor.next().text.lower()]
    return Node("json_value", " ".join(words), tuple(args))


def _match(reader: Reader) -> Node:
    cursor = reader.cursor
    while not cursor.accept_symbol(")"):
        cursor.name()
        while cursor.accept_symbol("."):
            cursor.after_dot()
        if not cursor.accept_symbol(",") and not cursor.at_symbol(")"):
            raise cursor.error("expected ',' or ')'")
    cursor.expect("AGAINST")
    cursor.expect_symbol("(")
    while not cursor.at_symbol(")"):
        if cursor.peek().kind == "end":
            raise cursor.error("a parenthesis is never closed")
        cursor.parenthesized() if cursor.at_symbol("(") else cursor.next()
    return call("match")


_SPECIAL: dict[str, Callable[[Reader], Node]] = {
    "cast": _cast,
    "convert": _convert,
    "char": _char,
    "substring": _substr,
    "substr": _substr,
    "mid": _substr,
    "position": _position,
    "trim": _trim,
    "extract": _extract,
    "get_format": _get_format,
    "timestampdiff": _timestampdiff,
    "timestampadd": _timestampadd,
    "adddate": _shifted("+"),
    "date_add": _shifted("+"),
    "subdate": _shifted("-"),
    "date_sub": _shifted("-"),
    "weight_string": _weight_string,
    "json_value": _json_value,
    "match": _match,
}


def _with_mode(mode: str) -> Callable[[list[Node]], Node | None]:
    return lambda args: None if len(args) != 1 else call("week", args[0], literal(mode))


def _to_base(base: str) -> Callable[[list[Node]], Node | None]:
    return lambda args: call("conv", *args, literal("10"), literal(base)) if len(args) == 1 else None


def _cast_to(type: str) -> Callable[[list[Node]], Node | None]:
    return lambda args: Node("cast", type, (args[0],)) if len(args) == 1 else None


_REWRITTEN: dict[str, Callable[[list[Node]], Node | None]] = {
    "mod": lambda a: Node("binary", "%", (a[0], a[1])) if len(a) == 2 else None,
    "isnull": lambda a: Node("null", "", (a[0],)) if len(a) == 1 else None,
    "instr": lambda a: call("locate", a[1], a[0]) if len(a) == 2 else None,
    "round": lambda a: call("round", a[0], literal("0")) if len(a) == 1 else None,
    "week": _with_mode("0"),
    "weekofyear": _with_mode("3"),
    "yearweek": lambda a: call("yearweek", a[0], literal("0")) if len(a) == 1 else None,
    "bin": _to_base("2"),
    "oct": _to_base("8"),
    "date": _cast_to("date"),
    "time": _cast_to("time"),
    "timestamp": _cast_to("datetime"),
    "datediff": lambda a: Node("binary", "-", (call("to_days", a[0]), call("to_days", a[1]))) if len(a) == 2 else None,
    "from_unixtime": lambda a: call("date_format", call("from_unixtime", a[0]), a[1]) if len(a) == 2 else None,
    "sounds": lambda a: compare("=", *a) if len(a) == 2 else None,
}
