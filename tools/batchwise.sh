#!/bin/sh
# batchwise ...: python -m runner ..., from any folder; batchwise reports ...: python -m reports ...
# make setup puts it into .venv/bin, whose Python it runs without the caller's PYTHON... variables, but for the harmless.
set -eu
bin=$(dirname "$(readlink -f "$0")")
root=$(dirname "$(dirname "$bin")")
module=runner
if [ "${1-}" = reports ]; then
  module=reports
  shift
fi
exec "$bin/python" -I -B -c '
import os, sys
root, module = sys.argv[1:3]
sys.path.insert(0, root)
from workloads.program import build_environment
command = [sys.executable, "-P", "-m", module, *sys.argv[3:]]
os.execve(sys.executable, command, build_environment(os.environ, root))
' "$root" "$module" "$@"
