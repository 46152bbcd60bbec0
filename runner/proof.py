"""Stop a run of an imported network before its first trial unless the network is proven to be the user's model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rich.console import Console

from runner.gate.judge import Gate
from runner.gate.rounding import find_askable
from runner.gate.source_proof import Proof, is_provable
from runner.launch import Launcher, Unavailable
from runner.request.cli import Request
from runner.storage import CannotGoOn
from workloads.networks import find_trained
from workloads.records.evidence import Evidence
from workloads.records.job import TrialSpec
from workloads.records.source_map import SOURCE

STOPPED = "nothing was measured: the imported network"


def prove_imports(specs: Sequence[TrialSpec], gate: Gate, console: Console) -> dict[str, dict[str, Proof]]:
    """Compare each framework's version of each imported network with its source, and print how far they are apart.
    Return {name of the network: {framework: its proof}}.

    Raises CannotGoOn with the first layer that differs, or if the source cannot be asked.
    """
    found: dict[str, dict[str, Proof]] = {}
    for name, chosen in choose_specs(specs).items():
        proofs = found[name] = dict[str, Proof]()
        for spec in chosen:
            if (proof := _prove(spec, gate, name)) is not None:
                proofs[spec.cell.framework] = proof
            elif why := gate.silent.get(spec.probe_id):
                where = f"{name}: not compared with its source in {spec.cell.framework}"
                console.print(f"{where}: its probe failed: {why}")
        if proofs:
            console.print(describe(name, proofs))
    return found


def prove_searches(
    specs: Sequence[TrialSpec], request: Request, launchers: Mapping[str, Launcher | Unavailable], console: Console
) -> None:
    """Do the same before the first trial of a search, without the memory limit of the search. Raises CannotGoOn."""
    free = [replace(spec, placement=replace(spec.placement, memory_limit_bytes=None)) for spec in specs]
    installed = {spec.cell.framework: spec.installation for spec in free}
    prove_imports(free, Gate(request.results, request.project, find_askable(installed, launchers)), console)


def prove_handed_out(specs: Sequence[TrialSpec], gate: Gate, console: Console) -> None:
    """Do the same before trials are handed to other machines. This one judges them, so it must start a framework.

    Raises CannotGoOn, also where it cannot: each trial would end as not compared with its source.
    """
    for name, chosen in choose_specs(specs).items():
        if not any(gate.launcher(spec) for spec in chosen):
            why = "could not be compared with its source: this machine can start none of the frameworks"
            raise CannotGoOn(f"{STOPPED} {name} {why}; give --device cpu, or use --shard on the machines themselves")
    prove_imports(specs, gate, console)


def choose_specs(specs: Sequence[TrialSpec]) -> dict[str, list[TrialSpec]]:
    """Return {name of an imported network: the first trial of each framework that has full precision}."""
    chosen: dict[tuple[Any, ...], TrialSpec] = {}
    for spec in specs:
        if is_provable(spec):
            key = spec.task.workload, spec.inputs[SOURCE].sha256, spec.cell.framework
            chosen.setdefault(key, spec)
    names: dict[str, list[TrialSpec]] = {}
    for (name, *_), spec in chosen.items():
        names.setdefault(name, []).append(spec)
    return names


def _prove(spec: TrialSpec, gate: Gate, name: str) -> Proof | None:
    """Return the proof; None if the framework's probe gave no evidence, which its trials report."""
    launcher = gate.launcher(spec)
    workload, evidence = find_trained(spec, gate.results), gate.gather(spec, launcher) if launcher else {}
    if workload is None or not evidence:
        return None
    answer = gate.proofs.ask(spec)
    if isinstance(answer, str):
        raise CannotGoOn(f"{STOPPED} {name} could not be compared with its source: {answer}")
    proof = gate.proofs.prove(spec, Evidence.from_json(evidence), answer, workload)
    if proof.difference is not None:
        raise CannotGoOn(f"{STOPPED} {name} is not your model in {spec.cell.framework}: {proof.difference}")
    return proof


def describe(name: str, proofs: dict[str, Proof]) -> str:
    """Return the sentence for the console: the largest differences over the frameworks."""
    most = Proof(
        max(each.forward for each in proofs.values()),
        max(each.gradients for each in proofs.values()),
        max(each.updates for each in proofs.values()),
        None,
        disturbed=", ".join(framework for framework, each in proofs.items() if each.disturbed),
    )
    return f"{name}: the imported network is your model: {most} (largest of {', '.join(proofs)})"
