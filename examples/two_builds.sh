#!/bin/sh
# Two builds of one framework in one report, each with its own row, colour and parity check:
#     examples/two_builds.sh FRAMEWORK PYTHON OTHER_PYTHON [more options of the runner]
# as in
#     examples/two_builds.sh pytorch /opt/stable/bin/python /opt/nightly/bin/python --repeat 3
# Each Python is one that has the framework; none is changed.
set -eu
if [ $# -lt 3 ]; then
    echo "usage: $0 FRAMEWORK PYTHON OTHER_PYTHON [more options of the runner]" >&2
    exit 2
fi
framework=$1 stable=$2 other=$3
shift 3
case " $* " in
    *" --batch-size"*) ;;
    *) set -- --batch-size 32 128 "$@" ;;
esac
cd "$(dirname "$0")/.."
exec .venv/bin/python -m runner --framework "$framework@stable" "$framework@other" \
    --python "$framework@stable=$stable" --python "$framework@other=$other" \
    --workload examples/my_cnn.py --dataset digits --epochs 3 --results results/two-builds "$@"
