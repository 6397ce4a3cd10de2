"""`make dist`: wheel, sdist and SBOM in dist/, nothing in them that does not belong there, and the wheel tried."""

import json
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

from tools.smoke import try_wheel

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
UV = ROOT / ".venv" / "bin" / "uv"
PACKAGES = ("binlog_merge", "snapshot_store", "pyspark_binlog_merge")


def build() -> tuple[Path, Path]:
    """Build the sdist, and from it the wheel; return both."""
    _uv("build", "--quiet", "--clear", "--no-create-gitignore", "--python", sys.executable, "--out-dir", str(DIST))
    (sdist,), (wheel,) = DIST.glob("*.tar.gz"), DIST.glob("*.whl")
    return sdist, wheel


def check_sdist(sdist: Path) -> None:
    """Exit unless it has the packages as git has them, and beside them only what git has."""
    with tarfile.open(sdist) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()} - {"PKG-INFO"}
    tracked = set(_tracked())
    missing = {name for name in tracked if name.startswith(PACKAGES)} - packed
    _exit_if("git has, and the sdist has not", missing)
    _exit_if("the sdist has, and git has not", packed - tracked)


def check_wheel(wheel: Path) -> None:
    """Exit unless it has the packages, their data and the demo's binlogs, and nothing beside them."""
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    demo = {name for name in packed if name.startswith("binlog_merge/cli/demo_cluster/")}
    tracked = {name for name in _tracked() if name.startswith(PACKAGES)}
    _exit_if("git has, and the wheel has not", tracked - packed)
    _exit_if("the wheel has, and git has not", packed - demo - tracked)
    _exit_if("the wheel lacks", {"the demo's binlogs"} - ({"the demo's binlogs"} if demo else set()))


def write_sbom(wheel: Path, python: Path) -> None:
    """Write what uv.lock pins as CycloneDX beside the wheel; exit if the wheel's environment has other packages."""
    sbom = DIST / f"{wheel.name.partition('-py3')[0]}.cdx.json"
    export = ("export", "--quiet", "--frozen", "--no-dev", "--format", "cyclonedx1.5", "--output-file", str(sbom))
    _uv(*export, "--preview-features", "sbom-export")
    listed = subprocess.run(
        [UV, "pip", "list", "--python", python, "--format", "json"], capture_output=True, text=True, check=True
    ).stdout
    document = json.loads(sbom.read_text())
    told = {_name(part) for part in (document["metadata"]["component"], *document["components"])}
    _exit_if("installed with the wheel, and not in uv.lock", {_name(part) for part in json.loads(listed)} - told)


def _name(package: dict[str, str]) -> str:
    return re.sub(r"[-_.]+", "-", package["name"]).lower()


def _tracked() -> list[str]:
    return subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")


def _exit_if(what: str, names: set[str]) -> None:
    if names:
        sys.exit(f"dist: {what}: {', '.join(sorted(names)[:10])}")


def _uv(*arguments: str) -> None:
    subprocess.run([UV, *arguments], cwd=ROOT, check=True)


def main() -> None:
    sdist, wheel = build()
    check_sdist(sdist)
    check_wheel(wheel)
    with tempfile.TemporaryDirectory(prefix="binlog-merge-dist-") as folder:
        venv = Path(folder) / "venv"
        _uv("venv", "--quiet", "--python", sys.executable, str(venv))
        _uv("pip", "install", "--quiet", "--python", str(venv / "bin" / "python"), str(wheel))
        try_wheel(venv, Path(folder) / "elsewhere")
        write_sbom(wheel, venv / "bin" / "python")
    for path in sorted(DIST.iterdir()):
        print(f"{path.relative_to(ROOT)}  {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
