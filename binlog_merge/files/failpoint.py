"""Failpoints: named points at which a test can stop the process, switched on by an environment variable.

`BINLOG_MERGE_FAILPOINT=publish-before-manifest:kill` kills the process with SIGKILL at that failpoint, `:raise` raises
FailpointReached, `:wait` waits to be killed, while other threads go on. `…:kill:2` does so at the second visit. Without
the variable a failpoint costs one dictionary lookup.
"""

import os
import signal

VARIABLE = "BINLOG_MERGE_FAILPOINT"

_visits: dict[str, int] = {}


class FailpointReached(Exception):  # noqa: N818
    """The failpoint was set to `raise`."""


def failpoint(name: str) -> None:
    """Kill the process, raise or wait, if the environment variable asks for that at the failpoint `name`."""
    setting = os.environ.get(VARIABLE)
    if not setting:
        return
    wanted, action, *nth = setting.split(":")
    if wanted != name:
        return
    _visits[name] = _visits.get(name, 0) + 1
    if nth and _visits[name] != int(nth[0]):
        return
    if action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    while action == "wait":
        signal.pause()
    raise FailpointReached(name)
