"""A page's size does not grow with its log."""

from binlog_merge.observe.report.document import document
from binlog_merge.observe.report.page import page
from tests.observe.report.synthetic import MOST_STATEMENTS, facts


def test_ten_million_transactions_at_all_limits_stay_under_five_megabytes() -> None:
    found = document(facts())
    data = page(found)
    assert len(data) < 5_000_000, f"{len(data):,} bytes"
    assert sum(sum(lane["time"][1::2]) for lane in found["timeline"]["lanes"]) == 10_000_000
    text = data.decode()
    assert f"{2 * MOST_STATEMENTS:,} more statements, earlier ones, are not listed here" in text
    assert "50 more tables are not listed here" in text and "9,000 more versions" in text
