#!/usr/bin/env bash
# torch.distributed.run with what a run needs to outlive its machines; see docs/elastic.md.
# Options and PET_ variables of the environment override what is set here.
# usage: bash scripts/elastic.sh --nnodes 1:4 --nproc-per-node 8 --rdzv-endpoint HOST:29500 \
#            main.py --run-dir runs/mine ...
# environment: PYTHON, the interpreter. Default: that of the active virtual environment, else the
#   checkout's .venv/bin/python, else the python of the PATH (conda, module). MLSTM_TRAINED, a file
#   that is made when the run is complete.
# exit code: 0 trained, 2 wrong request or unusable node, 3 nothing worth keeping, 75 ended by a
#   signal: start it again
set -euo pipefail

fail() {
    echo "error: node $(hostname): $1" >&2
    exit 2
}

python=${PYTHON:-python}
own=$(cd -P "$(dirname "$0")/.." && pwd)/.venv/bin/python # also through a link to this folder
if [ -z "${PYTHON:-}${VIRTUAL_ENV:-}" ] && [ -e "$own" ]; then python=$own; fi
code=0
"$python" -c '' 2>/dev/null || code=$?
case $code in
    0) ;;
    126) fail "$python cannot be executed; set PYTHON to the interpreter" ;;
    127) fail "there is no $python; set PYTHON to the interpreter, or activate its environment" ;;
    *) fail "$python does not start (exit code $code); set PYTHON to another interpreter" ;;
esac

# Otherwise all attempts share one store, with addresses of dead processes (pytorch/pytorch#135712).
export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1
export PET_RDZV_BACKEND=${PET_RDZV_BACKEND:-c10d}
# A node that fails or is taken away costs each of the others one restart; one that joins, none.
export PET_MAX_RESTARTS=${PET_MAX_RESTARTS:-100}
# After SIGTERM: the step and the checkpoint; an evaluation is left to the next start.
export PET_SHUTDOWN_TIMEOUT=${PET_SHUTDOWN_TIMEOUT:-110}
# Schedulers send the last three when time is nearly up. Unhandled, they would end the launcher alone.
signals=SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1,SIGUSR2,SIGXCPU
export PET_SIGNALS_TO_HANDLE=${PET_SIGNALS_TO_HANDLE:-$signals}
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
    timeout -k 5 120 "$python" -c '
import argparse, os, socket, sys

try:
    import torch
except ImportError as error:
    print(f"error: node {socket.gethostname()}: {sys.executable}: {error}", file=sys.stderr)
    sys.exit(2)

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
    case $code in
        0) ;;
        2) exit 2 ;;
        124 | 137) fail "a GPU does not answer" ;;
        *) fail "the check of its GPUs ended with exit code $code" ;;
    esac
fi

# As -m torch.distributed.run, but a signal ends it with 75 and without a traceback. A rank that would
# end in the same way again sends one, too, with its exit code in a file; the traceback would hide why.
exec "$python" -c '
import os, sys, tempfile

try:
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.run import main
except ImportError as error:
    print(f"error: {sys.executable}: {error}; set PYTHON to another interpreter", file=sys.stderr)
    sys.exit(2)

with tempfile.TemporaryDirectory() as folder:
    code = os.environ["MLSTM_EXIT_CODE"] = os.path.join(folder, "code")
    try:
        main()
        if trained := os.environ.get("MLSTM_TRAINED"):
            open(trained, "a").close()
    except Exception as error:
        while error and not isinstance(error, SignalException):
            error = error.__context__  # torch may fail where the signal interrupts it
        if error is None:
            raise
        print(f"launcher: {error}", file=sys.stderr)
        sys.exit(int(open(code).read()) if os.path.exists(code) else 75)
' "$@"
