"""Files from which images are built: the Dockerfile, the definitions of the environments, the compose file."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from conftest import PROJECT, REAL_FRAMEWORKS, ROOT
from imported import imported

from runner.environments.containers import build_variables
from runner.environments.definition import list_variants, read
from runner.environments.engine import Engine
from runner.environments.images import RECIPE, Image, build_line, list_images, read_version
from runner.project import Project

DOCKERFILE = ROOT / "docker" / "Dockerfile"
PIN = re.compile(r"^([\w.-]+)==(\S+)", re.MULTILINE)
DOCKER, PODMAN = Engine("docker", "docker", "28.0"), Engine("podman", "podman", "4.3")


def defined() -> list[Image]:
    return [Image(read(PROJECT, name, kind)) for name in PROJECT.frameworks for kind in list_variants(PROJECT, name)]


def pins(text: str) -> dict[str, str]:
    return {re.sub(r"[-_.]+", "-", name).lower(): number for name, number in PIN.findall(text)}


def option(line: list[str], name: str) -> list[str]:
    return [line[place + 1] for place, word in enumerate(line) if word == name]


def test_hadolint_finds_no_fault_with_the_dockerfile() -> None:
    hadolint = Path(sys.executable).parent / "hadolint"
    done = subprocess.run([hadolint, str(DOCKERFILE)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("image", defined(), ids=lambda image: image.reference)
def test_every_argument_of_the_dockerfile_is_given_and_none_that_it_does_not_know(image: Image) -> None:
    asked = set(re.findall(r"^ARG (\w+)", DOCKERFILE.read_text(), re.MULTILINE))
    assert asked == set(image.arguments)
    assert image.arguments["FRAMEWORK"] == image.environment.framework
    assert all(image.arguments[name] for name in asked - {"SYSTEM_PACKAGES"})


@pytest.mark.parametrize("image", defined(), ids=lambda image: image.reference)
def test_a_base_is_pinned_by_its_digest(image: Image) -> None:
    """NVIDIA's base is named by its release, which is not published again."""
    if image.environment.in_base:
        assert re.fullmatch(r"nvcr\.io/nvidia/\w+:\d\d\.\d\d-py3", image.environment.base)
    else:
        assert re.fullmatch(r"docker\.io/library/python:3\.11-[\w-]+@sha256:[0-9a-f]{64}", image.environment.base)


@pytest.mark.parametrize("image", defined(), ids=lambda image: image.reference)
def test_the_runners_packages_beside_a_framework_are_pinned_to_the_frameworks_own_versions(image: Image) -> None:
    light = pins((ROOT / "runner" / "requirements.txt").read_text())
    own = pins(image.environment.pins)
    assert {name: own[name] for name in light.keys() & own} == {name: light[name] for name in light.keys() & own}
    assert "numpy" not in light


def test_the_runners_own_environment_has_the_same_light_packages_as_an_image() -> None:
    whole = (ROOT / "requirements.txt").read_text()
    assert "-r runner/requirements.txt\n" in whole
    assert not pins(whole).keys() & pins((ROOT / "runner" / "requirements.txt").read_text()).keys()


def test_an_image_has_every_package_that_the_runner_imports() -> None:
    """All imported packages are checked but numpy, and scipy, Pillow and Ray, which are imported where they are needed.
    A missing one is reported before a run starts."""
    names = {"pynvml": "nvidia-ml-py"}
    imported = set()
    names_late = ("data/pictures.py", "data/orientation.py", "data/folder_images.py", "cluster/ray_engine.py")
    late = {ROOT / "runner" / name for name in names_late}
    for path in {*(ROOT / "runner").rglob("*.py"), *(ROOT / "workloads").rglob("*.py")} - late:
        imported |= set(re.findall(r"^(?:from|import) (\w+)", path.read_text(), re.MULTILINE))
    others = imported - sys.stdlib_module_names - {"runner", "workloads", "numpy", "__future__"}
    light = pins((ROOT / "runner" / "requirements.txt").read_text())
    assert {names.get(name, name) for name in others} <= light.keys()


def test_what_makes_an_environment_in_an_image_imports_no_file_that_is_not_there_yet(tmp_path: Path) -> None:
    """The step runs with the files that the Dockerfile copies before it, which are the recipe's, and no packages."""
    stage = (ROOT / "docker" / "Dockerfile").read_text().split(" AS environment\n")[1].split("\nRUN ")[0]
    copied = [line.split()[1:-1] for line in stage.splitlines() if line.startswith("COPY ")]
    names = {name.replace("${FRAMEWORK}", "numpy") for line in copied for name in line}
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    code = "import runpy; runpy.run_path('docker/environment.py', run_name='imported')"
    told = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert told.returncode == 0, told.stderr
    sources = {name for name in names if name.endswith(".py") and not name.endswith("__init__.py")}
    assert sources <= set(RECIPE)


def test_a_change_of_the_recipe_or_of_the_definition_makes_an_image_invalid(tmp_path: Path) -> None:
    image = Image(read(PROJECT, "numpy", "cpu"))
    before = image.environment_digest
    for path in RECIPE:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes((ROOT / path).read_bytes())
    image = Image(replace(image.environment, project=Project.at(tmp_path)))
    assert image.environment_digest == before
    with (tmp_path / "docker" / "Dockerfile").open("a") as file:
        file.write("# another\n")
    assert Image(image.environment).environment_digest != before


def test_all_frameworks_are_built_for_both_kinds_and_the_referee_is_not() -> None:
    found = {image.reference for image in list_images(PROJECT, [], [])}
    assert found == {
        f"batchwise/{name}:{kind}"
        for name in REAL_FRAMEWORKS
        for kind in ("cpu", "cuda")
        if kind in list_variants(PROJECT, name)
    }


def test_version_and_commit_are_in_a_tag_and_the_gpu_image_is_the_one_without_a_tag(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("runner.environments.images.read_commit", lambda project: "abc123-dirty")
    tags = Image(read(PROJECT, "pytorch", "cuda")).tags
    assert tags == [
        "batchwise/pytorch:cuda",
        f"batchwise/pytorch:cuda-{read_version(PROJECT)}",
        f"batchwise/pytorch:cuda-{read_version(PROJECT)}-abc123-dirty",
        "batchwise/pytorch:latest",
    ]
    assert "batchwise/pytorch:latest" not in Image(read(PROJECT, "pytorch", "cpu")).tags


def test_the_build_is_given_the_same_words_by_docker_and_by_podman_and_keeps_the_callers() -> None:
    image = Image(read(PROJECT, "mxnet", "cpu"))
    caller = ["--build-arg", "BASE=mirror/python:3.11", "--secret", "id=pip.conf,src=/etc/pip.conf"]
    docker, podman = build_line(DOCKER, image, caller), build_line(PODMAN, image, caller)
    assert docker[:2] == ["docker", "build"] and podman[:2] == ["podman", "build"]
    assert "SYSTEM_PACKAGES=libgomp1 libquadmath0" in option(docker, "--build-arg")
    assert option(docker, "--build-arg") == option(podman, "--build-arg")
    assert option(docker, "--build-arg")[-1] == "BASE=mirror/python:3.11"  # after ours: it holds
    assert docker[-5:] == [*caller, "."]
    assert option(podman, "--timestamp") == [image.arguments["SOURCE_DATE_EPOCH"]]


def test_make_images_passes_its_words_on() -> None:
    done = subprocess.run(
        ["make", "-n", "-o", ".venv/.complete", "images", "FRAMEWORK=pytorch", "DEVICE=cpu", "BUILD=--no-cache"],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL")},
        capture_output=True,
        text=True,
    )
    assert done.stdout.strip() == ".venv/bin/python -m runner.environments.images pytorch --device cpu -- --no-cache", (
        done.stderr
    )


def test_a_framework_that_does_not_exist_is_refused() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "runner.environments.images", "caffe"], cwd=ROOT, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (2, "images: unknown framework caffe\n")


def test_the_context_of_a_build_holds_no_more_than_it_needs() -> None:
    """A results folder or a data set in the context would be sent to the daemon, and may end in an image."""
    lines = (ROOT / ".dockerignore").read_text().split()
    assert lines[0] == "*"
    assert {line.removeprefix("!") for line in lines if line.startswith("!")} == {
        "RULES.md",
        "docker/environment.py",
        "workloads",
        "adapters",
        "runner",
    }


def test_every_user_can_read_what_an_image_copies_from_a_checkout_of_its_owner_alone() -> None:
    """COPY keeps modes, which are 0700 and 0600 after `umask 077`; the image runs as another user than root."""
    last = DOCKERFILE.read_text().split("\nFROM system\n")[1]
    copied = re.findall(r"^COPY (?!--)(\S+) /opt/batchwise", last, re.MULTILINE)
    opened = re.search(r"^RUN chmod -R u=rwX,go=rX (.+) && \\$", last, re.MULTILINE)
    assert copied and opened and {*opened[1].split()} == {f"/opt/batchwise/{name}" for name in copied}
    assert last.rindex("\nCOPY ") < opened.start() < last.index("\nUSER ")


def test_a_secret_is_no_more_than_mounted() -> None:
    """A secret is neither copied nor an argument: both stay in an image."""
    text = DOCKERFILE.read_text()
    assert text.count("--mount=type=secret") == 3
    for name in ("pip.conf", "apt.conf", "certificates"):
        assert f"id={name}" in text
    assert not re.search(r"^(COPY|ADD|ARG|ENV).*(secret|pip\.conf|apt\.conf|certificates)", text, re.MULTILINE)


@pytest.mark.slow
def test_mxnet_of_nvidia_installs_no_other_mxnet_and_a_worker_needs_no_newer_python_than_it_has() -> None:
    environment = read(PROJECT, "mxnet", "cuda-nvidia")
    assert (environment.pins, environment.python, environment.in_base) == ("", "3.10", True)
    folders = (ROOT / "adapters" / "worker", ROOT / "adapters" / "mxnet")
    loaded = sorted(imported(path.relative_to(ROOT) for folder in folders for path in folder.glob("*.py")))
    assert {Path("workloads/records/job.py"), Path("adapters/base.py")} <= set(loaded)
    vermin = Path(sys.executable).parent / "vermin"
    done = subprocess.run(
        [vermin, "--no-tips", "--violations", "-t=3.10-", *(ROOT / path for path in loaded)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    builders = [ROOT / path for path in RECIPE if path.endswith(".py")]
    tried: list[str | Path] = [
        vermin,
        "--no-tips",
        "--violations",
        "-t=3.10-",
        "--exclude",
        "tomllib",
        *map(str, builders),
    ]
    done = subprocess.run(tried, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    code = "import sys, runpy; sys.modules['tomllib'] = None; runpy.run_path('docker/environment.py')"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0
    code = "import sys, adapters.worker.__main__; sys.exit('workloads.study' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


@pytest.mark.parametrize(
    ("framework", "capability", "lacks"),
    [
        ("mxnet", "8.0", False),
        ("mxnet", "8.9", False),
        ("mxnet", "9.0", True),
        ("mxnet", "12.0", True),
        ("mxnet", None, False),
        ("pytorch", "12.0", False),
        ("tensorflow", "12.0", False),
    ],
)
def test_a_card_is_refused_where_there_is_no_code_for_it_and_nowhere_else(
    framework: str, capability: str | None, lacks: bool
) -> None:
    assert read(PROJECT, framework, "cuda").lacks(capability) is lacks


def test_variables_inside_an_image_name_no_folder_of_this_machine() -> None:
    for name in PROJECT.frameworks:
        for kind in list_variants(PROJECT, name):
            environment = read(PROJECT, name, kind)
            for value in build_variables(environment).values():
                assert str(ROOT) not in value and "{" not in value
    paths = build_variables(read(PROJECT, "mxnet", "cuda"))["LD_LIBRARY_PATH"].split(":")
    assert paths[0] == "/opt/batchwise/.envs/mxnet-cuda/lib/python3.11/site-packages/nvidia/cudnn/lib"


def test_compose_grants_no_more_than_a_study_needs_and_names_the_same_images() -> None:
    services = yaml.safe_load((ROOT / "docker" / "compose.yaml").read_text())["services"]
    assert set(services) == {"cpu", "cuda"}
    for kind, service in services.items():
        assert service["image"] == f"batchwise/${{FRAMEWORK:?which framework}}:{kind}"
        assert service["network_mode"] == "none" and service["read_only"] is True and service["cap_drop"] == ["ALL"]
        assert service["volumes"] == ["${RESULTS:-../results}:/results"]
        assert "privileged" not in service


def test_the_version_of_an_image_is_that_of_the_project() -> None:
    assert read_version(PROJECT) == tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
