#!/usr/bin/env bash
# What only a GPU can show, in one call of nine minutes: the tests against the CPU and fp64, the
# recurrence's speed against its peers, the floor and the physical limit, a whole step, short real
# training.
# What tells most comes first. FOLDER/gpu_check.json and gpu_check.log grow with every check, so
# that a call cut short leaves what it has. A check that fails ends none of the others.
# usage: bash scripts/gpu_check.sh [FOLDER]     (default: $OUT, else gpu_check)
# environment: PYTHON (python3), GPU_CHECK_SECONDS (540) for all checks together
# exit code: 0, 1 where a check failed or had no time left, 2 at once where it cannot begin
set -uo pipefail
folder=${1:-${OUT:-}}
[ -z "$folder" ] || folder=$(realpath -m "$folder") || exit 2 # before the folder changes
cd "$(dirname "$0")/.."
folder=${folder:-gpu_check}
python=${PYTHON:-python3}
export PYTHONUNBUFFERED=1
work=$(mktemp -d)
running=
trap '[ -z "$running" ] || kill "$running" 2> /dev/null; rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
mkdir -p "$folder" && : > "$folder/gpu_check.log" && rm -f "$folder/gpu_check.json" || exit 2
failed=0

"$python" -c '
import sys
try:
    import pytest, torch, torch.utils.tensorboard
    import main, tests.gpu.test_gpu, experiments.speed.benchmark.step
except ImportError as error:
    sys.exit(f"error: {error}; first: python3 -m pip install -r requirements-dev.txt")
if not torch.cuda.is_available():
    sys.exit(f"error: torch {torch.__version__} sees no GPU")
' || exit 2

# check SECONDS NAME COMMAND...: the command may write its result to $work/NAME.json
check() {
    local most=$1 name=$2 begin=$SECONDS left=$((${GPU_CHECK_SECONDS:-540} - SECONDS))
    local code="no time left"
    shift 2
    [ "$left" -lt "$most" ] && most=$left
    echo "== $name: $*"
    if [ "$most" -gt 0 ]; then
        # Behind `wait`, so that a signal ends the check, too, and does not wait for its end.
        timeout --kill-after 5 "$most" "$@" > >(tee -a "$folder/gpu_check.log") 2>&1 &
        running=$!
        wait "$running"
        code=$? running=
    fi
    [ "$code" = 0 ] || { failed=1; echo "== $name failed: $code"; }
    note "$folder/gpu_check.json" "$name" "$code" $((SECONDS - begin)) "$work/$name.json" "${*//$work\//}" ||
        { failed=1; echo "== $name: could not be noted"; }
}

note() {
    "$python" - "$@" <<'NOTE'
import json
import sys
from pathlib import Path

report, name, code, seconds, result, command = sys.argv[1:]
path, made = Path(report), Path(result)
checks = json.loads(path.read_text()) if path.exists() else {}
checks[name] = {
    "command": command,
    "exit_code": int(code) if code.isdigit() else code,
    "seconds": int(seconds),
    "result": json.loads(made.read_text()) if made.exists() else None,
}
whole = path.with_suffix(".partial")
whole.write_text(json.dumps(checks, indent=1) + "\n")
whole.replace(path)
NOTE
}

recurrence() {
    local most=$1 name=$2 size=$3
    shift 3
    check "$most" "$name" "$python" scripts/benchmark.py recurrence --hidden-size "$size" \
        --batch "${batch:-256}" --window 256 --output "$work/$name.json" "$@"
}

training() {
    local most=$1 precision=$2 run="$work/run_$2"
    check "$most" "training_$precision" "$python" main.py --run-dir "$run" --train.device cuda \
        --train.precision "$precision" --model.hidden_size 1024 --data.lanes 128 \
        --train.steps 300 --optim.lr 3e-3
    [ ! -f "$run/metrics.jsonl" ] || cp "$run/metrics.jsonl" "$folder/metrics_$precision.jsonl"
}

check 10 driver nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv
# Warnings of a torch that is not ours are no errors here.
check 240 tests "$python" -m pytest tests/gpu/test_gpu.py tests/gpu/test_exchange.py -m gpu -q -W default -p no:cacheprovider
recurrence 90 bf16_4096 4096 --dtype bf16
training 90 bf16
check 60 step_4096 "$python" scripts/benchmark.py step --hidden-size 4096 --batch 256 \
    --window 256 --dtype bf16 --output "$work/step_4096.json"
recurrence 60 fp16_4096 4096 --dtype fp16 --skip loop_2018 reference
training 60 fp16
recurrence 45 inference_4096 4096 --dtype bf16 --inference \
    --skip loop_2018 reference
for size in 1024 512 2048 256; do
    recurrence 45 "bf16_$size" "$size" --dtype bf16 --skip loop_2018 reference
done
# Sizes for which torch takes cuDNN's persistent LSTM.
batch=128 recurrence 45 persistent_1024 1024 --dtype fp16 --embedding-size 128 \
    --skip loop_2018 reference
recurrence 90 compile_4096 4096 --dtype bf16 --peer compile \
    --skip loop_2018 reference nn_lstm
echo "wrote $folder/gpu_check.json"
exit "$failed"
