#!/usr/bin/env bash
# The tour: install, pretrain on the embedded reviews, transfer to held-out ones, write a page.
# About two minutes on two CPU cores after the installation; nothing is downloaded but packages.
set -euo pipefail
cd "$(dirname "$0")/.."
bash scripts/install.sh requirements.txt
python=.venv/bin/python

run=runs/tour
number=1
while [ -e "$run" ]; do number=$((number + 1)); run=runs/tour-$number; done

$python main.py --run-dir "$run"
$python scripts/synthesize_reviews.py --output "$run/labelled"
$python scripts/transfer.py --model "$run" --output "$run/transfer" \
    --train "$run/labelled/train.csv" --val "$run/labelled/val.csv" --test "$run/labelled/test.csv"
$python scripts/demo.py --model "$run" --output "$run/page.html"
echo "Type a review on that page and watch the model read it. To train on your own reviews:
  $python scripts/prepare_corpus.py reviews.jsonl --output data/reviews
  $python main.py --config configs/cpu_512.toml --data.corpus data/reviews --run-dir runs/mine
docs/your_reviews.md has the whole way."
