"""Files that a command reads whole."""

import sys
from pathlib import Path

from binlog_merge.errors import IoError, io_remedy, reason


def text_of(path: Path) -> str:
    """Return the text of a file, or of stdin if it is `-`. Raises IoError."""
    try:
        return sys.stdin.read() if str(path) == "-" else path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise IoError(f"cannot be read: {reason(error)}", file=str(path), remedy=io_remedy(error)) from None
