"""What driver and executors must have in common: the package's version, and Python's minor version.

Runs on an executor before anything else of the package does, on whatever Python is there: it imports nothing but what
every Python has.
"""

from __future__ import annotations

import socket
import sys
from importlib import metadata

PACKAGES = "binlog_merge_packages"
"""The folder in which executors unpack the archive of `binlog_merge.spark.archive`: `spark.archives=FILE#…`."""

VARIABLE = "BINLOG_MERGE_DRIVER"
"""The environment variable that tells executors the driver's `identity`."""


def identity() -> str:
    """Return what this process has: "Python 3.11, binlog-merge 0.1.0"."""
    try:
        version = metadata.version("binlog-merge")
    except metadata.PackageNotFoundError:  # a source tree
        version = "of no version"
    return f"Python {sys.version_info[0]}.{sys.version_info[1]}, binlog-merge {version}"


def here() -> tuple[str, str]:
    """Return this host's name, and what this process has."""
    return socket.gethostname(), identity()
