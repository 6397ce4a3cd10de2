"""An installed wheel, tried outside the repository: without Java what needs none, then the demo with it."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

HELPS: Final = """# --help of every verb
import sys, typer
from binlog_merge.cli.main import run
from binlog_merge.cli.verbs import application
def verbs(command, path):
    yield path
    for name, below in getattr(command, "commands", {}).items():
        yield from verbs(below, [*path, name])
said = [(run([*path, "--help"]), path) for path in verbs(typer.main.get_command(application()), [])]
failed = [path for code, path in said if code]
sys.exit(str(failed) if failed or len(said) < 20 else 0)
"""


@dataclass(frozen=True)
class Installed:
    """A virtual environment with the wheel, the folder that commands run in, and all that they know of the machine."""

    venv: Path
    folder: Path
    environment: Mapping[str, str]

    def run(self, program: str, *arguments: object, code: int = 0, says: str = "") -> None:
        """Run one of the environment's programs; exit unless it ends with this code and prints this text."""
        command = [str(self.venv / "bin" / program), *map(str, arguments)]
        done = subprocess.run(
            command, cwd=self.folder, env=dict(self.environment), capture_output=True, text=True, check=False
        )
        told = done.stdout + done.stderr
        shown = " ".join((program, *map(str, arguments)))
        if done.returncode != code or says not in told:
            sys.exit(f"smoke: {shown}\n{told}\nsmoke: it ended with {done.returncode}, not {code}, or lacks {says!r}")
        print(f"smoke: {shown.splitlines()[0]}", file=sys.stderr)


def try_wheel(venv: Path, folder: Path) -> None:
    """Try the wheel that is installed in `venv`, in a new folder; exits at the first thing that is not right."""
    folder.mkdir()
    environment = {"PATH": str(venv / "bin"), "HOME": str(folder)}
    if "NUMBA_CACHE_DIR" in os.environ:  # kernels are found by what their sources say
        environment["NUMBA_CACHE_DIR"] = os.environ["NUMBA_CACHE_DIR"]
    without = Installed(venv, folder, environment)
    (cluster,) = venv.glob("lib/*/site-packages/binlog_merge/cli/demo_cluster")
    without.run("binlog-merge", "--version", says="binlog-merge 0.")
    without.run("python", "-m", "binlog_merge", "--version", says="binlog-merge 0.")
    without.run("python", "-c", HELPS)
    without.run("binlog-merge", "inspect", "-v", cluster / "nodes" / "dn-1" / "binlog.000001", says="### INSERT INTO")
    without.run("binlog-merge", "schema", "import", "--store", "base.duckdb", "--sql", cluster / "base" / "logical.sql")
    without.run("binlog-merge", "schema", "history", "shop.orders", "--store", "base.duckdb", says="shop.orders")
    without.run("binlog-merge", "demo", "--merged", "merged", code=2, says="apt-get install openjdk")

    java = {"PATH": f"{environment['PATH']}:/usr/bin:/bin", "JAVA_HOME": _java_home()}
    with_java = Installed(venv, folder, environment | java)
    with_java.run("binlog-merge", "demo", "--merged", "merged", says="210 transactions (2 of them DDL) of 3 nodes")

    without.run("binlog-merge", "inspect", "merged/binlog.000001", says="Table_map: `shop`.`orders`")
    without.run("binlog-merge", "schema", "history", "shop.orders", "--merged", "merged", says="ADD COLUMN note")
    without.run("binlog-merge", "verify", "--merged", "merged")
    without.run("binlog-merge", "replay", "--merged", "merged", "--to", f"parquet://{folder}/changes")
    without.run("binlog-merge", "position-of", "--tso", "75078041665263370", "merged")
    without.run("binlog-merge", "list", "merged", says="1-210")
    without.run("binlog-merge", "changes", "merged", "--table", "shop.orders", "--where", "id = 12", says="'Smith'")
    without.run("binlog-merge", "history", "shop.orders", "id=12", "--merged", "merged", says="4 changes")
    without.run("binlog-merge", "stats", "merged", says="shop.orders")
    without.run("binlog-merge", "sql", "SELECT count(*) FROM transactions", "--merged", "merged", says="210")
    without.run("binlog-merge", "report", "merged", "-o", "report.html")


def _java_home() -> str:
    if home := os.environ.get("JAVA_HOME"):
        return home
    java = shutil.which("java")
    if java is None:
        sys.exit("smoke: no Java: the demo cannot be tried")
    return str(Path(java).resolve().parents[1])
