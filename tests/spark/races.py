"""Two attempts of one task at once, on executors of two machines, in the order that a test wants.

Spark starts the second attempt itself: the first has written its first bytes, and waits. `Race` says who goes on when.
Goes to executors by PYTHONPATH.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from binlog_merge.pipeline.gather import output_file

MODES: Final = ("first", "second", "first-killed", "second-killed")
"""Whose result is taken: the first attempt's or the second's, the other one going on when all is published; or which
attempt's executor is killed in the middle of writing, while the other writes.
"""
_WITHIN: Final = 300.0


@dataclass(frozen=True)
class Race:
    """A race for one task; what the attempts have come to is noted in `folder`, which all processes see."""

    mode: str
    task: str
    folder: str

    def run(self, function: Callable[[Any], Any], task: Any) -> Any:
        """Run the task, and stop in the middle of its writing if it is the one that is raced for."""
        number = self._claimed() if task.name == self.task else None
        if number is None:
            return function(task)
        # What the first has written when the second begins is more than what the second has written then.
        with _after_write(2 - number, lambda: self._turn(number)):
            try:
                result = function(task)
            except Exception as error:
                self.note(f"failed-{number}", str(error))
                raise
        self.note(f"done-{number}")
        return result

    def _claimed(self) -> int | None:
        for number in range(2):
            try:
                os.close(os.open(f"{self.folder}/claim-{number}", os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                continue
            return number
        return None  # what is run again after a kill

    def _turn(self, number: int) -> None:
        """Wait for the moment at which this attempt goes on, with some bytes written."""
        self.note(f"writes-{number}")
        self._until(f"writes-{1 - number}")
        wins = 1 - self.loser
        if number != wins and self.mode.endswith("killed"):
            self.note("killed")
            os.kill(_parent(os.getppid()), signal.SIGKILL)  # this process, Spark's Python daemon, the executor
            os.kill(os.getpid(), signal.SIGKILL)
        self._until("killed" if self.mode.endswith("killed") else f"done-{wins}" if number != wins else "writes-0")
        if number != wins:
            self._until("published")

    @property
    def loser(self) -> int:
        """Return the number of the attempt whose result is not taken."""
        return 1 if self.mode in ("first", "second-killed") else 0

    def note(self, what: str, text: str = "") -> None:
        """Note what has come."""
        Path(self.folder, what).write_text(text)

    def has(self, what: str) -> bool:
        """Return whether something has come."""
        return Path(self.folder, what).exists()

    def _until(self, what: str) -> None:
        self.wait(lambda: self.has(what), what)

    def wait(self, come: Callable[[], bool], what: str) -> None:
        """Wait until something has come. Raises TimeoutError."""
        end = time.monotonic() + _WITHIN
        while not come():
            if time.monotonic() > end:
                raise TimeoutError(f"{self}: no {what}")
            time.sleep(0.01)


@contextmanager
def _after_write(which: int, turn: Callable[[], None]) -> Iterator[None]:
    """Call `turn` when the output file has been written to so many times; of what it goes on with there is one write
    less, as it has no head.
    """
    write, done = output_file.OutputFile.write, list[int]()

    def slow(self: output_file.OutputFile, count: int) -> None:
        write(self, count)
        done.append(count)
        if len(done) == (which if not self.begins else 1):
            turn()

    output_file.OutputFile.write = slow  # type: ignore[method-assign]
    try:
        yield
    finally:
        output_file.OutputFile.write = write  # type: ignore[method-assign]


def _parent(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
