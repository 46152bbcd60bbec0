"""Remove names and secrets from a log that is published.

A log is free text of frameworks and of a model's code. Home folders are replaced by `~`, the host by `HOST`, and
secrets by `***`. Secrets are found by the forms in gitleaks' rules for tokens, keys and assignments. They are searched
for in URLs and in printed environments. Secrets in other forms are not found: whoever publishes must read the logs.
"""

from __future__ import annotations

import os
import pwd
import re
import socket
from collections.abc import Iterable
from functools import cache
from pathlib import PurePosixPath

HOME = re.compile(
    rb"/(?:home|Users)/[^/\s\"'\\:;,)\]]+|/root(?![\w-])|(?i:\b[a-z]:(?:\\{1,2}|/)Users(?:\\{1,2}|/)[^\\/\s\"':;,)\]]+)"
)
HOST = re.compile(rb"(?i)(hostname: |for host: )\S+")
FIRST_PERSON = 1000  # user ids from here on are people's (UID_MIN of login.defs); others, and NOBODY, are programs'
NOBODY = 65534
SHORTEST_HOST = 3  # characters: a shorter name occurs within other words
NO_NAMES = ("localhost", "host")

SECRET = (
    rb"token|secret|passw(?:or)?d|passphrase|_pwd|api[_-]?key|access[_-]?key(?:[_-]?id)?|private[_-]?key|credentials?|"
    rb"authorization|cookie|signature"
)
IN_URL = SECRET + rb"|sig|key|auth|code|session"
NO_SECRET = rb"(?!\*\*\*|[\[{(]|(?:null|none|true|false)\b|[-+]?\d*\.\d)"  # structures and figures have such names, too
# (pattern, replacement); repeats are bounded, because a log may be one line of megabytes
SECRETS: tuple[tuple[re.Pattern[bytes], bytes], ...] = (
    (
        re.compile(rb"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,40}-----|\Z)", re.DOTALL),
        rb"***",
    ),
    (re.compile(rb"(\b[a-zA-Z][a-zA-Z0-9+.-]{0,20}://)(?!\*\*\*@)[^/\s@\"'<>]{1,300}@"), rb"\1***@"),  # a user in a URL
    (
        re.compile(rb"(?i)([?&;][\w.-]{0,60}(?:" + IN_URL + rb")[\w.-]{0,60}=)(?!\*\*\*)[^&\s\"'<>#]+"),
        rb"\1***",
    ),
    # As printed by `env`, `set`, a dictionary, JSON and YAML.
    (
        re.compile(
            rb"(?i)((?:"
            + SECRET
            + rb")[\"']?[ \t]*[=:][ \t]*[\"']?)(?:(?:bearer|basic|token)[ \t]+)?"
            + NO_SECRET
            + rb"[^\s\"',;&)}\]]{4,}"
        ),
        rb"\1***",
    ),
    (re.compile(rb"(?i)(\bbearer[ \t]+)[\w.~+/=-]{8,}"), rb"\1***"),
    # Identity of the user, as printed by `env` or os.environ.
    (
        re.compile(
            rb"(?m)((?:^|[\s{,])(?:export |declare -x )?[\"']?(?:USER|LOGNAME|USERNAME|SUDO_USER|HOSTNAME|COMPUTERNAME|"
            rb"SSH_CLIENT|SSH_CONNECTION|MAIL|EMAIL|GIT_(?:AUTHOR|COMMITTER)_(?:NAME|EMAIL))[\"']?(?:=|: ?)[\"']?)"
            rb"(?!\*\*\*)[^\n\"']+"
        ),
        rb"\1***",
    ),
    # By format: GitHub, GitLab, AWS, Google, Hugging Face, OpenAI and Anthropic, Slack, PyPI, npm, W&B, JWT.
    (
        re.compile(
            rb"\b(?:gh[pousr]_\w{36,}|github_pat_\w{22,}|glpat-[\w-]{20,}|(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}|"
            rb"AIza[\w-]{35}|hf_[a-zA-Z]{34,}|sk-[\w-]{20,}|xox[abeoprs]-[\w-]{10,}|pypi-[\w-]{50,}|npm_[a-zA-Z0-9]{36}|"
            rb"wandb_v1_\w{20,}|eyJ[\w-]{10,2000}\.[\w-]{10,4000}\.[\w-]{0,2000})"
        ),
        rb"***",
    ),
)


def remove_names(log: bytes) -> bytes:
    """Replace home folders by `~`, the host by `HOST`, secrets by `***`."""
    for pattern, replacement in SECRETS:
        log = pattern.sub(replacement, log)
    log = HOME.sub(b"~", log)
    if folders := find_own_homes():
        log = folders.sub(b"~", log)
    log = HOST.sub(rb"\1HOST", log)
    names = find_own_hosts()
    return names.sub(b"HOST", log) if names else log


def contains_names(content: bytes) -> bool:
    """True if a file that is published byte for byte contains a home directory or a secret."""
    folders = find_own_homes()
    return bool(
        HOME.search(content)
        or (folders and folders.search(content))
        or any(content != pattern.sub(replacement, content) for pattern, replacement in SECRETS)
    )


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
