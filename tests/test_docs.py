"""README.md and docs/ are true: examples run and print what stands there, and tables are the program's own."""

import io
import json
import re
import shlex
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import typer

from binlog_merge.cli.verbs import application
from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.errors import EXIT_CODES
from binlog_merge.files.manifest import Manifest
from binlog_merge.observe.status.metrics import METRICS
from tests.command_line import command_line, parsed
from tests.merge_e2e.local import merge
from tests.mysql_server import MySqlServer
from tools import docs, docs_pictures, notebook, reference, tested

ROOT, DOCS = docs.ROOT, docs.ROOT / "docs"
TEXTS = {page: page.read_text() for page in docs.PAGES}
WITH_EXAMPLES = [page for page, text in TEXTS.items() if any(docs.examples(text))]


def text_of(name: str) -> str:
    """Return the text of a page of docs/."""
    return TEXTS[DOCS / name]


@dataclass(frozen=True)
class Book:
    """A folder in which examples run, each page's once, behind those of the pages that it names."""

    place: Path
    names: dict[Path, dict[str, Any]] = field(default_factory=dict)

    def run(self, page: Path) -> dict[str, Any]:
        """Run a page's examples, compare what they print, and return the names that its Python defines."""
        if page in self.names:
            return self.names[page]
        names = self.names[page] = {}
        for earlier in docs.before(page):
            self.run(earlier)
        for example in docs.examples(TEXTS[page]):
            if example.command is not None:
                printed = docs.run(example.command, command_line, self.place)
                shown = docs.comparable(example.output or "")
                assert docs.comparable(printed) == shown, f"run tools/docs.py {page}: {example.command}"
            if example.code is not None:
                with redirect_stdout(io.StringIO()) as written:
                    exec(compile(example.code, page.name, "exec"), names)
                assert example.output is None or written.getvalue().strip() == example.output.strip(), page
        return names


@pytest.fixture(scope="module")
def _book(tmp_path_factory: pytest.TempPathFactory) -> Book:
    place = tmp_path_factory.mktemp("docs").resolve()
    docs.prepare(place)
    return Book(place)


@pytest.fixture
def book(_book: Book, commands_share_spark: None, monkeypatch: pytest.MonkeyPatch) -> Book:
    """The folder of the examples, which is the working directory."""
    monkeypatch.chdir(_book.place)
    return _book


@pytest.mark.spark
@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_example_prints_what_the_page_shows(book: Book, page: Path) -> None:
    book.run(page)


@pytest.mark.spark
def test_the_python_example_of_the_tutorial_says_what_was_merged(book: Book) -> None:
    names = book.run(DOCS / "tutorial.md")
    assert names["result"].transactions == Manifest.load(book.place / "build" / "merged-py").state.rank > 0


@pytest.mark.extended  # what it calls is what the pages and the tutorial call
@pytest.mark.spark
def test_the_notebook_prints_what_it_shows(book: Book) -> None:
    """A kernel runs it, and the site's page is made of it."""
    book.run(notebook.TUTORIAL)
    shown = notebook.read()
    found = notebook.executed(shown, book.place)
    for one, two in zip(shown.cells, found.cells, strict=True):
        if one.cell_type == "code":
            assert [*map(notebook.text_of, two.outputs)] == [*map(notebook.text_of, one.outputs)], one.source
    assert notebook.PAGE.read_text() == notebook.page(shown), "run python -m tools.notebook"


@pytest.mark.spark
def test_the_columns_of_transactions_are_named(book: Book) -> None:
    names = book.run(DOCS / "how-to" / "ask-with-sql.md")
    named = re.findall(r"^\| (`.*?`) \| ", text_of("how-to/ask-with-sql.md"), re.MULTILINE)
    assert [name for cell in named for name in re.findall(r"`(\w+)`", cell)] == names["frame"].columns


@pytest.mark.mysql
def test_the_commands_for_servers_run(mysql_server: MySqlServer, tmp_path: Path) -> None:
    """Those that name a server do what they say, on another server and another log."""
    merge(ROOT / "fixtures" / "shards-pessimistic" / "cluster.yaml", tmp_path / "merged")
    url = f"'mysql://root@localhost/?socket={mysql_server.socket}'"
    printed = []
    for verb in ("replay", "verify"):
        shown = rf"binlog-merge {verb} --merged merged/ --\w+ mysql://root@10\.0\.0\.7:3306$"
        command = re.search(shown, text_of(f"how-to/{verb}.md"), re.M)
        assert command is not None
        run = command[0].replace("merged/", str(tmp_path / "merged")).replace("mysql://root@10.0.0.7:3306", url)
        printed.append(docs.run(run, command_line))
    assert "19 transactions, 1 to 19" in printed[0], printed[0]
    assert "shop.orders" in printed[1] and "differs" not in printed[1], printed[1]
    mysql_server.execute("UPDATE shop.orders SET customer = UPPER(customer) WHERE id = 1")
    assert "id=1: customer is SMITH, should be Smith" in docs.run(run, command_line)


@pytest.mark.mysql
def test_the_commands_for_live_capture_run(mysql_server: MySqlServer, tmp_path: Path) -> None:
    """As they stand there, of two servers."""
    chapter = text_of("how-to/live-capture.md")
    shown, command = (
        re.search(r"```yaml\n(.*?)```", chapter, re.S),
        re.search(r"^binlog-merge capture.*pw(?= )", chapter, re.M),
    )
    assert shown is not None and command is not None
    with MySqlServer(tmp_path / "second", 102) as second:
        text = shown[1]
        for server, address in ((mysql_server, "10.0.0.1"), (second, "10.0.0.2")):
            server.execute("CREATE DATABASE shop; FLUSH BINARY LOGS")
            text = text.replace(f"mysql://capture@{address}:3306", f"mysql://root@localhost/?socket={server.socket}")
        (tmp_path / "cluster.yaml").write_text(text)
        (tmp_path / "pw").write_text("\n")
        run = command[0].replace("cluster.yaml", str(tmp_path / "cluster.yaml")).replace(" pw", f" {tmp_path / 'pw'}")
        printed = docs.run(run, docs.installed(ROOT))
    assert printed.startswith("2 nodes captured into ") and "  dn-2  up to binlog.000002:" in printed
    for file in mysql_server.binlog_files():
        assert (tmp_path / "captured" / "dn-1" / file.name).read_bytes() == file.read_bytes()


def test_the_page_on_production_names_what_there_is(tmp_path: Path) -> None:
    chapter = text_of("how-to/production.md")
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
    rows = re.findall(r"^\| (.*?) \| .+? \| .{10,} \|$", chapter[chapter.index("## What to watch") :], re.M)
    watched = {name for row in rows for name in re.findall(r"binlog_merge_\w+", row)}
    assert len(watched) > 12 and set(re.findall(r"binlog_merge_\w+", chapter)) <= {metric.name for metric in METRICS}
    assert {int(code) for code in re.findall(r"\((\d\d)\)", chapter)} <= {code.exit_code for code in EXIT_CODES}


def _parse(arguments: list[str]) -> None:
    """Hold a command against the program, without running it; raises what is wrong with it."""
    command: Any = typer.main.get_command(application())
    context = command.make_context("binlog-merge", [], resilient_parsing=True)
    while hasattr(command, "commands"):
        name, command, arguments = command.resolve_command(context, arguments)
        if hasattr(command, "commands"):
            context = command.make_context(name, arguments, resilient_parsing=True)
    command.make_context(name, arguments)


def test_every_verb_has_an_example() -> None:
    commands = [example.command for text in TEXTS.values() for example in docs.examples(text) if example.command]
    shown = {command.split()[1] for command in commands}
    assert shown >= {"merge", "inspect", "demo", "schema", "filter", "position-of", "tso-of", "replay", "verify", "ddl"}


@pytest.mark.parametrize("page", docs.PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_that_is_shown_is_one(page: Path) -> None:
    """Those in `sh` blocks too: verbs and options are the program's."""
    for block in re.findall(r"^ *```sh\n(.*?)^ *```$", TEXTS[page], re.DOTALL | re.MULTILINE):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if "binlog-merge" in words and words[words.index("binlog-merge") + 1 :]:
                arguments = words[words.index("binlog-merge") + 1 :]
                ends = [n for n, word in enumerate(arguments) if re.match(r"\d?>|\||&", word)]
                _parse(arguments[: min(ends, default=len(arguments))])


def test_the_readme_is_short_and_its_links_lead_somewhere() -> None:
    text = TEXTS[ROOT / "README.md"]
    assert len(text.splitlines()) <= 150
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", text)
    assert len(links) > 20 and [link for link in links if "://" not in link and not (ROOT / link).exists()] == []


@pytest.mark.parametrize(
    "page", [page for page in docs.PAGES if "<!-- generated: " in TEXTS[page]], ids=lambda p: p.stem
)
def test_the_reference_is_the_program_s_own(page: Path) -> None:
    assert reference.filled(TEXTS[page]) == TEXTS[page], f"run tools/docs.py {page}"


def test_the_readme_names_only_readers_that_are_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [line for line in TEXTS[ROOT / "README.md"].splitlines() if "in the formats of" not in line]
    assert tested.unproven("\n".join(lines)) == []
    monkeypatch.setattr(tested, "NAMES", (*tested.NAMES, "Unheard-of"))
    assert tested.unproven("Debezium reads it, and Unheard-of") == ["Unheard-of"]


def test_a_report_of_tests_says_what_was_run(tmp_path: Path) -> None:
    cases = """<testsuites><testsuite>
    <testcase classname="tests.clients.test_dumps" name="test_a"/>
    <testcase classname="tests.clients.test_pgloader" name="test_b"><failure/></testcase>
    <testcase classname="tests.clients.test_monitoring" name="test_c"><skipped/></testcase>
    </testsuite></testsuites>"""
    (tmp_path / "report.xml").write_text(cases)
    found = tested.report([tmp_path / "report.xml"])
    results = {name: row["result"] for name, row in found.items()}
    assert results == {"mydumper, mysqldump": "passed", "pgloader": "failed"}


def test_the_page_says_who_failed_in_the_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    readers = {
        "one": {"version": "1", "events": "passed", "rows": "passed"},
        "two": {"version": "2", "events": "failed: 3 changes are told, 4 are logged", "rows": "passed"},
        "three": {"version": "", "rows": "passed"},
    }
    memory = {"middle": 300.25, "last": 301.5, "most": 310.0, "flat": True}
    numbers = {"minutes": 20.0, "transactions": 14000, "ddl": 78, "started again": 30}
    day = {"date": "2026-12-01", **numbers, "serve, MiB": memory, "readers": readers}
    (tmp_path / "tested.json").write_text(json.dumps({"date": "2026-12-01", "readers": {}, "day": day}))
    monkeypatch.setattr(tested, "RESULT", tmp_path / "tested.json")
    page = tested.page()
    assert "a day in 20 minutes, 14,000 transactions, 78 DDL statements" in page and "301.5 MiB in the last" in page
    assert [line for line in page.splitlines() if line.startswith(("| one", "| two", "| three"))] == [
        "| one | 1 | passed | passed |",
        "| two | 2 | failed | passed |",
        "| three | – | – | passed |",
    ]
    assert "- two, all at once: failed: 3 changes are told, 4 are logged" in page


def test_the_pictures_are_as_they_are_drawn() -> None:
    """The same code gives the same bytes, each is well-formed, and a page shows it."""
    folder = docs_pictures.FOLDER
    assert {file.name for file in folder.iterdir()} == set(docs_pictures.PICTURES)
    for name, draw in docs_pictures.PICTURES.items():
        assert (folder / name).read_text() == draw(), "run python -m tools.docs_pictures"
        ElementTree.fromstring(draw())
        assert any(f"pictures/{name})" in text for text in TEXTS.values()), name


def test_every_part_of_the_reference_is_on_a_page() -> None:
    named = re.findall(r"<!-- generated: ([a-z-]+) -->", "".join(TEXTS.values()))
    assert sorted(named) == sorted(reference.GENERATED)


def test_every_exit_code_is_explained() -> None:
    """Each has a section: its usual cause, what to do, what stays valid."""
    sections = re.split(r"^## ", text_of("reference/exit-codes.md"), flags=re.M)[1:]
    headings = [section.splitlines()[0] for section in sections]
    assert headings == [f"{code.exit_code} {code.code}" for code in EXIT_CODES]
    assert all(len(section.split()) > 25 for section in sections)


def test_the_configuration_shown_is_valid(tmp_path: Path) -> None:
    shown = re.search(r"```yaml\n(version: .*?)```", text_of("reference/configuration.md"), re.DOTALL)
    assert shown is not None
    path = tmp_path / "cluster.yaml"
    path.write_text(shown[1])
    config = MergeConfig.load(path)
    assert [node.source_id for node in config.nodes] == ["dn-1", "dn-2"]
