#!/usr/bin/env bash
# What only a GPU can show, in one call of minutes: the recurrence against fp64, and short real
# training in bf16 and fp16. Writes what it measured to a folder.
# usage: bash scripts/gpu_check.sh [FOLDER]     (default: $OUT, else gpu_check)
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:-${OUT:-gpu_check}}
python=${PYTHON:-python3}
mkdir -p "$folder"

$python -m pytest -m gpu -q --junit-xml "$folder/tests.xml" 2>&1 | tee "$folder/tests.log"
for precision in bf16 fp16; do
    run=$(mktemp -d)/run
    $python main.py --run-dir "$run" --train.device cuda --train.precision "$precision" \
        --model.hidden_size 1024 --data.lanes 128 --train.steps 300 --optim.lr 3e-3
    cp "$run/metrics.jsonl" "$folder/metrics_$precision.jsonl"
    cp "$run/model/config.json" "$folder/model_$precision.json"
done
