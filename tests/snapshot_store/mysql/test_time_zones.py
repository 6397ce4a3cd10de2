"""Clocks of sessions: what one shows means one moment again, the earlier of two."""

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapshot_store.mysql.values.times import in_utc, local_of, utc_of, zone_of

NAMES = ("+00:00", "-03:30", "+14:00", "Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe", "Asia/Shanghai")


@given(st.sampled_from(NAMES), st.datetimes(datetime(1970, 1, 2), datetime(2037, 12, 31)))
def test_what_a_clock_shows_means_its_first_moment(name: str, moment: datetime) -> None:
    zone = zone_of(name)
    shown = local_of(moment, zone)
    first = utc_of(shown, zone)
    assert local_of(first, zone) == shown and first <= moment


@pytest.mark.parametrize(
    ("shown", "moment"),
    [
        ("2024-03-31 01:59:59.5", "2024-03-31 00:59:59.5"),
        ("2024-03-31 02:00:00", "2024-03-31 01:00:00"),
        ("2024-03-31 02:30:00", "2024-03-31 01:00:00"),
        ("2024-03-31 03:00:00", "2024-03-31 01:00:00"),
        ("2024-10-27 02:30:00", "2024-10-27 00:30:00"),
        ("2024-10-27 03:00:00", "2024-10-27 02:00:00"),
        ("0000-00-00 00:00:00", "0000-00-00 00:00:00"),
    ],
)
def test_as_a_server_in_berlin_takes_them(shown: str, moment: str) -> None:
    """Expected values: UNIX_TIMESTAMP() of 9.7 in a session with these time_zone tables."""
    assert in_utc(shown, "Europe/Berlin") == moment and in_utc(shown, "") == shown


@pytest.mark.parametrize("name", ["SYSTEM", "Nowhere/Land", "", "../etc/passwd", "+5"])
def test_names_that_are_none(name: str) -> None:
    with pytest.raises(ValueError, match="is not known here"):
        zone_of(name)
