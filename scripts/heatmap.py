"""Colour texts by a unit's value after every character: in the terminal or on a page.

python scripts/heatmap.py --model runs/tour --text "I loved it, until it broke."
python scripts/heatmap.py --model runs/tour --input texts.csv --top 5 --output heatmap.html
python scripts/heatmap.py --model runs/tour --neuron 7 --neuron 3 --text "I loved it." \\
    --output heatmap.html --output heatmap.json
"""

from dataclasses import dataclass

import command

from configs.device_options import DeviceOptions
from mlstm_sentiment.commands import heatmap
from mlstm_sentiment.commands.command_line import call


@dataclass(frozen=True, kw_only=True)
class Options(DeviceOptions, heatmap.Options):
    __doc__ = heatmap.Options.__doc__


if __name__ == "__main__":
    command.run(lambda: call(Options, heatmap.run, __doc__))
