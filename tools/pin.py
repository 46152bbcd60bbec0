"""Print the pins with hashes that pip resolves for some requirements: python tools/pin.py REQUIREMENT...

For environment.toml (its `requires` -> its `pins`) and the requirements files. Run it with Python 3.11 on Linux x86-64
and pip 23 or newer. The requirements files also serve Python 3.12. Run it with that, too, on the resulting versions,
and put a hash that differs after the first one.
"""

from __future__ import annotations

import json
import subprocess
import sys


def main(requirements: list[str]) -> None:
    """Print a requirements file: what pip would install here, wheels alone, each with its version and SHA-256."""
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--only-binary=:all:"]
    command += ["--quiet", "--report", "-", *requirements]
    asked = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if asked.returncode:
        sys.exit("pin: pip found no such set; its words are above")
    for item in json.loads(asked.stdout)["install"]:
        sha256 = item["download_info"]["archive_info"]["hashes"]["sha256"]
        print(f"{item['metadata']['name']}=={item['metadata']['version']} --hash=sha256:{sha256}")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(sys.argv[1:])
