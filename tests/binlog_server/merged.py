"""Merged outputs to serve, made once each."""

import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from tests.merge_e2e.cases import case_named, copy_case, whole
from tests.merge_e2e.local import merge


@cache
def _made(name: str, files: int, **output: str) -> tempfile.TemporaryDirectory[str]:
    folder = tempfile.TemporaryDirectory()
    case = case_named(name)
    total = sum(map(len, whole(case / "cluster.yaml").values()))

    def change(values: dict[str, Any]) -> None:
        values["output"] |= {"max-size": max(500, total // files), **output}

    merge(copy_case(case, Path(folder.name) / "case", change), Path(folder.name) / "out")
    return folder


def merged(name: str, files: int = 4, **output: str) -> Path:
    """Return the output of a case, cut into about so many files. It is shared: nothing may change it."""
    return Path(_made(name, files, **output).name) / "out"


def merged_copy(name: str, folder: Path, files: int = 4) -> Path:
    """Return an output of one's own."""
    return Path(shutil.copytree(merged(name, files), folder / "out"))
