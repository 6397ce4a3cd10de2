"""The README is true: its examples run and print what stands there, and its tables are the program's own."""

import importlib.util
import io
import re
import shlex
import shutil
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.errors import EXIT_CODES
from binlog_merge.files.manifest import Manifest
from binlog_merge.status.metrics import METRICS
from tests.command_line import command_line, parsed
from tests.merge_e2e.local import merge
from tests.mysql_server import MySqlServer

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "README.md").read_text()

_spec = importlib.util.spec_from_file_location("readme", ROOT / "tools" / "readme.py")
assert _spec is not None and _spec.loader is not None
readme = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(readme)


@pytest.mark.spark
@pytest.mark.usefixtures("commands_share_spark")
def test_every_console_example_prints_what_the_readme_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    for name in ("merged", "article", "shards"):
        shutil.rmtree(ROOT / "build" / name, ignore_errors=True)
    for name in ("schema.duckdb", "shop.db"):
        (ROOT / "build" / name).unlink(missing_ok=True)
    for example in readme.examples(TEXT):
        printed = readme.comparable(readme.run(example.command, command_line))
        assert printed == readme.comparable(example.output), f"run tools/readme.py: {example.command}"


@pytest.mark.mysql
def test_the_commands_for_servers_run(mysql_server: MySqlServer, tmp_path: Path) -> None:
    """Those that name a server do what they say, on another server and another log."""
    merge(ROOT / "fixtures" / "shards-pessimistic" / "cluster.yaml", tmp_path / "merged")
    url = f"'mysql://root@localhost/?socket={mysql_server.socket}'"
    printed = []
    for verb in ("replay", "verify"):
        command = re.search(rf"binlog-merge {verb} --from merged/ --\w+ mysql://root@10\.0\.0\.7:3306$", TEXT, re.M)
        assert command is not None
        run = command[0].replace("merged/", str(tmp_path / "merged")).replace("mysql://root@10.0.0.7:3306", url)
        printed.append(readme.run(run, command_line))
    assert "19 transactions, 1 to 19" in printed[0], printed[0]
    assert "shop.orders" in printed[1] and "differs" not in printed[1], printed[1]
    mysql_server.execute("UPDATE shop.orders SET customer = UPPER(customer) WHERE id = 1")
    assert "id=1: customer is SMITH, should be Smith" in readme.run(run, command_line)


@pytest.mark.mysql
def test_the_commands_for_live_capture_run(mysql_server: MySqlServer, tmp_path: Path) -> None:
    """As they stand there, on nodes that are one server."""
    chapter = TEXT[TEXT.index("## Live capture") :]
    shown, command = (
        re.search(r"```yaml\n(.*?)```", chapter, re.S),
        re.search(r"^binlog-merge capture.*pw(?= )", chapter, re.M),
    )
    assert shown is not None and command is not None
    url = f"mysql://root@localhost/?socket={mysql_server.socket}"
    (tmp_path / "cluster.yaml").write_text(re.sub(r"mysql://capture@10\.0\.0\.\d:3306", url, shown[1]))
    (tmp_path / "pw").write_text("\n")
    mysql_server.execute("CREATE DATABASE shop; FLUSH BINARY LOGS")
    run = command[0].replace("cluster.yaml", str(tmp_path / "cluster.yaml")).replace(" pw", f" {tmp_path / 'pw'}")
    printed = readme.run(run)
    assert printed.startswith("2 nodes captured into ") and "  dn-2  up to binlog.000002:" in printed
    for file in mysql_server.binlog_files():
        assert (tmp_path / "captured" / "dn-1" / file.name).read_bytes() == file.read_bytes()


def test_the_chapter_on_production_names_what_there_is(tmp_path: Path) -> None:
    chapter = TEXT[TEXT.index("\n## Run it in production\n") : TEXT.index("\n## On a cluster\n")]
    shown = re.search(r"```yaml\n(.*?)```", chapter, re.S)
    assert shown is not None
    path = tmp_path / "cluster.yaml"
    path.write_text(shown[1])
    config = MergeConfig.load(path)
    assert all(node.fails_over for node in config.nodes) and config.retention.of_output and config.retention.captured
    blocks = re.findall(r"```sh\n(.*?)```", chapter, re.S)
    commands = [shlex.split(line, comments=True) for block in blocks for line in block.splitlines()]
    assert {command[1] for command in commands} == {"run", "status", "purge", "capture", "verify"}
    for command in commands:
        parsed(command[1:])
    rows = re.findall(r"^\| (.*?) \| .+? \| .{10,} \|$", chapter[chapter.index("### What to watch") :], re.M)
    watched = {name for row in rows for name in re.findall(r"binlog_merge_\w+", row)}
    assert len(watched) > 12 and set(re.findall(r"binlog_merge_\w+", chapter)) <= {metric.name for metric in METRICS}
    assert {int(code) for code in re.findall(r"\((\d\d)\)", chapter)} <= {code.exit_code for code in EXIT_CODES}


def test_every_verb_has_an_example() -> None:
    shown = {example.command.split()[1] for example in readme.examples(TEXT)}
    assert shown == {"merge", "inspect", "demo", "schema", "filter", "position-of", "tso-of", "replay", "verify", "ddl"}


def test_the_contents_name_every_heading_behind_them() -> None:
    headings = re.findall(r"^(?:##|###) (.+)$", re.sub(r"^```.*?^```$", "", TEXT, flags=re.DOTALL | re.MULTILINE), re.M)
    behind = headings[headings.index("Contents") + 1 :]
    anchors = [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in behind]
    assert re.findall(r"^ *- \[(.+)\]\(#(.+)\)$", TEXT, re.M) == list(zip(behind, anchors, strict=True))


def test_the_exit_codes_are_those_of_the_program() -> None:
    assert readme.exit_codes() in TEXT


@pytest.mark.spark
def test_the_python_example_runs(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    shutil.rmtree(ROOT / "build" / "merged-py", ignore_errors=True)
    code = re.search(r"```python\n(.*?)```", TEXT, re.DOTALL)
    assert code is not None
    with redirect_stdout(io.StringIO()) as printed:
        exec(compile(code[1], "README.md", "exec"), {})
    manifest = Manifest.load(ROOT / "build" / "merged-py").state
    assert printed.getvalue().split()[0] == str(manifest.rank)


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_the_sql_example_says_what_stands_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    chapter = TEXT[TEXT.index("### Ask with SQL") : TEXT.index("### When it goes on")]
    code, shown = (
        re.search(r"```python\n(.*?)```", chapter, re.DOTALL),
        re.search(r"```text\n(.*?)```", chapter, re.DOTALL),
    )
    assert code is not None and shown is not None
    namespace: dict[str, Any] = {}
    with redirect_stdout(io.StringIO()) as printed:
        exec(compile(code[1], "README.md", "exec"), namespace)
    assert printed.getvalue().strip() == shown[1].strip()
    named = re.findall(r"^\| (`.*?`) \| ", chapter, re.MULTILINE)
    assert [name for cell in named for name in re.findall(r"`(\w+)`", cell)] == namespace["frame"].columns


def test_the_configuration_shown_is_valid(tmp_path: Path) -> None:
    shown = re.search(r"```yaml\n(version: .*?)```", TEXT, re.DOTALL)
    assert shown is not None
    path = tmp_path / "cluster.yaml"
    path.write_text(shown[1])
    config = MergeConfig.load(path)
    assert [node.source_id for node in config.nodes] == ["dn-1", "dn-2"]
