"""`deploy/`: the unit and the container recipe name files, programs, options and exit codes that exist."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.errors import FINAL_EXITS
from tests.command_line import parsed

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
UNIT = DEPLOY / "binlog-merge@.service"
CONTAINERFILE = (DEPLOY / "Containerfile").read_text()


def _unit(path: Path = UNIT) -> dict[str, dict[str, list[str]]]:
    """Return the settings of a unit by section; a setting may be given more than once."""
    sections: dict[str, dict[str, list[str]]] = {}
    section: dict[str, list[str]] = {}
    for line in path.read_text().replace("\\\n", " ").splitlines():
        if found := re.fullmatch(r"\[(\w+)\]", line):
            section = sections.setdefault(found[1], {})
        elif line and not line.startswith("#"):
            name, equals, value = line.partition("=")
            assert equals and name.isalnum(), line
            section.setdefault(name, []).append(value)
    return sections


def _instructions() -> list[tuple[str, str]]:
    text = re.sub(r"^#.*\n", "", CONTAINERFILE, flags=re.M).replace("\\\n", " ")
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in text.splitlines() if line)]


def _of(instruction: str) -> list[str]:
    return [rest for word, rest in _instructions() if word == instruction]


def test_a_wrong_option_would_be_noticed() -> None:
    with pytest.raises(Exception, match="No such option: --frobnicate"):
        parsed(["run", "--config", "x", "--frobnicate"])


def test_the_unit_runs_a_command_that_exists() -> None:
    service = _unit()["Service"]
    (start,) = service["ExecStart"]
    program, *arguments = shlex.split(start)
    assert program == "/opt/binlog-merge/bin/binlog-merge"
    values = parsed(arguments)
    credentials = {value.partition(":")[0] for value in service["LoadCredential"]}
    assert {str(values[name]) for name in ("password_file", "serve_password_file")} == {f"%d/{c}" for c in credentials}
    assert str(values["merged"]).startswith(f"/var/lib/{service['StateDirectory'][0]}/")
    assert int(service["TimeoutStopSec"][0]) > values["grace"]


def test_the_unit_is_not_started_again_where_that_cannot_help() -> None:
    service = _unit()["Service"]
    assert service["Restart"] == ["on-failure"] and service["KillMode"] == ["mixed"]
    assert service["RestartPreventExitStatus"] == [" ".join(map(str, FINAL_EXITS))]
    assert "MemoryDenyWriteExecute" not in service


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
@pytest.mark.parametrize("hosts", [1, 2])
def test_systemd_takes_the_units(hosts: int, tmp_path: Path) -> None:
    """One host has the unit; each of a pair has the drop-in, too, which systemd reads."""
    unit = tmp_path / "binlog-merge@orders.service"
    unit.write_text(_with_program(UNIT))
    dropped = tmp_path / f"{unit.name}.d" / "two-hosts.conf"
    if hosts == 2:
        dropped.parent.mkdir()
        dropped.write_text(_with_program(DEPLOY / dropped.name))
    assert _complaints(unit) == []
    if hosts == 2:
        dropped.write_text(dropped.read_text().replace("\nEnvironment=", "\nEnvironmnt="))
        (complaint,) = _complaints(unit)
        assert "Environmnt" in complaint and dropped.name in complaint


def _with_program(path: Path) -> str:
    """Return a unit, or a drop-in, whose program is one that is on this machine."""
    return path.read_text().replace("ExecStart=/opt/binlog-merge/bin/binlog-merge", f"ExecStart={sys.executable}")


def _complaints(unit: Path) -> list[str]:
    """Return what systemd says of a unit and its drop-ins; of those of this machine it may say something, too."""
    done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False)
    found = [line for line in done.stderr.splitlines() if unit.name in line]
    assert found or done.returncode == 0, done.stderr
    return found


def test_the_example_is_a_configuration_that_can_be_captured() -> None:
    config = MergeConfig.load(DEPLOY / "cluster.yaml")
    assert all(node.server for node in config.nodes)
    assert Path(config.capture.dir).is_relative_to("/var/lib/binlog-merge")


def test_the_recipe_has_known_instructions_and_copies_what_exists() -> None:
    known = [
        "ARG",
        "CMD",
        "COPY",
        "ENTRYPOINT",
        "ENV",
        "EXPOSE",
        "FROM",
        "HEALTHCHECK",
        "RUN",
        "STOPSIGNAL",
        "USER",
        "VOLUME",
        "WORKDIR",
    ]
    assert {word for word, _ in _instructions()} <= set(known)
    assert len(_of("FROM")) == 2 and _of("FROM")[0].endswith(" AS build")
    ignored = (DEPLOY / "Containerfile.dockerignore").read_text().split()
    for copy in _of("COPY"):
        *sources, _ = copy.split()
        if sources[0] == "--from=build":
            assert f"UV_PROJECT_ENVIRONMENT={sources[1]}" in CONTAINERFILE
            continue
        for source in sources:
            assert (ROOT / source).exists() and f"!{source}" in ignored, source


def test_the_recipe_installs_with_the_tool_and_the_options_of_the_setup() -> None:
    setup = (ROOT / "tools" / "setup.sh").read_text()
    version = re.search(r"^UV_VERSION=(\S+)$", setup, re.M)
    assert version is not None and f"uv=={version[1]} " in CONTAINERFILE
    assert "uv sync --frozen" in CONTAINERFILE and "uv sync --frozen" in setup
    assert "openjdk-17-jre-headless" in CONTAINERFILE and "openjdk-17-jre-headless" in setup


def test_the_recipe_runs_a_command_that_exists_without_being_root() -> None:
    (user,) = _of("USER")
    assert int(user.split(":")[0]) > 0
    after = _instructions()[_instructions().index(("USER", user)) :]
    assert [value for word, value in after if word == "RUN"] == ['["binlog-merge", "warm"]']
    (entry,), (command,) = _of("ENTRYPOINT"), _of("CMD")
    assert json.loads(entry) == ["binlog-merge"]
    values = parsed(json.loads(command))
    volumes = json.loads(_of("VOLUME")[0])
    assert any(Path(values["merged"]).is_relative_to(volume) for volume in volumes)
    ports = _of("EXPOSE")[0].split()
    assert "3307" in ports and values["listen"].rpartition(":")[2] in ports


def test_the_health_check_is_a_program_that_runs(tmp_path: Path) -> None:
    (check,) = _of("HEALTHCHECK")
    options, _, command = check.partition("CMD ")
    assert re.fullmatch(r"(--[a-z-]+=\w+\s+)+", options)
    python, _, program = json.loads(command)
    assert python == "python3"
    compile(program, "HEALTHCHECK", "exec")
    assert parsed(json.loads(_of("CMD")[0]))["listen"] in program


def test_the_drop_in_for_two_hosts_runs_the_same_where_the_configuration_says_where_the_log_is() -> None:
    unit, dropped = _unit()["Service"], _unit(DEPLOY / "two-hosts.conf")["Service"]
    reset, start = dropped["ExecStart"]
    assert reset == ""
    program, *arguments = shlex.split(start)
    first, *before = shlex.split(unit["ExecStart"][0])
    assert program == first
    now, then = parsed(arguments), parsed(before)
    assert {name for name in now if now[name] != then[name]} == {"merged", "listen"}
    assert now["merged"] is None
    (temporary,) = dropped["Environment"]
    assert temporary.removeprefix("TMPDIR=/var/lib/") in dropped["StateDirectory"][0].split()
