"""Write a model into one web page, which reads what you type and continues it.

python scripts/demo.py --output page.html
python scripts/demo.py --model runs/tour --neuron 7 --output page.html
"""

from dataclasses import dataclass

import command

from configs.device_options import DeviceOptions
from mlstm_sentiment.commands import demo
from mlstm_sentiment.commands.command_line import call


@dataclass(frozen=True, kw_only=True)
class Options(DeviceOptions, demo.Options):
    __doc__ = demo.Options.__doc__


if __name__ == "__main__":
    command.run(lambda: call(Options, demo.run, __doc__))
