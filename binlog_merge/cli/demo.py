"""`binlog-merge demo`: merges the three-node cluster that comes with the package and lists what to look at."""

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from binlog_merge.cli.example import cluster
from binlog_merge.cli.log_lines import Level, LineFormat, LogFormat, LogLevel, start_log
from binlog_merge.cli.merge import Master, MergeOptions, check_engine, run
from binlog_merge.cli.options import Output, local_path, option
from binlog_merge.cli.output import OutputFormat, printable
from binlog_merge.errors import ConfigError, ManifestError

if TYPE_CHECKING:
    from binlog_merge.config.merge_config import MergeConfig

HELP = """Merge the binlogs of a small cluster that come with the package, and say what to look at.

Three MySQL nodes hold the shards of one table; while transactions run across them, its columns are changed online, on
one node after the other. In the merged binlog there is one table, and each ALTER TABLE once, at exactly the right
place."""

Demo = Annotated[
    Path,
    option("--merged", "The directory of the merged log; an earlier demo in it is made anew.", "DIR", local_path),
]


def demo(
    merged: Demo = Path("build/demo"),
    master: Master = None,
    output: Output = OutputFormat.text,
    log_level: LogLevel = Level.warning,
    log_format: LogFormat = LineFormat.text,
) -> None:
    """Merge the binlogs of a small cluster that come with the package, and say what to look at."""
    start_log(log_level, log_format)
    from binlog_merge.config.merge_config import MergeConfig

    file = cluster()
    config = MergeConfig.load(file)
    check_engine(config, master, None)  # before an earlier demo is removed
    _clear(merged, config)
    result = run(config, merged, MergeOptions(file, end_of_input=True, master=master, output=output))
    if output is OutputFormat.text:
        names = [str(file["name"]) for file in result.to_dict()["files"]]
        print("\n".join(_what_to_look_at(merged, names)), flush=True)


def _clear(out: Path, config: "MergeConfig") -> None:
    """Remove the output of an earlier demo; nothing else is removed."""
    from binlog_merge.files.lock import OutputLock
    from binlog_merge.files.manifest import Manifest

    if out.exists() and not out.is_dir():
        raise ConfigError("it is no directory", file=str(out), remedy="give another --merged")
    if not out.exists() or not any(out.iterdir()):
        return
    try:
        header = Manifest.load(out).state.header
    except ManifestError:
        header = None
    if header is None or header.name != config.name:
        raise ConfigError(
            "the directory is not empty, and does not hold an earlier demo",
            file=str(out),
            remedy="give another --merged, or remove it yourself",
        )
    with OutputLock(out):
        shutil.rmtree(out)


def _what_to_look_at(out: Path, names: list[str]) -> list[str]:
    if not names:
        return []
    first = out / names[0]
    begins, statements = _excerpt(first)
    return [
        "",
        f"{first} begins:",
        *(f"  {line}" for line in begins),
        "",
        "Its DDL:",
        *(f"  {line}" for line in statements),
        "",
        "Look at it:",
        f"  binlog-merge inspect -v {first}",
        f"  binlog-merge schema history '*' --merged {out}",
        f"  mysqlbinlog -v --base64-output=decode-rows {first}",
        "Merge the same on Spark, as it does by itself where there is more to read:",
        f"  binlog-merge demo --merged {out}-on-spark --master 'local[*]'",
        "Replay it into any MySQL:",
        f"  mysqlbinlog {out / names[0].rsplit('.', 1)[0]}.0* | mysql -h HOST -u USER -p",
    ]


_EXCERPT_LINES = 24
_WIDTH = 150
_DDL = re.compile(r"# (ALTER|CREATE|DROP|RENAME|TRUNCATE) ", re.IGNORECASE)


def _excerpt(path: Path) -> tuple[list[str], list[str]]:
    """Return the first lines of the first transaction, and each DDL with its position."""
    from binlog_merge.log.inspection import inspect_file

    begins: list[str] = []
    statements: list[str] = []
    position, title, in_transaction = "", "", False
    for line in inspect_file(path, 4, None, 1):
        if line.startswith("# at "):
            position, title = line.removeprefix("# at "), ""
            continue
        title = title or line
        in_transaction = in_transaction or "\tGTID\t" in line
        if in_transaction and len(begins) < _EXCERPT_LINES:
            begins.append(printable(line.expandtabs())[:_WIDTH])
        if "\tQuery\t" in title and _DDL.match(line):
            statements.append(f"at {position}: {printable(line.removeprefix('# '))[:_WIDTH]}")
    return begins, statements
