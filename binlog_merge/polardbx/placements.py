"""Where physical tables belonged through all runs of a merge: the spans of `places`, as a note of the schema store.

A run begins with the state that the one before has left; its spans that begin there go on from the spans noted before.
"""

import json
from collections.abc import Iterable

from binlog_merge.polardbx.table_mapping import Places, Span
from binlog_merge.polardbx.topology import Physical
from snapshot_store.tso import ORIGIN, OrderKey

NOTE = "placements"

Spans = list[tuple[Physical, Span]]


def joined(known: Spans, places: Places, floor: OrderKey) -> Spans:
    """Return the spans noted before with those of a run that went on at `floor`.

    What is noted from the floor on was of a run that did not get through, and is left out.
    """
    before = [(physical, span) for physical, span in known if span.after < floor]
    found = [(physical, span) for physical, span in before if span.until is not None and span.until < floor]
    begun = {
        (physical, span.logical): span.after for physical, span in before if span.until is None or span.until >= floor
    }
    for physical, spans in places.spans:
        for span in spans:
            after = begun.get((physical, span.logical), floor) if span.after == ORIGIN else span.after
            found.append((physical, Span(after, span.until, span.logical)))
    return sorted(found, key=lambda entry: (entry[0], entry[1].after))


def to_json(spans: Spans) -> str:
    """Return the text of a note."""
    return json.dumps(
        [[*physical, span.after.text(), span.until.text() if span.until else None, *span.logical]
         for physical, span in spans]
    )  # fmt: skip


def from_json(text: str | None) -> Spans:
    """Read what `to_json` wrote; nothing for None."""
    return [
        (
            (node, schema, table),
            Span(OrderKey.parse(after), None if until is None else OrderKey.parse(until), (of_schema, of_table)),
        )
        for node, schema, table, after, until, of_schema, of_table in json.loads(text or "[]")
    ]


def placed_at(spans: Spans, key: OrderKey) -> Iterable[tuple[Physical, Span]]:
    """Yield the physical tables that a transaction with this key sees, each with the span that holds there."""
    return ((physical, span) for physical, span in spans if span.holds(key))
