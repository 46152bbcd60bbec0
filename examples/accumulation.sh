#!/bin/sh
# The same update in one batch, in 2 parts, 4, ... down to parts of 16 images, and what each saves in memory and costs in
# time as a table of one report ("Accumulation"):
#     examples/accumulation.sh IMAGES [more options of the runner]
# as in
#     examples/accumulation.sh 1024 --framework all --dataset cifar10 --epochs 1
# Study `accumulation` makes three of them, in three repeats, and tests what is said of them.
set -eu
if [ $# -lt 1 ] || [ "$1" -lt 16 ]; then
    echo "usage: $0 IMAGES [more options of the runner], 16 images or more an update" >&2
    exit 2
fi
images=$1 parts=1 ended=0
shift
cd "$(dirname "$0")/.."
while [ $((images % parts)) -eq 0 ] && [ $((images / parts)) -ge 16 ]; do
    .venv/bin/python -m runner --batch-size $((images / parts)) --accumulate "$parts" \
        --results "results/accumulation-$images" "$@" || ended=$?
    [ "$ended" -lt 2 ] || exit "$ended"
    parts=$((parts * 2))
done
exit "$ended"
