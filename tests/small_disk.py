"""A disk that is soon full."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(folder: Path, size: int = 40) -> Iterator[Path]:
    """Yield a folder that is a disk of so many MiB."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}m", "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("needs a disk of its own, which only root can mount")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
