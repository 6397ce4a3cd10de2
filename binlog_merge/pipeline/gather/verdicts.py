"""What becomes of the rows events of a buffer that a filter has been asked about together."""

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from binlog_merge.binlog.kernels import render_layout as k

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Verdicts:
    """What becomes of rows events, by where they begin in their buffer: see `render_layout`.

    `ready` are new bodies, in the logical shape, and how many rows were reshaped for them.
    """

    of: Bytes = field(default_factory=lambda: np.zeros(1, np.uint8))
    ready: dict[int, tuple[bytes, int]] = field(default_factory=dict)

    def has(self, at: int) -> bool:
        """Tell whether there is a verdict on the event that begins here."""
        return at < len(self.of) and int(self.of[at]) != k.NOT_JUDGED


NO_VERDICTS: Final = Verdicts()
