"""How far random searches go: as far as a change needs to be checked, and further with `make test THOROUGH=1`."""

import os
from typing import Final

THOROUGH: Final = os.environ.get("THOROUGH") == "1"


def effort(usual: int, thorough: int) -> int:
    """Return how many seeds, rounds or places to try."""
    return thorough if THOROUGH else usual
