"""Write a model into one web page, which reads what you type and continues it.

python scripts/demo.py --output page.html
python scripts/demo.py --model runs/tour --neuron 7 --output page.html
"""

import command

from model.commands import demo
from model.commands.command_line import call

if __name__ == "__main__":
    command.run(lambda: call(demo.Options, demo.run, __doc__))
