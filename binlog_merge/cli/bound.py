"""A program of its own: becomes another program that the kernel kills as soon as its parent is dead.

    python -I bound.py PARENT PROGRAM ARGUMENT …

A parent that is killed with SIGKILL cannot end its children; here Linux does it (prctl, PR_SET_PDEATHSIG). Elsewhere
the program is run all the same. The kernel keeps the setting through exec, but not through fork: it must be made in
the child, and this program makes it without the risks of running Python between fork and exec of a process with
threads.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(parent: int, program: list[str]) -> None:
    """Bind this process to the parent's life, and become `program`."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before the call
            sys.exit(1)
    os.execv(program[0], program)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
