"""Run pip and uv without the user's settings, except for package sources.

python -m runner.environments.installers ARGUMENTS: pip of this Python, with these arguments.

Addresses may contain a password. So they are passed in variables, which no log shows, and not as options.
uv's variables: https://docs.astral.sh/uv/reference/environment/; its files: .../concepts/configuration-files/.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from workloads.program import strip_python

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

# Variables for sources of packages and interpreters, and how to reach them.
UV_SOURCES = re.compile(
    r"UV_(?:(?:DEFAULT_|EXTRA_)?INDEX(?:_URL)?|INDEX_\w+_(?:USERNAME|PASSWORD)|FIND_LINKS|NO_INDEX|INSECURE_HOST"
    r"|KEYRING_PROVIDER|NATIVE_TLS|SYSTEM_CERTS|OFFLINE|HTTP_\w+|CACHE_DIR|NO_CACHE|PYTHON_INSTALL_(?:DIR|MIRROR)"
    r"|PYTHON_DOWNLOADS(?:_JSON_URL)?)"
)
UV_OLD_NAMES = {"UV_INDEX_URL": "UV_DEFAULT_INDEX", "UV_EXTRA_INDEX_URL": "UV_INDEX"}
# Keys of a file: the variable with the same meaning, and the separator between words where the value is a list.
UV_KEYS = {
    "index-url": ("UV_DEFAULT_INDEX", ""),
    "extra-index-url": ("UV_INDEX", " "),
    "find-links": ("UV_FIND_LINKS", ","),
    "no-index": ("UV_NO_INDEX", ""),
    "allow-insecure-host": ("UV_INSECURE_HOST", " "),
    "keyring-provider": ("UV_KEYRING_PROVIDER", ""),
    "native-tls": ("UV_NATIVE_TLS", ""),
    "offline": ("UV_OFFLINE", ""),
    "cache-dir": ("UV_CACHE_DIR", ""),
    "python-install-mirror": ("UV_PYTHON_INSTALL_MIRROR", ""),
    "python-downloads": ("UV_PYTHON_DOWNLOADS", ""),
}


class BadInstallerSettings(Exception):
    """The user's settings cannot be read; the message is the end of pip's own, or names uv's file and the reason."""


def strip_settings() -> dict[str, str]:
    """Return this process's environment without the variables that Python, pip and uv read."""
    return {name: value for name, value in strip_python(os.environ).items() if not name.startswith(("PIP_", "UV_"))}


def read_pip_sources(interpreter: str) -> dict[str, str]:
    """Return {option: value} of where pip of this interpreter looks for packages, by the user's files and variables.

    Raises BadInstallerSettings, OSError.
    """
    names = ["PIP_CONFIG_FILE", *(name_variable(option) for option in SOURCES)]
    asked = strip_settings() | {name: os.environ[name] for name in names if name in os.environ}
    for option in KEPT:  # pip would refuse a word that only a newer one knows
        if words := keep_words(option, asked.pop(name_variable(option), "")):
            asked[name_variable(option)] = words
    # Verbose three times, because a file may say `quiet = 3`, and pip would then list nothing.
    command = [interpreter, "-I", "-m", "pip", "config", "list", "-vvv"]
    done = subprocess.run(command, env=asked, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        lines = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        raise BadInstallerSettings(" ".join(lines[-LAST_LINES:]) or f"pip config list ended with {done.returncode}")
    return parse_pip_list(done.stdout)


def parse_pip_list(listed: str) -> dict[str, str]:
    """Return {option: value} from what `pip config list` printed; an empty value sets nothing, as in pip."""
    found: dict[str, dict[str, str]] = {section: {} for section in SECTIONS}
    for line in listed.splitlines():
        if (match := LINE.fullmatch(line)) and match[2] in SOURCES and (value := str(ast.literal_eval(match[3]))):
            found[match[1]][match[2]] = keep_words(match[2], value)
    strongest = {option: value for section in SECTIONS for option, value in found[section].items()}
    return {option: value for option, value in strongest.items() if value}


def keep_words(option: str, value: str) -> str:
    """Return the value: a list on one line, an option in KEPT with only its kept words."""
    if option in KEPT:
        return " ".join(word for word in value.split() if word in KEPT[option])
    return " ".join(value.split()) if option in LISTS else value


def build_pip_variables(found: dict[str, str]) -> dict[str, str]:
    """Return the variables that give pip `found` (of `read_pip_sources`), and none of the user's files."""
    return NO_FILE | {name_variable(option): value for option, value in found.items()}


def name_variable(option: str) -> str:
    """Return the name of the variable in which pip reads an option."""
    return f"PIP_{option.replace('-', '_').upper()}"


def build_uv_variables(pip_sources: dict[str, str]) -> dict[str, str]:
    """Return the variables for uv: its own configured sources, or else pip's, and no other setting.

    Raises BadInstallerSettings.
    """
    own = {name: value for name, value in os.environ.items() if UV_SOURCES.fullmatch(name)}
    for old, new in UV_OLD_NAMES.items():
        if value := own.pop(old, ""):
            own[new] = f"{own[new]} {value}" if new == "UV_INDEX" and new in own else own.get(new, value)
    return {"UV_NO_CONFIG": "1"} | translate_pip_sources(pip_sources) | read_uv_files() | own


def translate_pip_sources(sources: dict[str, str]) -> dict[str, str]:
    """Return pip's sources as uv's variables, because uv does not read pip's configuration."""
    variables = {
        "UV_DEFAULT_INDEX": sources.get("index-url", ""),
        "UV_INDEX": sources.get("extra-index-url", ""),
        "UV_FIND_LINKS": sources.get("find-links", "").replace(" ", ","),
        "UV_NO_INDEX": "1" if sources.get("no-index", "").lower() in ("1", "true", "yes", "on") else "",
    }
    return {name: value for name, value in variables.items() if value}


def read_uv_files() -> dict[str, str]:
    """Return the sources set in uv's files; the user's file overrides the machine's. Raises BadInstallerSettings."""
    if os.environ.get("UV_NO_CONFIG"):
        return {}
    found: dict[str, str] = {}
    for path in list_uv_files():
        try:
            settings = tomllib.loads(path.read_text("utf-8-sig"))
            found |= read_uv_table(settings.get("pip", {})) | read_uv_table(settings)
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            raise BadInstallerSettings(f"{path}: {error}") from None
        except (KeyError, TypeError, AttributeError) as error:
            raise BadInstallerSettings(f"{path}: not valid settings of uv: {error}") from None
    return found


def list_uv_files() -> list[Path]:
    """Return uv's settings files, the weakest first."""
    if named := os.environ.get("UV_CONFIG_FILE"):
        return [Path(named)]
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return [Path("/etc/uv/uv.toml"), Path(home) / "uv" / "uv.toml"]


def read_uv_table(table: dict[str, Any]) -> dict[str, str]:
    """Return the sources in a table of such a file, as variables."""
    found = {
        variable: format_value(table[key], between) for key, (variable, between) in UV_KEYS.items() if key in table
    }
    for index in table.get("index", []):
        if index.get("format") == "flat":
            found["UV_FIND_LINKS"] = f"{found.get('UV_FIND_LINKS', '')},{index['url']}".strip(",")
        elif index.get("default"):
            found["UV_DEFAULT_INDEX"] = index["url"]
        elif not index.get("explicit"):  # an explicit one is for packages that name it
            name = f"{index['name']}=" if "name" in index else ""
            found["UV_INDEX"] = f"{found.get('UV_INDEX', '')} {name}{index['url']}".strip()
    return found


def format_value(value: Any, between: str) -> str:
    """Return a key's value in the form of a variable."""
    if isinstance(value, list):
        return between.join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def main(arguments: Sequence[str]) -> int:
    """Run pip of this interpreter, and return its exit code.

    It is 2, with one line, where pip cannot read the user's settings.
    """
    try:
        environment = strip_settings() | build_pip_variables(read_pip_sources(sys.executable))
    except BadInstallerSettings as error:
        print(f"pip: {error}", file=sys.stderr)
        return 2
    return subprocess.run([sys.executable, "-I", "-m", "pip", *arguments], env=environment).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
