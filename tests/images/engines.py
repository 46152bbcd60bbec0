"""A real engine for the tests of the images: this machine's, or a Docker daemon started for them.

Where no registry can be reached (BATCHWISE_BASE=debootstrap, or no daemon of the machine answers), debootstrap makes
the base. It gets the name that the Dockerfile asks for.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeVar

import pytest
from conftest import PATIENT, REAL_FRAMEWORKS, ROOT

from runner.environments.engine import Engine, find_engine

T = TypeVar("T")

BASE = "docker.io/library/python:3.11-slim-bookworm"
PACKAGES = "ca-certificates,python3,python3-pip,python3-venv"
KEPT_BASE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "batchwise" / "bookworm.tar"
MARKER = "batchwise-secret-that-stays-outside"
FRAMEWORKS = ("numpy", *REAL_FRAMEWORKS)
SIZES = (32, 128)
STUDY = ("--batch-size", *SIZES, "--epochs", "2", "--window", "1", "--device", "cpu", *PATIENT)


def can_build(program: str | Path) -> bool:
    """True if the program can build with secrets: Docker's own builder knows none. It takes buildx, or a client older
    than 23, which has BuildKit in it."""
    has_buildx = subprocess.run([program, "buildx", "version"], capture_output=True).returncode == 0
    told = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
    return has_buildx or int(told.split("version ")[1].split(".")[0]) < 23


@contextmanager
def an_engine(home: Path) -> Iterator[Engine]:
    """An engine that answers and that os.environ leads to: this machine's, or a daemon for as long as the tests run."""
    clients = [Path(folder) / "docker" for folder in os.environ["PATH"].split(os.pathsep)]
    client = next((path for path in clients if path.is_file() and can_build(path)), None)
    if client is None:
        pytest.fail("no Docker client that can build with BuildKit")
    (home / "bin").mkdir()
    (home / "bin" / "docker").symlink_to(client)
    before, daemon = dict(os.environ), None
    os.environ["PATH"] = f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}"
    try:
        if not answers():
            daemon = start_daemon(home)
        yield find_engine()
    finally:
        os.environ.clear()
        os.environ.update(before)
        if daemon:
            daemon.terminate()
            daemon.wait(60)


def answers() -> bool:
    command = ["docker", "version", "--format", "{{.Server.Version}}"]
    return subprocess.run(command, capture_output=True).returncode == 0


def start_daemon(home: Path) -> subprocess.Popen[bytes]:
    if os.geteuid() != 0 or not shutil.which("dockerd"):
        pytest.fail("no container engine answers, and none can be started: it takes root and dockerd (docker.io)")
    os.environ["DOCKER_HOST"] = f"unix://{home}/socket"
    command: list[str | Path] = [
        "dockerd",
        "--iptables=false",
        "--bridge=none",
        "--data-root",
        home / "data",
        "--exec-root",
        home / "exec",
    ]
    log = (home / "log").open("w")
    daemon = subprocess.Popen(
        [*command, "--pidfile", home / "pid", "--host", os.environ["DOCKER_HOST"]], stdout=log, stderr=log
    )
    for _ in range(300):
        if answers():
            os.environ["BATCHWISE_BASE"] = "debootstrap"
            return daemon
        if daemon.poll() is not None:
            break
        time.sleep(0.1)
    pytest.fail(f"dockerd does not start: {(home / 'log').read_text().strip().splitlines()[-1]}")


def base_options(engine: Engine) -> list[str]:
    """Return the option that names the base, where we have made it."""
    if os.environ.get("BATCHWISE_BASE") != "debootstrap":
        return []
    if subprocess.run([engine.program, "image", "inspect", BASE], capture_output=True).returncode != 0:
        if not KEPT_BASE.exists():
            debootstrap(KEPT_BASE)
        subprocess.run([engine.program, "import", KEPT_BASE, BASE], check=True, capture_output=True)
    return ["--build-arg", f"BASE={BASE}"]


def debootstrap(archive: Path) -> None:
    """Make the base image's archive. It takes minutes, once per machine; the archive is removed by hand."""
    if not shutil.which("debootstrap"):
        pytest.fail("no debootstrap, which makes the base image where no registry is reached")
    archive.parent.mkdir(parents=True, exist_ok=True)
    root = archive.with_suffix(".root")
    shutil.rmtree(root, ignore_errors=True)
    sources = Path("/etc/apt/sources.list.d/debian.sources")
    mirror = [line.split()[1] for line in sources.read_text().splitlines() if line.startswith("URIs:")][:1] \
        if sources.exists() else []  # fmt: skip
    command: list[str | Path] = ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", "bookworm", root, *mirror]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    for cached in ("var/lib/apt/lists", "var/cache/apt"):  # a published base has none of these
        shutil.rmtree(root / cached)
        (root / cached).mkdir()
    subprocess.run(["tar", "-C", root, "-cf", archive, "."], check=True)
    shutil.rmtree(root)


def secret_options(folder: Path) -> list[str]:
    """Write this machine's package settings and certificates as build secrets, each with the marker in it; return the
    options.

    pip's folders of this machine are served to the build on loopback.
    """
    served = [serve(path) for path in pip_folders()]
    lines = ["[global]", f"# {MARKER}", "timeout = 180"]
    if served:
        lines += ["find-links =", *(f"    {url}" for url in served if not url.endswith("/simple"))]
        lines += ["extra-index-url =", *(f"    {url}" for url in served if url.endswith("/simple"))]
    lines += [f"{name} = {value}" for name, value in pip_settings().items() if name in ("index-url", "trusted-host")]
    (folder / "pip.conf").write_text("\n".join(lines) + "\n")
    (folder / "apt.conf").write_text(f"// {MARKER}\n")
    certificates = Path("/etc/ssl/certs/ca-certificates.crt")
    (folder / "certificates").write_text(f"# {MARKER}\n" + (certificates.read_text() if certificates.exists() else ""))
    return [word for path in sorted(folder.iterdir()) for word in ("--secret", f"id={path.name},src={path}")]


def pip_settings() -> dict[str, str]:
    """{option: value} of all pip settings here, from files and environment."""
    told = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True).stdout
    pairs = [line.split("=", 1) for line in told.splitlines() if "=" in line]
    return {name.split(".")[-1]: value.strip("'") for name, value in pairs}


def pip_folders() -> list[Path]:
    told = pip_settings()
    words = f"{told.get('find-links', '')} {told.get('extra-index-url', '')}".replace("\\n", " ").split()
    paths = [Path(word.removeprefix("file://")) for word in words]
    return [path for path in dict.fromkeys(paths) if path.is_dir()]


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


def serve(folder: Path) -> str:
    """Serve a folder for as long as the tests run; return its address on loopback. An index lies next to the files that
    it names."""
    root, rest = (folder.parent, "/simple") if folder.name == "simple" else (folder, "/")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(root)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://{MARKER}:{MARKER}@127.0.0.1:{server.server_address[1]}{rest}"


def build_all(engine: Engine, folder: Path) -> None:
    """Build every image; print how long each took and how large it is."""
    options = [*base_options(engine), *secret_options(folder)]
    for framework in FRAMEWORKS:
        started = time.monotonic()
        done = build(framework, *options)
        assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
        took_s = time.monotonic() - started
        print(f"{reference(framework)}: built in {took_s:.0f} s, {size_mib(framework):.0f} MiB with its base")


def build(framework: str, *options: str, kind: str = "cpu") -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "runner.environments.images",
        framework,
        "--device",
        kind,
        "--",
        "--network",
        "host",
        *options,
    ]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


def reference(framework: str) -> str:
    return f"batchwise/{framework}:cpu"


def in_image(framework: str, *command: str, options: Iterable[str] = ()) -> subprocess.CompletedProcess[str]:
    """Run a program in the image as a trial sees it: no network, a root that cannot be written. Return its output."""
    line = ["docker", "run", "--rm", "--network", "none", "--read-only", "--tmpfs", "/tmp", *options]
    line += ["--entrypoint", command[0], reference(framework), *command[1:]]
    return subprocess.run(line, capture_output=True, text=True, timeout=600)


def alone(
    framework: str, results: Path, *arguments: object, user: str = "1000:1000", options: Iterable[str] = ()
) -> subprocess.CompletedProcess[str]:
    """Run `docker run IMAGE` as somebody types it; the study's results are in `results`/quick."""
    results.mkdir(exist_ok=True)
    os.chown(results, *map(int, user.split(":")))
    line = ["docker", "run", "--rm", "--network", "none", "--read-only", "--tmpfs", "/tmp", "--user", user]
    line += ["--volume", f"{results}:/results", *options, reference(framework), *map(str, arguments)]
    return subprocess.run(line, capture_output=True, text=True, timeout=900)


def containers() -> list[str]:
    """Names of our containers, running or not."""
    command = ["docker", "ps", "--all", "--filter", "name=batchwise", "--format", "{{.Names}}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def wait_for(found: Callable[[], T | None], seconds: float = 120) -> T:
    """Wait until `found` returns something; return that."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with suppress(OSError):
            if answer := found():
                return answer
        time.sleep(0.1)
    raise AssertionError("nothing found in time")


def size_mib(image: str) -> float:
    name = image if ":" in image else reference(image)
    told = subprocess.run(["docker", "image", "inspect", "--format", "{{.Size}}", name], capture_output=True, text=True)
    return int(told.stdout) / 2**20


def learnt(result: dict[str, Any]) -> tuple[list[float], list[tuple[float, float, float]]]:
    """Every number that only the training decides."""
    epochs = [(one["train_loss"], one["test_loss"], one["test_accuracy"]) for one in result["epochs"]]
    return result["first_losses"], epochs
