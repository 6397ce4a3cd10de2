"""How fast the output grows, from samples of the manifest, and since when a reader lacks what was published."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from binlog_merge.files.manifest import ManifestState
from binlog_merge.observe.status.values import FilePosition, Rates

RATE_SECONDS: Final = 60.0
_KEPT: Final = 1000


class Sample(NamedTuple):
    """The size of the output at one moment: transactions, and the input bytes that they came from."""

    at: float
    transactions: int
    input_bytes: int


def rates_of(samples: Iterable[Sample], now: Sample, seconds: float = RATE_SECONDS) -> Rates | None:
    """Return the growth per second over about the last `seconds`; None without a sample at least one second old.

    A sample of another output, which has more than there is now, does not count.
    """
    earlier = sorted(s for s in samples if s.at <= now.at - 1 and s.transactions <= now.transactions)
    if not earlier:
        return None
    begin = now.at - seconds
    before = [sample for sample in earlier if sample.at <= begin]
    base = before[-1] if before else earlier[0]
    # The output stays the same between two samples, so an old one stands for the beginning of the window.
    elapsed = now.at - max(base.at, begin)
    return Rates(
        seconds=elapsed,
        transactions=(now.transactions - base.transactions) / elapsed,
        bytes=max(0, now.input_bytes - base.input_bytes) / elapsed,
    )


@dataclass(frozen=True, slots=True)
class _End:
    at: float
    bytes: int


class Growth:
    """The published size of an output over time. `see` each state, then ask how far behind a position is."""

    def __init__(self) -> None:
        self._begins: dict[str, int] = {}
        self._end = 0
        self._seen: deque[_End] = deque(maxlen=_KEPT)

    def see(self, state: ManifestState, published_at: float) -> None:
        """Take the state of the manifest, and when it was written last."""
        at, begins = 0, {}
        for file in state.files:
            begins[file.name] = at
            at += file.size
        self._begins, self._end = begins, at
        if not self._seen or self._seen[-1].bytes != at:
            self._seen.append(_End(published_at, at))

    def behind(self, sent: FilePosition, now: float) -> tuple[int, float | None]:
        """Return how many bytes follow a position in the log, and for how many seconds at least they have been there.

        A file before the first one kept is taken for its beginning; the file after the last has nothing to follow.
        """
        begin = self._begins.get(sent.file)
        if begin is None:
            later = not self._begins or sent.file > max(self._begins)
            size = 0 if later and sent.file else self._end
        else:
            size = max(0, self._end - begin - sent.position)
        if size == 0:
            return 0, 0.0
        at = self._end - size
        since = next((end.at for end in self._seen if end.bytes > at), None)
        return size, None if since is None else max(0.0, now - since)
