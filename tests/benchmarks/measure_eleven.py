"""Measure how near eleven imported networks are to their sources, by the proof that a run makes before its first trial.

python tests/benchmarks/measure_eleven.py FOLDER [--only NAME ...] [--threads N] [--limit SECONDS] [--write PAGE]

Six networks are torchvision's, which needs .envs/torchvision (tests/conformance/test_torchvision_imports.py installs
it), five are of keras.applications. Their weights are random. Each network is proven in every framework, in a process
of its own that ends after `--limit`. Then three updates are made in float64, by the source's own framework and by the
referee from the import, which tells rounding from another network. The same command goes on with the networks that
FOLDER has no answer of.
`--write` puts the table between the marks of a page. Exit code 1 where a network fails.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from tabulate import tabulate

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

from eleven.source_float64 import SIZES, read_input  # noqa: E402

from adapters.numpy.adapter import Adapter  # noqa: E402
from runner import proof  # noqa: E402
from runner.environments import definition  # noqa: E402
from runner.gate.judge import Gate  # noqa: E402
from runner.gate.rounding import find_askable  # noqa: E402
from runner.project import Project  # noqa: E402
from runner.request import cli, inputs, own_data, parser  # noqa: E402
from runner.request.plan import build_series_plan  # noqa: E402
from runner.setup import collect_installations, make_environments  # noqa: E402
from runner.storage import CannotGoOn  # noqa: E402
from workloads import weights  # noqa: E402
from workloads.records import network  # noqa: E402
from workloads.records.build import FLOAT64  # noqa: E402
from workloads.records.source_map import SourceMap  # noqa: E402
from workloads.spec import OptimizerSpec  # noqa: E402

HERE = Path(__file__).resolve().parent / "eleven"

PACKAGES = ROOT / ".envs" / "torchvision"
TORCHVISION = ("resnet50", "mobilenet_v3_large", "efficientnet_b0", "convnext_tiny", "vit_b_16", "densenet121")
KERAS = ("ResNet50", "MobileNetV3Large", "EfficientNetB0", "ConvNeXtTiny", "DenseNet121")
NAMES = (*TORCHVISION, *KERAS)
SHAPE, CLASSES, IMAGES = (64, 64, 3), 10, 64
LIMIT_S, PIXEL_NOISE = 3600.0, 20
HEAD = (
    "network", "source", "parameters", "framework", "forward", "loss", "gradients", "three updates: of the change",
    "of the weights", "largest part of the bar", "proven", "updates in float64", "seconds (CPU)",
)  # fmt: skip


def write_images(folder: Path) -> Path:
    """Write 64 training images of 10 coarse patterns under noise, the same on every machine; return the file."""
    path = folder / "images.npz"
    if not path.exists():
        generator = np.random.Generator(np.random.PCG64(37))
        patterns = np.kron(generator.integers(0, 256, (CLASSES, 8, 8, 3)), np.ones((1, 8, 8, 1)))
        labels = np.resize(np.arange(CLASSES, dtype=np.int32), IMAGES + CLASSES)
        images = patterns[labels] + generator.normal(0, PIXEL_NOISE, (len(labels), *SHAPE))
        pixels, first = np.clip(images, 0, 255).astype(np.uint8), slice(IMAGES)
        test = slice(IMAGES, None)
        np.savez(path, x_train=pixels[first], y_train=labels[first], x_test=pixels[test], y_test=labels[test])
    return path


def write_sources(folder: Path) -> None:
    """Write the files that `--workload` names."""
    text = (HERE / "torchvision_nets.py").read_text().replace("PACKAGES", str(PACKAGES))
    (folder / "torchvision_nets.py").write_text(text)
    if missing := [name for name in KERAS if not (folder / f"{name}.keras").exists()]:
        environment = definition.read(Project.of_this_code(), "tensorflow", "cpu")
        subprocess.run([environment.interpreter, HERE / "keras_nets.py", folder, *missing], check=True)


def list_words(name: str, folder: Path, threads: int) -> list[str]:
    """Return the command line of a run of this network in all frameworks."""
    source = [name_source(name, folder)]
    if name in TORCHVISION:
        source += ["--from", "pytorch", "--input-shape", *map(str, SHAPE)]
    words = f"--framework all --batch-size 4 --epochs 1 --repeat 1 --device cpu --threads {threads}".split()
    data = ["--dataset", str(folder / "images.npz"), "--results", str(folder / "results" / name)]
    return ["--workload", *source, *words, *data]


def prove(name: str, folder: Path, threads: int) -> None:
    """Make the proof as `python -m runner` does before the first trial, and write FOLDER/NAME.json."""
    began_s, console = time.monotonic(), Console(highlight=False, markup=False, soft_wrap=True)
    options = parser.run_parser().parse_args(list_words(name, folder, threads))
    request = own_data.prepare_images(cli.build_request(options, Project.of_this_code()), console)
    data = inputs.write_all_data(request, console)
    launchers, installed = make_environments(request, console), collect_installations(request)
    repeats = inputs.write_all_repeats(request, data, range(1))
    plan = build_series_plan(request, installed, range(1), repeats)
    gate = Gate(request.results, request.project, find_askable(installed, launchers))
    said: dict[str, Any] = {"parameters": request.workload.parameter_count, "differs": None, "proofs": {}}
    try:
        (proofs,) = proof.prove_imports(plan.trials, gate, console).values()
        said["proofs"] = {framework: asdict(each) for framework, each in proofs.items()}
    except CannotGoOn as error:
        said["differs"] = str(error)
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    said["cpu_s"] = sum(each.ru_utime + each.ru_stime for each in used)
    said["wall_s"] = time.monotonic() - began_s
    (folder / f"{name}.json").write_text(json.dumps(said, indent=1) + "\n")


def name_source(name: str, folder: Path) -> str:
    """Return what `--workload` names."""
    return f"{folder / 'torchvision_nets.py'}:{name}" if name in TORCHVISION else str(folder / f"{name}.keras")


def compare_in_float64(name: str, folder: Path) -> None:
    """Write FOLDER/NAME.float64: the difference of the parameters' changes by three updates, relative to the change."""
    inputs, changes = folder / "results" / name / "inputs", folder / f"{name}.changes.npz"
    framework = "pytorch" if name in TORCHVISION else "tensorflow"
    python = definition.read(Project.of_this_code(), framework, "cpu").interpreter
    subprocess.run([python, HERE / "source_float64.py", inputs, name_source(name, folder), changes], check=True)
    (path,), (source,) = inputs.glob("*-network-*.json"), inputs.glob("*-source-*.json")
    imported = network.read(path).without_dropout()
    (path,) = inputs.glob("*-source-weights-*")
    before = weights.load(path)
    referee = Adapter()
    referee.open("cpu", 1, "default", FLOAT64, "host", "on-demand")
    referee.load(read_input(inputs, "train-images"), read_input(inputs, "train-labels"))
    referee.build(imported, OptimizerSpec.named("momentum"), before, 0)
    for batch in np.split(read_input(inputs, "order-seed0")[0][: sum(SIZES)], np.cumsum(SIZES)[:-1]):
        referee.train(batch[None])
    after, shapes = referee.weights(), imported.parameter_shapes()
    apart = moved = 0.0
    with np.load(changes) as theirs:
        for each in SourceMap.read(source).parameters:
            if each.key in shapes:
                change = each.take(theirs[each.source_name], shapes[each.key])
                apart += float(np.square(change - (after[each.key] - before[each.key])).sum())
                moved += float(np.square(change).sum())
    changes.unlink()
    (folder / f"{name}.float64").write_text(f"{(apart / moved) ** 0.5:.3g}\n")


def list_rows(name: str, said: dict[str, Any] | None) -> list[tuple[str, ...]]:
    """Return the rows of a network, one for each framework."""
    source = "torchvision" if name in TORCHVISION else "keras.applications"
    if said is None:
        return [(name, source, *[""] * 8, "not measured", "", "")]
    front, ends = (
        (name, source, f"{said['parameters']:,}"),
        (said["float64"], f"{said['wall_s']:.0f} ({said['cpu_s']:.0f})"),
    )
    if said["differs"] is not None:
        return [(*front, *[""] * 7, said["differs"], *ends)]
    rows = []
    for framework, each in sorted(said["proofs"].items()):
        figures = (each[key] for key in ("forward", "loss", "gradients", "updates", "weights"))
        verdict = "yes, with rounding measured" if each["disturbed"] else "yes"
        rows.append(
            (*front, framework, *(f"{figure:.0e}" for figure in figures), f"{each['widest']:.2g}", verdict, *ends)
        )
        front, ends = ("", "", ""), ("", "")
    return rows


def read_answers(folder: Path) -> dict[str, dict[str, Any] | None]:
    """Return what is known of each network."""
    files = {name: folder / f"{name}.json" for name in NAMES}
    found = {name: json.loads(path.read_text()) if path.exists() else None for name, path in files.items()}
    for name, said in found.items():
        path = folder / f"{name}.float64"
        if said is not None:
            said["float64"] = f"{float(path.read_text()):.0e}" if path.exists() else "not measured"
    return found


def main() -> int:
    """Measure what is missing, print the table, and return the exit code."""
    command = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    command.add_argument("folder", type=Path)
    command.add_argument("--only", nargs="*", choices=NAMES, default=list(NAMES))
    command.add_argument("--threads", type=int, default=2)
    command.add_argument("--limit", type=float, default=LIMIT_S)
    command.add_argument("--write", type=Path)
    command.add_argument("--here", choices=NAMES, help=argparse.SUPPRESS)  # the network that this process proves
    options = command.parse_args()
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    if options.here:
        prove(options.here, folder, options.threads)
        return 0
    write_images(folder)
    write_sources(folder)
    for name in (each for each in options.only if not (folder / f"{each}.json").exists()):
        words = [str(folder), "--here", name, "--threads", str(options.threads)]
        try:
            subprocess.run([sys.executable, __file__, *words], timeout=options.limit)
        except subprocess.TimeoutExpired:
            print(f"{name}: not proven within {options.limit:.0f} s")
    for name in options.only:
        if (folder / f"{name}.json").exists() and not (folder / f"{name}.float64").exists():
            compare_in_float64(name, folder)
    answers = read_answers(folder)
    made = tabulate(
        [row for name in NAMES for row in list_rows(name, answers[name])],
        HEAD,
        tablefmt="github",
        disable_numparse=True,
    )
    print(made)
    if options.write:
        marks = re.compile(r"(<!-- eleven -->\n).*?(\n<!-- end -->)", re.DOTALL)
        text, count = marks.subn(lambda found: found[1] + made + found[2], options.write.read_text())
        if count != 1:
            command.error(f"{options.write}: there are no marks <!-- eleven --> and <!-- end --> in it")
        options.write.write_text(text)
    asked = [answers[name] for name in options.only]
    return 0 if all(each is not None and each["differs"] is None for each in asked) else 1


if __name__ == "__main__":
    sys.exit(main())
