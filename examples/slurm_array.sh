#!/bin/bash
# A study on many machines of Slurm, a shard of it on each:
#     sbatch --array=1-4 examples/slurm_array.sh --study quick --results results/quick
# Give it from the checkout, which the machines share. The same command again runs what is missing. When all have ended:
#     .venv/bin/python -m reports results/quick
#SBATCH --exclusive
#SBATCH --no-requeue
set -eu
exec .venv/bin/python -m runner --shard "$SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT" "$@"
