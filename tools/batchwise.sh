#!/bin/sh
# batchwise ...: python -m runner ..., from any folder; batchwise reports ...: python -m reports ...
# make setup puts it into .venv/bin, whose Python it runs without the caller's PYTHON... variables, but for the harmless.
set -eu
bin=$(dirname "$(readlink -f "$0")")
root=$(dirname "$(dirname "$bin")")
exec "$bin/python" -I -B "$root/batchwise.py" "$@"
