"""Expected results of DM and TiCDC as data, read where they stand beside the repository."""

import json
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parents[3] / "shared/vectors"


def vectors(name: str) -> list[dict[str, Any]]:
    """Return the cases of a file, none where it is absent."""
    path = _FOLDER / name
    return json.loads(path.read_text()) if path.exists() else []


# Where this project deliberately does something else than the products the cases come from; docs/how-to/filters.md says
# so too.
DIFFERENCES = {
    # MySQL has spatial indexes; TiDB's parser has not.
    "unsupported/spatial": "MySQL has spatial indexes",
    # A statement's parts are carried out in the order written, not in the order TiDB happened to number its jobs.
    "multi/drop_views": "the order of the statement",
}
