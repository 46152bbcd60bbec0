"""Build parts of sentences: lists, counts, words for how a trial ended."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def listed(items: Iterable[object]) -> str:
    """Join items: "4, 8 and 16"."""
    *first, last = [str(item) for item in items] or [""]
    return f"{', '.join(first)} and {last}" if first else last


def span_list(places: Iterable[int], among: Sequence[int]) -> list[str]:
    """List ["4", "8", "64 to 1024"]: three or more that follow each other in `among`, which is sorted, form a span."""
    runs: list[list[int]] = []
    for place in sorted(places):
        if runs and among.index(place) == among.index(runs[-1][-1]) + 1:
            runs[-1].append(place)
        else:
            runs.append([place])
    return [part for run in runs for part in ([f"{run[0]} to {run[-1]}"] if len(run) > 2 else map(str, run))]


def spans(places: Iterable[int], among: Sequence[int]) -> str:
    """Join places and spans: "4, 8 and 64 to 1024"."""
    return listed(span_list(places, among))


def status_words(status: str) -> str:
    """Return a status as words: "out of memory"."""
    return str(status).replace("_", " ")
