"""`binlog-merge run`: what it starts, what it refuses before it starts anything, and its one log."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from binlog_merge.cli import main
from binlog_merge.cli.log_lines import Level, LineFormat
from binlog_merge.cli.run import LOCK_NAME, _ranges
from binlog_merge.cli.run_commands import ComponentLines, RunOptions, components, event_line, json_line, text_line
from binlog_merge.errors import FINAL_EXITS
from binlog_merge.files.lock import OutputLock
from binlog_merge.heartbeat import CAPTURED
from tests.command_line import parsed

NOW = datetime(2026, 11, 23, 7, 0, 0, 5000, UTC)
SERVED = 'server: "mysql://root@127.0.0.1:1"'
NODES = f"version: 1\nname: live\nnodes:\n  - {{source-id: dn-1, {SERVED}}}\noutput: {{dir: merged}}\n"

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    path = tmp_path / "cluster.yaml"
    path.write_text(NODES)
    return path


ALL = RunOptions(
    config=Path("c.yaml"),
    merged=Path("-out"),
    password_file=Path("pw"),
    ssl_ca=Path("ca"),
    start_file=["dn-1=binlog.000004", "binlog.000001"],
    min_interval=0.5,
    in_driver=1000,
    filter_file=Path("f.yaml"),
    check_rows=True,
    master="local[1]",
    conf=["a=b", "c=d=e"],
    host="0.0.0.0",
    port=3308,
    user="-user",
    serve_password_file=Path("rep"),
    tls_cert=Path("cert"),
    tls_key=Path("key"),
    serve_option=["users=-u.yaml", "--tls-required"],
    log_level=Level.debug,
    log_format=LineFormat.json,
)


def _values(options: RunOptions) -> dict[str, dict[str, object]]:
    """Return the parameters with which each command would be called."""
    commands = {component.name: component.command for component in components(options)}
    return {name: parsed(command[command.index("binlog_merge.cli.main") + 1 :]) for name, command in commands.items()}


def test_every_option_arrives_at_its_command() -> None:
    values = _values(ALL)
    assert list(values) == ["capture", "merge", "serve"]
    expected: dict[str, dict[str, object]] = {
        "capture": {
            "config": Path("c.yaml"),
            "stop_never": True,
            "together": True,
            "retry_seconds": float("inf"),
            "password_file": Path("pw"),
            "ssl_ca": Path("ca"),
            "start_file": ["dn-1=binlog.000004", "binlog.000001"],
        },
        "merge": {
            "config": Path("c.yaml"),
            "merged": "-out",
            "stop_never": True,
            "min_interval": 0.5,
            "in_driver": 1000,
            "filter_file": Path("f.yaml"),
            "check_rows": True,
            "master": "local[1]",
            "conf": ["a=b", "c=d=e"],
        },
        "serve": {
            "directory": "-out",
            "host": "0.0.0.0",
            "port": 3308,
            "user": "-user",
            "password_file": Path("rep"),
            "tls_cert": Path("cert"),
            "tls_key": Path("key"),
        },
    }
    log = {"log_level": Level.debug, "log_format": LineFormat.json}
    for name, wanted in expected.items():
        assert {key: values[name][key] for key in wanted} == wanted
        assert {key: values[name][key] for key in log} == log


def test_what_is_not_given_is_left_to_each_command() -> None:
    plain = RunOptions(Path("c.yaml"), Path("out"))
    values = _values(plain)
    assert values["serve"] == parsed(["serve", "out"])
    assert values["merge"] == parsed(["merge", "--config", "c.yaml", "--out", "out", "--stop-never"])


@pytest.mark.parametrize(
    ("capture", "serve", "names"),
    [(True, False, ["capture", "merge"]), (False, True, ["merge", "serve"]), (False, False, ["merge"])],
)
def test_commands_may_be_left_out(capture: bool, serve: bool, names: list[str]) -> None:
    options = RunOptions(Path("c.yaml"), Path("out"), no_capture=not capture, no_serve=not serve)
    assert [component.name for component in components(options)] == names


def test_merge_is_told_whether_a_capture_runs_beside_it() -> None:
    """A node of which nothing was captured is lacking there: `files.lacks`."""
    for lease in (True, False):
        for without in (True, False):
            options = RunOptions(Path("c.yaml"), Path("out"), no_capture=without)
            (merge,) = [each for each in components(options, lease) if each.name == "merge"]
            assert (CAPTURED in merge.environment) == (not without)


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (["--password-file", "none"], 31, "none"),
        (["--serve-password-file", "none"], 31, "none"),
        (["--no-serve", "--port", "3308"], 2, "options of serve are given, and serve does not run"),
        (["--no-capture", "--ssl-ca", "ca"], 2, "options of capture are given, and capture does not run"),
        (["--conf", "x"], 2, "--conf spark.driver.memory=4g"),
        (["--grace", "-1"], 2, "--grace"),
        (["--config", "none.yaml"], 2, "cannot read the configuration"),
    ],
)
def test_what_is_wrong_is_said_before_anything_starts(
    cluster: Path, capsys: Captured, options: list[str], code: int, says: str
) -> None:
    assert main.run(["run", "-c", str(cluster), *options]) == code
    assert says in capsys.readouterr().err
    assert not (cluster.parent / "merged").exists()


def test_an_option_of_capture_where_no_node_has_a_server(cluster: Path, capsys: Captured) -> None:
    cluster.write_text(NODES.replace(SERVED, "files: 'dn-1/*'"))
    assert main.run(["run", "-c", str(cluster), "--start-file", "binlog.000001"]) == 2
    assert "capture does not run" in capsys.readouterr().err


def test_a_second_run_of_an_output_is_refused(cluster: Path, capsys: Captured) -> None:
    with OutputLock(cluster.parent / "merged", "run", LOCK_NAME):
        assert main.run(["run", "-c", str(cluster)]) == 25
    assert "another run (process " in capsys.readouterr().err


def test_the_help_names_all_codes_that_end_it(capsys: Captured) -> None:
    assert main.run(["run", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert f"These are {_ranges(FINAL_EXITS)}" in text


def test_numbers_in_a_row_are_a_range() -> None:
    assert _ranges((2, 4, 5, 7, 8, 9, 12)) == "2, 4, 5, 7-9, 12"


def test_a_line_for_people_has_its_component_and_no_control_characters() -> None:
    assert text_line("merge", "a \x1b[31mred") == "merge   | a \\x1b[31mred"
    assert text_line("capture", "") == "capture | "


def test_a_json_line_is_kept_and_gets_its_component() -> None:
    line = '{"time": "t", "level": "info", "logger": "l", "event": "e", "fields": {"a": 1}}'
    assert json.loads(json_line("merge", line, NOW)) == {**json.loads(line), "component": "merge"}


@pytest.mark.parametrize("line", ["Exception in thread main", "", "[1, 2]", "5", "{", '"text"'])
def test_another_line_becomes_an_event(line: str) -> None:
    assert json.loads(json_line("merge", line, NOW)) == {
        "time": "2026-11-23T07:00:00.005Z",
        "level": "info",
        "logger": "binlog_merge",
        "event": line,
        "fields": {},
        "component": "merge",
    }


def test_own_events_have_the_keys_of_the_others() -> None:
    written = json.loads(event_line("run", "ended", {"of": "merge", "code": -9}, "warning", NOW))
    assert list(written) == ["time", "level", "logger", "event", "fields", "component"]
    assert written["fields"] == {"of": "merge", "code": -9}


def test_all_lines_go_to_stderr(capsys: Captured) -> None:
    ComponentLines(as_json=False).line("serve", "up")
    ComponentLines(as_json=False).own("merge has ended", "ended", {"of": "merge"}, wrong=True)
    ComponentLines(as_json=True).own("merge has ended", "ended", {"of": "merge"}, wrong=True)
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert out == "" and lines[:2] == ["serve   | up", "run     | merge has ended"]
    assert (json.loads(lines[2])["level"], json.loads(lines[2])["event"]) == ("warning", "ended")
