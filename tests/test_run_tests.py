"""`make test` gives what failed beside others one more try alone, and no more than that."""

from pathlib import Path

import pytest

from tools.run_tests import run

TESTS = """
from pathlib import Path

import pytest


@pytest.mark.xdist_group("some")
@pytest.mark.parametrize("name", ["a@b", "c d"])
def test_that_passes_the_second_time(name):
    before = Path(name)
    was = before.exists()
    before.touch()
    assert was


@pytest.mark.parametrize("number", range(FAILING))
def test_that_fails(number):
    raise AssertionError
"""


@pytest.mark.parametrize(("failing", "said"), [(0, "passed alone:"), (1, "failed alone:"), (2, "")])
def test_up_to_three_run_again_alone(
    failing: int, said: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = xdist_group\n")
    (tmp_path / "test_some.py").write_text(TESTS.replace("FAILING", str(failing)))
    code = run(["-n", "1", "--dist", "loadgroup", "test_some.py"], tmp_path)
    assert code == (0 if failing == 0 else 1)
    printed = capfd.readouterr().out
    assert (said in printed) if said else ("alone" not in printed)
    assert ("test_some.py::test_that_passes_the_second_time[a@b]\n" in printed) is bool(said)
