"""Continue a prompt with a model; to shift the sentiment, clamp a unit to a value.

python scripts/generate.py --model runs/tour --prompt "I thought this"
python scripts/generate.py --model runs/tour --prompt "I thought this" --value -2 --temperature 0.7
python scripts/generate.py --model runs/tour --neuron 7 --value 2 --samples 3 --seed 1 --stop
"""

from dataclasses import dataclass

import command

from configs.device_options import DeviceOptions
from mlstm_sentiment.commands import generate
from mlstm_sentiment.commands.command_line import call


@dataclass(frozen=True, kw_only=True)
class Options(DeviceOptions, generate.Options):
    __doc__ = generate.Options.__doc__


if __name__ == "__main__":
    command.run(lambda: call(Options, generate.run, __doc__))
