"""Make the tables of docs/evidence/verdicts.md: how often each verdict errs, and what it finds.

    python tests/benchmarks/simulate_verdicts.py [--runs 200] [--seed 1] [--write docs/evidence/verdicts.md]

Prints the tables as Markdown, or puts each between its two marks in that page. Takes some ten minutes of one core.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "reports")]

import simulate_compare  # noqa: E402
import simulate_coverage  # noqa: E402
import simulate_orders  # noqa: E402

from reports.comparing.cell_tests import Replicate  # noqa: E402

REPEATS, SPREADS_PERCENT = (3, 5, 10), (3, 7, 15)
STABLE_SPREADS_PERCENT, LIMITS = (1, 3, 7, 15), (6, 10, 20)
CORRELATIONS, CELLS = (0, 0.3, 0.7), (1, 3, 9)  # between one trial and the next; cells of a run


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def compare(runs: int, seed: int) -> str:
    """Tabulate passed / regression / uncertain, in percent of the runs, at --fail-on-regression 5%."""
    truths = simulate_compare.TRUTHS
    head = [
        "runs per side, spread",
        *(truth.name for truth in truths),
        "false speed loss: nothing, memory",
        "every cell",
    ]
    rows = []
    for repeats in REPEATS:
        for spread in SPREADS_PERCENT:
            rates = [simulate_compare.rates(truth, repeats, spread / 100, runs, seed) for truth in truths]
            false = f"{rates[0].false_speed:.1f}, {rates[1].false_speed:.1f}"
            texts = [one.text for one in rates]
            rows.append([f"{repeats}, {spread} %", *texts, false, f"{rates[0].passed_every_cell:.0f}"])
            print(" | ".join(rows[-1]), file=sys.stderr, flush=True)
    return table(head, rows)


def drift(runs: int, seed: int) -> str:
    """Tabulate the case that whole runs lie apart, and nothing changed, or one cell lost 15 %; spread 7 % within a
    run."""
    kinds = (
        ("one run of {} repeats per side", Replicate.ONE_RUN, (3,)),
        ("{} runs per side", Replicate.RUNS, (3, 5)),
        ("two columns of one run, {} pairs in turn", Replicate.REPEATS, (3, 5)),
    )
    truths = (*simulate_compare.DRIFTS, *simulate_compare.ONE_CELL_LOST)
    rows = []
    for words, replicate, counts in kinds:
        for count in counts:
            rates = [simulate_compare.rates(truth, count, 0.07, runs, seed, replicate) for truth in truths]
            rows.append([words.format(count), *(one.text for one in rates)])
            print(" | ".join(rows[-1]), file=sys.stderr, flush=True)
    return table(["nothing changed, or one cell", *(truth.name for truth in truths)], rows)


def smallest(runs: int, seed: int) -> str:
    """Tabulate the smallest loss in the mean / in one cell. A few runs are enough for it."""
    rows = []
    for repeats in (2, *REPEATS):
        rates = [
            simulate_compare.smallest_losses(repeats, spread / 100, runs // 10, seed) for spread in SPREADS_PERCENT
        ]
        rows.append([str(repeats), *(f"{mean:.1f} / {cell:.1f}" for mean, cell in rates)])
    return table(["runs per side", *(f"spread {spread} %" for spread in SPREADS_PERCENT)], rows)


def unlike(runs: int, seed: int) -> str:
    """Tabulate the case that cells are not equally noisy, and nothing changed; spread 7 %."""
    rows = []
    for truth in simulate_compare.UNLIKE:
        rates = [simulate_compare.rates(truth, repeats, 0.07, runs, seed) for repeats in (2, *REPEATS)]
        rows.append([truth.name, *(f"{one.text}; {one.false_speed:.1f}" for one in rates)])
    return table(["nothing changed, but", *(f"{repeats} runs" for repeats in (2, *REPEATS))], rows)


def parity(runs: int, seed: int) -> str:
    rows = []
    for repeats in (3, 5):
        for apart in (0, 3, 5, 10):
            rates = simulate_orders.parity_rates(apart, repeats, runs, seed)
            numbers = (rates.false_reports, rates.false_pairs, rates.true_pairs, rates.agree)
            rows.append([f"{repeats}, {apart}", *("" if math.isnan(one) else f"{one:.1f}" for one in numbers)])
    head = ["repeats, points apart", "reports with a false one", "false pairs", "true pairs", "agree"]
    return table(head, rows)


def orders(runs: int, seed: int) -> str:
    rows = []
    for repeats, known in ((1, 0), (1, 2), (1, 4), (1, 9), (3, 0), (5, 0), (10, 0)):
        for spread in (1, *SPREADS_PERCENT):
            leads = (0, 0.15, 0.3)
            rates = [simulate_orders.order_rates(lead, repeats, spread / 100, runs, seed, known) for lead in leads]
            none = rates[0].wrong_seen if repeats == 1 else rates[0].wrong_stated
            numbers = (none, *(one.right for one in rates[1:]))
            cells = f"1 and {known} cells of 3" if known else f"{repeats}"
            rows.append([f"{cells}, {spread} %", *(f"{one:.1f}" for one in numbers)])
    head = ["repeats, spread", "no difference: reports that name one", "15 % ahead: named", "30 % ahead: named"]
    return table(head, rows)


def stable(runs: int, seed: int) -> str:
    """Tabulate independent repeats, without the tests for drift. It takes more runs where few cells end as stable."""
    rows = []
    for spread in STABLE_SPREADS_PERCENT:
        row = [f"{spread} %"]
        for limit in LIMITS:
            count, alone = runs * (40 if spread == 7 else 8), simulate_orders.Shared(before=True)
            rates = simulate_orders.stable_rates(spread / 100, limit, count, seed, alone)
            row += [f"{rates.stable:.1f}", "too few" if math.isnan(rates.covered) else f"{rates.covered:.0f}"]
        rows.append(row)
        print(" | ".join(row), file=sys.stderr, flush=True)
    head = ["spread", *(text for limit in LIMITS for text in (f"limit {limit}: stable", "of these true"))]
    return table(head, rows)


def correlated(runs: int, seed: int) -> str:
    """Tabulate before / now, at a limit of 10. Each row has the same number of cells."""
    rows = []
    for correlation in CORRELATIONS:
        for count in CELLS:
            row = [f"{correlation:g}, {count}"]
            for spread in (1, 3):
                asked = (spread / 100, 10, 8 * runs // count, seed)
                kinds = [simulate_orders.Shared(count, correlation, before) for before in (True, False)]
                rates = [simulate_orders.stable_rates(*asked, each) for each in kinds]
                row.append(" / ".join(f"{one.stable:.0f}" for one in rates))
                row.append(" / ".join("too few" if math.isnan(one.covered) else f"{one.covered:.0f}" for one in rates))
            rows.append(row)
            print(" | ".join(row), file=sys.stderr, flush=True)
    of_spreads = [text for spread in (1, 3) for text in (f"spread {spread} %: stable", "of these true")]
    return table(["autocorrelation, cells", *of_spreads], rows)


def coverage(runs: int, seed: int) -> str:
    """Tabulate coverage, with 100 cells per run."""
    rows = []
    for noise in simulate_coverage.NOISES:
        rates = [simulate_coverage.coverage_percent(noise, repeats, 100 * runs, seed) for repeats in REPEATS]
        rows.append([noise.name, *(f"{rate:.1f}" for rate in rates)])
    return table(["spread", *(f"{repeats} repeats" for repeats in REPEATS)], rows)


Tables = dict[str, Callable[[int, int], str]]  # name -> (runs, seed) -> Markdown
TABLES: Tables = {
    "compare": compare,
    "drift": drift,
    "smallest": smallest,
    "unlike": unlike,
    "parity": parity,
    "orders": orders,
    "stable": stable,
    "correlated": correlated,
    "coverage": coverage,
}


def main(tables: Tables, description: str) -> None:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=tables, nargs="+", default=list(tables))
    parser.add_argument("--write", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    for name in arguments.only:
        made = tables[name](arguments.runs, arguments.seed)
        print(f"{name}\n\n{made}\n", flush=True)
        if arguments.write:
            page = arguments.write.read_text(encoding="utf-8")
            marks = re.compile(f"(<!-- {name} -->\n).*?(\n<!-- end -->)", re.DOTALL)

            def filled(found: re.Match[str], content: str = made) -> str:
                return found[1] + content + found[2]

            new, count = marks.subn(filled, page)
            if count != 1:
                sys.exit(f"{arguments.write}: the marks of {name} stand {count} times in it")
            arguments.write.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main(TABLES, str(__doc__))
