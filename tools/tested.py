"""Which readers of other makers have been run against `serve`, and what came of it: the page docs/reference/tested.md.

    python -m tools.tested JUNIT.xml …      after `make check-clients`: the file docs/reference/tested.json anew

The life and the day of tests/clients/life write their own parts; what else was run is told by the reports of its tests.
What was not run this time has no row.
"""

import json
import re
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

_ROOT: Final = Path(__file__).resolve().parents[1]
RESULT: Final = _ROOT / "docs" / "reference" / "tested.json"
_LIFE: Final = _ROOT / "build" / "tested.json"
_CORPUS: Final = _ROOT / "build" / "corpus.json"
_DAY: Final = _ROOT / "build" / "day.json"
ASPECTS: Final = ("snapshot", "stream", "ddl", "restart", "serve restart", "purge", "failover", "rows")
NAMES: Final = (
    "Debezium", "Flink CDC", "canal", "Maxwell", "go-mysql", "mysql-binlog-connector-java", "mysql-replication",
    "zongji", "mysql-event-stream", "mysqlbinlog", "mariadb-binlog", "mydumper", "pgloader", "mysqldump", "Kafka",
    "ConnectorX", "MySQL replica", "MariaDB replica",
)  # fmt: skip
"""What pages may call readers."""
_CHANGED: Final = "three shards under load, killed half way once; both shard modes; a replica and DuckDB hold the rows"
_OTHERS: Final[Mapping[str, tuple[str, str, str]]] = {
    "mysqlbinlog, remote": ("test_mysql", "mysqlbinlog", "every byte as it comes, by file and by GTID; compressed too"),
    "mariadb-binlog, remote": ("test_mysql", "mariadb", "every byte as it comes, and the rows"),
    "MySQL replica, semi-synchronous": ("test_mysql", "semi_synchronous", "acknowledges; restarts of both sides"),
    "@vlasky/zongji, @powersync/mysql-zongji": ("test_events", "zongji", "stream, DDL, restarts of both sides"),
    "mydumper, mysqldump": ("test_dumps", "", "a dump of a consistent moment"),
    "pgloader": ("test_pgloader", "", "the rows in a PostgreSQL"),
    "ConnectorX, peewee, mysql-connector-python, TypeORM, mariadb, mysql2": (
        "test_connectors",
        "",
        "rows and definitions",
    ),
    "prometheus-mysqld-exporter": ("test_monitoring", "", "its questions"),
    "gh-ost 1.1.9": ("test_schema_changers", "gh-ost", _CHANGED),
    "pt-online-schema-change 3.7.1": ("test_schema_changers", "pt-online", _CHANGED),
    "HAProxy 3.2.26 before two `serve`s": (
        "test_haproxy",
        "",
        "replicas by GTID and by position, mysql-replication, a client of the tables: a `serve` killed, drained, "
        "restarted; health checks, idle timeouts, PROXY protocol",
    ),
    "orchestrator 3.2.6 of Percona": (
        "test_orchestrator",
        "",
        "it promotes the replica of a node whose primary is killed; the capture goes on there, each row once",
    ),
    "spirit of August 2026": ("test_schema_changers", "spirit", _CHANGED),
    "Vitess 24.0 (module v0.24.4), its servers as shards": (
        "test_vitess",
        "",
        "online DDL, MoveTables, Reshard under load; a target holds what vtgate shows",
    ),
    "Kafka 4.3.1, one broker: `replay --to kafka://`": (
        "test_kafka",
        "",
        "each change once, for consumers that read what is committed; kills, a second writer, compacted topics",
    ),
    "Apicurio 3.0.9, registry: `--schema-registry`": (
        "test_kafka",
        "avro",
        "kills; messages as Confluent's deserializer reads them",
    ),
}
"""The test file of a reader, which of its tests, and what they look at."""


def report(files: Sequence[Path]) -> dict[str, dict[str, str]]:
    """Return of each reader in reports of tests whether it passed; those that were not run are not in it."""
    outcomes: dict[str, list[bool]] = {}
    for file in files:
        for case in ElementTree.parse(file).getroot().iter("testcase"):
            place = case.get("classname", "").rpartition(".")[2]
            if case.find("skipped") is None:
                bad = case.find("failure") is not None or case.find("error") is not None
                outcomes.setdefault(f"{place}::{case.get('name')}", []).append(not bad)
    found = {}
    for name, (place, part, what) in _OTHERS.items():
        mine = [all(each) for test, each in outcomes.items() if test.startswith(f"{place}::") and part in test]
        if mine:
            found[name] = {"tests": str(len(mine)), "result": "passed" if all(mine) else "failed", "what": what}
    return found


def page() -> str:
    """Return the tables of the page."""
    result: dict[str, Any] = json.loads(RESULT.read_text())
    lines = [f"One life, {result['date']}:\n", f"| reader | version | {' | '.join(ASPECTS)} |", "|---" * 10 + "|"]
    why = []
    for name, row in result["readers"].items():
        cells = []
        for aspect in ASPECTS:
            told = row.get(aspect, "not run")
            cells.append({"not applicable": "–"}.get(told, told.partition(":")[0]))
            if told.startswith("failed"):
                why.append(f"- {name}, {aspect}: {_short(told)}")
        lines.append(f"| {name} | {row['version']} | {' | '.join(cells)} |")
    lines += ["", *why, ""] if why else [""]
    if day := result.get("day"):
        lines += _day(day)
    if others := result.get("others"):
        lines += [
            f"Tests of their own, {result['others-date']}:\n",
            "| what | tests | result | looked at |",
            "|---|---|---|---|",
        ]
        lines += [f"| {name} | {row['tests']} | {row['result']} | {row['what']} |" for name, row in others.items()]
    return "\n".join(lines)


def _day(day: Mapping[str, Any]) -> list[str]:
    """Return what came of the day, with the reasons of those who did not pass."""
    memory = day["serve, MiB"]
    lines = [
        f"All at once, {day['date']}: a day in {day['minutes']:g} minutes, {day['transactions']:,} transactions, "
        f"{day['ddl']} DDL statements; readers were started again {day['started again']} times. Resident memory of "
        f"`serve` since it was last killed: {memory['middle']:g} MiB in the middle third, "
        f"{memory['last']:g} MiB in the last, {memory['most']:g} MiB at most.\n",
        "| reader | version | events | rows |",
        "|---|---|---|---|",
    ]
    why = []
    for name, row in day["readers"].items():
        told = [row.get(aspect, "not applicable") for aspect in ("events", "rows")]
        cells = [{"not applicable": "–"}.get(each, each.partition(":")[0]) for each in told]
        why += [f"- {name}, all at once: {_short(each)}" for each in told if each.startswith("failed")]
        lines.append(f"| {name} | {row['version'] or '–'} | {' | '.join(cells)} |")
    return [*lines, "", *why, ""] if why else [*lines, ""]


def versions() -> str:
    """Return the table of the servers whose binlogs have been read."""
    result: dict[str, Any] = json.loads(RESULT.read_text())
    lines = [
        "| written by | files | rows as `mysqlbinlog -v` shows them | merged, verified, served byte for byte | "
        "leaves on a 9.7 what the file leaves | values that `changes` tells as `mysqlbinlog -v` | refused |",
        "|---|---|---|---|---|---|---|",
    ]
    for series, row in result["corpus"].items():
        refused = ", ".join(f"{count} {name}" for name, count in row.items() if name not in _COUNTED)
        cells = [row["files"], f"{row['lines of rows']} lines", *(row.get(name, 0) for name in _COUNTED[2:5])]
        lines.append(f"| MySQL {series} | {' | '.join(map(str, cells))} | {refused or '–'} |")
    return "\n".join(lines)


_COUNTED: Final = (
    "files", "lines of rows", "merged", "applied alike", "values that changes tells alike", "not taken by 9.7",
    "without a transaction",
)  # fmt: skip


def unproven(text: str) -> list[str]:
    """Return the readers that a text names and that have no row."""
    result = json.loads(RESULT.read_text())
    proven = " ".join([*result["readers"], *result.get("others", {})])
    return [name for name in NAMES if re.search(rf"(?i)\b{name}\b", text) and name.lower() not in proven.lower()]


def _short(text: str) -> str:
    line = re.sub(r"[|`<>\s]+", " ", text)
    return line if len(line) < 300 else f"{line[:300]} …"


def main(files: Sequence[Path]) -> None:
    """Write the result anew, of the life if it was played, and of reports of tests."""
    result = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    if _LIFE.exists():
        result |= json.loads(_LIFE.read_text())
    if _DAY.exists():
        result |= {"day": json.loads(_DAY.read_text())}
    if _CORPUS.exists():
        result |= {"corpus": json.loads(_CORPUS.read_text())}
    if others := report(files):
        result |= {"others": others, "others-date": time.strftime("%Y-%m-%d")}
    RESULT.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]])
