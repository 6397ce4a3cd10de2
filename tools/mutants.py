"""A mutation run: do the unit tests of a module notice when the module is changed?

    tools/mutants.py [TARGET …]        order-keys, assemble, lattice, lock, gtid-sets; none named: all

cosmic-ray makes the mutants: an operator, a number, a `True`, a loop that is another. Each is tested by the tests of
its own module alone, in a fork of this process that has the libraries loaded; no file is changed. They come in an
order drawn by MUTANTS_SEED, until all are tested or MUTANTS_SECONDS are over. What survives is printed, but for what
tools/mutants.txt has judged to be equivalent; exit code 1 if anything is.
"""

import ast
import contextlib
import importlib
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
JUDGED = ROOT / "tools" / "mutants.txt"
LIBRARIES = ("numpy", "pyarrow", "numba", "duckdb", "sqlglot", "pydantic", "hypothesis", "pytest", "pymysql", "yaml")

SHARDS = "tests/pipeline/coordinate/shards"
TARGETS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "order-keys": (
        ("snapshot_store/tso.py", "binlog_merge/moved_keys.py"),
        ("tests/snapshot_store/test_tso.py", "tests/test_moved_keys.py"),
    ),
    "gtid-sets": (("binlog_merge/binlog/gtid_set.py",), ("tests/binlog/test_gtid_sets.py",)),
    "lattice": (
        ("snapshot_store/lattice/*.py",),
        ("tests/snapshot_store/lattice/test_lattice.py", "tests/snapshot_store/lattice/test_lattice_vectors.py"),
    ),
    "assemble": (("binlog_merge/pipeline/assemble/*.py",), ("tests/pipeline/assemble",)),
    "lock": (
        ("binlog_merge/pipeline/coordinate/shards/optimistic/*.py",),
        (f"{SHARDS}/test_lock_vectors.py", f"{SHARDS}/test_optimistic.py", f"{SHARDS}/test_doubted.py"),
    ),
}
"""By name: the files that are changed, and the tests that must notice."""


@dataclass(frozen=True)
class Mutant:
    """One change of one file."""

    target: str
    path: Path
    operator: str
    occurrence: int
    line: int

    def code(self) -> str:
        """Return the changed file."""
        from cosmic_ray.mutating import mutate_code
        from cosmic_ray.plugins import get_operator

        changed = mutate_code(self.path.read_text(), get_operator(self.operator)(), self.occurrence)
        assert changed is not None
        return str(changed)

    def named(self) -> str:
        """Return what mutants.txt calls it: the file, what the line was, and what it is."""
        lines = self.path.read_text().splitlines(), self.code().splitlines()
        before, after = next((b, a) for b, a in zip(*lines, strict=False) if b != a)
        return f"{self.path.relative_to(ROOT)}: {before.strip()} -> {after.strip()}"


def mutants_of(target: str) -> Iterator[Mutant]:
    """Yield all mutants of a target's files; those that change nothing but annotations are none."""
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.plugins import get_operator, operator_names

    for path in sorted(path for pattern in TARGETS[target][0] for path in ROOT.glob(pattern)):
        tree = get_ast(path.read_text())
        annotated = _annotated(path.read_text())
        for name in sorted(operator_names()):
            operator_class = get_operator(name)
            if operator_class.arguments() or name.endswith("NoOp"):
                continue
            places = (place for node in ast_nodes(tree) for place in operator_class().mutation_positions(node))
            for occurrence, (begin, _) in enumerate(places):
                if begin not in annotated:
                    yield Mutant(target, path, name, occurrence, begin[0])


def _annotated(code: str) -> set[tuple[int, int]]:
    """Return the places (line, column) that lie in annotations."""
    found: list[ast.expr] = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.AnnAssign | ast.arg) and node.annotation is not None:
            found.append(node.annotation)
        elif isinstance(node, ast.FunctionDef) and node.returns is not None:
            found.append(node.returns)
    places: set[tuple[int, int]] = set()
    lines = code.splitlines()
    for part in found:
        end = (part.end_lineno or part.lineno, part.end_col_offset or 0)
        for line in range(part.lineno, end[0] + 1):
            first = part.col_offset if line == part.lineno else 0
            last = end[1] if line == end[0] else len(lines[line - 1])
            places |= {(line, column) for column in range(first, last + 1)}
    return places


def tested(target: str, mutant: Mutant | None, seconds: float) -> str:
    """Run a target's tests in a fork; return passed, failed, or timeout."""
    changed = None if mutant is None else (str(mutant.path), mutant.code())
    child = os.fork()
    if child == 0:
        os.setsid()
        code = 70
        with contextlib.suppress(BaseException):
            code = _run_tests(target, changed)
        os._exit(code)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return "passed" if status == 0 else "failed"
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "timeout"


def _run_tests(target: str, changed: tuple[str, str] | None) -> int:
    import pytest
    from hypothesis import settings

    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    if changed is not None:
        _change(*changed)
    settings.register_profile("mutants", database=None, derandomize=True, print_blob=False)
    settings.load_profile("mutants")
    chosen = ["-m", "not mysql and not spark and not soak", *TARGETS[target][1]]
    return int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", *chosen]))


def _change(path: str, code: str) -> None:
    """Let the import of a file give other code."""
    get_code = SourceFileLoader.get_code

    def changed(self: Any, fullname: str) -> CodeType | None:
        return compile(code, path, "exec") if self.path == path else get_code(self, fullname)

    SourceFileLoader.get_code = changed  # type: ignore[method-assign]


def main(names: list[str]) -> int:
    """Run, print, and return the exit code."""
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT))
    for library in LIBRARIES:
        importlib.import_module(library)
    targets = names or list(TARGETS)
    usual = {}
    for target in targets:
        begun = time.monotonic()
        if tested(target, None, 600) != "passed":
            print(f"{target}: its tests do not pass without a change", file=sys.stderr)
            return 2
        usual[target] = time.monotonic() - begun
        print(f"{target}: {' '.join(TARGETS[target][1])} in {usual[target]:.1f} s", flush=True)
    mutants = [mutant for target in targets for mutant in mutants_of(target)]
    random.Random(int(os.environ.get("MUTANTS_SEED", "1"))).shuffle(mutants)
    judged = {line.partition("  #")[0] for line in JUDGED.read_text().splitlines()} if JUDGED.exists() else set()
    end = time.monotonic() + float(os.environ.get("MUTANTS_SECONDS", "600"))
    done, unjudged = Counter[tuple[str, str]](), 0
    for mutant in mutants:
        if time.monotonic() > end:
            break
        outcome = tested(mutant.target, mutant, 4 * usual[mutant.target] + 10)
        if outcome == "passed" and mutant.named() in judged:
            outcome = "equivalent"
        done[mutant.target, outcome] += 1
        if outcome == "passed":
            unjudged += 1
            print(f"survives, line {mutant.line}: {mutant.named()}", flush=True)
    for target in targets:
        counts = {outcome: number for (name, outcome), number in sorted(done.items()) if name == target}
        total = sum(mutant.target == target for mutant in mutants)
        survived = counts.get("passed", 0)
        killed = counts.get("failed", 0) + counts.get("timeout", 0)
        more = f"{counts.get('equivalent', 0)} equivalent, {survived} survive"
        print(f"{target}: {sum(counts.values())} of {total} mutants tested: {killed} killed, {more}")
    return 1 if unjudged else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
