"""The verdicts of a filter on the rows events of a buffer."""

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from binlog_merge.binlog.kernels import render_layout as k

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Verdicts:
    """The verdict on each rows event, by the offset at which it begins in its buffer: see `render_layout`.

    `ready` has new bodies, in the logical shape, with the number of rows reshaped for each.
    """

    of: Bytes = field(default_factory=lambda: np.zeros(1, np.uint8))
    ready: dict[int, tuple[bytes, int]] = field(default_factory=dict)

    def has(self, at: int) -> bool:
        """Return whether there is a verdict on the event that begins at an offset."""
        return at < len(self.of) and int(self.of[at]) != k.NOT_JUDGED


NO_VERDICTS: Final = Verdicts()
