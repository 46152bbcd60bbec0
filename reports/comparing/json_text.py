"""Write a comparison as JSON, with all its numbers; unknown ones are null."""

from __future__ import annotations

import json
from typing import Any

from workloads.records.files import without_nan

from ..condition_text import dates
from . import headline
from .cell_tests import WORDS, AnyTest, CellTest, MeanTest
from .comparison import Compared, Comparison, Side
from .gate import Ruling, smallest_losses
from .headline import GeometricMean

SCHEMA_VERSION = 1


def text(comparison: Comparison, tolerated_percent: float | None, ruling: Ruling | None) -> str:
    """Write the JSON text; `tolerated_percent` and `ruling` are the gate's."""
    data = {
        "schema_version": SCHEMA_VERSION,
        "a": _side(comparison.a),
        "b": _side(comparison.b),
        "pairs": [_pair(compared) for compared in comparison.pairs],
        "not_compared": comparison.alone,
        "smallest_loss_found_percent": {
            kind: {name: test.smallest_percent for name, test in tests.items()}
            for kind, tests in smallest_losses(comparison.tests).items()
        },
        "gate": ruling
        and {
            "tolerated_percent": tolerated_percent,
            "outcome": ruling.outcome.name.lower(),
            "exit_code": int(ruling.outcome),
            "head": ruling.head,
            "lines": ruling.lines,
        },
    }
    return json.dumps(without_nan(data), ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def _side(side: Side) -> dict[str, Any]:
    stored = side.stored
    return {
        "path": str(side.path),
        "column": side.column or None,
        "runs": side.runs,
        "trials": len(stored.results),
        "started": dates(stored.results),
        "unreadable": len(stored.unreadable),
        "unfinished": len(stored.unfinished),
        "replaced": len(side.replaced),
    }


def _pair(compared: Compared) -> dict[str, Any]:
    def places(of: tuple[tuple[str, int], ...]) -> list[dict[str, Any]]:
        return [{"framework": framework, "batch_size": batch_size} for framework, batch_size in of]

    return {
        "title": compared.pair.title,
        "differences": [{"what": what, "a": a, "b": b} for what, a, b in compared.pair.differences],
        "same_trials": compared.pair.same_trials,
        "geometric_means": [_geometric_mean(mean) for mean in headline.of(compared)],
        "frameworks": [_mean(mean) for mean in compared.means],
        "cells": [_cell(cell) for cell in compared.cells],
        "ended_otherwise": [
            {
                "framework": ending.framework,
                "batch_size": ending.batch_size,
                "a": ending.ended_a,
                "b": ending.ended_b,
                "verdict": WORDS[ending.verdict],
                "reason": ending.reason,
            }
            for ending in compared.endings
        ],
        "only_a": places(compared.only_a),
        "only_b": places(compared.only_b),
        "not_compared": compared.uncompared,
    }


def _geometric_mean(mean: GeometricMean) -> dict[str, Any]:
    """Return the fields of a mean; `framework` is null for all frameworks."""
    value, low, high = mean.effect
    return {
        "quantity": mean.quantity.name,
        "framework": mean.framework or None,
        "cells": mean.cells,
        "ratio": value,
        "low": low,
        "high": high,
        "tells_a_difference": mean.told,
    }


def _test(test: AnyTest) -> dict[str, Any]:
    value, low, high = test.effect
    return {
        "framework": test.framework,
        "quantity": test.quantity.name,
        "better": test.quantity.better,
        "effect": "difference_points" if test.in_points else "ratio",
        "value": value,
        "low": low,
        "high": high,
        "loss_percent": test.loss_percent if test.quantity.better else None,
        "loss_at_most_percent": test.at_most_percent if test.is_judged else None,
        "smallest_loss_found_percent": test.smallest_percent if test.is_judged else None,
        "p_worse_adjusted": test.p_worse,
        "p_better_adjusted": test.p_better,
        "verdict": WORDS[test.verdict],
    }


def _mean(mean: MeanTest) -> dict[str, Any]:
    return _test(mean) | {"batch_sizes": mean.batch_sizes, "untested_batch_sizes": mean.untested}


def _cell(cell: CellTest) -> dict[str, Any]:
    return _test(cell) | {
        "batch_size": cell.batch_size,
        "unit": cell.quantity.unit,
        "n_a": cell.n_a,
        "n_b": cell.n_b,
        "median_a": cell.median_a,
        "median_b": cell.median_b,
        "notes": cell.notes,
        "trials": cell.trials,
    }
