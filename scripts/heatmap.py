"""Colour texts by what a unit holds after every character: in the terminal or on a page.

Where the sign of a unit is known, it is shown with high meaning positive: this holds for the
sentiment unit, and for units that separate the two classes by themselves. JSON has the model's own
values: its poles say what low and high values of the first unit mean; its polarities are -1 for
units whose low values mean positive, and 0 where the sign is not known. Below each text is the
answer of the model's classifier, which uses all units and, in some models, the words.

python scripts/heatmap.py --model runs/tour --text "I loved it, until it broke."
python scripts/heatmap.py --model runs/tour --input texts.csv --top 5 --output heatmap.html
python scripts/heatmap.py --model runs/tour --neuron 7 --neuron 3 --text "I loved it." \\
    --output heatmap.html --output heatmap.json
"""

import command

from model.commands import heatmap
from model.commands.command_line import call

if __name__ == "__main__":
    command.run(lambda: call(heatmap.add_options, heatmap.run, __doc__))
