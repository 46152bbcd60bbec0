"""Pack the folder for a machine with a card: python -m tools.gpu_travel OUT [--python python3.12].

OUT gets the project as it is committed (`project/`), the wheels that such a machine lacks (`wheels/`) and `day.sh`.
That runs the steps there with the machine's `python3` and without a network: `sh day.sh probe one`. A folder above
LIMIT_BYTES is refused. requirements-gpu-machine.txt says what the machine has and what is carried.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from runner.git import build_git_environment
from workloads.command_line import CommandLine
from workloads.unpacking import extract_all

ROOT = Path(__file__).resolve().parents[1]
REQUIREMENTS = ROOT / "requirements-gpu-machine.txt"
CARRIED = "# carried: "
LIMIT_BYTES = 64 * 2**20
LEFT_OUT = ("published/",)  # reports of other machines: no step reads them
DAY = """#!/bin/sh
# Usage, without a network: sh day.sh STEP... (project/tools/gpu_day.py). Results: out/, next to this file.
set -e
cd "$(dirname "$0")"
if [ ! -e python/.complete ]; then
    rm -rf python
    python3 -m venv --without-pip python
    packages=$(python/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    python3 -c 'import site; print("\\n".join(site.getsitepackages()))' > "$packages/machine.pth"
    for wheel in wheels/*.whl; do python/bin/python -m zipfile -e "$wheel" "$packages"; done
    touch python/.complete
fi
out=$PWD/out
cd project
exec ../python/bin/python -m tools.gpu_day --out "$out" "$@"
"""


class CannotPack(Exception):
    """The folder cannot be packed; the message is one line."""


def read_machine_packages() -> dict[str, str]:
    """Return {name: version} of the packages that the machine has."""
    lines = (line.strip() for line in REQUIREMENTS.read_text(encoding="utf-8").splitlines())
    return dict(line.split("==") for line in lines if line and not line.startswith("#"))


def read_carried_packages() -> dict[str, str]:
    """Return {name: version} of the packages that travel as wheels."""
    lines = REQUIREMENTS.read_text(encoding="utf-8").splitlines()
    return dict(line.removeprefix(CARRIED).split("==") for line in lines if line.startswith(CARRIED))


def pack(out: Path, python: str) -> int:
    """Write the folder anew, but keep the wheels that are there; return its bytes. Raises CannotPack.

    `python` is an interpreter of the machine's version, whose pip chooses the wheels.
    """
    project, wheels = out / "project", out / "wheels"
    if project.exists():
        shutil.rmtree(project)  # an OSError for a link: what lies behind it would travel, too
    wheels.mkdir(parents=True, exist_ok=True)
    _extract_commit(project)
    _fetch_wheels(wheels, python)
    (out / "day.sh").write_text(DAY)
    size = sum(path.stat().st_size for part in (project, wheels) for path in part.rglob("*") if path.is_file())
    if size > LIMIT_BYTES:
        raise CannotPack(
            f"{out} has {size / 2**20:.1f} MiB, and {LIMIT_BYTES / 2**20:.0f} MiB may be sent: leave out more"
        )
    return size


def _extract_commit(project: Path) -> None:
    """Write the project as it is committed, without LEFT_OUT."""
    excluded = [f":(exclude){folder}" for folder in LEFT_OUT]
    command = ["git", "archive", "HEAD", "--", ".", *excluded]
    archived = subprocess.run(command, cwd=ROOT, env=build_git_environment(ROOT), capture_output=True)
    if archived.returncode:
        raise CannotPack(f"git archive: {archived.stderr.decode(errors='replace').strip()}")
    with tarfile.open(fileobj=io.BytesIO(archived.stdout)) as tar:
        extract_all(tar, project)


def _fetch_wheels(wheels: Path, python: str) -> None:
    """Download the wheels that are carried and not there yet, and remove others."""
    wanted = read_carried_packages()
    there = {path: path.name.split("-")[:2] for path in wheels.glob("*.whl")}
    for path, (name, version) in there.items():
        if wanted.get(name) != version:
            path.unlink()
    held = {name for name, version in there.values() if wanted.get(name) == version}
    missing = [f"{name}=={version}" for name, version in wanted.items() if name not in held]
    if not missing:
        return
    command = [python, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest", str(wheels)]
    done = subprocess.run([*command, *missing], capture_output=True, text=True)
    if done.returncode:
        raise CannotPack(f"wheels: {(done.stderr.strip().splitlines() or ['pip failed'])[-1]}")


def main(arguments: list[str]) -> int:
    """Pack the folder; return 0, or 2 with one line on stderr."""
    parser = CommandLine(prog="python -m tools.gpu_travel", description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--python", default="python3.12")
    options = parser.parse_args(arguments)
    try:
        size = pack(options.out.resolve(), options.python)
    except (CannotPack, OSError) as error:
        print(f"gpu_travel: {error}", file=sys.stderr)
        return 2
    print(f"packed: {options.out} {size / 2**20:.1f} MiB of {LIMIT_BYTES / 2**20:.0f}; there: sh day.sh STEP...")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
