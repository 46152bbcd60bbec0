#!/bin/bash
# A study on many machines of Slurm, a shard of it on each:
#     sbatch --array=1-4 examples/slurm_array.sh --study quick --results results/quick
# Give it from the checkout, which the machines share. The same command again runs what is missing. When all have ended:
#     .venv/bin/python -m reports results/quick
#SBATCH --exclusive
#SBATCH --no-requeue
set -eu
if [ "$SLURM_ARRAY_TASK_MIN-$SLURM_ARRAY_TASK_MAX" != "1-$SLURM_ARRAY_TASK_COUNT" ]; then
    echo "slurm_array.sh: task I runs shard I of N: give --array=1-N, without gaps" >&2
    exit 2
fi
exec .venv/bin/python -m runner --shard "$SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT" "$@"
