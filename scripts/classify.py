"""Classify texts by sentiment: every input row gains a label and a probability.

python scripts/classify.py --model runs/tour --text "I like it."
python scripts/classify.py --model runs/tour --input texts.csv --output labelled.csv
python scripts/classify.py --model runs/tour --classifier stars --input texts.csv
tail -n 5 texts.jsonl | python scripts/classify.py --model runs/tour --input -
"""

import command  # noqa: F401  # it finds our packages

from configs.device_options import run_on_any_device
from mlstm_sentiment.commands import classify

if __name__ == "__main__":
    run_on_any_device(classify, __doc__)
