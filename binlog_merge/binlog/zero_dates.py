"""What becomes of dates that no calendar has (0000-00-00, 2024-02-00) where dates have a type: a rule for each column.

null          every such date becomes NULL
born=null     those of columns called born do; others stop the reader
text,at=null  columns of dates are MySQL's text, but for those called at, whose such dates become NULL
"""

from dataclasses import dataclass
from typing import Final, Literal, cast, get_args

ZeroDateRule = Literal["stop", "null", "text"]
RULES: Final = get_args(ZeroDateRule)


@dataclass(frozen=True, slots=True)
class ZeroDates:
    """The rules: those of columns, by lower-case name, and that of all others."""

    others: ZeroDateRule = "stop"
    columns: tuple[tuple[str, ZeroDateRule], ...] = ()

    @classmethod
    def parse(cls, text: str) -> "ZeroDates":
        """Return the rules of a text like `null` or `born=null,at=text`. Raises ValueError."""
        others: ZeroDateRule = "stop"
        columns: list[tuple[str, ZeroDateRule]] = []
        for part in text.split(","):
            name, equals, rule = part.strip().rpartition("=")
            if rule not in RULES or (equals and not name):
                raise ValueError(f"{part.strip()!r} is none of {', '.join(RULES)}, or COLUMN=RULE")
            if equals:
                columns.append((name.lower(), cast(ZeroDateRule, rule)))
            else:
                others = cast(ZeroDateRule, rule)
        return cls(others, tuple(columns))

    def of(self, column: str) -> ZeroDateRule:
        """Return the rule of a column."""
        return dict(self.columns).get(column.lower(), self.others)

    @property
    def as_text(self) -> str:
        """Return the rules that make text of columns, as a text: they decide the columns' types."""
        named = (f"{name}={rule}" for name, rule in self.columns if "text" in (rule, self.others))
        return ",".join((*(["text"] if self.others == "text" else []), *sorted(named)))


STOP: Final = ZeroDates()
REMEDY: Final = (
    "say what becomes of such dates: zero_dates='null' or 'text', --zero-dates null, or of one column "
    "born=null; or ask for all dates and times as MySQL's text (temporal='text', --temporal text)"
)
