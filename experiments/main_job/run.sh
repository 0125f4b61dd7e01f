#!/usr/bin/env bash
# The main job on real reviews: prepare, pretrain, evaluate, transfer to SST and MR.
# usage: experiments/main_job/run.sh DATA WORK
#   DATA  folder with amazon/*.jsonl.gz, sst/{train,val,test}.csv, mr/rt-polarity.{pos,neg}
#   WORK  folder for the corpus and the run; the run is resumed where it exists
set -euo pipefail
data=$(realpath "$1") work=$(realpath -m "$2")
cd "$(dirname "$0")/../.."
here=experiments/main_job
python=${PYTHON:-.venv/bin/python}

[ -d "$work/corpus" ] ||
    $python scripts/prepare_corpus.py "$data"/amazon/*.jsonl.gz --output "$work/corpus" --split 98,1,1
if [ -d "$work/run/checkpoint" ]; then
    $python main.py --resume "$work/run"
else
    $python main.py --config $here/recipe.toml --data.corpus "$work/corpus" --run-dir "$work/run"
fi
[ -d "$work/run/checkpoint/step-00003600" ] || exit 1  # stopped before its end
$python scripts/evaluate.py --model "$work/run" --data "$work/corpus" --output $here/results/test_bits.json
$python scripts/evaluate.py --model "$work/run" --data "$work/corpus" --reset review \
    --output $here/results/test_bits_review.json
$python -m experiments.main_job.split_movie_reviews --data "$data" --output "$work/mr"
for task in sst mr; do
    folder=$data/$task
    [ $task = mr ] && folder=$work/mr
    $python scripts/transfer.py --model "$work/run" --output "$work/$task" \
        --train "$folder/train.csv" --val "$folder/val.csv" --test "$folder/test.csv"
    cp "$work/$task/results.json" $here/results/$task.json
    cp "$work/$task/figures.json" $here/results/${task}_figures.json
    cp "$work/$task/neuron.png" $here/${task}_neuron.png
    cp "$work/$task/weights.png" $here/${task}_weights.png
done
cp "$work/run/metrics.jsonl" $here/results/metrics.jsonl
cp "$work/run/config.toml" $here/results/config.toml
$python $here/plot.py
$python -m experiments.tables
