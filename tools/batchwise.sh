#!/bin/sh
# batchwise ...: python -m runner ..., from any folder; batchwise reports ...: python -m reports ...
# make setup puts it into .venv/bin, whose Python it runs without the caller's PYTHON... variables.
set -eu
bin=$(dirname "$(readlink -f "$0")")
root=$(dirname "$(dirname "$bin")")
module=runner
if [ "${1-}" = reports ]; then
  module=reports
  shift
fi
exec "$bin/python" -I -c '
import runpy, sys
root, module = sys.argv[1:3]
sys.argv[1:3] = []
sys.path.insert(0, root)
runpy.run_module(module, run_name="__main__", alter_sys=True)
' "$root" "$module" "$@"
