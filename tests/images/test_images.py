"""Images of all frameworks, really built: what they contain, and what they do not."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest
from conftest import PROJECT, ROOT
from engines import FRAMEWORKS, MARKER, base_options, build, in_image, reference, secret_options, size_mib

from runner.environments.definition import read
from runner.environments.engine import Engine
from runner.environments.images import Image, build_line

# numpy.testing imports a test of numpy's; PyTorch and TensorFlow require setuptools, and carry libraries' headers.
MAY_STAY = r"dist-info/|numpy/_?core/tests$|/setuptools$|/(tensorflow|torch|triton|jax)/.+/include$"
LARGEST_MIB = {"numpy": 120, "mxnet": 330, "pytorch": 850, "tensorflow": 1350}  # beyond the base


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_an_image_is_small_and_carries_nothing_of_what_built_it(built: None, engine: Engine, framework: str) -> None:
    base = json.loads(engine.ask("image", "inspect", reference(framework)))[0]["Config"]["Labels"]
    name = base["org.opencontainers.image.base.name"]
    assert size_mib(framework) - size_mib(name) < LARGEST_MIB[framework]
    names = ["pip", "setuptools", "gcc", "tests", "include", ".git", "numpy-cpu.log", "numpy-cpu.txt"]
    script = "import pathlib, sys; [print(p) for p in pathlib.Path('/opt/batchwise').rglob('*') if p.name in sys.argv]"
    left = in_image(framework, "python", "-c", script, *names)
    assert left.returncode == 0, left.stderr
    assert [path for path in left.stdout.split() if not re.search(MAY_STAY, path)] == []
    lists = in_image(framework, "sh", "-c", "ls -A /var/lib/apt/lists; ls -A /tmp")
    assert lists.stdout.strip() == ""


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_an_image_says_what_it_is_and_does_not_run_as_root(built: None, engine: Engine, framework: str) -> None:
    config = json.loads(engine.ask("image", "inspect", reference(framework)))[0]["Config"]
    labels, image = config["Labels"], Image(read(PROJECT, framework, "cpu"))
    assert config["User"] == "1000:1000"
    assert labels.items() >= image.labels.items()
    for name in ("title", "description", "version", "revision", "created", "base.name"):
        assert labels[f"org.opencontainers.image.{name}"], name
    inspected = engine.inspect(reference(framework))
    assert inspected and set(inspected["RepoTags"]) >= set(image.tags)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_another_user_can_import_the_framework_on_a_root_that_is_read_only(built: None, framework: str) -> None:
    done = in_image(framework, "smoke", options=["--user", "12345:54321"])
    assert done.returncode == 0, done.stderr


def test_another_user_can_run_an_image_of_a_checkout_that_only_its_owner_can_read(
    built: None, engine: Engine, tmp_path: Path
) -> None:
    """`git clone` after `umask 077` makes such a checkout. The image gets the tags of this one, and the same files."""
    checkout, secrets = tmp_path / "checkout", tmp_path / "secrets"
    for name in ("docker", "workloads", "adapters", "runner"):
        shutil.copytree(ROOT / name, checkout / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("RULES.md", ".dockerignore"):
        shutil.copy(ROOT / name, checkout)
    for path in checkout.rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)
    secrets.mkdir()
    options = ["--network", "host", *base_options(engine), *secret_options(secrets)]
    line = build_line(engine, Image(read(PROJECT, "numpy", "cpu")), options)
    variables = os.environ | {"DOCKER_BUILDKIT": "1"}
    done = subprocess.run(line, cwd=checkout, env=variables, capture_output=True, text=True)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    code = "import adapters.worker.__main__, runner.__main__"
    done = in_image("numpy", "python", "-c", code, options=["--user", "12345:54321"])
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("framework", ["numpy", "mxnet"])
def test_no_secret_of_the_build_stays_in_the_image(built: None, framework: str, tmp_path: Path) -> None:
    """Layers and configuration are searched. Each file of pip, apt and certificates held the secret, and so did pip's
    addresses."""
    archive = tmp_path / "image.tar"
    subprocess.run(["docker", "save", "--output", archive, reference(framework)], check=True)
    assert archive_holds(archive, "What is equalised"), "a layer cannot be searched: RULES.md is in one"
    assert archive_holds(archive, "batchwise.environment"), "the configuration cannot be searched"
    assert not archive_holds(archive, MARKER)


def archive_holds(archive: Path, text: str) -> bool:
    """True if any file of the archive contains the text, unpacked where it is compressed."""
    with tarfile.open(archive) as opened:
        for member in filter(tarfile.TarInfo.isfile, opened.getmembers()):
            file = opened.extractfile(member)
            assert file
            content = file.read()
            if content[:2] == b"\x1f\x8b":
                content = gzip.decompress(content)
            if text.encode() in content:
                return True
    return False


def test_the_same_inputs_give_the_same_files(built: None, engine: Engine, tmp_path: Path) -> None:
    """Contents, owners and modes of all our files are compared; a layer's times are the engine's."""
    script = (
        "find /opt/batchwise ! -name '*.pyc' -printf '%M %U %G %s %p\\n' | sort; "
        "find /opt/batchwise -type f | sort | xargs sha256sum"
    )
    before = in_image("mxnet", "sh", "-c", script)
    options = [*base_options(engine), *secret_options(tmp_path), "--no-cache"]
    assert build("mxnet", *options).returncode == 0
    after = in_image("mxnet", "sh", "-c", script)
    assert before.returncode == after.returncode == 0 and len(before.stdout) > 10_000
    assert before.stdout == after.stdout


def test_an_image_on_a_base_that_has_the_framework_can_be_built(built: None, engine: Engine, tmp_path: Path) -> None:
    """NVIDIA's MXNet is not available here: a base with a module of that name replaces it."""
    labels = json.loads(engine.ask("image", "inspect", reference("mxnet")))[0]["Config"]["Labels"]
    base, folder = labels["org.opencontainers.image.base.name"], "/usr/local/lib/python3.11/dist-packages/mxnet"
    recipe = f"FROM {base}\nRUN mkdir -p {folder} && echo told=42 > {folder}/__init__.py\n"
    (tmp_path / "Dockerfile").write_text(recipe)
    try:
        subprocess.run(["docker", "build", "--tag", "with-mxnet", tmp_path], check=True, capture_output=True)
        done = build("mxnet", "--build-arg", "BASE=with-mxnet", kind="cuda-nvidia")
        assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
        options = ["--entrypoint", "python", "batchwise/mxnet:cuda-nvidia"]
        code = "import mxnet, workloads.records.job; print(mxnet.told)"
        told = subprocess.run(["docker", "run", "--rm", *options, "-c", code], capture_output=True, text=True)
        assert told.stdout == "42\n", told.stderr
    finally:
        subprocess.run(["docker", "rmi", "--force", "batchwise/mxnet:cuda-nvidia", "with-mxnet"], capture_output=True)
