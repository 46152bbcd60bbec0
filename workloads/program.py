"""Start a program of ours: without the caller's Python settings, with signals, output and missing packages handled."""

from __future__ import annotations

import io
import os
import re
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType

ROOT = Path(__file__).resolve().parents[1]
# Settings for text on a terminal, and for the place of byte code: nothing that is computed or installed depends on
# them.
HARMLESS = ("PYTHONUNBUFFERED", "PYTHONIOENCODING", "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX")
AGAIN = "BATCHWISE_STARTED_AGAIN"  # set to the id of the process that starts again: it keeps that id
STREAMS = {1: "stdout", 2: "stderr"}
OWN_PACKAGES = ("adapters", "reports", "runner", "tools", "workloads")
EXIT_INTERRUPTED, EXIT_MISSING = 130, 2
SYSTEMS = {"linux": "Linux", "darwin": "macOS"}  # by sys.platform
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # all but tab and new line


def require_system(*known: str) -> None:
    """End this program with one line if the system is none of these, which are named as in sys.platform."""
    if sys.platform in known:
        return
    systems = " or ".join(SYSTEMS[name] for name in known)
    print(f"This command runs on {systems} only (on Windows: in WSL 2)", file=sys.stderr)
    sys.exit(EXIT_MISSING)


def strip_python(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without every variable that Python reads (PYTHONPATH, PYTHONHOME, PYTHONWARNINGS, ...)."""
    return {name: value for name, value in environment.items() if not name.startswith("PYTHON")}


def build_environment(environment: Mapping[str, str], root: Path = ROOT) -> dict[str, str]:
    """Return the environment for a program of the project at `root`: only HARMLESS is kept of Python's variables."""
    kept = {name: environment[name] for name in HARMLESS if name in environment}
    return strip_python(environment) | kept | {"PYTHONPATH": str(root)}


def start_again() -> None:
    """Start this program again, by the same command line, if the caller's variables may have changed Python.

    Returns if they have not, and if the interpreter was told to ignore them: then its children ignore them, too. Starts
    again at most once: an interpreter that is a script, or a module of its site, may set such a variable each time.
    """
    again = os.environ.pop(AGAIN, "") == str(os.getpid())
    changing = {name for name in os.environ if name.startswith("PYTHON")} - set(HARMLESS)
    if changing <= {"PYTHONPATH"} and _is_ours(os.environ.get("PYTHONPATH", "")):
        return
    if sys.flags.ignore_environment or again:
        for name in changing:
            del os.environ[name]
        return
    os.execve(
        sys.executable, [sys.executable, *sys.orig_argv[1:]], build_environment(os.environ) | {AGAIN: str(os.getpid())}
    )


def _is_ours(path: str) -> bool:
    """True if PYTHONPATH is empty or names only this project."""
    return not path or Path(path).resolve() == ROOT


def interrupt_at_once() -> None:
    """Let Ctrl-C end the command without a traceback while it reads its modules, when it has nothing to keep.

    OpenBLAS raises SIGINT if it is refused a thread, as if somebody had pressed Ctrl-C. In our programs numpy and scipy
    have almost nothing to compute, so they get one thread. Workers are given their threads separately.
    """
    os.putenv("OPENBLAS_NUM_THREADS", "1")  # for this process's libraries and children: the caller's value stays known
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def interrupt_in_order() -> None:
    """Let each signal raise KeyboardInterrupt, except SIGHUP if nohup ignores it and SIGINT if a shell does."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    for number in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)


class _Lasting(io.FileIO):
    """Drops what cannot be written, and everything that follows, from this process and those that it starts."""

    def write(self, content: object) -> int:
        try:
            return super().write(content)  # type: ignore[arg-type]
        except OSError:
            _to_nowhere(self.fileno())
            return len(memoryview(content))  # type: ignore[arg-type]


class _Plain(io.TextIOWrapper):
    """Writes control characters as a replacement character: text of others must not steer a terminal."""

    def write(self, text: str) -> int:
        return super().write(CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text))


def outlast_readers(plain: bool = False) -> None:
    """Let this process's standard output and error outlast their readers, unless they are redirected, as in a test.

    Characters that the encoding lacks are written with backslashes. `plain`: without control characters, for a program
    that prints what others have stored, and draws nothing on the terminal.
    """
    for number, name in STREAMS.items():
        stream = getattr(sys, name)
        if stream is None:  # closed by the caller: the next file that is opened would take its number
            _to_nowhere(number)
        elif not _is_of(stream, number):
            continue
        raw = _Lasting(number, "w", closefd=False)
        encoding = stream.encoding if stream else "utf-8"
        written = _Plain if plain else io.TextIOWrapper
        lasting = written(io.BufferedWriter(raw), encoding, "backslashreplace", line_buffering=True)
        setattr(sys, name, lasting)


def run_making(name: str, command: Callable[[list[str]], int], arguments: list[str]) -> int:
    """Run a command that makes something, and return its exit code; 130 after Ctrl-C, with a line by this name."""
    outlast_readers()
    interrupt_in_order()
    try:
        return command(arguments)
    except KeyboardInterrupt:
        print(f"\n{name}: interrupted; the same command continues", file=sys.stderr)
        return EXIT_INTERRUPTED


def _is_of(stream: io.TextIOBase, number: int) -> bool:
    try:
        return stream.fileno() == number
    except (OSError, ValueError):
        return False


def _to_nowhere(number: int) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    if nowhere == number:
        os.set_inheritable(number, True)
        return
    os.dup2(nowhere, number)
    os.close(nowhere)


def report_missing_packages() -> None:
    """Report missing packages in one line from now on, in this process."""
    sys.excepthook = _report_missing


def _report_missing(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    name = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    if not name or name in OWN_PACKAGES:
        sys.__excepthook__(kind, error, trace)
        return
    advice = "make setup makes .venv with it; then .venv/bin/python -m ... (or: pip install -r requirements.txt)"
    print(f"{name} is not installed for {sys.executable}: {advice}", file=sys.stderr, flush=True)
    os._exit(EXIT_MISSING)  # a hook cannot set the exit code in another way
