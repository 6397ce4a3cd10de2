"""The formats of `changes -o`: where each is made. A format of another room is one line more here."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from binlog_merge.log.log import Log
    from binlog_merge.log.question import Selection

Pieces = Callable[["Log", "Selection"], Iterator[bytes]]


@dataclass(frozen=True, slots=True)
class ChangeFormat:
    """A format: the function that turns a selection into pieces of output, as MODULE:NAME.

    With `typed` dates and times come in Arrow's types, else as MySQL's text; `binary` output is no text. `messages`
    are those of another maker's format, which has options.
    """

    made_by: str
    typed: bool = False
    binary: bool = False
    messages: bool = False

    def pieces(self) -> Pieces:
        """Return the function, whose module is loaded now."""
        module, _, name = self.made_by.partition(":")
        found: Pieces = getattr(import_module(module), name)
        return found


FORMATS: Final[dict[str, ChangeFormat]] = {
    "text": ChangeFormat("binlog_merge.ask.formats.text:pieces"),
    "jsonl": ChangeFormat("binlog_merge.ask.formats.json_lines:pieces"),
    "json": ChangeFormat("binlog_merge.ask.formats.json_lines:document_pieces"),
    "csv": ChangeFormat("binlog_merge.ask.formats.tables:csv_pieces"),
    "parquet": ChangeFormat("binlog_merge.ask.formats.tables:parquet_pieces", typed=True, binary=True),
    "sql": ChangeFormat("binlog_merge.undo.changes_sql:pieces"),
    **dict.fromkeys(
        ("debezium", "canal", "maxwell", "open-protocol", "simple"),
        ChangeFormat("binlog_merge.messages.lines:pieces", messages=True),
    ),
}
