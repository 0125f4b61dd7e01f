#!/usr/bin/env bash
# What only a GPU can show, in one call of under nine minutes: the recurrence against fp64, its
# speed against its peers and the floor, a whole step, and short real training in bf16 and fp16.
# Goes on after a failure, so that one call shows all there is to see; exits 1 if anything failed.
# usage: bash scripts/gpu_check.sh [FOLDER]     (default: $OUT, else gpu_check)
set -uo pipefail
cd "$(dirname "$0")/.."
folder=${1:-${OUT:-gpu_check}}
python=${PYTHON:-python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$folder" "$work/results"
failed=0

# attempt SECONDS NAME COMMAND...: what it prints goes to NAME.log
attempt() {
    local seconds=$1 name=$2
    shift 2
    echo "== $name: $*"
    timeout "$seconds" "$@" 2>&1 | tee "$work/results/$name.log"
    local code=${PIPESTATUS[0]}
    if [ "$code" -ne 0 ]; then
        echo "== $name failed with exit code $code"
        failed=1
    fi
}
recurrence() {
    local name=$1
    shift
    attempt 120 "$name" "$python" scripts/benchmark.py recurrence "$@" \
        --output "$work/results/$name.json"
}

nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv || failed=1
attempt 180 tests "$python" -m pytest -m gpu -q
recurrence bf16_4096 --hidden-size 4096 --batch 256 --window 256 --dtype bf16 --peer compile
recurrence fp16_4096 --hidden-size 4096 --batch 256 --window 256 --dtype fp16 --skip loop_2018 reference
recurrence inference_4096 --hidden-size 4096 --batch 256 --window 256 --dtype bf16 --inference --skip loop_2018 reference
for size in 256 512 1024 2048; do
    recurrence "bf16_$size" --hidden-size "$size" --batch 256 --window 256 --dtype bf16 --skip loop_2018 reference
done
attempt 60 step_4096 "$python" scripts/benchmark.py step --hidden-size 4096 --batch 256 --window 256 \
    --dtype bf16 --output "$work/results/step_4096.json"
for precision in bf16 fp16; do
    run="$work/run_$precision"
    attempt 120 "training_$precision" "$python" main.py --run-dir "$run" --train.device cuda \
        --train.precision "$precision" --model.hidden_size 1024 --data.lanes 128 --train.steps 300 \
        --optim.lr 3e-3
    cp "$run/metrics.jsonl" "$work/results/metrics_$precision.jsonl" || failed=1
    cp "$run/model/config.json" "$work/results/model_$precision.json" || failed=1
done
tar -czf "$folder/gpu_check.tar.gz" -C "$work" results
echo "wrote $folder/gpu_check.tar.gz"
exit "$failed"
