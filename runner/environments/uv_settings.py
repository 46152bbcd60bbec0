"""Set up uv without the user's settings, except for package sources.

uv's variables: https://docs.astral.sh/uv/reference/environment/; its files: .../concepts/configuration-files/.
"""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import Any

# Variables for sources of packages and interpreters, and how to reach them.
SOURCES = re.compile(
    r"UV_(?:(?:DEFAULT_|EXTRA_)?INDEX(?:_URL)?|INDEX_\w+_(?:USERNAME|PASSWORD)|FIND_LINKS|NO_INDEX|INSECURE_HOST"
    r"|KEYRING_PROVIDER|NATIVE_TLS|SYSTEM_CERTS|OFFLINE|HTTP_\w+|CACHE_DIR|NO_CACHE|PYTHON_INSTALL_(?:DIR|MIRROR)"
    r"|PYTHON_DOWNLOADS(?:_JSON_URL)?)"
)
OLD_NAMES = {"UV_INDEX_URL": "UV_DEFAULT_INDEX", "UV_EXTRA_INDEX_URL": "UV_INDEX"}
# Keys of a file: the variable with the same meaning, and the separator between words where the value is a list.
KEYS = {
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


class BadUvSettings(Exception):
    """A file of uv's settings cannot be read; the message says which and why."""


def environment(pip_sources: dict[str, str]) -> dict[str, str]:
    """Return the variables for uv: its own configured sources, or else pip's, and no other setting.

    Raises BadUvSettings.
    """
    own = {name: value for name, value in os.environ.items() if SOURCES.fullmatch(name)}
    for old, new in OLD_NAMES.items():
        if value := own.pop(old, ""):
            own[new] = f"{own[new]} {value}" if new == "UV_INDEX" and new in own else own.get(new, value)
    return {"UV_NO_CONFIG": "1"} | places_of_pip(pip_sources) | by_files() | own


def places_of_pip(sources: dict[str, str]) -> dict[str, str]:
    """Return pip's sources as uv's variables, because uv does not read pip's configuration.

    Options are avoided: an address may contain a password, and a log shows a command.
    """
    variables = {
        "UV_DEFAULT_INDEX": sources.get("index-url", ""),
        "UV_INDEX": sources.get("extra-index-url", ""),
        "UV_FIND_LINKS": sources.get("find-links", "").replace(" ", ","),
        "UV_NO_INDEX": "1" if sources.get("no-index", "").lower() in ("1", "true", "yes", "on") else "",
    }
    return {name: value for name, value in variables.items() if value}


def by_files() -> dict[str, str]:
    """Return the sources set in uv's files; the user's file overrides the machine's. Raises BadUvSettings."""
    if os.environ.get("UV_NO_CONFIG"):
        return {}
    found: dict[str, str] = {}
    for path in files():
        try:
            settings = tomllib.loads(path.read_text("utf-8"))
            found |= sources_in(settings.get("pip", {})) | sources_in(settings)
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            raise BadUvSettings(f"{path}: {error}") from None
        except (KeyError, TypeError, AttributeError) as error:
            raise BadUvSettings(f"{path}: not as uv's settings are: {error}") from None
    return found


def files() -> list[Path]:
    """Return uv's settings files, the weakest first."""
    if named := os.environ.get("UV_CONFIG_FILE"):
        return [Path(named)]
    home = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return [Path("/etc/uv/uv.toml"), Path(home) / "uv" / "uv.toml"]


def sources_in(table: dict[str, Any]) -> dict[str, str]:
    """Return the sources in a table of such a file, as variables."""
    found = {variable: words(table[key], between) for key, (variable, between) in KEYS.items() if key in table}
    for index in table.get("index", []):
        if index.get("format") == "flat":
            found["UV_FIND_LINKS"] = f"{found.get('UV_FIND_LINKS', '')},{index['url']}".strip(",")
        elif index.get("default"):
            found["UV_DEFAULT_INDEX"] = index["url"]
        elif not index.get("explicit"):  # an explicit one is for packages that name it
            name = f"{index['name']}=" if "name" in index else ""
            found["UV_INDEX"] = f"{found.get('UV_INDEX', '')} {name}{index['url']}".strip()
    return found


def words(value: Any, between: str) -> str:
    """Return a key's value in the form of a variable."""
    if isinstance(value, list):
        return between.join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)
