"""Run pip without the user's settings, except for package sources.

python -m runner.environments.pip_settings ARGUMENTS: pip of this Python, with these arguments.

Addresses may contain a password. So they are passed in variables, which no log shows, and not as options.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Sequence

from workloads.program import without_python

# pip's options for package sources and how to reach them; every other one is left at its default.
SOURCES = (
    *("index-url", "pypi-url", "extra-index-url", "find-links", "no-index"),
    *("trusted-host", "cert", "client-cert", "proxy", "keyring-provider"),
    *("retries", "timeout", "default-timeout", "cache-dir", "no-cache-dir", "use-feature"),
)
LISTS = ("extra-index-url", "find-links", "trusted-host")  # of words; a file has them on separate lines
# Words of an option that are kept. Before 24.2, pip trusts the system's certificates only by this feature.
KEPT = {"use-feature": frozenset({"truststore"})}
SECTIONS = ("global", "install", ":env:")  # from weakest to strongest
LINE = re.compile(rf"({'|'.join(map(re.escape, SECTIONS))})\.([\w-]+)=(['\"].*)")
LAST_LINES = 3  # kept of pip's error on a file that it cannot read: what, where, the line
NO_FILE = {"PIP_CONFIG_FILE": os.devnull, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}  # makes pip read none of its files


class BadPipSettings(Exception):
    """pip cannot read the user's settings; the message is the end of pip's own."""


def bare(environment: dict[str, str] | None = None) -> dict[str, str]:
    """Return this process's environment, or another, without the variables that Python, pip and uv read."""
    environment = without_python(os.environ if environment is None else environment)
    return {name: value for name, value in environment.items() if not name.startswith(("PIP_", "UV_"))}


def sources(interpreter: str) -> dict[str, str]:
    """Return {option: value} of where pip of this interpreter looks for packages, by the user's files and variables.

    Raises BadPipSettings, OSError.
    """
    names = ["PIP_CONFIG_FILE", *(variable(option) for option in SOURCES)]
    asked = bare() | {name: os.environ[name] for name in names if name in os.environ}
    for option in KEPT:  # pip would refuse a word that only a newer one knows
        if words := kept(option, asked.pop(variable(option), "")):
            asked[variable(option)] = words
    # Verbose three times, because a file may say `quiet = 3`, and pip would then list nothing.
    command = [interpreter, "-I", "-m", "pip", "config", "list", "-vvv"]
    done = subprocess.run(command, env=asked, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        lines = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        raise BadPipSettings(" ".join(lines[-LAST_LINES:]) or f"pip config list ended with {done.returncode}")
    return listed_sources(done.stdout)


def listed_sources(listed: str) -> dict[str, str]:
    """Return {option: value} from what `pip config list` printed; an empty value sets nothing, as in pip."""
    found: dict[str, dict[str, str]] = {section: {} for section in SECTIONS}
    for line in listed.splitlines():
        if (match := LINE.fullmatch(line)) and match[2] in SOURCES and (value := str(ast.literal_eval(match[3]))):
            found[match[1]][match[2]] = kept(match[2], value)
    strongest = {option: value for section in SECTIONS for option, value in found[section].items()}
    return {option: value for option, value in strongest.items() if value}


def kept(option: str, value: str) -> str:
    """Return the value: a list on one line, an option in KEPT with only its kept words."""
    if option in KEPT:
        return " ".join(word for word in value.split() if word in KEPT[option])
    return " ".join(value.split()) if option in LISTS else value


def variables(found: dict[str, str]) -> dict[str, str]:
    """Return the variables that give pip `found` (of `sources`), and none of the user's files."""
    return NO_FILE | {variable(option): value for option, value in found.items()}


def variable(option: str) -> str:
    """Return the name of the variable in which pip reads an option."""
    return f"PIP_{option.replace('-', '_').upper()}"


def main(arguments: Sequence[str]) -> int:
    """Run pip of this interpreter, and return its exit code.

    It is 2, with one line, where pip cannot read the user's settings.
    """
    try:
        environment = bare() | variables(sources(sys.executable))
    except BadPipSettings as error:
        print(f"pip: {error}", file=sys.stderr)
        return 2
    return subprocess.run([sys.executable, "-I", "-m", "pip", *arguments], env=environment).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
