"""What a node's server said of itself, beside its captured files.

    captured/dn-1/.server/note.json      {"version": 1, "lower_case_table_names": 1}

Files do not tell it: the setting decides how a server compares names, and no event has it. `capture` writes the note
before the first file, and a server that takes over must have the same setting.
"""

import json
from pathlib import Path
from typing import Any, Final

from binlog_merge.config.nodes import CaseOfNames
from binlog_merge.errors import ConfigError, IoError, io_remedy

SERVER_NOTE: Final = ".server/note.json"  # patterns with * do not match a hidden folder
_VERSION: Final = 1
_REMEDY: Final = "remove it: `capture` writes it again; or say `lower-case-table-names` of the node"


def read_server_note(directory: Path) -> CaseOfNames | None:
    """Return the `lower_case_table_names` that is noted beside captured files, None if none is.

    Raises ConfigError for a damaged note.
    """
    path = directory / SERVER_NOTE
    try:
        values: dict[str, Any] = json.loads(path.read_bytes())
        if values["version"] != _VERSION:
            raise ValueError(f"version {values['version']} is not known")
        found: CaseOfNames = values["lower_case_table_names"]
        if found not in (0, 1, 2):
            raise ValueError(f"lower_case_table_names {found}")
        return found
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise IoError(f"cannot be read: {error.strerror or error}", file=str(path), remedy=io_remedy(error)) from error
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"the note of the capture is damaged: {error}", file=str(path), remedy=_REMEDY) from None


def write_server_note(directory: Path, lower_case_table_names: int) -> None:
    """Replace the note beside captured files. Raises IoError."""
    path = directory / SERVER_NOTE
    temporary = path.with_name(f"{path.name}.part")
    values = {"version": _VERSION, "lower_case_table_names": lower_case_table_names}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(json.dumps(values).encode() + b"\n")
        temporary.replace(path)
    except OSError as error:
        raise IoError(
            f"cannot be written: {error.strerror or error}", file=str(path), remedy=io_remedy(error)
        ) from error
