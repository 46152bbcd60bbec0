"""Names of this machine and of its people, which no published file holds, and the name of a cluster's node instead."""

from __future__ import annotations

import hashlib
import os
import platform
import pwd
import re
import socket
from collections.abc import Iterable
from functools import cache
from pathlib import PurePosixPath

FIRST_PERSON = 1000  # user ids from here on are people's (UID_MIN of login.defs); others, and NOBODY, are programs'
NOBODY = 65534
SHORTEST_HOST = 3  # characters: a shorter name occurs within other words
NO_NAMES = ("localhost", "host")
NODE = re.compile(r"\bnode-[0-9a-f]{8}\b")  # of a cluster's node, in results


def name_node(host: str | None = None) -> str:
    """Return a name for this host, or the given one, that does not say which it is. A host always has the same one."""
    host = platform.node() if host is None else host
    return f"node-{hashlib.sha256(host.encode('utf-8', 'surrogateescape')).hexdigest()[:8]}"


def remove_own_names(log: bytes) -> bytes:
    """Replace the home folders of this machine's people by `~`, and its names by `HOST`."""
    if folders := find_own_homes():
        log = folders.sub(b"~", log)
    names = find_own_hosts()
    return names.sub(b"HOST", log) if names else log


@cache
def find_own_homes() -> re.Pattern[bytes] | None:
    """Pattern of the home folders of this user and of all other people on this machine; None if there is none."""
    accounts = [entry.pw_dir for entry in pwd.getpwall() if FIRST_PERSON <= entry.pw_uid != NOBODY]
    return _any_of(
        path
        for path in (os.environ.get("HOME", ""), *accounts)
        if PurePosixPath(path).is_absolute() and len(PurePosixPath(path).parts) > 1
    )


@cache
def find_own_hosts() -> re.Pattern[bytes] | None:
    """Pattern of the names of this machine, with its domain and without."""
    name = socket.gethostname()
    names = {name, name.partition(".")[0], os.environ.get("HOSTNAME", "")}
    return _any_of(each for each in names if len(each) >= SHORTEST_HOST and each.lower() not in NO_NAMES)


def _any_of(words: Iterable[str]) -> re.Pattern[bytes] | None:
    """Pattern of whole words and paths, the longest first; None without words."""
    longest = sorted({word.rstrip("/") for word in words}, key=len, reverse=True)
    texts = b"|".join(re.escape(word.encode("utf-8", "surrogateescape")) for word in longest)
    return re.compile(rb"(?<![\w.-])(?:" + texts + rb")(?![\w-])") if longest else None
