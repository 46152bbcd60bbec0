"""Ten lines on what a day on a card showed: python -m tools.gpu_seen DIR, the folder of tools/gpu_day.py."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from workloads.command_line import CommandLine
from workloads.records import figures as registry

MIB = 2**20
Result = dict[str, Any]


def describe(out: Path) -> list[str]:
    """Return ten lines; what was not measured is listed as such."""
    results = list(_read_results(out))
    return [
        _card(results),
        _calls(out),
        _trials(results),
        _range("speed", results, registry.SPEED.name, "images/s"),
        _range("usage", results, registry.GPU_USAGE.name, "%"),
        _memory(results),
        _energy(results),
        _checks(results),
        _conformance(out),
        _commands(out),
    ]


def _read_results(out: Path) -> Iterator[Result]:
    for path in sorted(out.glob("*/*/trials/*/result.json")):
        yield json.loads(path.read_text(encoding="utf-8"))


def _values(results: Sequence[Result], name: str) -> list[float]:
    found = (result.get("figures", {}).get(name, {}).get("value") for result in results)
    return [value for value in found if value is not None]


def _card(results: Sequence[Result]) -> str:
    cards = {
        f"{gpu['name']}, {(gpu['memory_bytes'] or 0) / MIB:,.0f} MiB, driver {gpu['driver']}, "
        f"compute capability {gpu.get('capability') or 'unknown'}"
        for result in results
        for gpu in result.get("machine", {}).get("gpus", [])
    }
    return f"card: {'; '.join(sorted(cards)) or 'no trial ran on one'}"


def _calls(out: Path) -> str:
    try:
        answers = json.loads((out / "probe" / "calls.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return "driver: not queried"
    refused = [name for name, answer in answers.items() if isinstance(answer, dict) and answer.get("error")]
    said = f"; refused: {', '.join(sorted(refused))}" if refused else ""
    return f"driver: {len(answers) - len(refused)} of {len(answers)} calls answered{said}"


def _trials(results: Sequence[Result]) -> str:
    counts = Counter(result["status"] for result in results)
    reason = next((f"; first reason: {r['reason']}" for r in results if r["status"] != "ok" and r.get("reason")), "")
    return f"trials: {', '.join(f'{count} {status}' for status, count in counts.items()) or 'none'}{reason}"


def _range(what: str, results: Sequence[Result], name: str, unit: str, divisor: float = 1.0) -> str:
    values = [value / divisor for value in _values(results, name)]
    return f"{what}: {min(values):,.1f} to {max(values):,.1f} {unit}" if values else f"{what}: not measured"


def _memory(results: Sequence[Result]) -> str:
    pairs = [
        (_values([result], registry.PROCESS_GPU_MEMORY.name), _values([result], registry.ALLOCATOR_RESERVED.name))
        for result in results
    ]
    above = [process[0] - reserved[0] for process, reserved in pairs if process and reserved]
    held = _range("memory of the process", results, registry.PROCESS_GPU_MEMORY.name, "MiB", MIB)
    more = f"; {min(above) / MIB:,.0f} to {max(above) / MIB:,.0f} MiB above the allocator's reserve" if above else ""
    return held + more


def _energy(results: Sequence[Result]) -> str:
    pairs = [(_values([r], registry.ENERGY.name), _values([r], registry.ENERGY_INTEGRATED.name)) for r in results]
    ratios = [counted[0] / integrated[0] for counted, integrated in pairs if counted and integrated and integrated[0]]
    power = _range("power", results, registry.POWER.name, "W")
    more = f"; energy by counter over integrated power {min(ratios):.3f} to {max(ratios):.3f}" if ratios else ""
    return power + more


def _checks(results: Sequence[Result]) -> str:
    checks = [check for result in results for check in result.get("checks", [])]
    failed = Counter(check["name"] for check in checks if not check["passed"])
    said = ", ".join(f"{name} ({count})" for name, count in failed.most_common())
    return f"checks: {len(checks) - failed.total()} of {len(checks)} passed{f'; failed: {said}' if said else ''}"


def _conformance(out: Path) -> str:
    logs = {log.stem: log.read_text().splitlines() for log in sorted((out / "conformance").glob("*.log"))}
    said = [f"{name}: {lines[-1]}" for name, lines in logs.items() if lines]
    return f"conformance: {'; '.join(said) or 'not run'}"


def _commands(out: Path) -> str:
    try:
        lines = [json.loads(line) for line in (out / "day.jsonl").read_text(encoding="utf-8").splitlines()]
    except OSError:
        return "commands: none"
    last = {(line["step"], line["command"]): line for line in lines}  # a step that was run again counts once
    ended = [f"{step} {name} ({'cut off' if line['exit'] is None else line['exit']})"
             for (step, name), line in last.items() if line["exit"] != 0]  # fmt: skip
    seconds = sum(line["seconds"] for line in lines)
    said = f"; not: {', '.join(ended)}" if ended else ""
    return f"commands: {len(last) - len(ended)} of {len(last)} ended well in {seconds:.0f} s{said}"


def main(arguments: list[str]) -> int:
    """Print the lines; return the exit code."""
    parser = CommandLine(prog="python -m tools.gpu_seen", description=__doc__)
    parser.add_argument("out", type=Path)
    print("\n".join(describe(parser.parse_args(arguments).out)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
