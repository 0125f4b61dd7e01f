"""Classify texts by sentiment: every input row gains a label and a probability.

python scripts/classify.py --model runs/tour --text "I like it."
python scripts/classify.py --model runs/tour --input texts.csv --output labelled.csv
python scripts/classify.py --model runs/tour --classifier stars --input texts.csv
tail -n 5 texts.jsonl | python scripts/classify.py --model runs/tour --input -
"""

from dataclasses import dataclass

import command

from configs.device_options import DeviceOptions
from mlstm_sentiment.commands import classify
from mlstm_sentiment.commands.command_line import call


@dataclass(frozen=True, kw_only=True)
class Options(DeviceOptions, classify.Options):
    __doc__ = classify.Options.__doc__


if __name__ == "__main__":
    command.run(lambda: call(Options, classify.run, __doc__))
