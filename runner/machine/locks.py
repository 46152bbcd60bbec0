"""Locks that one run at a time may hold: a device of this machine, and a results folder for that device.

Each is a name that the kernel holds for a living process and drops with it: an abstract unix socket (unix(7)). It is no
file, so nothing can remove it and nothing is left of it. Such names belong to one network namespace: a container with
its own and another machine do not see them. So a results folder also has lock files, which a shared disk shows to all
of them. There is one for each device, since runs on two devices may share a folder.

Other lock files are waited for: what one run makes, the next finds.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import socket
import struct
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import groupby
from pathlib import Path

from filelock import FileLock, Timeout

from workloads.processor_time import list_hyperthreads
from workloads.records.files import LOCK_FILE

SPACE_VARIABLE = "BATCHWISE_LOCK_SPACE"  # runs of two spaces do not see each other's names: for tests side by side
ASKED_AGAIN_S = 0.2
SILENT_S = 1.0  # of waiting for a lock file: most are held for less
NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)  # some NFS and FUSE mounts
ASKED = 4096  # processes that may ask who holds a name, if the system allows so many


class InUse(Exception):
    """Another run holds it; the message is one line: what, who, what to do."""


class LockRefused(PermissionError):
    """A lock file cannot be written; the text is one line: which, why, what to do."""

    def __str__(self) -> str:
        return f"{self.filename} {self.strerror}"


def _refuse(error: OSError | NotImplementedError, path: Path, advice: str) -> None:
    """Raise LockRefused if this error of a lock file says that it cannot be written, or that there are no locks."""
    if isinstance(error, NotImplementedError) or error.errno in NO_LOCKS:
        raise LockRefused(errno.ENOLCK, f"is on a file system without locks: {advice}", str(path)) from error
    if isinstance(error, PermissionError):
        path = Path(error.filename or path)
        owner = next((each.stat().st_uid for each in (path, path.parent) if os.path.exists(each)), None)
        reason = "cannot be written" if owner in (None, os.geteuid()) else "belongs to another user"
        raise LockRefused(error.errno, f"{reason}: {advice}", str(path)) from error


@contextmanager
def wait_for_file(path: Path, what: str, advice: str) -> Iterator[None]:
    """Hold this lock file as soon as it is free. If that takes longer than a moment, a line on stderr says `what`
    another run does with it. Raises LockRefused, with `advice` on another place, and OSError.
    """
    lock = FileLock(path)
    try:
        try:
            lock.acquire(timeout=SILENT_S)
        except Timeout:
            print(f"{what} (lock: {path}); waiting", file=sys.stderr, flush=True)
            lock.acquire()
    except (OSError, NotImplementedError) as error:
        _refuse(error, path, advice)
        raise
    try:
        yield
    finally:
        lock.release()


@contextmanager
def device(device: str, cores: Sequence[int], others: Sequence[str] = ()) -> Iterator[None]:
    """Hold a GPU by its UUID, and further ones; for the device "cpu" hold these cores. Raises InUse."""
    with ExitStack() as stack:
        if device != "cpu":
            for uuid in (device, *others):
                stack.enter_context(_name(f"device-{uuid}", f"GPU {uuid}", "name another --device"))
        else:
            _take_cores(stack, cores)
        yield


def _take_cores(stack: ExitStack, cores: Sequence[int]) -> None:
    """Hold these cores. Raises InUse, which names every core of this machine that other runs hold."""
    advice = "run this one on other cores (taskset --cpu-list, --threads)"
    try:
        for core in cores:
            stack.enter_context(_name(f"core-{core}", f"core {core}", advice))
    except InUse:
        stack.close()  # the cores taken so far are not another run's
        usable = {*cores, *list_usable_cores()}
        held = _find_held_cores(usable)
        if held.keys().isdisjoint(cores):  # that run has just ended
            raise
        wait = "wait for them" if len({*held.values()}) > 1 else "wait for it"
        what_to_do = f"{wait} or {advice}" if usable - held.keys() else wait
        raise InUse("; ".join([*_describe_cores(held), what_to_do])) from None


def list_usable_cores() -> set[int]:
    """Return the cores of this machine, or of this container, whichever of them this process is bound to."""
    try:
        return os.sched_getaffinity(1)
    except OSError:  # process 1 is not visible
        return os.sched_getaffinity(0)


def describe_held(cores: Iterable[int], gpus: Iterable[str]) -> list[str]:
    """Return a clause for each run that holds some of these cores, and one for each GPU, by UUID, that a run holds."""
    holders = {uuid: _holder(_address(f"device-{uuid}")) for uuid in gpus}
    held = [f"GPU {uuid} is in use by another run{run}" for uuid, run in holders.items() if run is not None]
    return [*_describe_cores(_find_held_cores(cores)), *held]


def _find_held_cores(cores: Iterable[int]) -> dict[int, str]:
    """Return {core: its run, as `_holder`} of those that a run holds."""
    holders = {core: _holder(_address(f"core-{core}")) for core in sorted(cores)}
    return {core: run for core, run in holders.items() if run is not None}


def _describe_cores(held: dict[int, str]) -> list[str]:
    """Return "cores 0-3, 6 are in use by another run (process 1234)" for each run."""
    clauses = []
    for run in dict.fromkeys(held.values()):
        cores = [core for core, each in held.items() if each == run]
        rows = [[core for _, core in row] for _, row in groupby(enumerate(cores), lambda pair: pair[1] - pair[0])]
        listed = ", ".join(f"{row[0]}-{row[-1]}" if len(row) > 2 else ", ".join(map(str, row)) for row in rows)
        subject = f"cores {listed} are" if len(cores) > 1 else f"core {listed} is"
        clauses.append(f"{subject} in use by another run{run}")
    return clauses


@contextmanager
def free_gpu(uuid: str) -> Iterator[None]:
    """Hold this GPU as soon as it is free."""
    with ExitStack() as stack:
        while True:
            try:
                stack.enter_context(device(uuid, ()))
                break
            except InUse:
                time.sleep(ASKED_AGAIN_S)
        yield


@contextmanager
def free_cores(count: int) -> Iterator[list[int]]:
    """Hold this many of the process's cores as soon as they are free. Raises InUse if it may use fewer."""
    allowed = sorted(os.sched_getaffinity(0))
    if count > len(allowed):
        raise InUse(f"{count} cores are requested, this process may use {len(allowed)}: give --threads")
    with ExitStack() as stack:
        while len(taken := _taken(stack, allowed, count)) < count:
            stack.close()
            time.sleep(ASKED_AGAIN_S)
        yield taken


def _taken(stack: ExitStack, allowed: Sequence[int], count: int) -> list[int]:
    """Take those of these cores that are free now, `count` at most; they are held until the stack is closed. One whose
    other hyperthread another run holds is not free: both would slow each other.
    """
    taken: list[int] = []
    for core in allowed:
        if not _find_held_cores(list_hyperthreads((core,))).keys() <= {*taken}:
            continue
        with suppress(InUse):
            stack.enter_context(_name(f"core-{core}", f"core {core}", "wait"))
            taken.append(core)
        if len(taken) == count:
            break
    return taken


@contextmanager
def folder(results: Path, device: str, *files: str, shard: tuple[int, int] | None = None) -> Iterator[None]:
    """Hold a results folder for this device, and these files of it for all devices. Shards I of N on other machines
    may share it, but neither with a run of the whole plan nor with shards of another N. Raises InUse, LockRefused,
    OSError.
    """
    status = results.stat()
    with ExitStack() as stack:
        for part in (device, *files):
            name, what = f"folder-{status.st_dev}-{status.st_ino}-{part}", f"{results}, for {part},"
            stack.enter_context(_name(name, what, "name another --results"))
            path = results / LOCK_FILE.format(part)
            try:
                if part == device and shard:
                    stack.enter_context(_shards(path, *shard))
                else:
                    stack.enter_context(FileLock(path, timeout=0))
            except (Timeout, BlockingIOError) as error:
                held = error.lock_file if isinstance(error, Timeout) else error.filename
                advice = f"wait for it or name another --results (lock: {held})"
                raise InUse(f"{what} is in use by another run that is not visible from here: {advice}") from error
            except (OSError, NotImplementedError) as error:
                _refuse(error, path, "name another --results")
                raise
        yield


@contextmanager
def _shards(path: Path, number: int, count: int) -> Iterator[None]:
    """Hold the lock file of this shard exclusively, then share those of the whole plan and of other counts with other
    shards.

    Of two runs that exclude each other, each takes its own file first, so one of them sees the other. Raises Timeout,
    BlockingIOError.
    """
    with ExitStack() as stack:
        stack.enter_context(FileLock(f"{path}-{number}-of-{count}", timeout=0))
        others = (each for each in path.parent.glob(f"{path.name}-*-of-*") if not each.name.endswith(f"-of-{count}"))
        for each in (path, *others):
            file = stack.enter_context(each.open("ab+"))
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise BlockingIOError(error.errno, error.strerror, str(each)) from error
        yield


@contextmanager
def _name(name: str, what: str, advice: str) -> Iterator[None]:
    address = _address(name)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as held:
        try:
            held.bind(address)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            raise InUse(f"{what} is in use by another run{_holder(address) or ''}; wait for it or {advice}") from error
        held.listen(ASKED)
        yield


def _address(name: str) -> str:
    """Return a socket's address: the leading zero marks it as no file; a name may have 107 bytes, hence the digest."""
    space = os.environ.get(SPACE_VARIABLE, "")
    space = f"-{hashlib.sha256(space.encode()).hexdigest()[:12]}" if space else ""
    return f"\0batchwise{space}-{name}"


def _holder(address: str) -> str | None:
    """Return " (process 1234)", the listener that the kernel names; empty if unknown, as in another container. None if
    nobody holds the name.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.setblocking(False)
        try:
            asking.connect(address)
            credentials = asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        except OSError as error:  # it has ended by now, or too many have asked
            return None if error.errno == errno.ECONNREFUSED else ""
    pid: int = struct.unpack("3i", credentials)[0]
    return f" (process {pid})" if pid else ""
