#!/usr/bin/env bash
# torch.distributed.run with what a run needs to outlive its machines; see docs/elastic.md.
# Options and PET_ variables of the environment override what is set here.
# usage: bash scripts/elastic.sh --nnodes 1:4 --nproc-per-node 8 --rdzv-endpoint HOST:29500 \
#            main.py --run-dir runs/mine ...
set -euo pipefail

# Otherwise all attempts share one store, with addresses of dead processes (pytorch/pytorch#135712).
export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1
export PET_RDZV_BACKEND=${PET_RDZV_BACKEND:-c10d}
# A node that fails or is taken away costs each of the others one restart; one that joins, none.
export PET_MAX_RESTARTS=${PET_MAX_RESTARTS:-100}
# After SIGTERM: the step, an evaluation if one is due, and the checkpoint.
export PET_SHUTDOWN_TIMEOUT=${PET_SHUTDOWN_TIMEOUT:-110}
# Drop a node after 2 x 5 s without a sign of life; wait 10 s for more once enough nodes are there.
conf=last_call_timeout=10,keep_alive_interval=2,keep_alive_max_attempt=5
# Name the host of the store where it is known: it may not recognise itself by the endpoint's name.
# A standalone launcher hosts its own, wherever it is.
node=${SLURM_NODEID:-${JOB_COMPLETION_INDEX:-}}
if [ -n "$node" ] && [[ " $* " != *" --standalone "* ]]; then
    conf+=,is_host=$([ "$node" = 0 ] && echo 1 || echo 0)
fi
export PET_RDZV_CONF=$conf${PET_RDZV_CONF:+,$PET_RDZV_CONF}

# A node whose GPUs are too few or broken must not join: a matrix product on each, in two minutes.
if [ -e /dev/nvidiactl ] || [ "${SLURM_GPUS_ON_NODE:-0}" != 0 ]; then
    code=0
    timeout -k 5 120 "${PYTHON:-python}" -c '
import argparse, os, socket, sys
import torch

parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
asked = os.environ.get("PET_NPROC_PER_NODE", "1")
parser.add_argument("--nproc-per-node", "--nproc_per_node", dest="processes", default=asked)
parser.add_argument("--train.device", dest="device")
options, _ = parser.parse_known_args()
if "cpu" in (options.processes, options.device):
    sys.exit()
count = torch.cuda.device_count()
needed = int(options.processes) if options.processes.isdecimal() else max(count, 1)
fault = f"{count} GPUs for --nproc-per-node {options.processes}; see nvidia-smi" * (count < needed)
for index in range(0 if fault else needed):
    try:
        ones = torch.ones(1024, 1024, device=f"cuda:{index}")
        if not ((ones @ ones) == 1024).all():
            fault = f"GPU {index} multiplies matrices incorrectly"
    except RuntimeError as error:
        fault = f"GPU {index} does not work ({str(error).splitlines()[0]})"
if fault:
    print(f"error: node {socket.gethostname()}: {fault}", file=sys.stderr)
    sys.exit(2)
' "$@" || code=$?
    if [ "$code" -ge 124 ]; then echo "error: node $(hostname): a GPU does not answer" >&2; fi
    [ "$code" = 0 ] || exit 2
fi

# As -m torch.distributed.run, but a signal ends it without a traceback. A rank that refuses its input
# sends one, and would have said why some thirty lines above the end.
exec "${PYTHON:-python}" -c '
import sys
from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.run import main

try:
    main()
except SignalException as error:
    sys.exit(f"launcher: {error}")
' "$@"
