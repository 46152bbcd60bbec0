"""Remove names and secrets from a log that is published.

A log is free text of frameworks and of a model's code. Home folders are replaced by `~`, the host by `HOST`, and
secrets by `***`. Secrets are found by the forms in gitleaks' rules for tokens, keys and assignments. They are searched
for in URLs and in printed environments. Secrets in other forms are not found: whoever publishes must read the logs.
"""

from __future__ import annotations

import json
import re

from workloads.own_names import NODE, find_own_homes, remove_own_names

HOME = re.compile(
    rb"/(?:home|Users)/[^/\s\"'\\:;,)\]]+|/root(?![\w-])|(?i:\b[a-z]:(?:\\{1,2}|/)Users(?:\\{1,2}|/)[^\\/\s\"':;,)\]]+)"
)
HOST = re.compile(rb"(?i)(hostname: |for host: )\S+")
NO_RESULT = re.compile(r"its node returned no result \d+ times: ([^\s:]+): (?:exit code|this user has no home)")

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
    return remove_own_names(HOST.sub(rb"\1HOST", HOME.sub(b"~", log)))


def contains_names(content: bytes) -> bool:
    """True if a file that is published byte for byte contains a home directory or a secret."""
    folders = find_own_homes()
    return bool(
        HOME.search(content)
        or (folders and folders.search(content))
        or any(content != pattern.sub(replacement, content) for pattern, replacement in SECRETS)
    )


def names_host(content: bytes) -> bool:
    """True if a result or ATTEMPT_FILE contains the host name of a cluster's node, as those of older runs do."""
    try:
        record = json.loads(content)
    except (ValueError, RecursionError):
        return False  # an unreadable result is an obstacle of its own
    if not isinstance(record, dict):
        return False
    machine, reason = record.get("machine"), record.get("reason")
    named = [machine.get("node")] if isinstance(machine, dict) else []
    named += NO_RESULT.findall(reason) if isinstance(reason, str) else []
    return any(not NODE.fullmatch(str(each)) for each in named if each)
