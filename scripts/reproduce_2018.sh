#!/usr/bin/env bash
# Repeat the results of 2018: training, transfer, neuron, scaling, and a page with one score.
# A command that was interrupted goes on when it is repeated.
# usage: bash scripts/reproduce_2018.sh [--budget minutes|day|papers] [--data DIR] [--output DIR]
#   minutes  128 units, a few minutes on two CPU cores, offline; generated reviews instead of SST
#   day      1,024 units, 1.3 G characters: minutes on one GPU, about 17 hours on two CPU cores with
#            Intel AMX; SST, IMDB, and CR if it is in DIR
#   papers   4,096 units, 38.3 G characters: prints what it costs, and trains with Slurm
#   DIR      reviews* or amazon_* (any format of prepare_corpus.py), and sst/, imdb/, cr/ with the
#            files that experiments/reproduction/README.md names. Absent: generated reviews for
#            minutes; otherwise data/reproduce_2018, into which SST, IMDB and Amazon's reviews of
#            musical instruments are downloaded.
# environment: PYTHON, an interpreter with requirements.txt. Default: .venv, made if absent.
set -euo pipefail

budget=minutes data= output=
while [ $# -gt 0 ]; do
    case $1 in -h | --help) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"; exit ;; esac
    [ -n "${2:-}" ] || { echo "error: $1 needs a value" >&2; exit 2; }
    case $1 in
        --budget) budget=$2 ;;
        --data) data=$(realpath -m -- "$2") ;;
        --output) output=$(realpath -m -- "$2") ;;
        *) echo "error: unknown option $1; there are --budget, --data and --output" >&2; exit 2 ;;
    esac
    shift 2
done
case $budget in
    minutes) recipe=(--config configs/tour.toml) ;;
    day) recipe=(--config configs/cpu_1024.toml --data.lanes 256 --train.epochs 12
        --optim.warmup 0.005 --optim.hold 0.25) ;;
    papers) recipe=(--config configs/paper_4096.toml) ;;
    *) echo "error: --budget $budget: choose minutes, day or papers" >&2; exit 2 ;;
esac
[ -z "$data" ] || [ -d "$data" ] || { echo "error: --data $data: no such folder" >&2; exit 2; }
cd "$(dirname "$0")/.."
output=${output:-runs/reproduce_$budget}
run=$output/run
if [ -z "${PYTHON:-}" ]; then
    bash scripts/install.sh requirements.txt
    PYTHON=.venv/bin/python
fi
step() { printf '\n== %s\n' "$*"; }

if [ "$budget" = papers ]; then
    step "cost, by the planner"
    for cluster in dgx1v_infiniband h200; do
        "$PYTHON" scripts/plan.py --model configs/paper_4096.toml \
            --cluster "configs/clusters/$cluster.toml" --gpus 8
    done
    if [ ! -d "$run/model" ] && ! command -v sbatch > /dev/null; then
        echo "There is no Slurm here. Repeat this command on a cluster that has it (docs/cluster.md)."
        exit 0
    fi
fi

if [ -z "$data" ] && [ "$budget" = minutes ]; then
    step "generated reviews"
    data=$output/generated
    "$PYTHON" scripts/synthesize_reviews.py --output "$data/sst"
elif [ -z "$data" ]; then
    step "downloads"
    data=data/reproduce_2018
    for name in sst imdb amazon:Musical_Instruments; do
        "$PYTHON" scripts/download_data.py "$name" --output "$data" # what is there already is used
    done
fi

step "training"
reviews=("$data"/reviews* "$data"/amazon_*)
for found in "${reviews[@]}"; do [ ! -e "$found" ] || inputs+=("$found"); done
if [ -n "${inputs:-}" ]; then
    "$PYTHON" scripts/prepare_corpus.py "${inputs[@]}" --output "$output/corpus" --split 990,3,7
    recipe+=(--data.corpus "$output/corpus")
elif [ "$budget" != minutes ]; then
    echo "error: $data: has no reviews*; see docs/your_reviews.md" >&2
    exit 2
fi
recipe+=(--run-dir "$run" --if-exists resume)
if [ "$budget" != papers ]; then
    "$PYTHON" main.py "${recipe[@]}"
elif command -v sbatch > /dev/null; then # otherwise the run comes from elsewhere
    sbatch --wait scripts/slurm/train.sbatch "${recipe[@]}"
fi

step "transfer"
for name in sst cr imdb; do
    [ ! -d "$data/$name" ] || [ "$budget $name" = "minutes imdb" ] || tasks+=("$name")
done
"$PYTHON" -m experiments.reproduction.run --model "$run" --name model --data "$data" --untrained 1 \
    --without-words --work "$output/features" --results "$output/results" \
    ${tasks[@]+--tasks "${tasks[@]}"}

if [ -d "$data/sst" ] && [ ! -f "$output/neuron/figures/by_labels.png" ]; then
    step "neuron"
    "$PYTHON" scripts/neuron.py --model "$run" --output "$output/neuron" --draws 3 \
        --train "$data/sst/train.csv" --val "$data/sst/val.csv" --test "$data/sst/test.csv"
fi

step "scaling"
"$PYTHON" experiments/scaling/published.py --output "$output/scaling.json"

step "page"
"$PYTHON" -m experiments.reproduction.page --output "$output"
