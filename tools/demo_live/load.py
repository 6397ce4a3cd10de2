"""Transfers at a steady rate, from several threads."""

import random
import threading
import time
from typing import Final

from tools.demo_live.bank import ACCOUNTS, NODES, Bank, Move

_WORKERS: Final = 4
LOCAL: Final = 0.25
"""The part of transfers that stay on one node: transactions without a commit TSO."""


class Load:
    """Runs `rate` transfers a second until `stop`; the rate may change meanwhile. `error` is what ended a thread."""

    def __init__(self, bank: Bank, rate: float, local: float = LOCAL) -> None:
        self._bank = bank
        self._local = local
        self.rate = rate
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._work, args=(seed,), daemon=True) for seed in range(_WORKERS)]
        self._begun = 0
        self._committed: dict[int, float] = {}
        self.given_up = 0
        self.error: BaseException | None = None

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Begin no more transfers, and wait for those that have begun."""
        self._ended.set()
        for thread in self._threads:
            thread.join()

    @property
    def done(self) -> int:
        """Return the number of transfers that have been committed."""
        return len(self._committed)

    def committed_at(self, number: int) -> float | None:
        """Return when a transfer was committed, by time.monotonic(); None if it is not known to be."""
        return self._committed.get(number)

    def _work(self, seed: int) -> None:
        rng = random.Random(seed)
        due = time.monotonic() + seed / self.rate
        try:
            with self._bank.sessions() as sessions:
                while not self._ended.wait(max(0.0, due - time.monotonic())):
                    due = max(due + _WORKERS / self.rate, time.monotonic() - 1)
                    with self._lock:
                        self._begun += 1
                        number = self._begun
                    if self._bank.transfer(sessions, number, _moves(rng, self._local)):
                        self._committed[number] = time.monotonic()
                    else:
                        self.given_up += 1
        except BaseException as error:  # a thread's exception would be printed and forgotten
            self.error = error


def _moves(rng: random.Random, local: float) -> list[Move]:
    """Return the two halves of a transfer, between nodes or within one."""
    nodes = [rng.randrange(len(NODES))] * 2 if rng.random() < local else rng.sample(range(len(NODES)), 2)
    giver, taker = (node * ACCOUNTS + rng.randrange(ACCOUNTS) for node in nodes)
    while giver == taker:
        taker = nodes[1] * ACCOUNTS + rng.randrange(ACCOUNTS)
    amount = rng.randint(1, 50)
    return [Move(giver, -amount), Move(taker, amount)]
