#!/usr/bin/env bash
# The training of start_again.md on one GPU, from the first step to the end, in nine minutes.
# usage: bash experiments/models/start_again.sh pack CORPUS ARCHIVE
#        bash experiments/models/start_again.sh train ARCHIVE FOLDER [MAIN_OPTIONS...]
# `train` measures the speed over some steps, and then trains as many as fit into the rest. FOLDER
# gets metrics.jsonl, the configuration, and the weights in 16 bits, in parts of 15 megabytes:
# cat weights.* > model.safetensors
# environment: PYTHON (python3), SECONDS_IN_ALL (540), DEVICE (cuda), TRIAL (300 steps), SEED (11)
set -euo pipefail
python=${PYTHON:-python3}
export PYTHONUNBUFFERED=1

pack() {
    local corpus=$1 archive=$2
    tar -C "$corpus" -c meta.json tokenizer.model {train,valid,test}.{bin,offsets} | xz -9e -T1 > "$archive"
    ls -l "$archive"
}

train() {
    local archive=$1 folder=$2
    shift 2
    mkdir -p "$folder"
    folder=$(realpath "$folder")
    archive=$(realpath "$archive")
    cd "$(dirname "$0")/../.."
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    mkdir "$work/corpus"
    tar -C "$work/corpus" -xJf "$archive"
    run "$work/trial" "${TRIAL:-300}" "$@" || [ $? = 3 ] # too short to leave a model
    local steps
    steps=$(steps_that_fit "$work/trial" $((${SECONDS_IN_ALL:-540} - SECONDS)))
    echo "== $steps steps fit into the rest"
    run "$work/run" "$steps" "$@"
    keep "$work/run" "$folder"
}

# run FOLDER STEPS [MAIN_OPTIONS...]
run() {
    local begin=$SECONDS folder=$1 steps=$2 code=0
    shift 2
    "$python" main.py --config configs/cpu_subword_1024.toml --run-dir "$folder" \
        --data.corpus "$work/corpus" --train.device "${DEVICE:-cuda}" --train.steps "$steps" \
        --optim.weight-decay 0.05 --evaluate.every-steps $((steps / 20 + 1)) \
        --checkpoint.every-steps "$steps" --seed "${SEED:-11}" "$@" ||
        code=$?
    echo $((SECONDS - begin)) > "$folder/seconds"
    return "$code"
}

# How many steps fit into so many seconds, with a tenth to spare: what the trial took beside its
# steps (starting, compiling, evaluating) comes off first.
steps_that_fit() {
    "$python" - "$@" <<'FIT'
import json
import sys
from pathlib import Path

trial, seconds = Path(sys.argv[1]), int(sys.argv[2])
rows = [json.loads(line) for line in (trial / "metrics.jsonl").read_text().splitlines()]
last = rows[-1]
in_a_step = last["characters"] / last["step"]
speed = max(row["characters_per_second"] for row in rows)
beside = int((trial / "seconds").read_text()) - last["characters"] / speed
print(max(int(0.9 * (seconds - beside) * speed / in_a_step), last["step"]))
FIT
}

# keep RUN FOLDER
keep() {
    cp "$1/metrics.jsonl" "$1/config.toml" "$1/model/config.json" "$2"
    "$python" - "$1/model/model.safetensors" "$2/whole" <<'KEEP'
import sys

import torch
from safetensors.torch import load_file, save_file

weights = load_file(sys.argv[1])
save_file({name: tensor.to(torch.bfloat16) for name, tensor in weights.items()}, sys.argv[2])
KEEP
    split -b 15M "$2/whole" "$2/weights."
    rm "$2/whole"
    ls -l "$2"
}

case "${1:-} $#" in
    "pack 3" | "train "[3-9]* | "train "[1-9][0-9]*) "$@" ;;
    *) sed -n '2,9s/^# \{0,1\}//p' "$0" >&2 && exit 2 ;;
esac
