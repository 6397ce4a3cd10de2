"""The words that mean the same in every verb: --merged, -o, --quiet, --verbose; where a wrong line points to."""

import io
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

import pytest
import typer
from jsonschema import Draft202012Validator

from binlog_merge.cli.json_schema import schema_of, verbs
from binlog_merge.cli.log_lines import voice_of
from binlog_merge.cli.options import MERGED_ENV
from binlog_merge.cli.verbs import RENAMED, Verb, application
from tests.command_line import command_line
from tests.json_documents import check
from tests.merge_e2e.cases import case_named, copy_case
from tests.merge_e2e.local import merge

CASE = case_named("two-nodes")


def _commands() -> Iterator[tuple[str, Any]]:
    """Yield every verb, by its words, and its command."""
    group: Any = typer.main.get_command(application())
    for name, command in group.commands.items():
        inner = getattr(command, "commands", None)
        yield from ((name, command),) if inner is None else ((f"{name} {verb}", c) for verb, c in inner.items())


VERBS = dict(_commands())
PRINTS_JSON = [verb for verb in VERBS if verb not in ("debug json-schema", "flashback")]


@pytest.fixture(scope="module")
def merged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("language")
    merge(copy_case(CASE, folder / "case"), folder / "merged")
    return folder / "merged"


def test_every_verb_is_of_one_kind() -> None:
    assert all(isinstance(command, Verb) for command in VERBS.values())
    assert set(RENAMED) <= set(VERBS)
    assert {verb.replace(" ", "-") for verb in PRINTS_JSON} == set(verbs())
    for verb in verbs():
        for line in (False, True):
            Draft202012Validator.check_schema(schema_of(verb, line))


@pytest.mark.parametrize("verb", VERBS)
def test_the_directory_of_a_merged_log_is_called_merged(verb: str) -> None:
    """No option of another name takes one, in help or not; the environment names it, too, where it is what is asked."""
    options = {name: param for param in VERBS[verb].params for name in param.opts}
    assert not {"--out", "--from"} & set(options) or verb in ("capture", "schema history", "schema diff")
    if "--merged" in options:
        assert options["--merged"].envvar == (None if verb in ("demo", "debug order-key") else MERGED_ENV)
    if "directory" in options:
        assert "--merged" in options


@pytest.mark.parametrize("verb", PRINTS_JSON)
@pytest.mark.parametrize("output", ["json", "jsonl"])
def test_a_wrong_line_is_one_object_too_and_points_at_the_verb(verb: str, output: str) -> None:
    done = command_line([*verb.split(), "--no-such-option", "-o", output])
    document = check(verb.replace(" ", "-"), done.stdout, output == "jsonl")
    assert done.returncode == document["error"]["exit_code"] == 2
    assert document["error"]["remedy"] == f"see binlog-merge {verb} --help"
    assert document["error"]["message"] in done.stderr


def test_reasons_are_told_without_the_names_of_libraries() -> None:
    done = command_line(["inspect", "f", "-o", "xml"])
    assert "'xml' is not one of 'text', 'json', 'jsonl'" in done.stderr and "Value error" not in done.stderr
    assert "what to do: see binlog-merge inspect --help" in done.stderr


@pytest.mark.parametrize(
    "line",
    [
        ["verify", "DIR"],
        ["verify", "--merged", "DIR"],
        ["verify", "--merged=DIR"],
        ["verify", "--from", "DIR"],
        ["verify", "--from=DIR"],
        ["replay", "--dry-run", "--from", "DIR"],
        ["schema", "check", "--merged", "DIR"],
        ["schema", "check", "--store", "DIR"],
        ["schema", "check", "--store", "DIR/schema.duckdb"],
        ["debug", "plan", "DIR"],
        ["debug", "order-key", "5", "--out", "DIR"],
        ["purge", "DIR", "--to", "binlog.000001", "--dry-run"],
        ["purge", "--merged", "DIR", "--to", "binlog.000001", "--dry-run"],
    ],
    ids=" ".join,
)
def test_a_merged_log_is_named_in_every_way(
    merged: Path, line: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old names say nothing where nobody sits; a line counts more than the environment."""
    monkeypatch.setenv(MERGED_ENV, str(tmp_path / "another"))
    done = command_line([word.replace("DIR", str(merged)) for word in line])
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "line", [["verify"], ["replay", "--dry-run"], ["schema", "check"], ["tso-of", "--position", "P"]]
)
def test_the_environment_names_it(merged: Path, line: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    line = [word.replace("P", f"binlog.000001:{(merged / 'binlog.000001').stat().st_size}") for word in line]
    monkeypatch.setenv(MERGED_ENV, str(merged))
    assert command_line(line).returncode == 0
    monkeypatch.delenv(MERGED_ENV)
    if line[0] != "schema":  # which has a store of its own in the current directory
        done = command_line(line)
        assert done.returncode == 2 and f"give --merged DIR, or set {MERGED_ENV}" in done.stderr


def test_two_merged_logs_are_refused(merged: Path) -> None:
    assert "named twice" in command_line(["verify", merged, "--merged", merged]).stderr
    assert "--merged and --store both" in command_line(["schema", "check", "--merged", merged, "--store", "x"]).stderr


NOWHERE = "no/where"


@pytest.mark.parametrize(
    "line",
    [
        ["changes", "DIR", "--table", "d1.t1", "--to", NOWHERE],
        ["stats", "DIR", "--plot", "rows", "--to", f"{NOWHERE}.svg"],
        ["table-at", "d1.t1", "--merged", "DIR", "--base", "empty", "--at-tso", "TSO", "--to", f"{NOWHERE}.parquet"],
        ["flashback", "DIR", "--table", "d1.t1", "--start", "TSO", "--stop", "TSO", "--to", NOWHERE],
        ["ddl", "resolve", "dn-1/binlog.000001:4", "--as", NOWHERE, "--merged", "DIR"],
        ["schema", "set", "d1.t1", "--sql", NOWHERE, "--at-tso", "TSO", "--merged", "DIR"],
        ["schema", "import", "--sql", NOWHERE, "--store", "store.duckdb"],
        ["verify", "DIR", "--against", "mysql://a@b", "--password-file", NOWHERE],
        ["inspect", NOWHERE],
    ],
    ids=" ".join,
)
def test_a_path_that_is_not_there_is_to_be_checked(
    merged: Path, line: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Room on the disk, or another try, would not help."""
    monkeypatch.chdir(tmp_path)
    changes = command_line(["changes", merged, "--table", "d1.t1", "-o", "jsonl"]).stdout
    tso = str(json.loads(changes.splitlines()[0])["commit_tso"])
    done = command_line([word.replace("DIR", str(merged)).replace("TSO", tso) for word in line])
    assert done.returncode == 31, done.stderr
    assert "what to do: check the path, and the permissions there" in done.stderr
    assert NOWHERE in done.stderr


@pytest.mark.parametrize(
    "line",
    [
        ["schema", "import", "--sql", "FILE", "--store", "s"],
        ["verify", "DIR", "--against", "mysql://a@b", "--password-file", "FILE"],
    ],
)
def test_a_text_that_is_no_utf8_is_to_be_saved_as_it(merged: Path, line: list[str], tmp_path: Path) -> None:
    file = tmp_path / "latin1"
    file.write_bytes(b"CREATE TABLE d.t (a INT COMMENT '\xe4')")
    done = command_line([word.replace("DIR", str(merged)).replace("FILE", str(file)) for word in line])
    assert done.returncode == 31 and "what to do: save the file as UTF-8" in done.stderr, done.stderr


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("quiet", [False, True])
def test_whoever_sits_at_a_terminal_is_told_the_new_name(merged: Path, quiet: bool) -> None:
    from binlog_merge.cli.main import run

    with redirect_stderr(_Terminal()) as err:
        assert run(["verify", "--from", str(merged), *(["-q"] if quiet else [])]) == 0
    assert ("--from is now called --merged" in err.getvalue()) is not quiet


def test_events_are_one_object_or_one_a_line(merged: Path, tmp_path: Path) -> None:
    first = merged / "binlog.000001"
    whole = check("inspect", command_line(["inspect", "-v", first, "-o", "json"]).stdout)
    lines = command_line(["inspect", "-v", first, "-o", "jsonl"]).stdout.splitlines()
    read = [check("inspect", line, True) for line in lines]
    assert whole["events"] == [{k: v for k, v in one.items() if k != "schema_version"} for one in read]
    assert whole["error"] is None and any("rows" in event for event in read)
    cut = tmp_path / "binlog.000001"
    cut.write_bytes(first.read_bytes()[:-7])
    done = command_line(["inspect", cut, "-o", "json"])
    broken = check("inspect", done.stdout)
    assert broken["events"] and broken["error"]["code"] == "truncated-event" and done.returncode == 11
    done = command_line(["inspect", cut, "-o", "jsonl"])
    assert check("inspect", done.stdout.splitlines()[-1], True)["error"]["position"] == broken["error"]["position"]


def test_what_goes_on_is_an_object_a_line() -> None:
    for line in (["merge", "--stop-never"], ["status", "--watch"]):
        done = command_line([*line, "-c", CASE / "cluster.yaml", "--merged", "m", "-o", "json"])
        assert done.returncode == 2 and "give -o jsonl" in json.loads(done.stdout)["error"]["remedy"]


@pytest.mark.parametrize(
    ("line", "key"),
    [
        (["schema", "show", "*"], "tables"),
        (["schema", "history", "*"], "versions"),
        (["schema", "skew"], "skews"),
        (["schema", "check"], "findings"),
        (["schema", "sql", "FROM versions"], "rows"),
    ],
)
def test_a_line_for_each_thing(merged: Path, line: list[str], key: str) -> None:
    verb, line = "-".join(line[:2]), [*line, "--merged", str(merged), "-o"]
    whole = check(verb, command_line([*line, "json"]).stdout)
    lines = command_line([*line, "jsonl"]).stdout.splitlines()
    assert len([check(verb, text, True) for text in lines]) == len(whole[key])


def test_quiet_verbose_and_debug_stand_anywhere() -> None:
    voice, rest = voice_of(["-q", "merge", "-vv", "--out", "x", "--debug", "--verbose", "--", "-v"])
    assert (voice.quiet, voice.verbose, voice.debug) == (True, 3, True)
    assert rest == ["merge", "--out", "x", "--", "-v"]


def test_no_color_is_honoured() -> None:
    """Nothing on stdout has color; the bars of a terminal have none with NO_COLOR."""
    program = (
        "import sys; sys.stderr.isatty = lambda: True\n"
        "from binlog_merge.cli.progress import BarProgress\n"
        "bar = BarProgress()\n"
        "with bar as report: report('scan', 1, 2)\n"
    )
    shown = {}
    for color in ({}, {"NO_COLOR": "1"}):
        environment = {"TERM": "xterm-256color", "FORCE_COLOR": "1", **color}
        done = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
        )
        shown[bool(color)] = done.stderr
    assert "\x1b[3" in shown[False] or "\x1b[38" in shown[False]
    assert "\x1b[3" not in shown[True].replace("\x1b[?", "")
