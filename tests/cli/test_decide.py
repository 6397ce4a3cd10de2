"""What follows the end of a supervised process."""

import math
import signal
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_merge.cli.supervisor import Accidents, GiveUp, Policy, Restart, decide, end_text
from binlog_merge.errors import (
    ERROR_CLASSES,
    EXIT_INTERRUPTED,
    EXIT_TERMINATED,
    FINAL_EXITS,
    ConfigError,
    DdlNotUnderstoodError,
    FileChanged,
    InternalError,
    IoError,
    NoFiles,
    OutputBusy,
    ServerRefused,
)

POLICY = Policy(first_pause=1, longest_pause=60, settled=60, most_internal=5)
ACCIDENTAL = [0, 1, EXIT_INTERRUPTED, EXIT_TERMINATED, -signal.SIGKILL, -signal.SIGSEGV, 255]
PASSING = [error.exit_code for error in (NoFiles, OutputBusy, IoError, ServerRefused, FileChanged)]


def _ends(codes: list[int], lived: float = 0) -> list[Restart | GiveUp]:
    """Return what is decided at each of several ends in a row, up to the one that is final."""
    accidents, decided = Accidents(), list[Restart | GiveUp]()
    for code in codes:
        decided.append(decide(code, lived, accidents, POLICY))
        if not isinstance(decided[-1], Restart):
            break
        accidents = decided[-1].accidents
    return decided


@pytest.mark.parametrize("code", FINAL_EXITS)
def test_what_somebody_must_correct_is_final(code: int) -> None:
    for lived in (0, 1e6):
        assert decide(code, lived, Accidents(), POLICY) == GiveUp(code)


def test_configuration_and_damage_are_final_and_what_passes_is_not() -> None:
    assert {ConfigError.exit_code, DdlNotUnderstoodError.exit_code} <= set(FINAL_EXITS)
    assert not set(FINAL_EXITS) & {*PASSING, *ACCIDENTAL, InternalError.exit_code}
    assert set(FINAL_EXITS) == {error.exit_code for error in ERROR_CLASSES if not error.may_pass}


@pytest.mark.parametrize("code", [*ACCIDENTAL, *PASSING])
def test_pauses_double_up_to_the_longest(code: int) -> None:
    decided = _ends([code] * 10)
    assert [d.pause for d in decided if isinstance(d, Restart)] == [1, 2, 4, 8, 16, 32, 60, 60, 60, 60]


def test_a_process_that_has_settled_begins_with_the_first_pause_again() -> None:
    before = Accidents(all=6, internal=4)
    assert decide(-9, 59.9, before, POLICY) == Restart(60, Accidents(7, 0))
    assert decide(-9, 60, before, POLICY) == Restart(1, Accidents(1, 0))
    assert decide(70, 60, before, POLICY) == Restart(1, Accidents(1, 1))


def test_internal_errors_in_a_row_are_final_and_others_between_them_are_not() -> None:
    assert _ends([70] * 9)[4:] == [GiveUp(70)]
    assert len(_ends([70, 70, 70, 70, -9] * 4)) == 20
    assert all(isinstance(d, Restart) for d in _ends([70] * 20, lived=60))


@given(st.lists(st.sampled_from([*ACCIDENTAL, *PASSING]), max_size=80))
def test_pauses_never_shrink_without_settling_and_have_a_bound(codes: list[int]) -> None:
    pauses = [d.pause for d in _ends(codes) if isinstance(d, Restart)]
    assert len(pauses) == len(codes)
    assert all(0 < a <= b <= 60 for a, b in pairwise(pauses))


def test_any_number_of_accidents_has_a_pause() -> None:
    assert decide(-9, 0, Accidents(all=10**6), POLICY) == Restart(60, Accidents(10**6 + 1, 0))


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (26, "exit code 26 (ddl-not-understood)"),
        (0, "exit code 0 (ok)"),
        (99, "exit code 99"),
        (-9, "signal 9 (SIGKILL)"),
        (-40, "signal 40"),
    ],
)
def test_an_end_as_text(code: int, text: str) -> None:
    assert end_text(code) == text


def test_what_was_right_before_is_an_accident_now() -> None:
    """An address in use for a moment, a file away: the component is told what it was told when it worked."""
    assert decide(2, 0, Accidents(), POLICY, worked=True) == Restart(1, Accidents(1, 0))
    for code in set(FINAL_EXITS) - {2}:
        assert decide(code, 0, Accidents(), POLICY, worked=True) == GiveUp(code)


def test_after_each_accident_a_process_may_be_silent_for_longer() -> None:
    assert POLICY.may_be_silent(Accidents()) == math.inf
    policy = Policy(silence=10)
    assert [policy.may_be_silent(Accidents(n)) for n in (0, 1, 2, 10**6)] == [10, 20, 40, 10240]
