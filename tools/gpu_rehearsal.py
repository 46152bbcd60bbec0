"""Rehearse the day on a card on this machine: python -m tools.gpu_rehearsal [STEP...], by default all steps.

The folder that would be sent (tools/gpu_travel.py) is packed and its day.sh is run as there: with Python 3.12 and the
machine's packages (requirements-gpu-machine.txt, builds for the CPU where pip knows them), in a network namespace of
its own. The stand-in for the driver replays a recorded H200, again and again. Frameworks compute on the CPU where a
trial says the card: all that the machine has in the step `several`, PyTorch in the others. PYTHON312 names the Python,
else `python3.12` is taken. A rehearsal that was cut off continues.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from tools.gpu_day import STEPS
from tools.gpu_travel import REQUIREMENTS, ROOT, CannotPack, pack, read_machine_packages
from workloads.command_line import CommandLine

TRACE = ROOT / "tests" / "gpu" / "traces" / "h200-matrix-products.csv"
STAND_IN = ROOT / "tests" / "gpu" / "nvml_stand_in.c"
EVERY, FRAMEWORKS = ("several",), ("pytorch", "jax", "keras_jax", "keras_torch")  # these steps are of all of them
MINUTES = 60.0  # of the repeated trace
CARD = {"NVML_MEMORY_MIB": "143771", "NVML_LIMIT_MW": "700000", "NVML_CAPABILITY": "9.0", "NVML_COUNTER_MS": "100"}
# Appended to an adapter: it takes the CPU where the trial says the card, and gives the stand-in its process id.
ON_THE_HOST = """

class OnTheHost({name}):
    def open(self, device, *arguments):
        with open({pid_file!r}, "w") as file:
            file.write(str(__import__("os").getpid()))
        return super().open("cpu", *arguments)


{name} = OnTheHost
"""
HAS_PACKAGES = """
import importlib.metadata, json, sys
for name, version in json.loads(sys.argv[1]).items():
    assert importlib.metadata.version(name).partition("+")[0] == version, name
"""


class CannotRehearse(Exception):
    """Something is missing here; the message is one line: what, and what to do."""


def put_on_the_host(folder: Path, pid_file: Path) -> None:
    """Append ON_THE_HOST to the modules of an adapter, in a copy of the project."""
    for module, name in (("adapter.py", "Adapter"), ("data_parallel.py", "DataParallel")):
        file = folder / module
        source = file.read_text(encoding="utf-8") if file.exists() else ""
        if f"\nclass {name}(" in source:  # what adapters share is not one
            file.write_text(source + ON_THE_HOST.format(name=name, pid_file=str(pid_file)), encoding="utf-8")


def find_python() -> str:
    """Return the path of a Python 3.12. Raises CannotRehearse."""
    named = os.environ.get("PYTHON312") or shutil.which("python3.12")
    if not named:
        raise CannotRehearse("there is no python3.12: install one, or set PYTHON312")
    try:
        asked = [named, "-c", "import sys; print('{}.{}'.format(*sys.version_info))"]
        version = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError) as error:
        raise CannotRehearse(f"{named} does not start: set PYTHON312 to a python3.12 ({error})") from error
    if version != "3.12":
        raise CannotRehearse(f"{named} is Python {version}, and the machine has 3.12: set PYTHON312")
    return str(Path(named).absolute())


def find_namespace() -> list[str]:
    """Return the words that start a program in a network namespace of its own. Raises CannotRehearse."""
    words = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--net"]
    try:
        subprocess.run([*words, "true"], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise CannotRehearse(f"no network namespace is available here ({' '.join(words)}): {error}") from error
    return words


def prepare_machine(folder: Path, python: str) -> Path:
    """Return the folder of a `python3` with the machine's packages; it is made once. Raises CannotRehearse."""
    wanted = json.dumps(read_machine_packages())
    if (Path(python).parent / "python3").exists() and _has(python, wanted):
        return Path(python).parent
    mark = folder / f".complete-{hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()[:16]}"
    interpreter = folder / "bin" / "python3"
    if not mark.exists():
        print("rehearsal: installing the machine's packages", flush=True)
        subprocess.run([python, "-m", "venv", "--clear", folder], check=True)
        command = [interpreter, "-m", "pip", "install", "--quiet", "-r", REQUIREMENTS]
        if subprocess.run(list(map(str, command))).returncode or not _has(str(interpreter), wanted):
            raise CannotRehearse(f"the packages of {REQUIREMENTS.name} cannot be installed: pip says why above")
        mark.touch()
    return interpreter.parent


def _has(python: str, wanted: str) -> bool:
    return subprocess.run([python, "-c", HAS_PACKAGES, wanted], capture_output=True).returncode == 0


def build_driver(folder: Path) -> dict[str, str]:
    """Compile the stand-in and repeat the trace; return the variables that show the card. Raises CannotRehearse."""
    folder.mkdir(parents=True, exist_ok=True)
    library, trace = folder / "libnvidia-ml.so.1", folder / "trace.csv"
    command = ["cc", "-shared", "-fPIC", "-Wl,-soname,libnvidia-ml.so.1", str(STAND_IN), "-o", str(library)]
    try:
        subprocess.run(command, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise CannotRehearse(f"the stand-in for the driver cannot be compiled: {error}") from error
    trace.write_text("\n".join(repeat_trace(TRACE.read_text().splitlines(), MINUTES)) + "\n")
    return CARD | {"LD_LIBRARY_PATH": str(folder), "NVML_TRACE": str(trace), "NVML_T0": str(time.monotonic_ns()),
                   "NVML_PID_FILE": str(folder / "pid")}  # fmt: skip


def repeat_trace(lines: list[str], minutes: float) -> list[str]:
    """Return rows (t_ms, ..., energy mJ in column 5, ...) that go on with the first row after the last one."""
    rows = [[float(cell) for cell in line.split(",")] for line in lines if line]
    period_ms, energy_mj = rows[-1][0] - rows[0][0] + 20, rows[-1][5] - rows[0][5]
    repeated = []
    for turn in range(1 + int(minutes * 60_000 / period_ms)):
        for row in rows:
            moved = [row[0] + turn * period_ms, *row[1:5], row[5] + turn * energy_mj, *row[6:]]
            repeated.append(",".join(f"{cell:.12g}" for cell in moved))
    return repeated


def rehearse(out: Path, steps: list[str], seconds: float) -> int:
    """Run the steps in the packed folder; return the highest exit code. Raises CannotRehearse, CannotPack."""
    python, namespace = find_python(), find_namespace()
    machine = prepare_machine(out / "machine", python)
    size = pack(out / "travel", python)
    print(f"rehearsal: {size / 2**20:.1f} MiB to send", flush=True)
    variables = build_driver(out / "driver")
    for adapter in (out / "travel" / "project" / "adapters").iterdir():
        put_on_the_host(adapter, out / "driver" / "pid")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    environment |= variables | {"PATH": f"{machine}{os.pathsep}{os.environ['PATH']}", "CUDA_VISIBLE_DEVICES": "0"}
    script = 'ip link set lo up 2>/dev/null || true; exec sh "$0" "$@"'
    until_s, codes = time.monotonic() + seconds, []
    for every, group in itertools.groupby(steps, EVERY.__contains__):
        command = [*namespace, "sh", "-c", script, str(out / "travel" / "day.sh"), *group, "--quick",
                   "--seconds", f"{max(1.0, until_s - time.monotonic()):.0f}"]  # fmt: skip
        words = ["--framework", *FRAMEWORKS] if every else []
        codes.append(subprocess.run([*command, *words], env=environment, stdin=subprocess.DEVNULL).returncode)
    return max(codes)


def main(arguments: list[str]) -> int:
    """Rehearse; return the exit code of the day, or 2 with one line on stderr."""
    parser = CommandLine(prog="python -m tools.gpu_rehearsal", description=__doc__)
    parser.add_argument("steps", nargs="*", choices=[*STEPS, []], metavar="STEP")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "gpu-day")
    parser.add_argument("--seconds", type=float, default=2700.0, help="time for all steps but check and pack (2700)")
    options = parser.parse_args(arguments)
    try:
        return rehearse(options.out.resolve(), options.steps or list(STEPS), options.seconds)
    except (CannotRehearse, CannotPack) as error:
        print(f"rehearse-gpu-day: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
