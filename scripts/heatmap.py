"""Colour texts by a unit's value after every character: in the terminal or on a page.

python scripts/heatmap.py --model runs/tour --text "I loved it, until it broke."
python scripts/heatmap.py --model runs/tour --input texts.csv --top 5 --output heatmap.html
python scripts/heatmap.py --model runs/tour --neuron 7 --neuron 3 --text "I loved it." \\
    --output heatmap.html --output heatmap.json
"""

import command  # noqa: F401  # it finds our packages

from configs.device_options import run_on_any_device
from mlstm_sentiment.commands import heatmap

if __name__ == "__main__":
    run_on_any_device(heatmap, __doc__)
