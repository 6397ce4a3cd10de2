"""Parsing expressions by MySQL's grammar.

Source: rules `expr`, `bool_pri`, `predicate`, `bit_expr` and `simple_expr` of mysql-server `sql/sql_yacc.yy`.
"""

from collections.abc import Callable

from snapshot_store.mysql.expr.calls import read_call
from snapshot_store.mysql.expr.nodes import (
    Node,
    call,
    column,
    compare,
    compared,
    condition,
    literal,
    negated,
    text_literal,
)
from snapshot_store.mysql.sql.cursor import Cursor
from snapshot_store.mysql.sql.functions import WITHOUT_PARENTHESES, function
from snapshot_store.mysql.sql.session import HIGH_NOT_PRECEDENCE, PIPES_AS_CONCAT
from snapshot_store.mysql.sql.types import charset_name

VARIABLE = "a variable"
"""What a forbidden node says that stands for a variable."""
_MOST_NESTED = 150
_COMPARISONS = ("<=>", ">=", "<=", "<>", "!=", "=", "<", ">")
_UNARY: dict[str, Callable[[Node], Node]] = {
    "+": lambda node: node,
    "-": lambda node: Node("prefix", "-", (node,)),
    "~": lambda node: Node("prefix", "~", (node,)),
    "!": negated,
}
_LEVELS = (("|",), ("&",), ("<<", ">>"), ("+", "-"), ("*", "/", "%", "DIV", "MOD"), ("^",))
_SUM = 3
_LONGER = frozenset({"<=", "<=>", "<>", "<<", ">=", ">>", "||", "&&", "->", "->>", "!="})
_UNIT_NAMES = (
    "microsecond second minute hour day week month quarter year second_microsecond minute_microsecond minute_second "
    "hour_microsecond hour_second hour_minute day_microsecond day_second day_minute day_hour year_month"
)
UNITS = frozenset(_UNIT_NAMES.split())


class ExpressionReader:
    """Reads one expression; a method for each rule of the grammar, loosest binding first.

    `tables` are those that stand before names of columns, some with their schema.
    """

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self.session = cursor.session
        self.tables: set[tuple[str, ...]] = set()
        self._depth = 0

    def expression(self) -> Node:
        """Parse an expression as far as it extends."""
        self._depth += 1
        if self._depth > _MOST_NESTED:
            raise self.cursor.error("an expression nested too deep")
        node = self._or()
        self._depth -= 1
        return node

    def _or(self) -> Node:
        node = self._xor()
        while self.cursor.accept("OR") or self._or_pipes():
            node = self._joined("or", node, self._xor())
        return node

    def _or_pipes(self) -> bool:
        return not self.session.sql_mode & PIPES_AS_CONCAT and self.operator("||")

    def _xor(self) -> Node:
        node = self._and()
        while self.cursor.accept("XOR"):
            node = Node("xor", "", (condition(node), condition(self._and())))
        return node

    def _and(self) -> Node:
        node = self._not()
        while self.cursor.accept("AND") or self.operator("&&"):
            node = self._joined("and", node, self._not())
        return node

    def _joined(self, kind: str, left: Node, right: Node) -> Node:
        parts: list[Node] = []
        for node in (condition(left), condition(right)):
            parts += node.args if node.kind == kind and not node.text else [node]
        return Node(kind, "", tuple(parts))

    def _not(self) -> Node:
        if not self.session.sql_mode & HIGH_NOT_PRECEDENCE and self.cursor.accept("NOT"):
            self._depth += 1
            if self._depth > _MOST_NESTED:
                raise self.cursor.error("an expression nested too deep")
            node = negated(self._not())
            self._depth -= 1
            return node
        node = self._boolean_primary()
        if self.cursor.at("IS"):
            self.cursor.next()
            no = self.cursor.accept("NOT")
            word = self.cursor.accept_one("TRUE", "FALSE", "UNKNOWN")
            if word is None:
                raise self.cursor.error("expected TRUE, FALSE, UNKNOWN or NULL")
            if word == "UNKNOWN":
                return Node("null", "", (node,), no)
            return Node("truth", word.lower(), (condition(node),), no)
        return node

    def _boolean_primary(self) -> Node:
        node = self._predicate()
        while True:
            if self.cursor.at("IS", "NULL") or self.cursor.at("IS", "NOT", "NULL"):
                self.cursor.next()
                no = self.cursor.accept("NOT")
                self.cursor.next()
                node = Node("null", "", (node,), no)
                continue
            found = next((symbol for symbol in _COMPARISONS if self.operator(symbol)), None)
            if found is None:
                return node
            if self.cursor.accept_one("ALL", "ANY", "SOME"):
                self.cursor.parenthesized()
                node = Node("forbidden", "a subquery", (node,))
                continue
            node = compared("<>" if found == "!=" else found, node, self._predicate())

    def _predicate(self) -> Node:
        node = self.bits()
        no = self.cursor.word(1) in ("IN", "BETWEEN", "LIKE", "REGEXP", "RLIKE") and self.cursor.accept("NOT")
        if self.cursor.accept("IN"):
            return self._in(node, no)
        if self.cursor.accept("BETWEEN"):
            low = self.bits()
            self.cursor.expect("AND")
            return Node("between", "", (node, low, self._predicate()), no)
        if self.cursor.accept("LIKE"):
            args = [node, self._simple()]
            if self.cursor.accept("ESCAPE"):
                args.append(self._simple())
            like = Node("like", "", tuple(args))
            return negated(like) if no else like
        if self.cursor.accept_one("REGEXP", "RLIKE"):
            match = call("regexp_like", node, self.bits())
            return negated(match) if no else match
        if self.cursor.accept("SOUNDS", "LIKE"):
            return compare("=", call("soundex", node), call("soundex", self.bits()))
        if self.cursor.at("MEMBER"):
            self.cursor.next()
            self.cursor.accept("OF")
            self.cursor.expect_symbol("(")
            array = self._simple()
            self.cursor.expect_symbol(")")
            return Node("member", "", (node, array))
        return node

    def _in(self, node: Node, no: bool) -> Node:
        if self.cursor.at_symbol("(") and self.cursor.word(1) in ("SELECT", "WITH", "TABLE", "VALUES"):
            self.cursor.parenthesized()
            return Node("forbidden", "a subquery", (node,))
        items = self.arguments()
        if len(items) == 1:
            equal = compare("=", node, items[0])
            return negated(equal) if no else equal
        return Node("in", "", (node, *items), no)

    def bits(self) -> Node:
        """Parse an operand of a comparison: everything that binds tighter."""
        return self._binary(0)

    def _binary(self, level: int) -> Node:
        if level == len(_LEVELS):
            return self._simple()
        if level == _SUM and self.at_interval():
            amount, unit = self.interval()
            if not self.operator("+"):
                raise self.cursor.error("expected + after an interval")
            node = Node("interval", f"+ {unit}", (self.expression(), amount))
        else:
            node = self._binary(level + 1)
        while True:
            found = next((o for o in _LEVELS[level] if self._accept_operator(o)), None)
            if found is None:
                return node
            if level == _SUM and self.at_interval():
                amount, unit = self.interval()
                node = Node("interval", f"{found} {unit}", (node, amount))
                continue
            right = self._binary(level + 1)
            node = Node("binary", {"MOD": "%"}.get(found, found), (node, right))

    def at_interval(self) -> bool:
        """Return whether INTERVAL 1 DAY comes next, not the function INTERVAL(a, b)."""
        if not self.cursor.at("INTERVAL"):
            return False
        if not self.cursor.at_symbol("(", 1):
            return True
        place = self.cursor.place
        self.cursor.next()
        self.cursor.parenthesized()
        unit = self.cursor.word().lower() in UNITS
        self.cursor.place = place
        return unit

    def _accept_operator(self, symbol: str) -> bool:
        return self.cursor.accept(symbol) if symbol.isalpha() else self.operator(symbol)

    def operator(self, symbol: str) -> bool:
        """Skip an operator if exactly it comes next (`<`, but not as part of `<=`); return whether it did."""
        for i, char in enumerate(symbol):
            token = self.cursor.peek(i)
            if token.kind != "symbol" or token.text != char:
                return False
            if i and self.cursor.peek(i - 1).end != token.start:
                return False
        after, last = self.cursor.peek(len(symbol)), self.cursor.peek(len(symbol) - 1)
        longer = symbol + after.text
        if after.kind == "symbol" and after.start == last.end and longer in _LONGER:
            return False
        for _ in symbol:
            self.cursor.next()
        return True

    def interval(self) -> tuple[Node, str]:
        """Parse INTERVAL amount unit."""
        self.cursor.expect("INTERVAL")
        amount = self.expression()
        return amount, self.unit()

    def unit(self) -> str:
        """Parse a unit of time."""
        word = self.cursor.word().lower().removeprefix("sql_tsi_")
        if word not in UNITS:
            raise self.cursor.error("expected a unit of time")
        self.cursor.next()
        return word

    def _simple(self) -> Node:
        node = self._primary()
        while True:
            if self.cursor.accept("COLLATE"):
                node = Node("collate", charset_name(self.cursor).lower(), (node,))
            elif self.session.sql_mode & PIPES_AS_CONCAT and self.operator("||"):
                node = call("concat", node, self._primary())
            else:
                return node

    def _primary(self) -> Node:
        self._depth += 1
        if self._depth > _MOST_NESTED:
            raise self.cursor.error("an expression nested too deep")
        node = self._one()
        self._depth -= 1
        return node

    def _one(self) -> Node:
        cursor = self.cursor
        token = cursor.peek()
        if token.kind == "symbol":
            return self._symbol()
        if token.kind == "string":
            national = cursor.text[token.start] in "nN"
            return text_literal(cursor.literal_string(), "utf8mb3" if national else None, self.session)
        if token.kind == "number":
            return literal(_number(cursor.next().text))
        if token.kind == "bits":
            digits = _hexadecimal(cursor.next().text)
            return literal(f"0x{digits}" if digits else "X''")
        if token.kind == "name":
            return self._column()
        if token.kind == "end":
            raise cursor.error("expected an expression")
        return self._word()

    def _symbol(self) -> Node:
        cursor = self.cursor
        for symbol, wrap in _UNARY.items():
            if not (symbol == "!" and self.operator("!=")) and self.operator(symbol):
                return wrap(self._simple())
        if cursor.accept_symbol("{"):
            name = cursor.name().upper()
            node = self.expression()
            cursor.expect_symbol("}")
            kind = {"D": "DATE", "T": "TIME", "TS": "TIMESTAMP"}.get(name)
            return Node("moment", kind, (node,)) if kind and node.kind == "string" else node
        if cursor.at_symbol("(") and cursor.word(1) in ("SELECT", "WITH", "TABLE", "VALUES"):
            cursor.parenthesized()
            return Node("forbidden", "a subquery")
        if cursor.at_symbol("("):
            items = self.arguments()
            return items[0] if len(items) == 1 else Node("row", "", tuple(items))
        if cursor.accept_symbol("@"):
            return self._variable()
        if cursor.accept_symbol(".") and cursor.peek().kind == "number":
            return literal(_number(f".{cursor.next().text}"))
        raise cursor.error("expected an expression")

    def _variable(self) -> Node:
        """Parse a variable from its second character on; its name is an operand, unless it is assigned to."""
        cursor = self.cursor
        name = ("@@" if cursor.accept_symbol("@") else "@") + cursor.next().text
        while cursor.accept_symbol("."):
            name += f".{cursor.next().text}"
        if not cursor.accept_symbol(":"):
            return Node("forbidden", VARIABLE, (literal(name.lower()),))
        cursor.expect_symbol("=")
        self.expression()
        return Node("forbidden", VARIABLE)

    def _word(self) -> Node:
        cursor = self.cursor
        word = cursor.word()
        if word in ("TRUE", "FALSE") and cursor.next():
            return literal(word.lower())
        if word == "NULL" and cursor.next():
            return literal("NULL")
        if word in ("DATE", "TIME", "TIMESTAMP") and cursor.peek(1).kind == "string":
            cursor.next()
            return Node("moment", word, (Node("string", cursor.literal_string()),))
        if word.startswith("_") and cursor.peek(1).kind in ("string", "bits"):
            return self._introduced()
        if word == "BINARY" and not cursor.at_symbol("(", 1) and cursor.next():
            return Node("cast", "char charset binary", (self._simple(),))
        if word == "NOT" and self.session.sql_mode & HIGH_NOT_PRECEDENCE and cursor.next():
            return negated(self._simple())
        if word == "CASE" and cursor.next():
            return self._case()
        if word in ("EXISTS", "ROW") and cursor.at_symbol("(", 1):
            cursor.next()
            if word == "ROW":
                return Node("row", "", tuple(self.arguments()))
            cursor.parenthesized()
            return Node("forbidden", "a subquery")
        if cursor.at_symbol("(", 1) or word.lower() in WITHOUT_PARENTHESES:
            return self._call()
        return self._column()

    def _introduced(self) -> Node:
        charset = self.cursor.next().text[1:].lower()
        token = self.cursor.peek()
        if token.kind == "bits":
            data = bytes.fromhex(_hexadecimal(self.cursor.next().text))
            return text_literal(data.decode("latin-1"), charset, self.session)
        return text_literal(self.cursor.literal_string(), charset, self.session)

    def _case(self) -> Node:
        cursor = self.cursor
        operand = [] if cursor.at("WHEN") else [self.expression()]
        pairs: list[Node] = []
        while cursor.accept("WHEN"):
            pairs.append(self.expression())
            cursor.expect("THEN")
            pairs.append(self.expression())
        otherwise = [self.expression()] if cursor.accept("ELSE") else []
        cursor.expect("END")
        if not pairs:
            raise cursor.error("expected WHEN")
        layout = f"{'operand' if operand else ''} {'else' if otherwise else ''}"
        return Node("case", layout, (*operand, *pairs, *otherwise))

    def _call(self) -> Node:
        name = self.cursor.word().lower()
        node = read_call(self, name)
        if function(name).aggregate and self.cursor.accept("OVER"):
            self.cursor.parenthesized()
        return node

    def arguments(self) -> list[Node]:
        """Parse expressions in parentheses."""
        self.cursor.expect_symbol("(")
        arguments = [self.expression()]
        while self.cursor.accept_symbol(","):
            arguments.append(self.expression())
        self.cursor.expect_symbol(")")
        return arguments

    def _column(self) -> Node:
        *table, name = self._dotted()
        if table and not self.cursor.at_symbol("("):
            self.tables.add(tuple(table))
        if self.cursor.at_symbol("("):
            self.cursor.parenthesized()
            return Node("forbidden", "a stored function")
        node = column(name)
        if self.operator("->>"):
            return call("json_unquote", call("json_extract", node, self._path()))
        return call("json_extract", node, self._path()) if self.operator("->") else node

    def _dotted(self) -> list[str]:
        names = [self.cursor.name()]
        while self.cursor.accept_symbol("."):
            names.append(self.cursor.after_dot())
        return names

    def _path(self) -> Node:
        return text_literal(self.cursor.literal_string(), None, self.session)


def _number(text: str) -> str:
    if "e" in text.lower():
        return text
    whole, dot, fraction = text.partition(".")
    whole = whole.lstrip("0") or "0"
    return f"{whole}.{fraction}" if dot and fraction else whole


def _hexadecimal(text: str) -> str:
    digits = text[2:].rstrip("'")
    if text[0] in "xX" or text[:2] in ("0x", "0X"):
        return (digits if len(digits) % 2 == 0 else f"0{digits}").lower()
    return f"{int(digits, 2):0{(len(digits) + 7) // 8 * 2}x}" if digits else ""
