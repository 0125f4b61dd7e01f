#!/usr/bin/env bash
# torch.distributed.run with what a run needs to outlive its machines; see experiments/elastic.
# What is set here gives way to options of the same name and to the environment's PET_ variables.
# usage: bash scripts/elastic.sh --nnodes 1:4 --nproc-per-node 8 --rdzv-endpoint HOST:29500 \
#            main.py --run-dir runs/mine ...
set -euo pipefail

# Else one store serves all attempts, with the addresses of the dead in it (pytorch/pytorch#135712).
export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1
export PET_RDZV_BACKEND=${PET_RDZV_BACKEND:-c10d}
# A node that fails or is taken away costs the others one each; nodes that come cost none.
export PET_MAX_RESTARTS=${PET_MAX_RESTARTS:-100}
# After SIGTERM: the step, an evaluation if one is due, and the checkpoint.
export PET_SHUTDOWN_TIMEOUT=${PET_SHUTDOWN_TIMEOUT:-110}
# Nodes without a sign of life for 2 x 5 s are out; 10 s for others to join once enough are there.
conf=last_call_timeout=10,keep_alive_interval=2,keep_alive_max_attempt=5
# Who hosts the store is said where it is known: a host may not know itself by the name it is given.
node=${SLURM_NODEID:-${JOB_COMPLETION_INDEX:-}}
if [ -n "$node" ]; then
    conf+=,is_host=$([ "$node" = 0 ] && echo 1 || echo 0)
fi
export PET_RDZV_CONF=$conf${PET_RDZV_CONF:+,$PET_RDZV_CONF}

exec "${PYTHON:-python}" -m torch.distributed.run "$@"
