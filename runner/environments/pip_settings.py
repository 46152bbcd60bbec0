"""pip without the caller's settings, but for where packages come from.

python -m runner.environments.pip_settings ARGUMENTS: pip of this Python, with these arguments.

Addresses may hold a password: they are handed on in variables, which no log shows, and not as options.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Sequence

from workloads.isolation import without_python

# pip's options that say where packages come from and how that is reached; every other one is left at its default.
SOURCES = (
    *("index-url", "pypi-url", "extra-index-url", "find-links", "no-index"),
    *("trusted-host", "cert", "client-cert", "proxy", "keyring-provider"),
    *("retries", "timeout", "default-timeout", "cache-dir", "no-cache-dir", "use-feature"),
)
LISTS = ("extra-index-url", "find-links", "trusted-host")  # of words; a file has them on lines of their own
# The words that are kept of an option's. Before 24.2, pip trusts the system's certificates only by this feature.
KEPT = {"use-feature": frozenset({"truststore"})}
SECTIONS = ("global", "install", ":env:")  # each before what is stronger
LINE = re.compile(rf"({'|'.join(map(re.escape, SECTIONS))})\.([\w-]+)=(['\"].*)")
LAST_LINES = 3  # of what pip says of a file that it cannot read: what, where, the line
NO_FILE = {"PIP_CONFIG_FILE": os.devnull, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}  # pip then reads none of its files


class BadPipSettings(Exception):
    """pip cannot read the caller's settings; the message is its own last words."""


def bare(environment: dict[str, str] | None = None) -> dict[str, str]:
    """Return this process's environment, or another, without the variables that Python, pip and uv read."""
    environment = without_python(os.environ if environment is None else environment)
    return {name: value for name, value in environment.items() if not name.startswith(("PIP_", "UV_"))}


def sources(interpreter: str) -> dict[str, str]:
    """{option: value}: where pip of this interpreter looks for packages, by the caller's files and variables.

    Raises BadPipSettings, OSError.
    """
    names = ["PIP_CONFIG_FILE", *(variable(option) for option in SOURCES)]
    asked = bare() | {name: os.environ[name] for name in names if name in os.environ}
    for option in KEPT:  # pip would refuse a word that only a newer one knows
        if words := kept(option, asked.pop(variable(option), "")):
            asked[variable(option)] = words
    # Verbose three times: a file may say `quiet = 3`, by which pip would list nothing.
    command = [interpreter, "-I", "-m", "pip", "config", "list", "-vvv"]
    done = subprocess.run(command, env=asked, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        lines = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        raise BadPipSettings(" ".join(lines[-LAST_LINES:]) or f"pip config list ended with {done.returncode}")
    return listed_sources(done.stdout)


def listed_sources(listed: str) -> dict[str, str]:
    """{option: value}: the same, from what `pip config list` printed; an empty value sets nothing, as in pip."""
    found: dict[str, dict[str, str]] = {section: {} for section in SECTIONS}
    for line in listed.splitlines():
        if (match := LINE.fullmatch(line)) and match[2] in SOURCES and (value := str(ast.literal_eval(match[3]))):
            found[match[1]][match[2]] = kept(match[2], value)
    strongest = {option: value for section in SECTIONS for option, value in found[section].items()}
    return {option: value for option, value in strongest.items() if value}


def kept(option: str, value: str) -> str:
    """Return the value with its words on one line where it is a list, without those that are not KEPT."""
    if option in KEPT:
        return " ".join(word for word in value.split() if word in KEPT[option])
    return " ".join(value.split()) if option in LISTS else value


def variables(found: dict[str, str]) -> dict[str, str]:
    """Return the variables under which pip takes `found` (of `sources`), and none of the caller's files."""
    return NO_FILE | {variable(option): value for option, value in found.items()}


def variable(option: str) -> str:
    """Return the name of the variable in which pip reads an option."""
    return f"PIP_{option.replace('-', '_').upper()}"


def main(arguments: Sequence[str]) -> int:
    """Run pip of this interpreter; its exit code, or 2 with one line where it cannot read the caller's settings."""
    try:
        environment = bare() | variables(sources(sys.executable))
    except BadPipSettings as error:
        print(f"pip: {error}", file=sys.stderr)
        return 2
    return subprocess.run([sys.executable, "-I", "-m", "pip", *arguments], env=environment).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
