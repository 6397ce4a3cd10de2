"""Places where a test can stop the process, compiled in always and guarded by the environment.

`BINLOG_MERGE_FAILPOINT=publish-before-manifest:kill` kills the process with SIGKILL when it gets there, `:raise`
raises. `…:kill:2` does so at the second visit. Without the variable a failpoint costs one dictionary lookup.
"""

import os
import signal

VARIABLE = "BINLOG_MERGE_FAILPOINT"

_visits: dict[str, int] = {}


class FailpointReached(Exception):  # noqa: N818
    """The failpoint was set to `raise`."""


def failpoint(name: str) -> None:
    """Do what the environment says shall happen at the place `name`; usually nothing."""
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
    raise FailpointReached(name)
