"""Packs the package, and all that it needs, for executors that lack it: `python -m binlog_merge.spark.archive FILE`.

The archive has what this Python has, in the same versions; not pyspark, which executors have of their own Spark. Where
it is unpacked it needs a Python of the same minor version, and this operating system and processor architecture.
"""

import re
import sys
import tarfile
from collections.abc import Iterator
from importlib import metadata
from importlib.util import cache_from_source, find_spec
from pathlib import Path
from typing import Final

from binlog_merge.errors import ConfigError, IoError
from binlog_merge.spark.peer import PACKAGES
from binlog_merge.whole_files import appearing

_OWN: Final = "binlog-merge"
_OURS: Final = ("binlog_merge", "snapshot_store")
_OF_SPARK: Final = frozenset({"pyspark", "py4j"})


def needed(name: str = _OWN) -> dict[str, metadata.Distribution]:
    """Return the installed distributions that one needs, by name, itself among them; not Spark's own."""
    found: dict[str, metadata.Distribution] = {}
    names = [name]
    while names:
        name = re.sub(r"[-_.]+", "-", names.pop()).lower()
        if name in found or name in _OF_SPARK:
            continue
        try:
            found[name] = metadata.distribution(name)
        except metadata.PackageNotFoundError:  # for another system or Python, says its marker
            continue
        wanted = (re.match(r"([\w.-]+)[^;]*(?:;(.*))?", text) for text in found[name].requires or ())
        names += [match[1] for match in wanted if match is not None and "extra" not in (match[2] or "")]
    return found


def pack(path: Path) -> None:
    """Write the archive. Raises IoError, and ConfigError where the package is not installed."""
    if not re.search(r"\.(tar\.gz|tgz)$", path.name):
        raise ConfigError("Spark unpacks archives by their names", file=str(path), remedy="let it end in .tar.gz")
    distributions = needed()
    if _OWN not in distributions:
        raise ConfigError("binlog-merge is not installed in this Python", remedy="pip install it, and run it again")
    with appearing(path) as part, tarfile.open(part, "w:gz", compresslevel=1) as archive:
        for name in _OURS:
            archive.add(_own(name), name)
        for distribution in distributions.values():
            for name, file in _files(distribution):
                archive.add(file, name, recursive=False)


def _own(name: str) -> str:
    """Return the folder of a package of ours, which an editable installation does not list."""
    spec = find_spec(name)
    assert spec is not None and spec.submodule_search_locations
    return spec.submodule_search_locations[0]


def _files(distribution: metadata.Distribution) -> Iterator[tuple[str, str]]:
    """Yield the files of a distribution: names below the folder of packages, and paths. No scripts.

    With bytecode that is there: to compile all that is imported takes a new executor longer than a small merge.
    """
    for file in distribution.files or ():
        left_out = file.parts[0] in ("..", "/", *_OURS) or "__pycache__" in file.parts or file.suffix == ".pth"
        located = str(distribution.locate_file(file))
        if not left_out and Path(located).is_file():
            yield str(file), located
            compiled = Path(cache_from_source(located)) if file.suffix == ".py" else None
            if compiled is not None and compiled.is_file():
                yield f"{file.parent}/__pycache__/{compiled.name}", str(compiled)


def main() -> None:
    """Make the archive that the command line names, and say how to send it."""
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit("usage: python -m binlog_merge.spark.archive FILE.tar.gz")
    path = Path(sys.argv[1])
    try:
        pack(path)
    except (ConfigError, IoError) as error:
        print(f"binlog-merge: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    print(f"{path}: {path.stat().st_size / 1e6:.0f} MB; send it with --conf spark.archives={path}#{PACKAGES}")


if __name__ == "__main__":
    main()
